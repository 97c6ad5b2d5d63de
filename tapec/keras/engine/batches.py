"""The batches of an epoch, as many at a time as one execution takes."""

from __future__ import annotations

from itertools import islice
from typing import Any

from keras.src.trainers.epoch_iterator import EpochIterator

from tapec.errors import ValueError
from tapec.frames import here


class Batches(EpochIterator):
    """Yields the number of the first batch and of the last, and a list of batches: fewer at the end of the data."""

    def first(self) -> Any:
        """The first batch, which comes again after `reset`: a generator gives back no more than one or two.

        Raises:
            ValueError: there is none.
        """
        _, _, iterator = next(self._enumerate_iterator())
        for batch in iterator:
            return batch
        raise ValueError("the data have no batch to build the model by", location=here())

    def __next__(self) -> tuple[int, int, list[Any]]:
        begin, end, iterator = next(self._epoch_iterator)
        found = list(islice(iterator, self.steps_per_execution))
        if not found:
            with self.catch_stop_iteration():  # which says that there should have been more
                raise StopIteration
            raise StopIteration
        return begin, end, found
