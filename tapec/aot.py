"""Ahead of time: functions as objects with C headers, for machines that have no Python and perhaps no system.

::

    built = tapec.aot.build(
        {"infer": infer, "train_step": step},
        {"infer": "f32[1,784]", "train_step": "f32[1,784] i32[1]"},
        target="cortex-m4f", name="digits",
    )
    built.write("build")         # build/digits.o and build/digits.h

`docs/edge.md` tells how to use what is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tapec.edge.modelling import Modelling
from tapec.edge.signatures import arguments_of
from tapec.errors import ValueError
from tapec.frames import here
from tapec.runtime.aot.building import FORMS, Build, Options
from tapec.runtime.aot.interface import c_name
from tapec.runtime.aot.targets import EDGE_TARGETS, EdgeTarget, edge_target
from tapec.runtime.cpu.vectors import VectorUnit

__all__ = ["Built", "build", "targets"]


@dataclass(frozen=True)
class Built:
    """What `build` made for one target.

    Attributes:
        name: of the model, which every C name begins with.
        target: the machine.
        files: contents by file name.
        arena_bytes: scratch memory of a call.
        state_bytes: what is trained, and what training keeps between steps.
        stack_bytes: stack of a call, by function.
    """

    name: str
    target: EdgeTarget
    files: Mapping[str, bytes]
    arena_bytes: int
    state_bytes: int
    stack_bytes: Mapping[str, int]

    def write(self, folder: str | Path) -> list[Path]:
        """Write the files into a folder, which is made if it is not there; return where they are."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for name, contents in self.files.items():
            path = place / name
            path.write_bytes(contents)
            written.append(path)
        return written

    def __repr__(self) -> str:
        return f"<Built {self.name} for {self.target.name}: {', '.join(self.files)}>"


def build(
    function: Any,
    signature: Any = None,
    *,
    target: str = "x86-64-v3",
    name: str | None = None,
    emit: str | Sequence[str] = ("obj", "header"),
    state: str = "embed",
    checked: bool = False,
    optimize: str | None = None,
    selftest: bool = False,
) -> Built:
    """Build functions, inference or whole training steps, for another machine.

    Variables that they read are the state that C passes to them; those that they assign are updated in place there, as
    are the slots of optimizers. Tensors, arrays and numbers from outside are constants. The functions do not run, and
    no Variable changes.

    Args:
        function: a compiled function or a plain one; or several by name, which share their Variables.
        signature: what it takes: a text such as ``"f32[N<=32,784] i32[N]"``, or a list of `tapec.TensorSpec`, tensors,
            and Python values (which become constants). For several functions, one for each, by name. May be left
            out of functions that have an ``input_signature``, or were called.
        target: a name of `targets`, or a triple of LLVM's.
        name: what all C names begin with; the function's own if None.
        emit: what to make: of ``obj``, ``header``, ``c``, ``lib``, ``so``, ``bin``, ``asm``.
        state: ``embed`` puts the Variables' present values into the object; ``extern`` leaves them to
            the caller, and makes files of them.
        checked: whether functions look at what they are called with, and return errors.
        selftest: whether there is a function that tries all others out, on the machine itself.
        optimize: ``speed`` or ``size``; if None, speed where there is an operating system.

    Returns:
        The files, in memory.

    Raises:
        TargetError: the target cannot do what a function asks for.
        ValueError: an option is unknown, or a size has no bound.
    """
    forms = tuple(emit.replace(",", " ").split()) if isinstance(emit, str) else tuple(emit)
    for given, known in ((forms, FORMS), ((state,), ("embed", "extern"))):
        unknown = [x for x in given if x not in known]
        if unknown:
            raise ValueError(
                f"aot.build: there is no {unknown[0]!r}", location=here(), hint=", ".join(known)
            )
    if optimize not in (None, "speed", "size"):
        raise ValueError(f"aot.build: optimize is speed or size, got {optimize!r}", location=here())
    machine = _machine(target, forms)
    functions, signatures = _by_name(function, signature)
    title = c_name(name or next(iter(functions)))
    modelling = Modelling(title)
    for key, of in functions.items():
        modelling.add(c_name(key), of, arguments_of(signatures.get(key)))
    goal = optimize or ("size" if machine.small else "speed")
    model = modelling.for_target(machine, compact=goal == "size")
    if state == "extern" and model.state:
        forms = (*forms, "bin")
    if selftest and state == "extern" and model.state:
        raise ValueError("aot.build: a selftest needs the state in the object", location=here())
    vectors = modelling.vectors() if selftest else None
    options = Options(forms, goal, checked, state == "embed", vectors)
    made = Build(model, machine, options)
    stack = made.stack if made.has_code else {}
    return Built(title, machine, made.files(), model.arena_bytes, model.state_bytes, stack)


def _machine(target: str, forms: Sequence[str]) -> EdgeTarget:
    """The target; C source has no vectors.

    Raises:
        ValueError: an object is asked for where there can be none, or one that would not be like the source.
    """
    machine = edge_target(target)
    code = [form for form in forms if form in ("obj", "lib", "so", "asm")]
    if not code:
        return replace(machine, vectors=VectorUnit(0, False))
    if not machine.triple or ("c" in forms and machine.vectors.bytes):
        raise ValueError(
            f"aot.build: {code[0]!r} for {machine.name}"
            + (
                " beside C source, which has no vectors"
                if machine.triple
                else ", which is no machine"
            ),
            location=here(),
            hint="build it for a machine, and C source apart: target='c', emit='c'",
        )
    return machine


def targets() -> Mapping[str, EdgeTarget]:
    """The machines that there are names for."""
    return EDGE_TARGETS


def _by_name(function: Any, signature: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions and signatures by name.

    Raises:
        ValueError: there is none, or a signature is for no function.
    """
    if not isinstance(function, Mapping):
        called = str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
        return {called: function}, {called: signature}
    signatures = {} if signature is None else dict(signature)
    stray = [key for key in signatures if key not in function]
    if stray or not function:
        what = f"a signature of {stray[0]!r}, which is no function" if stray else "no function"
        raise ValueError(f"aot.build: got {what}", location=here())
    return dict(function), signatures
