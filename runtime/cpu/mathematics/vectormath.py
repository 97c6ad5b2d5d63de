"""The mathematical functions that compiled programs call: ``@tapec.exp.v16f32`` and its like, written when used.

No library is behind them, so a program gives the same bits wherever the same instructions run. Each works for float
and double at any number of lanes (16-bit floats are computed as float), over its whole domain, and is right at
infinity, NaN, signed zeros and subnormals. `BOUNDS` says how far off it may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tapec.runtime.cpu.mathematics import (
    circular,
    division,
    elementary,
    large_angles,
    power,
    special,
)
from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg
from tapec.runtime.cpu.text import spelling

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
#: Largest error in units in the last place, (float, double), as measured by ``tests/test_vectormath.py``. Those of the
#: gamma function's kin have roots between the integers: there, units of the last place of 1 count.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "exp": (0.95, 0.95),
    "expm1": (1.6, 2.0),
    "log": (0.85, 0.85),
    "log1p": (0.9, 0.9),
    "tanh": (2.0, 2.0),
    "sigmoid": (1.7, 1.7),
    "sinh": (2.4, 2.4),
    "cosh": (1.4, 1.4),
    "asinh": (1.8, 1.8),
    "acosh": (2.1, 2.1),
    "atanh": (2.1, 2.1),
    "rsqrt": (1.5, 1.5),
    "sin": (0.9, 0.9),
    "cos": (0.9, 0.9),
    "tan": (2.5, 2.5),
    "asin": (0.7, 0.7),
    "acos": (0.7, 0.7),
    "atan": (1.9, 1.9),
    "atan2": (1.9, 1.9),
    "erf": (1.0, 1.0),
    "erfc": (3.5, 3.5),
    "lgamma": (4.0, 4.0),
    "digamma": (6.0, 6.0),
    "pow": (1.3, 1.2),
}
#: The same left of 0, where the gamma function's kin are differences of larger terms.
LEFT_BOUNDS: Mapping[str, tuple[float, float]] = {"lgamma": (14.0, 14.0), "digamma": (20.0, 20.0)}
#: Constants that functions look into.
_TABLES: Mapping[str, Callable[[], str]] = {
    "two_over_pi.32": lambda: large_angles.table(32),
    "two_over_pi.64": lambda: large_angles.table(64),
}
_BINARY = {"atan2", "pow", "upow", "floordiv", "mod", "udiv", "umod", "shl", "shr", "ushr"}


#: How a function's header ends (`tapec.runtime.cpu.text.dialect`): put into its callers, or not.
_INLINED, _CALLED = " #1 {", " #0 {"


class MathLibrary:
    """The functions that one module needs."""

    def __init__(self, copies: int = 64, scales: bool = False) -> None:
        """Need none; ``copies`` and ``scales`` are those of `tapec.runtime.cpu.text.dialect`."""
        self._copies = copies
        self._scales = scales
        self._written: dict[tuple[str, str, int], str] = {}
        self._calls: Counter[tuple[str, str, int]] = Counter()

    def need(self, name: str, kind: str, lanes: int) -> None:
        """Have a function written, and those that it calls, for one call more."""
        key = (name, kind, lanes)
        self._calls[key] += 1
        if key in self._written:
            return
        self._written[key] = ""
        text, called = expand(name, kind, lanes, scales=self._scales)
        self._written[key] = text
        for other, other_kind in called:
            if other in _TABLES:
                self._written.setdefault((other, "", 0), _TABLES[other]() + "\n")
            else:
                self.need(other, other_kind, lanes)

    def text(self) -> str:
        """All functions, in the order in which they were needed."""
        return "\n".join(
            text.replace(_INLINED, _CALLED, 1) if self._calls[key] > self._copies else text
            for key, text in self._written.items()
        )


def expand(
    name: str, kind: str, lanes: int, *, scales: bool = False
) -> tuple[str, list[tuple[str, str]]]:
    """One function as LLVM text, and what it calls."""
    f = Expansion(kind, lanes, scales)
    arguments = [Reg(f, f"%x{i}", kind) for i in range(2 if name in _BINARY else 1)]
    result = EXPANSIONS[name](f, *arguments)
    t, r = f.type(kind), f.type(result.kind)
    listed = ", ".join(f"{t} {x.name}" for x in arguments)
    lines = "\n".join(f.lines)
    header = f"define internal {r} @tapec.{name}.{spelling.suffix(kind, lanes)}({listed}){_INLINED}"
    return f"{header}\nentry:\n{lines}\n  ret {r} {result.name}\n}}\n", f.called
