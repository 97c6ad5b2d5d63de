"""One program as C, without the functions and Variables that it is of: for looking at it."""

from __future__ import annotations

import numpy as np

from tapec.ir.core import Module, Value
from tapec.ir.types import BufferType, TensorType
from tapec.runtime.aot.c_source import CSource
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter, Slot, c_name, lay_out, most


def c_text(module: Module) -> str:
    """A loop-level module without vectors as a C file.

    Arguments that the program updates are the state, and parameters are called like the program's arguments.

    Raises:
        TargetError: C has no code for an operation, or a size has no bound.
    """
    model = _model(module)
    return CSource(model, checked=False, embed=False).text()


def _model(module: Module) -> Model:
    entry = module.entry
    arena = bool(entry.attrs.get("arena", 0))
    count = len(entry.args) - arena
    given = entry.attrs.get("inputs", count)
    used = ["state", "arena", "arena_bytes"]
    names = []
    for arg in entry.args[:count]:
        names.append(c_name(arg.name or "argument", used))
        used.append(names[-1])
    updated = set(entry.updates.values())
    state = lay_out([(names[i], _zeros(entry.args[i]), _type(entry.args[i])) for i in updated])
    members = {member.name: n for n, member in enumerate(state)}
    inputs: list[Parameter] = []
    slots: list[Slot] = []
    for i in range(given):
        if i in updated:
            slots.append(Slot("state", members[names[i]]))
        else:
            slots.append(Slot("input", len(inputs)))
            inputs.append(Parameter(names[i], _type(entry.args[i])))
    has_status = bool(entry.attrs.get("checks", 0))
    results = range(given, count - has_status)
    outputs = [Parameter(names[i], _type(entry.args[i])) for i in results]
    slots += [Slot("output", n) for n in range(len(outputs))]
    slots += [Slot("status")] * has_status + [Slot("arena")] * arena
    name = c_name(entry.name)
    point = EntryPoint(name, module, tuple(inputs), tuple(outputs), tuple(slots))
    return Model(name, (point,), state)


def _type(argument: Value) -> TensorType:
    assert isinstance(argument.type, BufferType)
    return argument.type.tensor


def _zeros(argument: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """An array that says how large a part of the state is; its numbers are not shown."""
    type = _type(argument)
    return np.zeros([most(n) for n in type.shape], type.dtype.numpy)
