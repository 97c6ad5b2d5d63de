"""What Keras calls to export a model as a SavedModel: TensorFlow's alone."""

from __future__ import annotations

from typing import Any, NoReturn


class SavedModelExportArchive:
    """Refuses by name; `tapec build` makes objects for other machines."""

    def track(self, resource: Any) -> NoReturn:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "`track` is not implemented in the tapec backend: a SavedModel needs TensorFlow; see `tapec build`"
        )

    def add_endpoint(
        self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any
    ) -> NoReturn:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "`add_endpoint` is not implemented in the tapec backend: a SavedModel needs TensorFlow; see `tapec build`"
        )


NumpyExportArchive = SavedModelExportArchive
