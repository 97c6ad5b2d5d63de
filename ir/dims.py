"""Integer expressions over symbols: the dims of a shape and the indices of a loop.

An expression is a polynomial with integer coefficients over *atoms*; an atom is a `Symbol` or the floor quotient or
remainder of two expressions. Building one brings it into normal form, so equal expressions are equal objects by
``==`` and ``hash``; an expression without symbols is a plain ``int``. Every function here takes and returns ``int |
Dim``.

The bounds of a symbol decide what ``//`` and ``%`` may simplify: with ``0 <= j < 10``, ``(10*i + j) // 10`` is ``i``.
Text: ``2*N+1``, ``(N-1)//2+1``, ``N%4``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named integer with inclusive bounds; ``high`` None means unbounded."""

    name: str
    low: int = 0
    high: int | None = None

    def __str__(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """``numerator // denominator``, or ``numerator % denominator`` if ``remainder``; the denominator is positive."""

    numerator: DimLike
    denominator: DimLike
    remainder: bool = False

    def __str__(self) -> str:
        """Infix text with the parentheses that parsing needs."""
        return f"{_wrap(self.numerator)}{'%' if self.remainder else '//'}{_wrap(self.denominator)}"


Atom = Symbol | Quotient
Monomial = tuple[Atom, ...]


class Dim:
    """A polynomial in normal form; never constant (constants are ``int``)."""

    __slots__ = ("_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        """Take terms that are in normal form already; use the operators or `symbol` to build one."""
        self.terms = terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __add__(self, other: DimLike) -> DimLike:
        if isinstance(other, int):
            return self._plus(other)
        return _normal([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> DimLike:
        return Dim(tuple([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: DimLike) -> DimLike:
        return self + (-other)

    def __rsub__(self, other: int) -> DimLike:
        return -self + other

    def __mul__(self, other: DimLike) -> DimLike:
        if isinstance(other, int):
            return Dim(tuple([(m, c * other) for m, c in self.terms])) if other else 0
        return _normal([(m + n, c * d) for m, c in self.terms for n, d in _terms(other)])

    __rmul__ = __mul__

    def _plus(self, number: int) -> Dim:
        """The sum with a number, which stays in normal form: the constant stands last."""
        monomial, constant = self.terms[-1]
        if monomial:
            return Dim((*self.terms, ((), number))) if number else self
        rest = self.terms[:-1]
        return Dim((*rest, ((), constant + number)) if constant + number else rest)

    def __floordiv__(self, other: DimLike) -> DimLike:
        return _divide(self, other)[0]

    def __rfloordiv__(self, other: int) -> DimLike:
        return _divide(other, self)[0]

    def __mod__(self, other: DimLike) -> DimLike:
        return _divide(self, other)[1]

    def __rmod__(self, other: int) -> DimLike:
        return _divide(other, self)[1]

    def __str__(self) -> str:
        """Text that the parser reads back, terms in normal order."""
        parts = []
        for monomial, coefficient in self.terms:
            factors = [
                f"({a})" if isinstance(a, Quotient) and len(monomial) > 1 else str(a)
                for a in monomial
            ]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
                if len(monomial) == 1 and isinstance(monomial[0], Quotient):
                    factors[1] = f"({factors[1]})"
            parts.append(("-" if coefficient < 0 else "+") + "*".join(factors))
        return "".join(parts).removeprefix("+")

    def __repr__(self) -> str:
        return f"Dim({self})"


DimLike = int | Dim


def symbol(name: str, low: int = 0, high: int | None = None) -> Dim:
    """The expression that is just a symbol."""
    return Dim((((Symbol(name, low, high),), 1),))


def symbols(dim: DimLike) -> Iterator[Symbol]:
    """Yield every symbol in an expression, with repeats."""
    if isinstance(dim, int):
        return
    for monomial, _ in dim.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                yield atom
            else:
                yield from symbols(atom.numerator)
                yield from symbols(atom.denominator)


def plain_symbol(dim: DimLike) -> str | None:
    """The name of a dim that is just a symbol."""
    if isinstance(dim, Dim) and len(dim.terms) == 1:
        (monomial, factor) = dim.terms[0]
        if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0].name
    return None


def substitute(dim: DimLike, values: Mapping[str, DimLike]) -> DimLike:
    """Replace symbols by name; with a number for each symbol the result is an ``int``."""
    if isinstance(dim, int):
        return dim
    total: DimLike = 0
    for monomial, coefficient in dim.terms:
        term: DimLike = coefficient
        for atom in monomial:
            term = term * _substitute_atom(atom, values)
        total = total + term
    return total


#: What an unbounded symbol is taken to be where a choice needs a number.
_TYPICAL = 64


def typical(dim: DimLike) -> int:
    """A number to reckon with: the dim where each symbol is at its upper bound, or 64 if it has none."""
    values = {s.name: max(s.low, _TYPICAL) if s.high is None else s.high for s in symbols(dim)}
    found = substitute(dim, values)
    assert isinstance(found, int)
    return found


def coefficient(dim: DimLike, of: Symbol) -> int | None:
    """The factor of a symbol that occurs linearly (0 if it does not occur), or None if it occurs otherwise."""
    found = 0
    if isinstance(dim, Dim):
        for monomial, factor in dim.terms:
            if monomial == (of,):
                found = factor
            elif any(s == of for atom in monomial for s in symbols(Dim((((atom,), 1),)))):
                return None
    return found


def bounds(dim: DimLike) -> tuple[int | None, int | None]:
    """Inclusive lower and upper bound by interval arithmetic; None where there is none."""
    if isinstance(dim, int):
        return dim, dim
    low: int | None = 0
    high: int | None = 0
    for monomial, factor in dim.terms:
        lo, hi = _monomial_bounds(monomial)
        lo, hi = (_times(lo, factor), _times(hi, factor))
        if factor < 0:
            lo, hi = hi, lo
        low = None if low is None or lo is None else low + lo
        high = None if high is None or hi is None else high + hi
    return low, high


def _times(bound: int | None, factor: int) -> int | None:
    return None if bound is None else bound * factor


def _monomial_bounds(monomial: Monomial) -> tuple[int | None, int | None]:
    low, high = 1, 1
    for atom in monomial:
        lo, hi = _atom_bounds(atom)
        if lo is None or lo < 0:
            return None, None  # products of signed factors: not needed by shapes and indices
        low *= lo
        if hi is None or high is None:
            return low, None
        high *= hi
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int | None, int | None]:
    if isinstance(atom, Symbol):
        return atom.low, atom.high
    lo, hi = bounds(atom.numerator)
    d_lo, d_hi = bounds(atom.denominator)
    if atom.remainder:
        return 0, (None if d_hi is None else d_hi - 1)
    if isinstance(atom.denominator, int):
        d = atom.denominator
        return (None if lo is None else lo // d), (None if hi is None else hi // d)
    return (0 if lo is not None and lo >= 0 else None), (
        None if not d_lo or hi is None else hi // d_lo
    )


def _terms(dim: DimLike) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Dim):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _normal(terms: list[tuple[Monomial, int]]) -> DimLike:
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        key = _sorted(monomial)
        total[key] = total.get(key, 0) + factor
    kept = {m: c for m, c in total.items() if c}
    whole = _whole(kept)
    if whole is not None:
        return whole
    if not kept:
        return 0
    if kept.keys() == {()}:
        return kept[()]
    # Higher degree first, constants last: the order in which people write them.
    order = list(kept.items())
    if len(order) > 1:
        order.sort(key=lambda item: (-len(item[0]), [str(a) for a in item[0]]))
    return Dim(tuple(order))


def _sorted(monomial: Monomial) -> Monomial:
    return monomial if len(monomial) < 2 else tuple(sorted(monomial, key=str))


def _whole(total: Mapping[Monomial, int]) -> DimLike | None:
    """The sum with ``n//d*d + n%d`` written as ``n``; None where there is no such pair."""
    for monomial, factor in total.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if not (isinstance(atom, Quotient) and atom.remainder):
            continue
        quotient = Quotient(atom.numerator, atom.denominator)
        # The quotient times the divisor, which may be a sum itself, as it would stand in the total.
        parts = {_sorted((quotient, *m)): c * factor for m, c in _terms(atom.denominator)}
        if all(total.get(m) == c for m, c in parts.items()):
            rest = [(m, c) for m, c in total.items() if m != monomial and m not in parts]
            return _normal([*rest, *((m, c * factor) for m, c in _terms(atom.numerator))])
    return None


def _divide(numerator: DimLike, denominator: DimLike) -> tuple[DimLike, DimLike]:
    """Quotient and remainder, simplified: terms divisible by the denominator leave the fraction."""
    if isinstance(denominator, int) and denominator <= 0:
        raise ValueError(f"the divisor of a dim must be positive, got {denominator}")
    if numerator == denominator:
        return 1, 0
    whole: DimLike = 0
    rest: DimLike = numerator
    if isinstance(denominator, int):
        if isinstance(numerator, int):
            return numerator // denominator, numerator % denominator
        numerator = _without_rest(numerator, denominator)
        if isinstance(numerator, int):
            return numerator // denominator, numerator % denominator
        split = [(m, c // denominator, c % denominator) for m, c in numerator.terms]
        # A constant may be split at will (c = q*d + r); a symbol's factor only when it divides, or its text
        # would depend on how it was reached.
        whole = _normal([(m, q) for m, q, r in split if r == 0 or not m])
        rest = _normal([(m, q * denominator + r if m else r) for m, q, r in split if r or not m])
    else:
        quotient = _exact(numerator, denominator)
        if quotient is not None:
            return quotient, 0
    low, high = bounds(rest)
    d_low, _ = bounds(denominator)
    if low is not None and low >= 0 and high is not None and d_low is not None and high < d_low:
        return whole, rest
    if isinstance(rest, int) and isinstance(denominator, int):
        return whole + rest // denominator, rest % denominator
    quotient_atom = Dim((((Quotient(rest, denominator),), 1),))
    remainder_atom = Dim((((Quotient(rest, denominator, remainder=True),), 1),))
    return whole + quotient_atom, remainder_atom


def _without_rest(numerator: Dim, denominator: int) -> DimLike:
    """The numerator with ``n - d*(n//d)`` for ``n % d`` where that is subtracted: the rest of the division by ``d``."""
    total: DimLike = numerator
    for monomial, factor in numerator.terms:
        atom = monomial[0] if len(monomial) == 1 and factor < 0 else None
        if isinstance(atom, Quotient) and atom.remainder and atom.denominator == denominator:
            whole = Dim((((Quotient(atom.numerator, denominator),), -factor * denominator),))
            total = total - Dim(((monomial, factor),)) + factor * atom.numerator + whole
    return total


def _exact(numerator: DimLike, denominator: Dim) -> DimLike | None:
    """``numerator / denominator`` if the denominator is one monomial that divides every term."""
    if len(denominator.terms) != 1:
        return None
    (monomial, factor) = denominator.terms[0]
    result = []
    for m, c in _terms(numerator):
        left = list(m)
        for atom in monomial:
            if atom not in left:
                return None
            left.remove(atom)
        if c % factor:
            return None
        result.append((tuple(left), c // factor))
    return _normal(result)


def _substitute_atom(atom: Atom, values: Mapping[str, DimLike]) -> DimLike:
    if isinstance(atom, Symbol):
        return values.get(atom.name, Dim((((atom,), 1),)))
    numerator = substitute(atom.numerator, values)
    denominator = substitute(atom.denominator, values)
    return numerator % denominator if atom.remainder else numerator // denominator


def _wrap(dim: DimLike) -> str:
    text = str(dim)
    return text if text.isalnum() else f"({text})"
