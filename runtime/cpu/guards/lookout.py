"""Whether places of Python's state hold what they held, asked of CPython's C interface by native code.

A guard looks at its places before every call; Python needs some 25 ns for each of them, this code 5 to 15. It compares
identities only: what is another object now may be equal all the same, which is for the caller to find out.

What is looked at is a table of `Look`, in a ``bytes`` object that the C function has for its ``self``. The function
keeps all of them alive by it, so it may be called by one thread while another one replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapec.runtime.cache import Cache
from tapec.runtime.cpu.guards.looks import Kind, Look
from tapec.runtime.cpu.guards.versions import OF_CLASSES, OF_DICTS
from tapec.runtime.cpu.host import NO_ARGUMENTS, Builtin
from tapec.runtime.cpu.parts import load_part

#: Functions of Python's C interface that are called: what they give and take.
_CALLED: dict[str, tuple[str, ...]] = {
    "PyBytes_AsString": ("ptr", "ptr"),
    "PyBytes_Size": ("i64", "ptr"),
    "PyObject_GetAttr": ("ptr", "ptr", "ptr"),
    "PyObject_Type": ("ptr", "ptr"),
    "PyObject_GenericGetDict": ("ptr", "ptr", "ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr", "ptr"),
    "PyDict_Next": ("i32", "ptr", "ptr", "ptr", "ptr"),
    "PyDict_Size": ("i64", "ptr"),
    "PyList_GetItem": ("ptr", "ptr", "i64"),
    "PyList_Size": ("i64", "ptr"),
    "PySet_Size": ("i64", "ptr"),
    "PyObject_GetIter": ("ptr", "ptr"),
    "PyIter_Next": ("ptr", "ptr"),
    "PyCell_Get": ("ptr", "ptr"),
    "PyMethod_Function": ("ptr", "ptr"),
    "PyFunction_GetCode": ("ptr", "ptr"),
    "PyFunction_GetDefaults": ("ptr", "ptr"),
    "PyFunction_GetKwDefaults": ("ptr", "ptr"),
    "PyErr_Clear": ("void",),
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
}
_HOST = (*(f"python:{name}" for name in _CALLED), "python:PyMethod_Type", "bool:True", "bool:False")


class _Table(bytes):
    """The words of looks, which are there as long as it is."""

    looks: tuple[Look, ...]


#: The code of this process, when there is any.
_made: list[Builtin] = []


def lookout(looks: Sequence[Look], cache: Cache | None) -> Callable[[], bool]:
    """A function of nothing: whether all these places hold the very objects that they held."""
    if not _made:
        code = load_part("lookout", _TEXT, _HOST, cache)
        _made.append(Builtin("holds", code.address("lookout.holds"), NO_ARGUMENTS))
    table = _Table(b"".join(look.words() for look in looks))
    table.looks = tuple(looks)
    found: Callable[[], bool] = _made[0].of(table)
    return found


def _slot(name: str) -> str:
    position = next(i for i, known in enumerate(_HOST) if known.endswith(f":{name}"))
    return f"getelementptr ([{len(_HOST)} x ptr], ptr @tapec.host, i64 0, i64 {position})"


def _function(name: str, result: str, *parameters: str) -> str:
    """An internal function that calls one of Python's."""
    given = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(parameters))
    end = "ret void" if result == "void" else f"ret {result} %r"
    call = f"call {result} %f({given})"
    return f"""
define internal {result} @{name}({given}) alwaysinline nounwind {{
  %f = load ptr, ptr {_slot(name)}
  {call if result == "void" else f"%r = {call}"}
  {end}
}}
"""


_FUNCTIONS = "".join(_function(name, *kinds) for name, kinds in _CALLED.items())

