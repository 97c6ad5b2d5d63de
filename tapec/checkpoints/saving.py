"""``tapec.save`` and ``tapec.load``: the values of Variables in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapec import arguments
from tapec.checkpoints import npz, safetensors
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.module import Module
from tapec.recording import current_trace
from tapec.tensor import Array, Tensor, as_tensor
from tapec.variable import Variable, variable_behind

_FORMATS: dict[str, Any] = {".safetensors": safetensors, ".npz": npz}
#: How many differences an error tells.
_TOLD = 5


def save(path: str | Path, variables: Any) -> None:
    """Save the values of Variables, Tensors and arrays.

    The file comes into place whole: whoever reads ``path`` finds what was there before or what is there now. Dtypes
    are kept to the bit, bfloat16 too; nothing is pickled.

    Args:
        path: ending in ``.safetensors``, which other libraries read as well, or in ``.npz``, which `numpy.load` reads.
        variables: a `tapec.Module`, an optimizer or a model of Keras (or anything else that has ``variables``), a
            Variable, a Tensor, an array or a number; or nested dicts, lists and tuples of these. What leads to a value
            is its name: ``layers/0/w``.

    Raises:
        TypeError: something else is among them, or the format has no such dtype; a function is being compiled.
        ValueError: another ending, or two values of one name.
        NotFoundError: there is no such folder.

    Example: ``tapec.save("model.safetensors", {"model": model, "optimizer": optimizer})``.
    """
    form = _format(path)
    if current_trace() is not None:
        raise TypeError(
            "values are saved at run time, and this function is being compiled",
            location=here(),
            hint="save them after the call",
        )
    form.write(path, {name: _array(leaf) for name, leaf in named(variables).items()})


def load(path: str | Path, into: Any = None) -> Any:
    """Load what `save` saved, or another library.

    Args:
        path: the file; its ending says of which format it is.
        into: what the values are assigned to: Variables, in a structure as it was saved. None for the values alone.

    Returns:
        ``into``, all of whose Variables have their values of the file then; without it, Tensors by their names.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: the file is damaged, or ends early. Nothing was assigned.
        ValueError: names, shapes or dtypes differ. Nothing was assigned.
        TypeError: ``into`` has something else than Variables; a function is being compiled.

    Example: ``tapec.load("model.safetensors", into={"model": model, "optimizer": optimizer})``.
    """
    form = _format(path)
    if current_trace() is not None:
        raise TypeError(
            "values are loaded at run time, and this function is being compiled",
            location=here(),
            hint="load them before the call",
        )
    targets = None if into is None else named(into)
    found: dict[str, Array] = form.read(path)
    if targets is None:
        return {name: as_tensor(array) for name, array in found.items()}
    _require_alike(str(path), found, targets)
    for name, variable in targets.items():
        variable.assign(as_tensor(found[name]))
    return into


def _format(path: str | Path) -> Any:
    """The module that reads and writes files with this ending."""
    if not isinstance(path, str | Path):
        raise TypeError(f"a path must be a string, got {arguments.shown(path)}", location=here())
    suffix = Path(path).suffix
    if suffix not in _FORMATS:
        raise ValueError(
            f"the name of a file must end in one of {', '.join(_FORMATS)}, got {str(path)!r}",
            location=here(),
        )
    return _FORMATS[suffix]


def named(structure: Any) -> dict[str, Any]:
    """The leaves of a structure by what leads to each.

    Raises:
        ValueError: two have one name.
        TypeError: something is neither structure nor a value.
    """
    found: dict[str, Any] = {}
    for path, leaf in _leaves(structure, ()):
        name = "/".join(map(str, path)) or "value"
        if name in found:
            raise ValueError(f"two values have the name {name!r}", location=here())
        found[name] = leaf
    return found


def _leaves(structure: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(structure, Variable | Tensor | np.ndarray | np.generic | bool | int | float):
        yield path, structure
    elif (variable := variable_behind(structure)) is not None:
        yield path, variable
    elif isinstance(structure, Module):
        for inner, leaf in structure._flatten(
            predicate=lambda x: isinstance(x, Variable), with_path=True
        ):
            yield (*path, *inner), leaf
    elif isinstance(structure, Mapping):
        for key, child in structure.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(structure, list | tuple):
        for i, child in enumerate(structure):
            yield from _leaves(child, (*path, i))
    elif hasattr(structure, "variables"):
        own: Any = structure.variables
        yield from _leaves(list(own() if isinstance(own, Callable) else own), path)  # type: ignore[arg-type]
    else:
        raise TypeError(
            f"{'/'.join(map(str, path)) or 'the structure'} is {arguments.shown(structure)}, which has no value "
            "to save",
            location=here(),
            hint="pass Variables, Tensors, arrays, Modules and optimizers, in dicts, lists and tuples",
        )


def _array(leaf: Any) -> Array:
    """The elements of a leaf, as no later assignment changes them."""
    return as_tensor(leaf).array


def _require_alike(path: str, found: Mapping[str, Array], targets: Mapping[str, Any]) -> None:
    """Names, shapes and dtypes of a file must be those of the Variables."""
    for name, target in targets.items():
        if not isinstance(target, Variable):
            raise TypeError(
                f"{name} is no Variable, so nothing can be loaded into it: {arguments.shown(target)}",
                location=here(),
                hint="leave `into` out: then load returns Tensors by name",
            )
    wrong = [f"{name} is not in the file" for name in targets if name not in found]
    wrong += [f"{name} is in the file alone" for name in found if name not in targets]
    for name in targets:
        if name in found and (text := _difference(found[name], targets[name])):
            wrong.append(f"{name} {text}")
    if wrong:
        rest = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        raise ValueError(
            f"{path!r} does not fit: {'; '.join(wrong[:_TOLD])}{rest}",
            location=here(),
            hint="nothing was loaded; an optimizer has its variables after optimizer.build(variables)",
        )


def _difference(array: Array, variable: Variable) -> str | None:
    value = as_tensor(array)
    if value.dtype != variable.dtype:
        return f"is {value.dtype.name} in the file, {variable.dtype.name} here"
    if not variable.shape.is_compatible_with(value.shape):
        return f"has shape {value.shape} in the file, {variable.shape} here"
    return None
