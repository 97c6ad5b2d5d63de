"""What selftests are made of, as LLVM's text and as C: how arrays are filled, and how items are compared.

A way of filling and one of comparing belong to each dtype. What is expected is four bytes for each item: a float is
compared with a ``float``, within `TOLERANCE`; one of 16 bits by its bits, which may differ by `STEPS`;
others exactly, by words of four bytes or by bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tapec.runtime.cpu.text import spelling

#: How far a float may be off: this, and this much of itself.
TOLERANCE = 1e-3
#: How far floats of 16 bits may be off, in units of the last place; those below 2^-7 are all alike.
STEPS = 16
#: For 16-bit floats: the bits of 1, what varies in a number from 1 to 2, and the bits of 2^-7.
SMALL = {"f16": (0x3C00, 0x3FF, 0x2000), "bf16": (0x3F80, 0x7F, 0x3C00)}
#: Item ``i`` of an array is made of ``FACTOR i + FIRST mod 65536``.
FIRST, FACTOR = 12345, 40503

_TYPES = {"f32": "float", "f64": "double", "f16": "i16", "bf16": "i16"}
#: Integers: their bits and their value.
_WHOLE = {"zero": (8, 0), **{f"one{bits}": (bits, 1) for bits in (8, 16, 32, 64)}}


def llvm(fills: Iterable[str], compares: Iterable[str]) -> str:
    """The functions ``@tapec.selftest.fill.KIND`` and ``differs.KIND`` that a test needs, and one that copies."""
    parts = [_LLVM_COPY, *map(_llvm_fill, sorted(fills)), *map(_llvm_differs, sorted(compares))]
    return "\n".join(parts)


def _llvm_fill(kind: str) -> str:
    if kind in _WHOLE:
        bits, value = _WHOLE[kind]
        held, body = f"i{bits}", f"%value = add i{bits} 0, {value}"
    elif kind in SMALL:
        one, mask, _ = SMALL[kind]
        held = _TYPES[kind]
        body = f"%low = and i32 %k, {mask}\n  %bits = or i32 %low, {one}\n  %value = trunc i32 %bits to i16"
    else:
        held, unit = _TYPES[kind], spelling.float_bits(2.0**-16)
        body = (
            f"%low = and i32 %k, 65535\n  %real = uitofp i32 %low to {held}\n"
            f"  %value = fmul {held} %real, {unit}"
        )
    return f"""
define internal void @tapec.selftest.fill.{kind}(ptr %to, isize %count) noinline #0 {{
entry:
  br label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %turn ]
  %k = phi i32 [ {FIRST}, %entry ], [ %k.next, %turn ]
  {body}
  %place = getelementptr {held}, ptr %to, isize %i
  store {held} %value, ptr %place
  %k.next = add i32 %k, {FACTOR}
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}"""


def _llvm_differs(kind: str) -> str:
    return f"""
define internal i1 @tapec.selftest.differs.{kind}(ptr %memory, ptr %table, isize %count) noinline #0 {{
entry:
  br label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %on ]
  %row = getelementptr [8 x i8], ptr %table, isize %i
  %offset = load i32, ptr %row
  %want.at = getelementptr i8, ptr %row, isize 4
  %place = getelementptr i8, ptr %memory, i32 %offset
{_llvm_compare(kind)}
  br i1 %near, label %on, label %bad
on:
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %same
bad:
  ret i1 true
