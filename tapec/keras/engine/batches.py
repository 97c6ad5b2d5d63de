"""The batches of an epoch, as many at a time as one execution takes."""

from __future__ import annotations

from itertools import islice
from typing import Any

from keras.src.trainers.epoch_iterator import EpochIterator


class Batches(EpochIterator):
    """Yields the number of the first batch and of the last, and a list of batches: fewer at the end of the data."""

    def __next__(self) -> tuple[int, int, list[Any]]:
        begin, end, iterator = next(self._epoch_iterator)
        found = list(islice(iterator, self.steps_per_execution))
        if not found:
            with self.catch_stop_iteration():  # which says that there should have been more
                raise StopIteration
            raise StopIteration
        return begin, end, found
