"""Guards: what type inference assumes about symbolic dims, recorded by the function that is being built.

A guard is a pair of dims, as texts, that are equal. That ``m`` is at least ``n`` is one too: ``n//(m+1) == 0``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tapec.ir.core import Function
from tapec.ir.dims import Dim, DimLike, Quotient
from tapec.ir.errors import ShapeError
from tapec.ir.text.type_text import parse_dim

_guards: ContextVar[list[tuple[str, str]] | None] = ContextVar("guards", default=None)


def assume_equal(m: DimLike, n: DimLike, message: Callable[[], str]) -> None:
    """Record that two dims must be equal at run time.

    Raises:
        ShapeError: no function is being built that could hold the guard.
    """
    guards = _guards.get()
    if guards is None:
        raise ShapeError(f"{message()}; nothing says that {m} = {n}")
    guard = (str(m), str(n))
    if guard not in guards:
        guards.append(guard)


def assume_at_least(m: DimLike, n: DimLike, message: Callable[[], str]) -> None:
    """Record that one dim must not be less than another at run time.

    Raises:
        ShapeError: as `assume_equal`.
    """
    difference = m - n
    terms = difference.terms if isinstance(difference, Dim) else ()
    more, less = (
        sum((Dim(((t, abs(c)),)) if t else abs(c) for t, c in terms if (c > 0) is wanted), 0)
        for wanted in (True, False)
    )
    assume_equal(less // (more + 1), 0, message)


def as_bound(guard: tuple[str, str]) -> tuple[DimLike, DimLike] | None:
    """What is at least what, if a guard says so."""
    left, right = map(parse_dim, guard)
    atom = left.terms[0][0][:1] if isinstance(left, Dim) and len(left.terms) == 1 else ()
    if right != 0 or not atom or not isinstance(atom[0], Quotient) or atom[0].remainder:
        return None
    return atom[0].denominator - 1, atom[0].numerator


@contextmanager
def recording_guards(function: Function) -> Iterator[None]:
    """Let type inference add what it assumes about symbolic dims to ``function.guards``."""
    token = _guards.set(function.guards)
    try:
        yield
    finally:
        _guards.reset(token)
