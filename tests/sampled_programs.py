"""Random programs of every operation there is, made from the samples that the operations bring.

A new operation takes part without a line here. `random_programs` draws what rewriting rules look
for instead: chains of a few operations with numbers such as 0, -0 and NaN between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sampling import draw as draw_array
from sampling import retyped, tensor_ops

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.errors import DTypeError
from tapec.ir.op import Elementwise, Op, Sample
from tapec.ir.types import BOOL, F32, F64, I32, DType, TensorType

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Programs are closed under these; operations that make others (complex numbers) do not take part.
DTYPES: tuple[DType, ...] = (F64, F32, I32, BOOL)


@dataclass
class Program:
    """A module of one function, with an array for each of its arguments."""

    function: Function = field(default_factory=lambda: Function("f"))
    arrays: list[Any] = field(default_factory=list)

    @property
    def module(self) -> Module:
        """A module around the function."""
        return Module([self.function])

    def argument(self, sample: Sample, number: int) -> Value:
        """A new argument for an operand of a sample, with an array from the sample's domain."""
        rng = np.random.default_rng(len(self.arrays))
        self.arrays.append(draw_array(rng, sample, number))
        return self.function.block.add_arg(sample.types[number])


def ops_without_loops() -> list[Op]:
    """Operations whose results no pass may change by a bit: they add nothing up."""
    return [d for d in tensor_ops() if d.form == "index" and not d.loops]


@st.composite
def op_programs(
    draw: Draw, ops: Collection[Op] | None = None, max_steps: int = 6, dtypes: Any = DTYPES
) -> Program:
    """A program of up to ``max_steps`` operations, each reading earlier results where it can."""
    program = Program()
    b = Builder(program.function.block)
    choice = st.sampled_from(tensor_ops() if ops is None else list(ops))
    pool: list[Value] = []
    for _ in range(draw(st.integers(1, max_steps))):
        defn = draw(choice)
        sample = drawn_sample(draw, defn, pool, dtypes)
        if sample is None:
            continue
        operands = [operand(draw, program, pool, defn, sample, n) for n in range(len(sample.types))]
        made = b.emit(defn, *operands, **sample.attrs)
        results = made if isinstance(made, tuple) else (made,)
        pool += [v for v in (*operands, *results) if v not in pool]
    if not pool:
        pool.append(program.argument(Sample((TensorType(F64, (2,)),)), 0))
    returned = [pool[-1], *draw(st.lists(st.sampled_from(pool), max_size=2))]
    b.emit("return", *returned)
    return program


def drawn_sample(
    draw: Draw, defn: Op, pool: Sequence[Value], dtypes: Collection[DType]
) -> Sample | None:
    """A sample with some dtype in it; where possible one that can read an old value."""
    dtype = draw(st.sampled_from([F64, F32]))
    samples = [retyped(defn, s, dtype) or s for s in defn.samples()]
    known = {v.type for v in pool}
    fitting = [s for s in samples if not known.isdisjoint(s.types)]
    sample: Sample = draw(st.sampled_from(fitting or samples))
    if isinstance(defn, Elementwise) and sample.types and pool and draw(st.integers(0, 3)):
        like = draw(st.sampled_from(pool[-4:])).tensor
        shaped = sample._replace(types=tuple(t.with_shape(like.shape) for t in sample.types))
        cast = shaped._replace(types=tuple(like for _ in sample.types))
        sample = cast if accepts(defn, cast) else shaped
    results = defn.infer(*sample.types, **sample.attrs)
    types = (*sample.types, *(results if isinstance(results, tuple) else (results,)))
    return sample if all(t.dtype in dtypes for t in types) else None


def accepts(defn: Op, sample: Sample) -> bool:
    """Whether the operation takes these types."""
    try:
        defn.infer(*sample.types, **sample.attrs)
    except DTypeError:
        return False
    return True


def operand(
    draw: Draw, program: Program, pool: Sequence[Value], defn: Op, sample: Sample, number: int
) -> Value:
    """An earlier value of the type, or a new argument; positions are always new, to be in range."""
    wanted = sample.types[number]
    known = [v for v in pool if v.type == wanted]
    positions = wanted.dtype.is_integer and not isinstance(defn, Elementwise)
    if not known or positions or draw(st.integers(0, 7)) == 0:
        return program.argument(sample, number)
    value: Value = draw(st.sampled_from(known[-4:]))
    return value
