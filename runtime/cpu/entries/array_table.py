"""Holding many arrays to their types, by a loop over a table: code for each would be most of what LLVM has to do.

A step with an optimizer takes three arrays for each parameter, hundreds in all. What is written out for each array
(`tapec.runtime.cpu.entries.entry`) is faster for the few of a small program, and knows sizes that only the call tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tapec.ir.types import BufferType
from tapec.runtime.cpu.entries.array_layout import array_layout

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import ModuleWriter

#: As few arrays are checked one by one.
FEW = 24
NAME = "@tapec.fit"


def is_wanted(types: Sequence[BufferType]) -> bool:
    """Whether there are many arrays, and all sizes are known."""
    return len(types) > FEW and all(t.tensor.is_static for t in types)


def function(types: Sequence[BufferType], flags: Sequence[int], writer: ModuleWriter) -> str:
    """``i1 fit(objects, low, high)``: whether objects number ``low`` to ``high`` are arrays of these types.

    ``flags`` is what each must have set, of NumPy's flags.
    """
    ndarray = writer.host_slot("type:ndarray")
    rows, extents = [], [0]
    for type, wanted in zip(types, flags, strict=True):
        name = f"dtype:{type.dtype.code}"
        writer.host_slot(name)
        rows.append((writer.host.index(name), len(type.shape), wanted, len(extents)))
        extents += [int(d) for d in type.tensor.static_shape]
    return _TEXT.format(
        name=NAME,
        ndarray=ndarray,
        rows=writer.constant(np.array(rows, np.int32)),
        extents=writer.constant(np.array(extents, np.int64)),
        layout=array_layout(),
    )


_TEXT = """define internal i1 {name}(ptr %objects, i64 %low, i64 %high) #2 {{
entry:
  %ndarray = load ptr, ptr {ndarray}
  br label %each
each:
  %i = phi i64 [ %low, %entry ], [ %next, %shaped ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %look, label %good
look:
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 {layout.type}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array, label %bad
array:
  %row = getelementptr [4 x i32], ptr {rows}, i64 %i
  %slot = load i32, ptr %row
  %wide.slot = sext i32 %slot to i64
  %dtype.slot = getelementptr ptr, ptr @tapec.host, i64 %wide.slot
  %wanted.dtype = load ptr, ptr %dtype.slot
  %dtype.at = getelementptr i8, ptr %object, i64 {layout.dtype}
  %dtype = load ptr, ptr %dtype.at
  %same.dtype = icmp eq ptr %dtype, %wanted.dtype
  %rank.row = getelementptr i8, ptr %row, i64 4
  %wanted.rank = load i32, ptr %rank.row
  %rank.at = getelementptr i8, ptr %object, i64 {layout.rank}
  %rank = load i32, ptr %rank.at
  %same.rank = icmp eq i32 %rank, %wanted.rank
  %flags.row = getelementptr i8, ptr %row, i64 8
  %wanted.flags = load i32, ptr %flags.row
  %flags.at = getelementptr i8, ptr %object, i64 {layout.flags}
  %flags = load i32, ptr %flags.at
  %set = and i32 %flags, %wanted.flags
  %all.set = icmp eq i32 %set, %wanted.flags
  %two = and i1 %same.dtype, %same.rank
  %three = and i1 %two, %all.set
  br i1 %three, label %shape, label %bad
shape:
  %first.row = getelementptr i8, ptr %row, i64 12
  %first = load i32, ptr %first.row
  %wide.first = sext i32 %first to i64
  %wanted.extents = getelementptr i64, ptr {extents}, i64 %wide.first
  %shape.at = getelementptr i8, ptr %object, i64 {layout.shape}
  %extents = load ptr, ptr %shape.at
  %axes = sext i32 %rank to i64
  br label %axis
axis:
  %k = phi i64 [ 0, %shape ], [ %following, %equal ]
  %left = icmp slt i64 %k, %axes
  br i1 %left, label %extent, label %shaped
extent:
  %extent.at = getelementptr i64, ptr %extents, i64 %k
  %size = load i64, ptr %extent.at
  %wanted.at = getelementptr i64, ptr %wanted.extents, i64 %k
  %wanted = load i64, ptr %wanted.at
  %same = icmp eq i64 %size, %wanted
  br i1 %same, label %equal, label %bad
equal:
  %following = add i64 %k, 1
  br label %axis
shaped:
  %next = add i64 %i, 1
  br label %each
good:
  ret i1 true
bad:
  ret i1 false
}}
"""
