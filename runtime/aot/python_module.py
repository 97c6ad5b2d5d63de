"""The module NAME.py that calls a shared library from a Python that has NumPy, and needs nothing of ours."""

from __future__ import annotations

from tapec.ir.dims import Symbol, substitute, symbols
from tapec.ir.errors import TargetError
from tapec.ir.types import DType
from tapec.runtime.aot import declarations
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter

_CTYPES = {
    "f32": "c_float",
    "f64": "c_double",
    "bool": "c_uint8",
    "f16": "c_uint16",
    "bf16": "c_uint16",
}

_HEAD = '''"""{name}: {functions}. Made by tapec; needs lib{name}.so beside it, and NumPy."""

import ctypes as _ctypes
import os as _os
from pathlib import Path as _Path
from tempfile import TemporaryDirectory as _TemporaryDirectory

import numpy as _np


def _loaded(path):
    try:
        _ctypes.CDLL(str(path), _os.RTLD_NOW | _os.RTLD_NOLOAD)
    except OSError:
        return _ctypes.CDLL(str(path))
    # There is a library of this name, maybe of an older build; the loader compares files if the name is a new one.
    with _TemporaryDirectory() as folder:
        other = _Path(folder, path.name)
        other.symlink_to(path.resolve())
        return _ctypes.CDLL(str(other))


_library = _loaded(_Path(__file__).with_name("lib{name}.so"))
ARENA_BYTES, STATE_BYTES = {arena}, {state}
#: The parts of the state: where each begins, its dtype and shape.
LAYOUT = {{
{layout}
}}


class State:
    """What functions read and train: each part is an attribute, an array; ``bytes`` gives all as they lie in memory.

    ``{initial}`` are its values at first.
    """

    def __init__(self, values=None):
        """``values``: bytes as they lie in memory; zeros if None."""
        if values is not None and len(values) != STATE_BYTES:
            raise ValueError(f"the state has {{STATE_BYTES}} bytes, got {{len(values)}}")
        memory = _np.zeros(max(STATE_BYTES, 1), _np.uint8)
        if values is not None:
            memory[:STATE_BYTES] = _np.frombuffer(values, _np.uint8)
        object.__setattr__(self, "_memory", memory)

    def __getattr__(self, name):
        if name not in LAYOUT:
            raise AttributeError(f"the state has no {{name}}, but {{', '.join(LAYOUT)}}")
        offset, dtype, shape = LAYOUT[name]
        size = int(_np.prod(shape, dtype=_np.int64)) * _np.dtype(dtype).itemsize
        return self._memory[offset : offset + size].view(dtype).reshape(shape)

    def __setattr__(self, name, value):
        self.__getattr__(name)[...] = value

    def __bytes__(self):
        return self._memory[:STATE_BYTES].tobytes()

    def __dir__(self):
        return [*super().__dir__(), *LAYOUT]


def _held(state):
    if not isinstance(state, State):
        raise TypeError(f"state: expected a State, got {{type(state).__name__}}")
    return _pointer(state._memory)


def _given(name, value, dtype):
    array = _np.asarray(value)
    if array.dtype.kind == "c" and _np.dtype(dtype).kind != "c":
        raise ValueError(f"{{name}}: expected {{dtype}}, got complex numbers")
    found = _np.asarray(array, dtype, order="C")
    if found.dtype.kind in "iu" and not (found == array).all():
        raise ValueError(f"{{name}}: a number is no {{dtype}}")
    return found


def _size(name, array, axis, factor, rest, low, high):
    if axis >= array.ndim:
        raise ValueError(f"{{name}}: expected {{axis + 1}} axes or more, got shape {{array.shape}}")
    size = (array.shape[axis] - rest) // factor
    if not low <= size <= high:
        expected = f"{{factor * low + rest}} to {{factor * high + rest}}"
        raise ValueError(f"{{name}}: axis {{axis}} has {{array.shape[axis]}}, expected {{expected}}")
    return size


def _check(name, array, shape):
    if array.shape != shape:
        raise ValueError(f"{{name}}: expected shape {{shape}}, got {{array.shape}}")


def _pointer(array):
    return _ctypes.c_void_p(array.ctypes.data)


def _raise(status):
    if status:
        raise RuntimeError(f"{name}: error {{status}}, see {name}.h")
'''

_INITIAL = '''

def initial_state():
    """The state before the first call, which the library holds."""
    return State(bytes((_ctypes.c_char * STATE_BYTES).in_dll(_library, "{name}_initial")))
'''

