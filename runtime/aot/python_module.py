"""The module NAME.py that calls a shared library from a Python that has NumPy, and needs nothing of ours."""

from __future__ import annotations

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

import ctypes
from pathlib import Path

import numpy as np

_library = ctypes.CDLL(str(Path(__file__).with_name("lib{name}.so")))
ARENA_BYTES, STATE_BYTES = {arena}, {state}
#: The parts of the state: where each begins, its dtype and shape.
LAYOUT = {{
{layout}
}}


class State:
    """What functions read and train: each part is an attribute, an array that shares its memory.

    ``{initial}`` are its values at first.
    """

    def __init__(self, values=None):
        """``values``: bytes as they lie in memory, such as `initial_state` gives; zeros if None."""
        self.memory = np.zeros(max(STATE_BYTES, 1), np.uint8)
        if values is not None:
            self.memory[:STATE_BYTES] = np.frombuffer(values, np.uint8)
        for name, (offset, dtype, shape) in LAYOUT.items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            setattr(self, name, self.memory[offset : offset + size].view(dtype).reshape(shape))


def _given(name, value, dtype, shape):
    array = np.asarray(value, dtype, order="C")
    if array.shape != shape:
        raise ValueError(f"{{name}}: expected shape {{shape}}, got {{array.shape}}")
    return array


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def _raise(status):
    if status:
        raise RuntimeError(f"{name}: error {{status}}, see {name}.h")
'''

_INITIAL = '''

def initial_state():
    """The state before the first call, which the library holds."""
    return State(bytes((ctypes.c_char * STATE_BYTES).in_dll(_library, "{name}_initial")))
'''

_EXTERN = '''

def initial_state():
    """The state before the first call, from the file beside this one."""
    return State(Path(__file__).with_name("{name}.bin").read_bytes())
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
    passed = ["_pointer(state.memory)"] * entry.reads_state
    for of in entry.sizes:
        lines.append(f"    {of.name} = {_size_of(entry, of.name)}")
        passed.append(f"ctypes.c_size_t({of.name})")
    for p in entry.inputs:
        dtype = _numpy(p.type.dtype)
        if is_by_value(p):
            kind = _CTYPES.get(p.type.dtype.code) or f"c_{dtype}"
            view = '.view("uint16")' if p.type.dtype.code == "f16" else ""
            passed.append(f'ctypes.{kind}(np.asarray({p.name}, "{dtype}"){view}.item())')
        else:
            lines.append(f'    {p.name} = _given("{p.name}", {p.name}, "{dtype}", {_shape(p)})')
            passed.append(f"_pointer({p.name})")
    for p in entry.outputs:
        lines.append(f'    {p.name} = np.empty({_shape(p)}, "{_numpy(p.type.dtype)}")')
        passed.append(f"_pointer({p.name})")
    if entry.arena_bytes:
        lines.append("    arena = np.empty(ARENA_BYTES, np.uint8)")
        passed.append("_pointer(arena)")
        passed += ["ctypes.c_size_t(ARENA_BYTES)"] * checked
    lines.append(f"    _raise(_library.{model.name}_{entry.name}({', '.join(passed)}))")
    results = ", ".join(p.name for p in entry.outputs)
    lines.append(f"    return {results}" if results else "    return None")
    return "\n".join(lines) + "\n"


def _size_of(entry: EntryPoint, name: str) -> str:
    """Where a function finds a size: the first axis of an argument that is just it."""
    for p in entry.inputs:
        for axis, dim in enumerate(p.type.shape):
            if str(dim) == name:
                return f"np.shape({p.name})[{axis}]"
    raise ValueError(f"{entry.name}: no argument has an axis of just {name}")