same:
  ret i1 false
}}"""


def _llvm_compare(kind: str) -> str:
    if kind in ("word", "byte"):
        held = "i32" if kind == "word" else "i8"
        return (
            f"  %want = load {held}, ptr %want.at\n  %got = load {held}, ptr %place\n"
            f"  %near = icmp eq {held} %got, %want"
        )
    if kind in SMALL:
        lines = [_llvm_ordered("want", "%want.at"), _llvm_ordered("got", "%place")]
        return "\n".join(lines) + (
            f"\n  %apart = sub i32 %got.order, %want.order\n"
            f"  %apart.up = add i32 %apart, {STEPS}\n"
            f"  %close = icmp ule i32 %apart.up, {2 * STEPS}\n"
            f"  %largest = call i32 @llvm.umax.i32(i32 %got.size, i32 %want.size)\n"
            f"  %little = icmp ult i32 %largest, {SMALL[kind][2]}\n"
            f"  %near = or i1 %close, %little"
        )
    held, code = _TYPES[kind], kind
    wanted = "  %want = load float, ptr %want.at"
    if kind == "f64":
        wanted = "  %single = load float, ptr %want.at\n  %want = fpext float %single to double"
    allowed = spelling.float_bits(float(np.float32(TOLERANCE)))
    return f"""{wanted}
  %got = load {held}, ptr %place
  %apart = fsub {held} %got, %want
  %size = call {held} @llvm.fabs.{code}({held} %apart)
  %high = call {held} @llvm.fabs.{code}({held} %want)
  %more.allowed = fadd {held} %high, 1.0
  %allowed = fmul {held} %more.allowed, {allowed}
  %near = fcmp ole {held} %size, %allowed"""


def _llvm_ordered(name: str, place: str) -> str:
    """A 16-bit float's bits, its size, and an integer that is in the order of the numbers."""
    return (
        f"  %{name}.half = load i16, ptr {place}\n  %{name} = zext i16 %{name}.half to i32\n"
        f"  %{name}.size = and i32 %{name}, 32767\n"
        f"  %{name}.minus = sub i32 0, %{name}.size\n"
        f"  %{name}.below = icmp ugt i32 %{name}, 32767\n"
        f"  %{name}.order = select i1 %{name}.below, i32 %{name}.minus, i32 %{name}.size"
    )


_LLVM_COPY = """
define internal void @tapec.selftest.copy(ptr %to, ptr %from, isize %count) noinline #0 {
entry:
  br label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %turn ]
  %source = getelementptr i8, ptr %from, isize %i
  %byte = load i8, ptr %source
  %place = getelementptr i8, ptr %to, isize %i
  store i8 %byte, ptr %place
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}"""


# ---- C


def c(fills: Iterable[str], compares: Iterable[str]) -> str:
    """The same functions as C: ``selftest_fill_KIND`` and ``selftest_differs_KIND``."""
    return "\n".join([*map(_c_fill, sorted(fills)), *map(_c_differs, sorted(compares))])


def _c_fill(kind: str) -> str:
    if kind in _WHOLE:
        bits, number = _WHOLE[kind]
        held, value, step = f"uint{bits}_t", str(number), ""
    else:
        held = {"f32": "float", "f64": "double"}.get(kind, "uint16_t")
        step = f", k += {FACTOR}u"
        value = f"({held})(k & 65535u) * ({held})(1.0 / 65536.0)"
        if kind in SMALL:
            one, mask, _ = SMALL[kind]
            value = f"(uint16_t)((k & {mask}u) | {one}u)"
    first = f"    uint32_t k = {FIRST};\n" if step else ""
    return (
        f"static void selftest_fill_{kind}(void *to, size_t count) {{\n"
        f"    {held} *items = ({held} *)to;\n{first}"
        f"    for (size_t i = 0; i < count; i++{step}) items[i] = {value};\n}}\n"
    )


def _c_differs(kind: str) -> str:
    place = "(const void *)(memory + table[2 * i])"
    if kind in ("word", "byte"):
        held = "uint32_t" if kind == "word" else "uint8_t"
        test = f"        if (*(const {held} *){place} != ({held})table[2 * i + 1]) return 1;\n"
    elif kind in SMALL:
        test = (
            f"        const int32_t a = *(const uint16_t *){place}, b = (int32_t)table[2 * i + 1];\n"
            "        const int32_t x = a & 0x7FFF, y = b & 0x7FFF;\n"
            "        const int32_t apart = (a > 0x7FFF ? -x : x) - (b > 0x7FFF ? -y : y);\n"
            f"        if ((apart > {STEPS} || apart < -{STEPS}) && (x > y ? x : y) >= {SMALL[kind][2]})"
            " return 1;\n"
        )
    else:
        held = "float" if kind == "f32" else "double"
        test = (
            "        union { uint32_t word; float number; } expected;\n"
            "        expected.word = table[2 * i + 1];\n"
            f"        const {held} want = expected.number, got = *(const {held} *){place};\n"
            f"        const {held} apart = got > want ? got - want : want - got;\n"
            f"        const {held} size = want < 0 ? -want : want;\n"
            f"        if (!(apart <= (size + 1.0f) * {TOLERANCE}f)) return 1;\n"
        )
    return (
        f"static int selftest_differs_{kind}(\n"
        "    const unsigned char *memory, const uint32_t *table, size_t count) {\n"
        f"    for (size_t i = 0; i < count; i++) {{\n{test}    }}\n    return 0;\n}}\n"
    )
