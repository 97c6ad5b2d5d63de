"""Programs built for machines that lack much, and run on this one: as C, and as objects of few instructions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from toolchains import need, run

from tapec.compiler import lowered
from tapec.ir.core import Module
from tapec.ir.types import BF16
from tapec.runtime.aot.building import Build, Options
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter, Slot
from tapec.runtime.aot.targets import EDGE_TARGETS, EdgeTarget
from tapec.runtime.cpu.entries.entry import buffer_type
from tapec.runtime.cpu.vectors import VectorUnit

#: No vectors.
SCALAR = VectorUnit(0, False)
#: x86-64 as if floats had no instructions but the four rules of arithmetic, and neither had large integers.
BARE = replace(
    EDGE_TARGETS["x86-64"],
    name="bare",
    vectors=SCALAR,
    floats=frozenset(),
    rounds=False,
    half=False,
)


def model_of(module: Module, unit: VectorUnit = SCALAR) -> Model:
    """A module as a model of one function, without state, for a machine with such vectors."""
    loops = lowered(module, pipeline="ahead", unit=unit, compact=True)
    entry = loops.entry
    count = len(entry.args) - bool(entry.attrs.get("arena", 0))
    inputs = entry.attrs.get("inputs", count)
    types = [buffer_type(arg.type).tensor for arg in entry.args[:count]]
    taken = tuple(Parameter(f"x{i}", t) for i, t in enumerate(types[:inputs]))
    given = tuple(Parameter(f"y{i}", t) for i, t in enumerate(types[inputs:]))
    slots = [Slot("input", i) for i in range(len(taken))]
    slots += [Slot("output", i) for i in range(len(given))]
    slots += [Slot("arena")] * (len(entry.args) - count)
    return Model("net", (EntryPoint("f", loops, taken, given, tuple(slots)),), ())


def portable(target: EdgeTarget) -> Callable[[Module], Callable[..., Any]]:
    """How to compile a module for one of `BARE` and C."""

    def compiled(module: Module) -> Callable[..., Any]:
        need("gcc")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            form = "c" if target.name == "c" else "obj"
            build = Build(model_of(module), target, Options((form, "header"), "size"))
            for name, contents in {**build.files(), "net.py": build.python().encode()}.items():
                (place / name).write_bytes(contents)
            strict = "-std=c99 -Wall -Wextra -Werror -pedantic -O0 -ffp-contract=off -fPIC".split()
            if form == "c":
                run("gcc", *strict, "-c", "net.c", "-o", "net.o", cwd=place)
            run("gcc", "-shared", "net.o", "-o", "libnet.so", cwd=place)
            names: dict[str, Any] = {"__file__": str(place / "net.py"), "__name__": "net"}
            exec((place / "net.py").read_text(), names)

        def call(*arrays: Any) -> list[Any]:
            # NumPy has no name for bfloat16, so the module takes and gives its bits.
            bits = [a.view(np.uint16) if a.dtype == BF16.numpy else a for a in arrays]
            found = names["f"](*bits)
            results = found if isinstance(found, tuple) else (found,)
            return [
                np.asarray(y).view(p.type.dtype.numpy)
                for y, p in zip(results, build.model.entries[0].outputs, strict=True)
            ]

        return call

    return compiled
