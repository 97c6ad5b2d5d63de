"""What a kernel of arrays declares: the types of its results, by those of its operands.

``"T[n,m], T[k] -> T[n-k+1,m]"``: names in brackets are sizes, names before them that are no dtypes stand for one each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tapec.errors import ValueError
from tapec.frames import here
from tapec.ir.dims import DimLike, plain_symbol, substitute, symbols
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import require_equal_dims, require_sizes
from tapec.ir.text.type_text import TypeTextError, parse_dim
from tapec.ir.types import BY_CODE, DType, TensorType, as_dtype
from tapec.tensors.tensor_shape import shape_of
from tapec.tensors.type_spec import TensorSpec

_TYPE = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[([^\]]*)\])?\s*")


class Rule(Protocol):
    """From the types of operands to those of results."""

    def __call__(self, name: str, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of the results; ``name`` is the kernel's, for messages."""


@dataclass(frozen=True)
class _Pattern:
    """``T[n,m]``: a dtype or a name for one, and dims."""

    dtype: str
    dims: tuple[DimLike, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]" if self.dims else self.dtype


@dataclass(frozen=True)
class Declaration:
    """A rule that was given as text."""

    operands: tuple[_Pattern, ...]
    results: tuple[_Pattern, ...]

    def __call__(self, name: str, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Match the operands, then fill the results in.

        Raises:
            ShapeError, DTypeError: an operand does not match.
        """
        if len(types) != len(self.operands):
            raise ShapeError(f"{name} takes {len(self.operands)} operands, got {len(types)}")
        dims: dict[str, DimLike] = {}
        dtypes: dict[str, DType] = {}
        for i, (pattern, given) in enumerate(zip(self.operands, types, strict=True)):
            what = f"{name}: operand {i} must be {pattern}, got {given}"
            wanted = BY_CODE.get(pattern.dtype) or dtypes.setdefault(pattern.dtype, given.dtype)
            if wanted != given.dtype:
                raise DTypeError(what, hint="convert it with tapec.cast")
            if len(pattern.dims) != given.rank:
                raise ShapeError(what)
            for dim, size in zip(pattern.dims, given.shape, strict=True):
                symbol = plain_symbol(dim)
                if symbol is not None:
                    dims.setdefault(symbol, size)
        for i, (pattern, given) in enumerate(zip(self.operands, types, strict=True)):
            what = f"{name}: operand {i} must be {pattern}, got {given}{_values(dims)}"
            for dim, size in zip(pattern.dims, given.shape, strict=True):
                require_equal_dims(substitute(dim, dims), size, lambda what=what: what)  # type: ignore[misc]
        return tuple(self._filled(name, p, dims, dtypes) for p in self.results)

    def _filled(
        self, name: str, pattern: _Pattern, dims: dict[str, DimLike], dtypes: dict[str, DType]
    ) -> TensorType:
        shape = tuple(substitute(d, dims) for d in pattern.dims)
        if any(isinstance(n, int) and n < 0 for n in shape):
            raise ShapeError(f"{name}: the result {pattern} would be {list(shape)}{_values(dims)}")
        return TensorType(BY_CODE.get(pattern.dtype) or dtypes[pattern.dtype], shape)


def _values(dims: dict[str, DimLike]) -> str:
    return "".join(f", {name} = {size}" for name, size in dims.items())


def declaration(text: str) -> Declaration:
    """The rule that a text stands for.

    Raises:
        ValueError: it stands for none, or a result has a name that no operand has.
    """
    before, arrow, after = text.partition("->")
    operands, results = _patterns(before, text), _patterns(after, text)
    if not arrow or not operands or not results:
        raise _bad(text, "operands and results, with -> between them")
    known = {s for p in operands for d in p.dims if (s := plain_symbol(d)) is not None}
    for pattern in (*operands, *results):
        for dim in pattern.dims:
            strange = {s.name for s in symbols(dim)} - known
            if strange:
                raise _bad(text, f"an operand with an axis of just {min(strange)}")
    dtypes = {p.dtype for p in operands}
    for pattern in results:
        if pattern.dtype not in BY_CODE and pattern.dtype not in dtypes:
            raise _bad(text, f"an operand of dtype {pattern.dtype}")
    return Declaration(operands, results)


def _patterns(text: str, whole: str) -> tuple[_Pattern, ...]:
    found = []
    for part in re.split(r",(?![^\[]*\])", text):
        match = _TYPE.fullmatch(part)
        if match is None:
            raise _bad(whole, f"a type such as T[n,m] in place of {part.strip()!r}")
        try:
            dims = tuple(parse_dim(d.strip()) for d in (match[2] or "").split(",") if d.strip())
        except TypeTextError as error:
            raise _bad(whole, str(error)) from None
        found.append(_Pattern(_code(match[1]), dims))
    return tuple(found)


def _code(name: str) -> str:
    """The code of a dtype, also if its long name is given; any other name as it is."""
    try:
        return as_dtype(name).code if name not in BY_CODE else name
    except (TypeError, KeyError):
        return name


def _bad(text: str, wanted: str) -> ValueError:
    return ValueError(
        f"custom_op: infer={text!r} is no rule: expected {wanted}",
        location=here(),
        hint='write it like "T[n,m], T[k] -> T[n-k+1,m]"',
    )


@dataclass(frozen=True)
class Computed:
    """A rule that was given as a function of `TensorSpec`."""

    function: Callable[..., Any]

    def __call__(self, name: str, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Call it.

        Raises:
            ShapeError: a result has a size that is not known.
        """
        found = self.function(*(TensorSpec(shape_of(t), t.dtype) for t in types))
        results = []
        for spec in found if isinstance(found, list | tuple) else [found]:
            sizes = getattr(spec, "shape", None)
            if sizes is None or not hasattr(spec, "dtype"):
                raise ShapeError(f"{name}: infer must return a TensorSpec, got {spec!r}")
            shape = tuple(sizes.as_list()) if hasattr(sizes, "as_list") else tuple(sizes)
            if None in shape:
                raise ShapeError(
                    f"{name}: infer gave {spec!r}, whose sizes are not all known",
                    hint="a rule that is text works for sizes that only a call knows",
                )
            require_sizes(name, shape)
            results.append(TensorType(as_dtype(spec.dtype), shape))
        return tuple(results)
