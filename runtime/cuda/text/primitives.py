"""The names that a kernel's text may use, each with its twin in Python.

The table is closed: a text that uses another name is refused. Some names stand for a family, one for each dtype
(``sqrt_f32``, ``load4_f32``). What a primitive is on a device is in
`tapec.runtime.cuda.machine_code.intrinsics`, under the same name. Twins of what depends on the thread, or reaches
memory, are methods of the simulator (`tapec.runtime.cuda.simulator.simulator`).

===================================  ===============================================================================
``f32(x)`` … ``u64(x)``              a number of that dtype; integers wrap
``sqrt_T fma_T rint_T floor_T``      correctly rounded; ``ceil_T abs_T copysign_T`` exact
``mul_T(x, y)``                      a product that is rounded by itself, whatever is added to it
``max_f32 min_f32``                  NaN if any operand is
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
===================================  ===============================================================================
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapec.runtime.python_text import primitives as text

#: What threads do together: in a text they stand alone in a statement or an assignment.
COLLECTIVE = frozenset({"barrier", *(f"shuffle_xor_{t}" for t in text.DTYPES)})
#: Families whose twins the simulator has.
_OF_THREADS = ("thread", "block_index", "block_count")
_OF_MEMORY = tuple(
    f"{stem}_{t}" for stem in ("shared", "local", "part", "load4", "store4") for t in text.DTYPES
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


def _mulhi(a: Any, b: Any) -> Any:
    return np.uint64(int(a) * int(b) >> 64)


def _twins() -> dict[str, Callable[..., Any]]:
    found: dict[str, Any] = {code: _converter(code) for code in text.DTYPES}
    for code in ("f32", "f64"):
        found |= {f"{name}_{code}": getattr(np, name) for name in ("sqrt", "rint", "floor", "ceil")}
        found |= {f"abs_{code}": np.abs, f"copysign_{code}": np.copysign}
        found[f"mul_{code}"] = np.multiply
        found |= _bits(code)
    found["fma_f32"] = lambda x, y, z: np.float32(_fmaf(x, y, z))
    found["fma_f64"] = lambda x, y, z: np.float64(_fma(x, y, z))
    found |= {"max_f32": np.maximum, "min_f32": np.minimum, "mulhi_u64": _mulhi}
    found |= {f"sdiv_i{n}": _sdiv(text.DTYPES[f"i{n}"]) for n in (8, 16, 32, 64)}
    for code in ("f16", "bf16"):
        found[code] = getattr(text, code)
        found |= {f"{code}_{form}": getattr(text, f"{code}_{form}") for form in ("value", "bits")}
    return found | {"nan": math.nan, "inf": math.inf, "range": range}


#: What each primitive is in Python; those of threads and memory are the simulator's.
TWINS: Mapping[str, Any] = _twins()
#: All names.
NAMES = frozenset({*TWINS, *COLLECTIVE, *_OF_THREADS, *_OF_MEMORY})
