"""What a program is: types, operations, text and meaning.

The nouns are here: ``from tapec.ir import Builder, Function, TensorType``. What one does with programs has modules of
its own: `printer`, `parser`, `verifier`, `evaluator`, `compare`.
"""

from tapec.ir import ops
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Region, Value
from tapec.ir.dims import Dim, Symbol
from tapec.ir.errors import ParseError, PassError, TapecError, TargetError, VerifyError
from tapec.ir.location import Location
from tapec.ir.op import OPS, Op
from tapec.ir.types import BufferType, DType, TensorType, VectorType

__all__ = [
    "OPS",
    "Block",
    "BufferType",
    "Builder",
    "DType",
    "Dim",
    "Function",
    "Location",
    "Module",
    "Op",
    "Operation",
    "ParseError",
    "PassError",
    "Region",
    "Symbol",
    "TapecError",
    "TargetError",
    "TensorType",
    "Value",
    "VectorType",
    "VerifyError",
    "ops",
]
