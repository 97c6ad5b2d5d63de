"""The larger and the smaller of two vectors of floats where AVX-512 has them in one instruction.

``vrangeps`` tells zeros by their signs, but gives the number of a number and NaN. So where either is NaN, their sum is
taken. That is three instructions, and two to wait for, where LLVM's ``maximum`` is six, and five.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapec.runtime.cpu.text import spelling

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter

#: What the instruction is told to do: the comparison, and that the sign is that of what it chooses.
_CHOICES = {"@llvm.minimum.": 4, "@llvm.maximum.": 5}
_BITS = {"float": ("ps", 32), "double": ("pd", 64)}


def extremum(
    k: KernelWriter, spelled: str, names: Sequence[str], kind: str, lanes: int
) -> str | None:
    """The register with the result; None if a spelling is of something else, or lanes make up no register."""
    choice = next((n for name, n in _CHOICES.items() if name in spelled), None)
    suffix, bits = _BITS.get(kind, ("", 0))
    width = lanes * bits
    if choice is None or width not in (128, 256, 512) or not k.writer.dialect.scales:
        return None
    t, (x, y) = spelling.wide(kind, lanes), names
    mask, rounding = (
        ("i16", ", i32 4") if lanes == 16 else ("i8", ", i32 4" if width == 512 else "")
    )
    chosen = k.pure(
        f"call {t} @llvm.x86.avx512.mask.range.{suffix}.{width}"
        f"({t} {x}, {t} {y}, i32 {choice}, {t} zeroinitializer, {mask} -1{rounding})",
        x,
        y,
    )
    unordered, total = k.pure(f"fcmp uno {t} {x}, {y}", x, y), k.pure(f"fadd {t} {x}, {y}", x, y)
    text = f"select <{lanes} x i1> {unordered}, {t} {total}, {t} {chosen}"
    return k.pure(text, unordered, total, chosen)