_EXTERN = '''

def initial_state():
    """The state before the first call, from the file beside this one."""
    return State(_Path(__file__).with_name("{name}.bin").read_bytes())
'''


def python_module(model: Model, *, checked: bool, embed: bool) -> str:
    """The file."""
    layout = "\n".join(
        f'    "{m.name}": ({m.offset}, "{_numpy(m.type.dtype)}", {m.type.static_shape}),'
        for m in model.state
    )
    text = _HEAD.format(
        name=model.name,
        functions=", ".join(e.name for e in model.entries),
        arena=model.arena_bytes,
        state=model.state_bytes,
        layout=layout,
        initial="initial_state()",
    )
    if model.state:
        text += (_INITIAL if embed else _EXTERN).format(name=model.name)
    return text + "".join(_function(model, entry, checked) for entry in model.entries)


def _numpy(dtype: DType) -> str:
    """NumPy's name of a dtype; it knows no bfloat16, so that is its bits."""
    return "uint16" if dtype.code == "bf16" else str(dtype.numpy)


def _shape(parameter: Parameter) -> str:
    sizes = [str(d) for d in parameter.type.shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _function(model: Model, entry: EntryPoint, checked: bool) -> str:
    """A function that takes the state and arrays, and returns arrays."""
    names = ["state"] * entry.reads_state + [p.name for p in entry.inputs]
    lines = ["", "", f"def {entry.name}({', '.join(names)}):"]
    given = ", ".join(f"{p.name} {declarations.shape_text(p.type)}" for p in entry.inputs)
    gives = ", ".join(f"{p.name} {declarations.shape_text(p.type)}" for p in entry.outputs)
    lines.append(f'    """Take {given or "nothing"}; return {gives or "nothing"}."""')
    lines += [f'    {p.name} = _given("{p.name}", {p.name}, "{_dtype(p)}")' for p in entry.inputs]
    lines += [f"    {of.name} = {_size(entry, of)}" for of in entry.sizes]
    lines += [f'    _check("{p.name}", {p.name}, {_shape(p)})' for p in entry.inputs]
    lines += [f'    {p.name} = _np.empty({_shape(p)}, "{_dtype(p)}")' for p in entry.outputs]
    lines += ["    arena = _np.empty(ARENA_BYTES, _np.uint8)"] * bool(entry.arena_bytes)
    passed = ["_held(state)"] * entry.reads_state
    passed += [f"_ctypes.c_size_t({of.name})" for of in entry.sizes]
    passed += [_passed(p) for p in entry.inputs]
    passed += [f"_pointer({p.name})" for p in entry.outputs]
    if entry.arena_bytes:
        passed += ["_pointer(arena)", *["_ctypes.c_size_t(ARENA_BYTES)"] * checked]
    lines.append(f"    _raise(_library.{model.name}_{entry.name}({', '.join(passed)}))")
    results = ", ".join(p.name for p in entry.outputs)
    lines.append(f"    return {results}" if results else "    return None")
    return "\n".join(lines) + "\n"


def _dtype(parameter: Parameter) -> str:
    return _numpy(parameter.type.dtype)


def _passed(parameter: Parameter) -> str:
    """An input as `ctypes` passes it."""
    if not is_by_value(parameter):
        return f"_pointer({parameter.name})"
    dtype = parameter.type.dtype
    kind = _CTYPES.get(dtype.code) or f"c_{_dtype(parameter)}"
    view = '.view("uint16")' if dtype.code == "f16" else ""
    return f"_ctypes.{kind}({parameter.name}{view}.item())"


def _size(entry: EntryPoint, of: Symbol) -> str:
    """How a function finds a size: by an axis of an argument that says it.

    Raises:
        TargetError: there is none.
    """
    for p in entry.inputs:
        for axis, dim in enumerate(p.type.shape):
            if list(symbols(dim)) == [of]:
                rest, *more = (int(substitute(dim, {of.name: n})) for n in (0, 1, 2))  # type: ignore[arg-type]
                factor = more[0] - rest
                if factor > 0 and more[1] == rest + 2 * factor:
                    return f'_size("{p.name}", {p.name}, {axis}, {factor}, {rest}, {of.low}, {of.high})'
    raise TargetError(
        f"no argument of {entry.name} tells the size {of.name}",
        hint="give it an argument with an axis of this size, or build the object (emit='obj')",
    )
