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
        raise _refusal("track")

    def add_endpoint(
        self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any
    ) -> NoReturn:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise _refusal("add_endpoint")

    def track_and_add_endpoint(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse; this is what ``model.export`` calls.

        Raises:
            NotImplementedError: always.
        """
        raise _refusal("export_saved_model")


def _refusal(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"`{name}` only currently supports the tensorflow, jax and torch backends. A SavedModel needs TensorFlow; "
        "`tapec build` makes objects for other machines."
    )


NumpyExportArchive = SavedModelExportArchive
