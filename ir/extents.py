"""Bytes whose number is known at run time: rounded up so that what follows is aligned, and compared.

A size such as ``4*N`` is no multiple of a cache line for every ``N``. The bytes that are reserved for it are
``256*((N+63)//64)``: rounded up once, they add up and multiply to multiples, and are compared term by term.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

from tapec.ir.dims import Dim, DimLike, Monomial, Quotient, bounds

#: Bytes that places are multiples of: a cache line, and the widest vector.
ALIGNMENT = 64
#: Bytes for each of what is counted from which on these are rounded up, not their count: it wastes an eighth at most.
_LONG = 512


def reserved(bytes: DimLike) -> DimLike:
    """Bytes to keep free for a size: at least so many for all values of the symbols, a multiple of `ALIGNMENT`.

    A bounded size takes what it may be at most. What is a sum of such numbers stays as it is.
    """
    most = bounds(bytes)[1]
    if most is not None:
        return _aligned(most)
    assert isinstance(bytes, Dim)
    total: DimLike = 0
    for monomial, factor in bytes.terms:
        if factor > 0:
            total = total + _term(monomial, factor)
    return total


def _term(monomial: Monomial, factor: int) -> DimLike:
    if not monomial:
        return _aligned(factor)
    count: DimLike = Dim(((monomial, 1),))
    if factor % ALIGNMENT == 0:
        return count * factor
    if factor >= _LONG or any(_is_rounded(atom) for atom in monomial):
        return count * _aligned(factor)
    return ((count + (ALIGNMENT - 1)) // ALIGNMENT) * (ALIGNMENT * factor)


def _is_rounded(atom: object) -> bool:
    return isinstance(atom, Quotient) and not atom.remainder and atom.denominator == ALIGNMENT


def unit(bytes: DimLike) -> tuple[DimLike, int]:
    """What a reserved size is a multiple of, and how often: sizes of one unit are compared as numbers."""
    if isinstance(bytes, int):
        return 1, bytes
    times = reduce(gcd, (factor for _, factor in bytes.terms))
    return Dim(tuple((monomial, factor // times) for monomial, factor in bytes.terms)), times


def most(sizes: list[DimLike]) -> DimLike:
    """A size that none of these exceeds, none of which has a negative term."""
    found: dict[Monomial, int] = {}
    for size in sizes:
        terms = size.terms if isinstance(size, Dim) else (((), size),)
        for monomial, factor in terms:
            found[monomial] = max(found.get(monomial, 0), factor)
    total: DimLike = 0
    for monomial, factor in found.items():
        total = total + (Dim(((monomial, factor),)) if monomial else factor)
    return total


def _aligned(bytes: int) -> int:
    return -(-bytes // ALIGNMENT) * ALIGNMENT
