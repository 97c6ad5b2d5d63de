"""Samples of operations with a size that is known only at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapec.ir.core import Function
from tapec.ir.dims import Dim, symbol
from tapec.ir.errors import TapecError
from tapec.ir.guards import recording_guards
from tapec.ir.op import Op, Sample
from tapec.ir.types import TensorType

N = symbol("N", 1)


def symbolic(defn: Op) -> Iterator[tuple[Sample, int]]:
    """The samples with some size written as N wherever it occurs, and that size."""
    for sample in defn.samples():
        shapes = [t.shape for t in (*sample.types, *_types(sample.attrs))]
        for size in sorted({n for shape in shapes for n in shape if isinstance(n, int) and n > 1}):
            for attrs in (_renamed(dict(sample.attrs), size), sample.attrs):
                types = tuple(_renamed(t, size) for t in sample.types)
                if _fits(defn, sample._replace(types=types, attrs=attrs)):
                    yield sample._replace(types=types, attrs=attrs), size
                    break


def _types(attrs: Mapping[str, Any]) -> list[TensorType]:
    return [v for v in attrs.values() if isinstance(v, TensorType)]


def _renamed(value: Any, size: int) -> Any:
    """N for a size in a type, or in an attribute that holds sizes."""
    if isinstance(value, TensorType):
        return value.with_shape(_renamed(value.shape, size))
    if isinstance(value, tuple):
        return tuple(N if n == size and type(n) is int else n for n in value)
    if isinstance(value, dict):
        kept = ("axes", "axis", "permutation", "starts", "strides", "low", "high", "interior")
        return {k: v if k in kept else _renamed(v, size) for k, v in value.items()}
    return value


def _fits(defn: Op, sample: Sample) -> bool:
    """Whether the operation takes the sample for any N, and N is a size of something."""
    function = Function("f")
    try:
        with recording_guards(function):
            made: Any = defn.infer(*sample.types, **sample.attrs)
    except (TapecError, TypeError, ValueError, AssertionError):
        return False
    results = made if isinstance(made, tuple) else (made,)
    sizes = [n for t in (*sample.types, *results) for n in t.shape]
    known = any(n == N for t in sample.types for n in t.shape)
    return known and not function.guards and any(isinstance(n, Dim) for n in sizes)


def at(sample: Sample, size: int) -> Sample:
    """The sample with a number for N."""
    return sample._replace(types=tuple(t.substitute({"N": size}) for t in sample.types))
