"""How LLVM text spells types and constants.

Registers and memory differ for two dtypes: a bool is one bit in a register and one byte in memory, and the 16-bit
floats are kept as their bits (``i16``): arithmetic widens them to ``float``, so no target needs to know them.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.ir.types import F32, F64, DType, TensorType, Type, VectorType

#: The type of an index: of the width that addresses have on the target, which is put in when a text is finished.
WORD = "isize"

_REGISTER = {
    "f16": "i16",
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
    "bool": "i1",
    "index": WORD,
}
#: The part of an intrinsic's name that tells its type.
_SUFFIX = {"float": "f32", "double": "f64"}


def is_small_float(dtype: DType) -> bool:
    """Kept as 16 bits and computed as ``float``."""
    return dtype.code in ("f16", "bf16")


def lanes_of(type: Type) -> int:
    """Lanes of a vector; 0 for a scalar."""
    return type.lanes if isinstance(type, VectorType) else 0


def element(dtype: DType) -> str:
    """The LLVM type of one element in a register.

    Raises:
        TargetError: the dtype has no register; complex numbers are pairs before they come here.
    """
    if dtype.is_complex:
        raise TargetError(
            f"the cpu target has no registers for {dtype.code}; lower it to pairs first"
        )
    return _REGISTER.get(dtype.code) or f"i{dtype.bits}"


def wide(name: str, lanes: int) -> str:
    """``<16 x float>`` from ``float``; the name itself where lanes is 0."""
    return f"<{lanes} x {name}>" if lanes else name


def lane_of(vector: str) -> str:
    """The element type in ``<16 x float>``."""
    return vector.rsplit(" ", 1)[-1].rstrip(">")


def register(type: Type) -> str:
    """The LLVM type of a value in registers; a buffer is an address."""
    if isinstance(type, VectorType):
        return wide(element(type.dtype), type.lanes)
    return element(type.dtype) if isinstance(type, TensorType) else "ptr"


def memory(dtype: DType, lanes: int = 0) -> str:
    """The LLVM type of an element, or of several neighbours, in memory."""
    return wide("i8" if dtype.is_bool else element(dtype), lanes)


def suffix(name: str, lanes: int) -> str:
    """The end of an intrinsic's name: ``v16f32`` from ``float`` and 16."""
    short = _SUFFIX.get(name, name)
    return f"v{lanes}{short}" if lanes else short


def literal(value: Any, dtype: DType) -> str:
    """A scalar constant without its type, exact to the bit."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        if is_small_float(dtype):
            return str(int(array.view(np.int16)))
        return float_bits(float(array))
    # int() first: NumPy refuses what it calls out of bounds, and constants wrap as arithmetic does.
    bits = int(value) & ((1 << dtype.bits) - 1)
    return str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits)


def float_bits(value: float) -> str:
    """A float or double constant: LLVM writes both as the bits of a double."""
    return f"0x{struct.pack('>d', value).hex().upper()}"


def vector_literal(values: Any, dtype: DType) -> str:
    """A vector constant without its type, from one Python number for each lane."""
    name = element(dtype)
    return f"<{', '.join(f'{name} {literal(v, dtype)}' for v in values)}>"


def splat_literal(name: str, value: str) -> str:
    """A vector constant without its type, equal in every lane."""
    return f"splat ({name} {value})"


def bytes_literal(array: np.ndarray[Any, Any]) -> str:
    """The elements of an array as they lie in memory."""
    data = np.ascontiguousarray(array).tobytes()
    plain = all(b == 0 for b in data)
    return "zeroinitializer" if plain else 'c"' + "".join(f"\\{b:02X}" for b in data) + '"'


def float_of(name: str) -> DType:
    """The dtype of LLVM's ``float`` or ``double``."""
    return {"float": F32, "double": F64}[name]
