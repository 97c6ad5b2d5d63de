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

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tapec.checkpoints.safetensors import read as load_state
from tapec.checkpoints.safetensors import to_bytes
from tapec.checkpoints.safetensors import write as save_state
from tapec.edge.modelling import Modelling
from tapec.edge.signatures import arguments_of
from tapec.errors import ValueError
from tapec.frames import here
from tapec.runtime.aot.building import FORMS, Build, Options
from tapec.runtime.aot.interface import Member, c_name, function_names
from tapec.runtime.aot.targets import EDGE_TARGETS, EdgeTarget, edge_target
from tapec.runtime.cpu.vectors import VectorUnit
from tapec.tensor import Array
from tapec.variable import Variable

__all__ = ["Built", "build", "load_state", "save_state", "targets"]


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
        layout: the parts of the state: where each begins, and what it is before the first call.
        variables: those that the parts are of, by the parts' names.
    """

    name: str
    target: EdgeTarget
    files: Mapping[str, bytes]
    arena_bytes: int
    state_bytes: int
    stack_bytes: Mapping[str, int]
    layout: Sequence[Member] = ()
    variables: Mapping[str, Variable] = field(default_factory=dict)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the files into a folder, which is made if it is not there; return where they are.

        All are written before one takes the place of an older one, so what fails leaves nothing behind, and who reads
        meanwhile sees no half of a file. Of two builds that write at the same time, the files of one stay.

        Raises:
            OSError: the folder cannot be made or written to.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.name}-", dir=place) as beside:
            for name, contents in self.files.items():
                (Path(beside) / name).write_bytes(contents)
            with _alone(place):
                for name in self.files:
                    (Path(beside) / name).replace(place / name)
        return [place / name for name in self.files]

    def unpack(self, memory: bytes | bytearray | memoryview) -> dict[str, Array]:
        """The arrays of a state as it lies in the memory of a device.

        Raises:
            ValueError: it has another size.
        """
        if len(memory) != self.state_bytes:
            raise ValueError(
                f"the state of {self.name} has {self.state_bytes} bytes, got {len(memory)}",
                location=here(),
            )
        return {
            m.name: np.frombuffer(memory, m.initial.dtype, m.initial.size, m.offset)
            .reshape(m.initial.shape)
            .copy()
            for m in self.layout
        }

    def pack(self, arrays: Mapping[str, Any]) -> bytes:
        """A state as it lies in the memory of a device; parts that are not given are as they were at first.

        Raises:
            ValueError: there is no such part, or it has another shape.
        """
        known = {m.name: m for m in self.layout}
        memory = bytearray(self.state_bytes)
        for name in arrays:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no {name!r}", location=here(), hint=", ".join(known)
                )
        for m in self.layout:
            array = np.asarray(arrays.get(m.name, m.initial), m.initial.dtype)
            if array.shape != m.initial.shape:
                raise ValueError(
                    f"{self.name}: {m.name} has shape {list(m.initial.shape)}, got {list(array.shape)}",
                    location=here(),
                )
            memory[m.offset : m.offset + m.bytes] = np.ascontiguousarray(array).tobytes()
        return bytes(memory)

    def restore(self, memory: bytes | bytearray | memoryview) -> None:
        """Assign to the Variables here what a device has trained."""
        for name, array in self.unpack(memory).items():
            self.variables[name].assign(array)

    def __repr__(self) -> str:
        return f"<Built {self.name} for {self.target.name}: {', '.join(self.files)}>"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold off whoever else would put files into a folder, in this process or another."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
        target: a name of `targets`, or a triple of LLVM's; ``cuda-sm_80`` and the like: see ``docs/cuda.md``.
        name: what all C names begin with; the function's own if None.
        emit: what to make: of ``obj``, ``header``, ``c``, ``lib``, ``so``, ``bin``, ``safetensors``, ``asm``, ``ptx``.
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
    forms = _forms(emit, state, optimize)
    functions, signatures = _by_name(function, signature)
    if target.startswith(_DEVICE):
        chosen = {"state": state, "optimize": optimize, "checked": checked, "selftest": selftest}
        return _for_device(functions, signatures, target, name, _admitted(target, forms, chosen))
    machine = _machine(target, forms)
    modelling = _modelling(name, functions, signatures)
    goal = optimize or ("size" if machine.small else "speed")
    model = modelling.for_target(machine, compact=goal == "size")
    if state == "extern" and model.state:
        forms = (*forms, "bin", "safetensors")
    if selftest and state == "extern" and model.state:
        raise ValueError("aot.build: a selftest needs the state in the object", location=here())
    vectors = modelling.vectors() if selftest else None
    options = Options(forms, goal, checked, state == "embed", vectors)
    return _built(Build(model, machine, options), modelling.variables)


def _modelling(
    name: str | None,
    functions: Mapping[str, Any],
    signatures: Mapping[str, Any],
    *,
    device: bool = False,
) -> Modelling:
    """The functions under their names in C."""
    modelling = Modelling(c_name(name or next(iter(functions))), device=device)
    for key, called in function_names(modelling.name, functions).items():
        modelling.add(called, functions[key], arguments_of(signatures.get(key)))
    return modelling


#: How the names of devices begin: ``cuda-sm_90``.
_DEVICE = "cuda-"
#: What is made for them; the first values of the state and the constants come with each.
_DEVICE_FORMS = ("obj", "header", "ptx")


def _admitted(
    target: str, forms: tuple[str, ...], options: Mapping[str, object]
) -> tuple[str, ...]:
    """The forms, if they and the options are for a device.

    Raises:
        ValueError: something is asked for that only processors have.
    """
    other = [f"emit={form!r}" for form in forms if form not in _DEVICE_FORMS]
    usual = (None, False, "embed")  # as they are if nobody sets them
    other += [f"{name}={given!r}" for name, given in options.items() if given not in usual]
    if other:
        raise ValueError(
            f"aot.build: {other[0]} for {target}, which is a CUDA device",
            location=here(),
            hint=f"leave it out, or build for a processor; emit is of {', '.join(_DEVICE_FORMS)} here",
        )
    return forms


def _for_device(
    functions: Mapping[str, Any],
    signatures: Mapping[str, Any],
    target: str,
    name: str | None,
    forms: Sequence[str],
) -> Built:
    """Build for a CUDA device."""
    from tapec.runtime.cuda.ahead import files  # needs numba-cuda

    machine = EdgeTarget(target, "nvptx64-nvidia-cuda", target.removeprefix(_DEVICE))
    modelling = _modelling(name, functions, signatures, device=True)
    model = modelling.for_device(machine)
    return Built(
        model.name,
        machine,
        files(model, machine.cpu, forms),
        model.arena_bytes,
        model.state_bytes,
        {},
        model.state,
        modelling.variables,
    )


def _built(made: Build, variables: Mapping[str, Variable]) -> Built:
    """The files of a model, with what is known of them."""
    model, files = made.model, made.files()
    if "safetensors" in made.options.forms:
        files[f"{model.name}.safetensors"] = to_bytes({m.name: m.initial for m in model.state})
    return Built(
        model.name,
        made.target,
        files,
        model.arena_bytes,
        model.state_bytes,
        made.stack if made.has_code else {},
        model.state,
        variables,
    )


def _forms(emit: str | Sequence[str], state: str, optimize: str | None) -> tuple[str, ...]:
    """What is to be made.

    Raises:
        ValueError: an option is unknown.
    """
    forms = tuple(emit.replace(",", " ").split()) if isinstance(emit, str) else tuple(emit)
    if not forms:
        raise ValueError(
            "aot.build: emit names nothing to make", location=here(), hint=", ".join(FORMS)
        )
    for given, known in ((forms, FORMS), ((state,), ("embed", "extern"))):
        unknown = [x for x in given if x not in known]
        if unknown:
            raise ValueError(
                f"aot.build: there is no {unknown[0]!r}", location=here(), hint=", ".join(known)
            )
    if optimize not in (None, "speed", "size"):
        raise ValueError(f"aot.build: optimize is speed or size, got {optimize!r}", location=here())
    return forms


def _machine(target: str, forms: Sequence[str]) -> EdgeTarget:
    """The target; C source has no vectors.

    Raises:
        ValueError: an object is asked for where there can be none, or one that would not be like the source; or
            what only CUDA devices take.
    """
    machine = edge_target(target)
    if "ptx" in forms:
        raise ValueError(
            f"aot.build: 'ptx' for {machine.name}, which is no CUDA device",
            location=here(),
            hint="PTX is for target='cuda-sm_80' and the like; other machines' assembly is emit='asm'",
        )
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
    """The machines that there are names for; CUDA devices are called by their architecture, ``cuda-sm_90``."""
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
