"""Operations with the sample inputs that their classes give, for the tests that hold for every operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tapec.ir.ops  # noqa: F401  fills the registry
from tapec.ir.errors import DTypeError
from tapec.ir.op import OPS, Op, Sample
from tapec.ir.ops.host import CallHost
from tapec.ir.types import F64, DType, TensorType


def tensor_ops() -> list[Op]:
    """Every operation of the tensor level that means something by itself, not by a function of this process."""
    return [
        d
        for d in OPS.values()
        if "tensor" in d.levels and d.form != "structural" and not isinstance(d, CallHost)
    ]


def cases() -> Iterator[tuple[Op, Sample, str]]:
    """Every sample of every operation, with a name."""
    for defn in tensor_ops():
        for number, sample in enumerate(defn.samples()):
            yield defn, sample, f"{defn.name}-{number}"


def results(defn: Op, sample: Sample) -> tuple[TensorType, ...]:
    """The types of the results."""
    inferred: Any = defn.infer(*sample.types, **sample.attrs)
    return inferred if isinstance(inferred, tuple) else (inferred,)


def retyped(defn: Op, sample: Sample, dtype: DType) -> Sample | None:
    """The sample with ``dtype`` in place of float64; None if the operation does not take that."""

    def chosen(t: TensorType) -> TensorType:
        return t.with_dtype(dtype) if t.dtype == F64 else t

    attrs = {n: chosen(v) if isinstance(v, TensorType) else v for n, v in sample.attrs.items()}
    other = Sample(tuple(map(chosen, sample.types)), attrs, sample.domain, sample.integers)
    try:
        results(defn, other)
    except DTypeError:
        return None
    return other


def arrays(sample: Sample, seed: int = 0) -> list[Any]:
    """An array for each operand, drawn from the sample's domain."""
    rng = np.random.default_rng(seed)
    return [draw(rng, sample, number) for number in range(len(sample.types))]


def draw(rng: Any, sample: Sample, number: int) -> Any:
    """An array for one operand."""
    shape, dtype = sample.types[number].static_shape, sample.types[number].dtype

    def bounds(pair: Any) -> Any:
        return pair[number] if isinstance(pair[0], tuple) else pair

    if dtype.is_complex:
        parts = [rng.uniform(*bounds(sample.domain), shape) for _ in range(2)]
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype.numpy)
    if dtype.is_floating:
        return np.asarray(rng.uniform(*bounds(sample.domain), shape)).astype(dtype.numpy)
    if dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(*bounds(sample.integers), shape)).astype(dtype.numpy)


def evaluated(defn: Op, sample: Sample, operands: list[Any]) -> list[Any]:
    """The results as a list of arrays."""
    values = defn.evaluate(*operands, **sample.attrs)
    return [np.asarray(v) for v in (values if isinstance(values, tuple | list) else [values])]
