"""The dtypes under TensorFlow's names."""

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.functions.arithmetic import cast as cast
from tapec.functions.arithmetic import complex as complex
from tapec.functions.arithmetic import saturate_cast as saturate_cast
from tapec.ir.types import BF16 as bfloat16
from tapec.ir.types import BOOL as bool
from tapec.ir.types import C64 as complex64
from tapec.ir.types import C128 as complex128
from tapec.ir.types import F16 as float16
from tapec.ir.types import F16 as half
from tapec.ir.types import F32 as float32
from tapec.ir.types import F64 as double
from tapec.ir.types import F64 as float64
from tapec.ir.types import I8 as int8
from tapec.ir.types import I16 as int16
from tapec.ir.types import I32 as int32
from tapec.ir.types import I64 as int64
from tapec.ir.types import STRING as string
from tapec.ir.types import U8 as uint8
from tapec.ir.types import U16 as uint16
from tapec.ir.types import U32 as uint32
from tapec.ir.types import U64 as uint64
from tapec.ir.types import DType, as_dtype

__all__ = [
    "DType",
    "as_dtype",
    "bfloat16",
    "bool",
    "cast",
    "complex",
    "complex64",
    "complex128",
    "double",
    "float16",
    "float32",
    "float64",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "saturate_cast",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("dtypes")
