"""Integers of 128 bits in C99, which has none: two halves, and functions for what is done with them.

Only the reduction of large angles in double precision needs them (`tapec.runtime.cpu.mathematics.large_angles`).
"""

from __future__ import annotations

TYPE = "tapec_wide"
_TYPE = f"typedef struct {{ uint64_t low, high; }} {TYPE};\n"

_BINARY = {
    "add": """    {T} r = {{x.low + y.low, x.high + y.high}};
    r.high += r.low < x.low;
    return r;""",
    "sub": """    {T} r = {{x.low - y.low, x.high - y.high}};
    r.high -= x.low < y.low;
    return r;""",
    "mul": """    const uint64_t a = x.low & 0xFFFFFFFFu, b = x.low >> 32, c = y.low & 0xFFFFFFFFu, d = y.low >> 32;
    const uint64_t middle = b * c + (a * c >> 32), more = a * d + (middle & 0xFFFFFFFFu);
    {T} r = {{x.low * y.low, b * d + (middle >> 32) + (more >> 32)}};
    r.high += x.low * y.high + x.high * y.low;
    return r;""",
    "shl": """    const unsigned n = (unsigned)y.low;
    {T} r = {{0, x.low << (n & 63)}};
    if (n >= 64) return r;
    r.low = x.low << n;
    r.high = x.high << n | (n ? x.low >> (64 - n) : 0);
    return r;""",
    "lshr": """    const unsigned n = (unsigned)y.low;
    {T} r = {{x.high >> (n & 63), 0}};
    if (n >= 64) return r;
    r.low = x.low >> n | (n ? x.high << (64 - n) : 0);
    r.high = x.high >> n;
    return r;""",
    "ashr": """    const unsigned n = (unsigned)y.low;
    const uint64_t sign = x.high >> 63 ? ~(uint64_t)0 : 0;
    const uint64_t shifted = n & 63 ? x.high >> (n & 63) | sign << (64 - (n & 63)) : x.high;
    {T} r = {{shifted, sign}};
    if (n >= 64) return r;
    r.low = x.low >> n | (n ? x.high << (64 - n) : 0);
    r.high = shifted;
    return r;""",
}


class WideIntegers:
    """The functions that are needed, into ``helpers``, as C text by name."""

    def __init__(self, helpers: dict[str, str]) -> None:
        self.helpers = helpers

    def _need(self, name: str, head: str, body: str) -> None:
        self.helpers.setdefault("wide", _TYPE)
        self.helpers.setdefault(name, f"static {head} {{\n{body.format(T=TYPE)}\n}}\n")

    def constant(self, number: int) -> str:
        """A number."""
        bits = number % (1 << 128)
        self._need(
            "wide_of",
            f"{TYPE} tapec_wide_of(uint64_t high, uint64_t low)",
            "    const {T} r = {{low, high}};\n    return r;",
        )
        return f"tapec_wide_of(UINT64_C({bits >> 64}), UINT64_C({bits & (2**64 - 1)}))"

    def binary(self, word: str, a: str, b: str) -> str | None:
        """An operation of two; None if there is no function for it."""
        if word not in _BINARY:
            return None
        self._need(f"wide_{word}", f"{TYPE} tapec_wide_{word}({TYPE} x, {TYPE} y)", _BINARY[word])
        return f"tapec_wide_{word}({a}, {b})"

    def convert(self, word: str, kind: str, a: str, wanted: str) -> str | None:
        """From a narrower integer, or to one; the types are LLVM's. None if there is no function for it."""
        given = f"int{kind[1:]}_t"
        if word == "trunc" and wanted != "i1":
            return f"(int{wanted[1:]}_t)({a}).low"
        if word not in ("zext", "sext") or kind == "i1":
            return None
        body = (
            "    const {T} r = {{(uint64_t)(int64_t)x, x < 0 ? ~(uint64_t)0 : 0}};\n    return r;"
        )
        if word == "zext":
            body = f"    const {{T}} r = {{{{(u{given})x, 0}}}};\n    return r;"
        name = f"wide_{word}_{kind}"
        self._need(name, f"{TYPE} tapec_{name}({given} x)", body)
        return f"tapec_{name}({a})"
