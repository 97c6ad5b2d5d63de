"""The mathematical functions that compiled programs call: ``@tapec.exp.v16f32`` and its like, written when used.

No library is behind them, so a program gives the same bits wherever the same instructions run. Each works for float
and double at any number of lanes (16-bit floats are computed as float), and is right at infinity, NaN, signed zeros and
subnormals. Errors in units in the last place, measured by ``tests/test_vectormath.py`` (float, double; all numbers
of the domain save where a range is given): see `BOUNDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tapec.runtime.cpu import (
    circular,
    division,
    elementary,
    large_angles,
    power,
    special,
    spelling,
)
from tapec.runtime.cpu.expansion import Expansion, Reg

EXPANSIONS: Mapping[str, Callable[..., Reg]] = {
    "exp": elementary.exp,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log1p": elementary.log1p,
    "tanh": elementary.tanh,
    "sigmoid": elementary.sigmoid,
    "sinh": elementary.sinh,
    "cosh": elementary.cosh,
    "asinh": elementary.asinh,
    "acosh": elementary.acosh,
    "atanh": elementary.atanh,
    "rsqrt": elementary.rsqrt,
    "sign": elementary.sign,
    "is_finite": elementary.is_finite,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": circular.asin,
    "acos": circular.acos,
    "atan": circular.atan,
    "atan2": circular.atan2,
    "erf": special.erf,
    "erfc": special.erfc,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "pow": power.pow_,
    "upow": division.upow,
    "floordiv": division.floordiv,
    "mod": division.mod,
    "udiv": division.udiv,
    "umod": division.umod,
    "shl": division.shl,
    "shr": division.shr,
    "ushr": division.ushr,
}
#: Constants that functions look into.
_TABLES: Mapping[str, Callable[[], str]] = {
    "two_over_pi.32": lambda: large_angles.table(32),
    "two_over_pi.64": lambda: large_angles.table(64),
}
_ARITY = {"atan2", "pow", "upow", "floordiv", "mod", "udiv", "umod", "shl", "shr", "ushr"}


class MathLibrary:
    """The functions that one module needs."""

    def __init__(self) -> None:
        """Need none."""
        self._written: dict[tuple[str, str, int], str] = {}

    def need(self, name: str, kind: str, lanes: int) -> None:
        """Have a function written, and those that it calls."""
        key = (name, kind, lanes)
        if key in self._written:
            return
        self._written[key] = ""
        text, called = expand(name, kind, lanes)
        self._written[key] = text
        for other, other_kind in called:
            if other in _TABLES:
                self._written.setdefault((other, "", 0), _TABLES[other]() + "\n")
            else:
                self.need(other, other_kind, lanes)

    def text(self) -> str:
        """All functions, in the order in which they were needed."""
        return "\n".join(self._written.values())


def expand(name: str, kind: str, lanes: int) -> tuple[str, list[tuple[str, str]]]:
    """One function as LLVM text, and what it calls."""
    f = Expansion(kind, lanes)
    arguments = [Reg(f, f"%x{i}", kind) for i in range(2 if name in _ARITY else 1)]
    result = EXPANSIONS[name](f, *arguments)
    t, r = f.type(kind), f.type(result.kind)
    listed = ", ".join(f"{t} {x.name}" for x in arguments)
    lines = "\n".join(f.lines)
    header = f"define internal {r} @tapec.{name}.{spelling.suffix(kind, lanes)}({listed}) #1"
    return f"{header} {{\nentry:\n{lines}\n  ret {r} {result.name}\n}}\n", f.called
