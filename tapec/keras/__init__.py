"""Keras, running on tapec: its layers, losses, metrics, optimizers and ``fit``, under the names of ``tf.keras``.

::

    import tapec
    import tapec.keras as keras
    from tapec.keras.layers import Dense

``tapec.keras`` is the Keras of the extra ``tapec[keras]`` itself; what of it differs between libraries of tensors is
in `tapec.keras.engine`. Import it before anything imports ``keras``, which decides at its import what it runs on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tapec.keras import loading

if TYPE_CHECKING:
    from types import ModuleType

_NOT_OURS = ("__path__", "__file__", "__all__", "__wrapped__")

loading.load()


def __getattr__(name: str) -> Any:
    if name in _NOT_OURS:
        raise AttributeError(name)
    return getattr(_keras(), name)


def __dir__() -> list[str]:
    return sorted(name for name in dir(_keras()) if not name.startswith("_"))


def _keras() -> ModuleType:
    # It may be Keras that imports this, so it is not there yet when this begins.
    return import_module(loading.PUBLIC)
