"""The names that a kernel's text may use, each with its twin in Python.

The table is closed: a text that uses another name is refused. Some names stand for a family, one for each dtype
(``sqrt_f32``, ``load4_f32``). What a primitive is on a device is in
`tapec.runtime.cuda.machine_code.intrinsics`, under the same name. Twins of what depends on the thread, or reaches
memory, are methods of the simulator (`tapec.runtime.cuda.simulator.simulator`).

===================================  ===============================================================================
``f32(x)`` … ``u64(x)``              a number of that dtype; integers wrap
``sqrt_T fma_T rint_T floor_T``      correctly rounded; ``ceil_T abs_T copysign_T`` exact
``mul_T(x, y)``                      a product that is rounded by itself, whatever is added to it
``max_f32 min_f32``                  NaN if any operand is; -0 is below 0
``bits_T(x) real_T(n)``              the bits of a float as an integer, and back
``sdiv_T(a, b)``                     quotient of signed integers, cut toward 0
``mulhi_u64(a, b)``                  the upper half of a product
``f16_value f16_bits f16`` …         a 16-bit float from its bits, to its bits, a float rounded to its dtype
``thread() block_index() …``         numbers of this thread and block; ``block_count()`` blocks there are
``barrier()``                        wait for the threads of the block
``shuffle_xor_T(x, n)``              what the thread with that other number in the warp has
``shared_T(n)``                      memory of the block, from byte ``n`` on
``local_T(n)``                       ``n`` elements of this thread's own
``part_T(p, n)``                     a pointer ``n`` bytes further on
``load4_T(p, i) store4_T(p, i, …)``  four neighbours at once; ``i`` is a multiple of 4
``copy4_T(p, i, q, j)``              begin to copy four neighbours from ``q[j]`` to ``p[i]``, which is the block's;
                                     ``copy8_u16`` copies eight
``commit_copies()``                  what this thread has begun since the last one is a group
``wait_copies(n)``                   wait for this thread's groups but for the last ``n``, a literal
``tf32(x)``                          a number rounded to 10 bits of mantissa, halves away from zero
``matrices4(p, i)``                  words of four matrices that a warp reads, ``matrices4_turned`` of what is turned:
                                     see `tapec.ir.ops.device.LoadMatrices`
``mma_tf32 mma_f16 mma_bf16``        a product by a warp, ``(a0, …, a3, b0, b1, c0, …, c3)`` to four sums: see
                                     `tapec.ir.ops.device.WarpProduct`
===================================  ===============================================================================
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.runtime.python_text import primitives as text

#: What threads do together: in a text they stand alone in a statement or an assignment.
COLLECTIVE = frozenset(
    {
        "barrier",
        *(f"mma_{form}" for form in ("tf32", "f16", "bf16")),
        *("matrices4", "matrices4_turned"),
        *(f"shuffle_xor_{t}" for t in text.DTYPES),
    }
)
#: Copies in the background, with how many neighbours each is of.
COPIES: Mapping[str, int] = {"copy4_f32": 4, "copy4_i32": 4, "copy4_u32": 4, "copy8_u16": 8}
#: Families whose twins the simulator has.
_OF_THREADS = ("thread", "block_index", "block_count", "commit_copies", "wait_copies")
_OF_MEMORY = (
    *(f"{s}_{t}" for s in ("shared", "local", "part", "load4", "store4") for t in text.DTYPES),
    *COPIES,
)

_C = ctypes.CDLL(None)
_fmaf, _fma = _C.fmaf, _C.fma
_fmaf.restype, _fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
_fma.restype, _fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
_FLOAT_BITS: Mapping[str, tuple[Any, Any]] = {
    "f32": (np.float32, np.int32),
    "f64": (np.float64, np.int64),
}


def _converter(code: str) -> Callable[[Any], Any]:
    to = text.DTYPES[code]
    if code[0] == "f":
        return to  # type: ignore[no-any-return]
    bits = int(code[1:])
    mask, half = (1 << bits) - 1, 1 << (bits - 1)

    def convert(x: Any) -> Any:
        if type(x) is to:
            return x
        whole = int(x) & mask
        return to(whole - (mask + 1) if code[0] == "i" and whole >= half else whole)

    return convert


def _sdiv(to: Any) -> Callable[[Any, Any], Any]:
    def divide(a: Any, b: Any) -> Any:
        size = abs(int(a)) // abs(int(b))
        return to(size if (a < 0) == (b < 0) else -size)

    return divide


def _bits(code: str) -> Mapping[str, Callable[..., Any]]:
    real, whole = _FLOAT_BITS[code]
    return {
        f"bits_{code}": lambda x: real(x).view(whole),
        f"real_i{code[1:]}": lambda n: whole(n).view(real),
    }


def _tf32(x: Any) -> Any:
    """The nearest number with 10 bits of mantissa; of two that are, the one farther from zero.

    See ``cvt.rna.tf32.f32`` in the PTX ISA.
    """
    if not np.isfinite(x):
        return np.float32(x)
    bits = int(np.float32(x).view(np.uint32))
    return np.uint32((bits + 0x1000) & 0xFFFFE000).view(np.float32)


def matrix_words(
    lane: int, read: Callable[[int, int], Any], *, turned: bool
) -> tuple[np.uint32, ...]:
    """What a thread of a warp gets of ``matrices4``: ``read`` takes a row, by who gives it, and a column."""
    across, pair = divmod(lane, 4)
    words = []
    for first in range(0, 32, 8):
        places = [(pair * 2 + n, across) if turned else (across, pair * 2 + n) for n in range(2)]
        low, high = (int(read(first + row, column)) for row, column in places)
        words.append(np.uint32(low | high << 16))
    return tuple(words)


def _halves(form: str, word: Any) -> tuple[Any, Any]:
    """The two floats of 16 bits in a word."""
    value = getattr(text, f"{form}_value")
    return value(np.uint16(int(word) & 0xFFFF)), value(np.uint16(int(word) >> 16))


def warp_product(form: str, given: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """What the threads of a warp get of ``mma_tf32`` and its kin, each for ten operands.

    Products are summed in double precision, and rounded once: a device rounds at places of its own.

    Raises:
        ValueError: there are not 32 threads, or a number has more digits than a device looks at.
    """
    if len(given) != 32:
        raise ValueError(f"{len(given)} threads of a warp's 32")
    deep = 8 if form == "tf32" else 16
    left, right = np.zeros((16, deep)), np.zeros((deep, 8))
    for lane, words in enumerate(given):
        row, first = divmod(lane, 4)
        for n, word in enumerate(words[:4]):
            at = _numbers(form, first + 4 * (n // 2))
            left[row + 8 * (n % 2), at] = _read(form, word)
        for n, word in enumerate(words[4:6]):
            right[_numbers(form, first + 4 * n), row] = _read(form, word)
    sums = left @ right
    found = []
    for lane, words in enumerate(given):
        row, column = lane // 4, lane % 4 * 2
        places = ((row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1))
        found.append(
            tuple(np.float32(c + sums[at]) for c, at in zip(words[6:], places, strict=True))
        )
    return found


def exchanged(given: Sequence[Sequence[Any]]) -> list[Any]:
    """What the threads of a warp get of ``shuffle_xor_T``, each for its number and its reach.

    Raises:
        ValueError: some thread reaches for one that there is not.
    """
    lanes = [lane ^ int(reach) for lane, (_, reach) in enumerate(given)]
    if max(lanes) >= len(given):
        raise ValueError(f"{len(given)} threads, of which one wants what number {max(lanes)} has")
    return [given[lane][0] for lane in lanes]


def _numbers(form: str, word: int) -> list[int]:
    """Where the numbers of a word are among all."""
    return [word] if form == "tf32" else [2 * word, 2 * word + 1]


def _read(form: str, word: Any) -> tuple[Any, ...]:
    if form != "tf32":
        return _halves(form, word)
    if not np.isnan(word) and _tf32(word) != word:
        raise ValueError(f"{word!r} is not rounded to tf32")
    return (word,)


def _mulhi(a: Any, b: Any) -> Any:
    return np.uint64(int(a) * int(b) >> 64)


def _bf16(x: Any) -> Any:
    if isinstance(x, np.int64 | np.uint64):
        x = text.jammed(x, type(x)(11), type(x)(1))
    return text.bf16(x)


def _twins() -> dict[str, Callable[..., Any]]:
    found: dict[str, Any] = {code: _converter(code) for code in text.DTYPES}
    for code in ("f32", "f64"):
        found |= {f"{name}_{code}": getattr(np, name) for name in ("sqrt", "rint", "floor", "ceil")}
        found |= {f"abs_{code}": np.abs, f"copysign_{code}": np.copysign}
        found[f"mul_{code}"] = np.multiply
        found |= _bits(code)
    found["fma_f32"] = lambda x, y, z: np.float32(_fmaf(x, y, z))
    found["fma_f64"] = lambda x, y, z: np.float64(_fma(x, y, z))
    found |= {"max_f32": text.maximum, "min_f32": text.minimum, "mulhi_u64": _mulhi}
    found |= {f"sdiv_i{n}": _sdiv(text.DTYPES[f"i{n}"]) for n in (8, 16, 32, 64)}
    for code in ("f16", "bf16"):
        found[code] = getattr(text, code)
        found |= {f"{code}_{form}": getattr(text, f"{code}_{form}") for form in ("value", "bits")}
    found["bf16"] = _bf16
    found["tf32"] = _tf32
    return found | {"nan": math.nan, "inf": math.inf, "range": range}


#: What each primitive is in Python; those of threads and memory are the simulator's.
TWINS: Mapping[str, Any] = _twins()
#: All names.
NAMES = frozenset({*TWINS, *COLLECTIVE, *_OF_THREADS, *_OF_MEMORY})