_TEXT = f"""
@tapec.host = hidden global [{len(_HOST)} x ptr] zeroinitializer
{_FUNCTIONS}
; Whether a new reference is to the object that was there; it is given back.
define internal i1 @is(ptr %found, ptr %held) alwaysinline nounwind {{
entry:
  %none = icmp eq ptr %found, null
  br i1 %none, label %missing, label %there
missing:
  call void @PyErr_Clear()
  ret i1 false
there:
  %same = icmp eq ptr %found, %held
  call void @Py_DecRef(ptr %found)
  ret i1 %same
}}

define internal i1 @method(ptr %owner, ptr %key, ptr %held) nounwind {{
entry:
  %found = call ptr @PyObject_GetAttr(ptr %owner, ptr %key)
  %none = icmp eq ptr %found, null
  br i1 %none, label %missing, label %there
missing:
  call void @PyErr_Clear()
  ret i1 false
there:
  %kind = call ptr @PyObject_Type(ptr %found)
  call void @Py_DecRef(ptr %kind)
  %methods = load ptr, ptr {_slot("PyMethod_Type")}
  %is.method = icmp eq ptr %kind, %methods
  br i1 %is.method, label %ask, label %done
ask:
  %function = call ptr @PyMethod_Function(ptr %found)
  %same = icmp eq ptr %function, %held
  br label %done
done:
  %result = phi i1 [ false, %there ], [ %same, %ask ]
  call void @Py_DecRef(ptr %found)
  ret i1 %result
}}

define internal i1 @items(ptr %owner, ptr %held) nounwind {{
entry:
  %count = call i64 @PyList_Size(ptr %owner)
  %before = call i64 @PyList_Size(ptr %held)
  %equal = icmp eq i64 %count, %before
  br i1 %equal, label %each, label %bad
each:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %good
look:
  %a = call ptr @PyList_GetItem(ptr %owner, i64 %i)
  %b = call ptr @PyList_GetItem(ptr %held, i64 %i)
  %next = add i64 %i, 1
  %same = icmp eq ptr %a, %b
  br i1 %same, label %each, label %bad
good:
  ret i1 true
bad:
  ret i1 false
}}

define internal i1 @members(ptr %owner, ptr %held) nounwind {{
entry:
  %count = call i64 @PySet_Size(ptr %owner)
  %before = call i64 @PyList_Size(ptr %held)
  %equal = icmp eq i64 %count, %before
  br i1 %equal, label %begin, label %bad
begin:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %good, label %open
open:
  %way = call ptr @PyObject_GetIter(ptr %owner)
  %no.way = icmp eq ptr %way, null
  br i1 %no.way, label %failed, label %each
each:
  %i = phi i64 [ 0, %open ], [ %next, %look ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %close
look:
  %a = call ptr @PyIter_Next(ptr %way)
  %b = call ptr @PyList_GetItem(ptr %held, i64 %i)
  %next = add i64 %i, 1
  %same = call i1 @is(ptr %a, ptr %b)
  br i1 %same, label %each, label %close
close:
  %end = phi i1 [ true, %each ], [ false, %look ]
  call void @Py_DecRef(ptr %way)
  ret i1 %end
failed:
  call void @PyErr_Clear()
  br label %bad
good:
  ret i1 true
bad:
  ret i1 false
}}

; Whether two dicts have the same keys in the same order and, if asked for, the same values.
define internal i1 @entries(ptr %owner, ptr %held, i1 %values) nounwind {{
entry:
  %at = alloca i64
  %at.held = alloca i64
  %key = alloca ptr
  %key.held = alloca ptr
  %value = alloca ptr
  %value.held = alloca ptr
  store i64 0, ptr %at
  store i64 0, ptr %at.held
  %count = call i64 @PyDict_Size(ptr %owner)
  %before = call i64 @PyDict_Size(ptr %held)
  %equal = icmp eq i64 %count, %before
  br i1 %equal, label %each, label %bad
each:
  %more = call i32 @PyDict_Next(ptr %owner, ptr %at, ptr %key, ptr %value)
  %more.held = call i32 @PyDict_Next(ptr %held, ptr %at.held, ptr %key.held, ptr %value.held)
  %both = and i32 %more, %more.held
  %go = icmp ne i32 %both, 0
  br i1 %go, label %look, label %good
look:
  %k = load ptr, ptr %key
  %k.held = load ptr, ptr %key.held
  %v = load ptr, ptr %value
  %v.held = load ptr, ptr %value.held
  %same.key = icmp eq ptr %k, %k.held
  %same.value = icmp eq ptr %v, %v.held
  %others = xor i1 %values, true
  %well = or i1 %same.value, %others
  %same = and i1 %same.key, %well
  br i1 %same, label %each, label %bad
good:
  ret i1 true
bad:
  ret i1 false
}}

define internal i1 @names(ptr %owner, ptr %space, ptr %held) nounwind {{
entry:
  %found = call ptr @PyObject_GenericGetDict(ptr %owner, ptr null)
  %is = call i1 @is(ptr %found, ptr %space)
  br i1 %is, label %look, label %bad
look:
  %same = call i1 @entries(ptr %space, ptr %held, i1 false)
  ret i1 %same
bad:
  ret i1 false
}}

; How many rows to leave out; all there are and more if the object has another dict.
define internal i64 @unchanged(ptr %owner, ptr %space, ptr %held) nounwind {{
entry:
  %found = call ptr @PyObject_GenericGetDict(ptr %owner, ptr null)
  %is = call i1 @is(ptr %found, ptr %space)
  br i1 %is, label %look, label %bad
look:
  %rows = call i64 @untouched(ptr %space, ptr %held)
  ret i64 %rows
bad:
  ret i64 -1
}}

; The same for a dict.
define internal i64 @untouched(ptr %space, ptr %held) nounwind {{
entry:
  %at = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  store i64 0, ptr %at
  %rows = load i64, ptr %held
  %known.at = getelementptr i64, ptr %held, i64 1
  %before.at = getelementptr i64, ptr %held, i64 2
  %before = load i64, ptr %before.at
  %known = load i64, ptr %known.at
  %asked = icmp ne i64 %known, 0
  br i1 %asked, label %version, label %count
version:
  %version.at = getelementptr i8, ptr %space, i64 {OF_DICTS}
  %now = load i64, ptr %version.at
  %same.version = icmp eq i64 %now, %known
  br i1 %same.version, label %good, label %count
count:
  %size = call i64 @PyDict_Size(ptr %space)
  %equal = icmp eq i64 %size, %before
  br i1 %equal, label %each, label %bad
each:
  %i = phi i64 [ 3, %count ], [ %next, %look ]
  %more = call i32 @PyDict_Next(ptr %space, ptr %at, ptr %key, ptr %value)
  %go = icmp ne i32 %more, 0
  br i1 %go, label %look, label %same
look:
  %next = add i64 %i, 2
  %key.at = getelementptr i64, ptr %held, i64 %i
  %value.at = getelementptr i64, ptr %key.at, i64 1
  %k.held = load ptr, ptr %key.at
  %v.held = load ptr, ptr %value.at
  %k = load ptr, ptr %key
  %v = load ptr, ptr %value
  %same.key = icmp eq ptr %k, %k.held
  %same.value = icmp eq ptr %v, %v.held
  %both = and i1 %same.key, %same.value
  br i1 %both, label %each, label %bad
same:
  call void @seal(ptr %space, ptr %held)
  br label %good
good:
  ret i64 %rows
bad:
  ret i64 0
}}

; Take note of the version of a dict: for this one, all holds.
define internal void @seal(ptr %space, ptr %held) nounwind {{
entry:
  %known.at = getelementptr i64, ptr %held, i64 1
  %known = load i64, ptr %known.at
  %asked = icmp ne i64 %known, 0
  br i1 %asked, label %note, label %done
note:
  %version.at = getelementptr i8, ptr %space, i64 {OF_DICTS}
  %now = load i64, ptr %version.at
  store i64 %now, ptr %known.at
  br label %done
done:
  ret void
}}

define hidden ptr @lookout.holds(ptr %table, ptr %unused) nounwind {{
entry:
  %first = call ptr @PyBytes_AsString(ptr %table)
  %bytes = call i64 @PyBytes_Size(ptr %table)
  %end = getelementptr i8, ptr %first, i64 %bytes
  br label %each
each:
  %row = phi ptr [ %first, %entry ], [ %next, %decide ], [ %after, %skip ], [ %next, %sealed ]
  %is.end = icmp eq ptr %row, %end
  br i1 %is.end, label %good, label %look
look:
  %next = getelementptr i8, ptr %row, i64 32
  %kind = load i64, ptr %row
  %owner.at = getelementptr i8, ptr %row, i64 8
  %owner = load ptr, ptr %owner.at
  %key.at = getelementptr i8, ptr %row, i64 16
  %key = load ptr, ptr %key.at
  %held.at = getelementptr i8, ptr %row, i64 24
  %held = load ptr, ptr %held.at
  switch i64 %kind, label %attribute [
    i64 {Kind.METHOD:d}, label %method
    i64 {Kind.ENTRY:d}, label %entry.of
    i64 {Kind.CELL:d}, label %cell
    i64 {Kind.CLASS:d}, label %class
    i64 {Kind.ITEMS:d}, label %items
    i64 {Kind.ENTRIES:d}, label %entries
    i64 {Kind.NAMES:d}, label %names
    i64 {Kind.VERSION:d}, label %version
    i64 {Kind.MEMBERS:d}, label %members
    i64 {Kind.OBJECT:d}, label %object
    i64 {Kind.DICT:d}, label %dict
    i64 {Kind.SEAL:d}, label %sealed
    i64 {Kind.DEFAULTS:d}, label %defaults
    i64 {Kind.SLOT:d}, label %slot
    i64 {Kind.KEYWORDS:d}, label %keywords
    i64 {Kind.CODE:d}, label %code
  ]
attribute:
  %attribute.now = call ptr @PyObject_GetAttr(ptr %owner, ptr %key)
  %attribute.is = call i1 @is(ptr %attribute.now, ptr %held)
  br label %decide
method:
  %method.is = call i1 @method(ptr %owner, ptr %key, ptr %held)
  br label %decide
entry.of:
  %entry.now = call ptr @PyDict_GetItemWithError(ptr %owner, ptr %key)
  %entry.is = icmp eq ptr %entry.now, %held
  br label %decide
cell:
  %cell.now = call ptr @PyCell_Get(ptr %owner)
  %cell.is = call i1 @is(ptr %cell.now, ptr %held)
  br label %decide
class:
  %class.now = call ptr @PyObject_Type(ptr %owner)
  %class.is = call i1 @is(ptr %class.now, ptr %held)
  br label %decide
items:
  %items.are = call i1 @items(ptr %owner, ptr %held)
  br label %decide
entries:
  %entries.are = call i1 @entries(ptr %owner, ptr %held, i1 true)
  br label %decide
names:
  %names.are = call i1 @names(ptr %owner, ptr %key, ptr %held)
  br label %decide
version:
  %version.at = getelementptr i8, ptr %owner, i64 {OF_CLASSES}
  %version.now = load i32, ptr %version.at
  %version.held = ptrtoint ptr %held to i64
  %version.low = trunc i64 %version.held to i32
  %version.is = icmp eq i32 %version.now, %version.low
  br label %decide
members:
  %members.are = call i1 @members(ptr %owner, ptr %held)
  br label %decide
defaults:
  %defaults.now = call ptr @PyFunction_GetDefaults(ptr %owner)
  %defaults.are = icmp eq ptr %defaults.now, %held
  br label %decide
keywords:
  %keywords.now = call ptr @PyFunction_GetKwDefaults(ptr %owner)
  %keywords.are = icmp eq ptr %keywords.now, %held
  br label %decide
code:
  %code.now = call ptr @PyFunction_GetCode(ptr %owner)
  %code.is = icmp eq ptr %code.now, %held
  br label %decide
decide:
  %holds = phi i1 [ %attribute.is, %attribute ], [ %method.is, %method ], [ %entry.is, %entry.of ],
    [ %cell.is, %cell ], [ %class.is, %class ], [ %items.are, %items ], [ %entries.are, %entries ],
    [ %names.are, %names ], [ %version.is, %version ], [ %members.are, %members ],
    [ %defaults.are, %defaults ], [ %keywords.are, %keywords ], [ %code.is, %code ]
  br i1 %holds, label %each, label %bad
object:
  %of.object = call i64 @unchanged(ptr %owner, ptr %key, ptr %held)
  %is.other = icmp eq i64 %of.object, -1
  br i1 %is.other, label %bad, label %skip
slot:
  %in.slot = load ptr, ptr %owner
  %in.slot.is = icmp eq ptr %in.slot, %key
  br i1 %in.slot.is, label %in.its.slot, label %bad
in.its.slot:
  %of.slot = call i64 @untouched(ptr %key, ptr %held)
  br label %skip
dict:
  %of.dict = call i64 @untouched(ptr %owner, ptr %held)
  br label %skip
sealed:
  call void @seal(ptr %owner, ptr %held)
  br label %each
skip:
  %rows = phi i64 [ %of.object, %object ], [ %of.dict, %dict ], [ %of.slot, %in.its.slot ]
  %skipped = mul i64 %rows, 32
  %after = getelementptr i8, ptr %next, i64 %skipped
  br label %each
good:
  %true = load ptr, ptr {_slot("True")}
  call void @Py_IncRef(ptr %true)
  ret ptr %true
bad:
  %false = load ptr, ptr {_slot("False")}
  call void @Py_IncRef(ptr %false)
  ret ptr %false
}}
"""
