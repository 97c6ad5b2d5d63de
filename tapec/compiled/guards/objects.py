"""What can be seen of an object from outside, without running code of its own."""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence, Set
from mmap import mmap
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CellType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from tapec.compiled.guards.ownership import is_users_class
from tapec.frames import is_ours
from tapec.runtime.cpu.guards.looks import NOTHING

#: Modules of tapec whose objects have settings that tapec's own code reads.
_SETTINGS = ("tapec.optimizers", "tapec.initializers", "tapec.generator")
#: Modules of Python with classes that compare and list all attributes of their objects: namespaces.
_NAMESPACES = {"argparse", "types"}
#: Modules of Python with classes that tell the state of their objects by methods.
_TELLING = {"queue", "threading"}
#: Descriptors of slots, and of what C code keeps.
_IN_C = (GetSetDescriptorType, MemberDescriptorType)
#: Modules of Python, and NumPy, whose objects do not change so, or are watched in other ways.
_FIXED = {
    "_thread", "asyncio", "builtins", "collections", "ctypes", "_ctypes", "datetime", "decimal", "functools",
    "itertools", "numpy", "operator", "pathlib", "queue", "random", "re", "threading", "types", "typing",
    "weakref", "_weakref", "mmap", "array",
}  # fmt: skip
#: Of Python's own classes, those whose objects C code gives other attributes in the course of time.
_CHANGING = (BaseException, GeneratorType, CoroutineType, AsyncGeneratorType)
#: How many wrappers around a function are looked through.
_DEEPEST = 16


def function_behind(thing: Any) -> Any:
    """The function that a method, a property, a decorated or a compiled function leads to, or the thing itself."""
    for _ in range(_DEEPEST):
        inner = wrapped_by(thing)
        if inner is None:
            break
        thing = inner
    return thing


def behind_proxy(proxy: Any) -> Any:
    """The object that a weak proxy stands for; None if it is gone."""
    try:
        return getattr(proxy.__repr__, "__self__", None)
    except ReferenceError:
        return None


def wrapped_by(thing: Any) -> Any:
    """What a method, a property, a decorated or a compiled function calls; None for what is no such thing."""
    if isinstance(thing, MethodType | staticmethod | classmethod):
        return thing.__func__
    if isinstance(thing, property):
        return thing.fget
    if isinstance(thing, functools.partial | functools.partialmethod | functools.cached_property):
        return thing.func
    if isinstance(thing, FunctionType | type):
        return None
    own = own_attributes(thing)
    return own.get("__wrapped__", own.get("python_function"))


#: What gives the keys, the values or the entries of a dict.
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))


#: Containers that keep their keys, their values or all of it by weak references.
WEAK = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


def lent_by(thing: Any) -> Iterator[tuple[Any, str]]:
    """What an object of a class of Python's has weak references to; with the way there."""
    if isinstance(thing, weakref.ref):
        yield thing(), "()"
    elif isinstance(thing, weakref.WeakSet):
        yield from ((found, "[...]") for found in list(weakref.WeakSet.__iter__(thing)))
    elif isinstance(thing, weakref.WeakKeyDictionary):
        yield from ((found, "[...]") for found in list(weakref.WeakKeyDictionary.keys(thing)))
    elif isinstance(thing, weakref.WeakValueDictionary):
        for key, found in list(weakref.WeakValueDictionary.items(thing)):
            yield found, f"[{key!r}]"


def owner_of(method: Any) -> Any:
    """The object of a method in C that was taken from it, as ``entries.get``; None for other things."""
    if not isinstance(method, BuiltinMethodType | MethodWrapperType):
        return None
    owner = method.__self__
    return None if isinstance(owner, ModuleType | type) else owner


def parts_of(thing: Any) -> Iterator[tuple[Any, str]]:
    """What an object of a class of Python's refers to, that code may read through it; with the way there."""
    if isinstance(thing, functools.partial):
        yield thing.args, ".args"
        yield thing.keywords, ".keywords"
    elif isinstance(thing, MethodType):
        yield thing.__self__, ".__self__"
    elif isinstance(thing, weakref.WeakKeyDictionary):
        for key, value in list(weakref.WeakKeyDictionary.items(thing)):
            yield value, f"[{key!r}]"
    elif isinstance(thing, _VIEWS):
        yield thing.mapping, ".mapping"
    elif isinstance(thing, MappingProxyType):
        yield from ((held, "") for held in gc.get_referents(thing) if "__module__" not in held)
    elif isinstance(thing, np.flatiter):
        yield thing.base, ".base"
    elif isinstance(thing, ctypes._Pointer) and bool(thing):
        yield thing.contents, ".contents"
    elif isinstance(thing, FunctionType) and "registry" in vars(thing):
        yield vars(thing)["registry"], ".registry"  # of `functools.singledispatch`


def is_released(thing: Any) -> bool:
    """Whether it is a view that was released, or a closed map: all that it is asked raises Python's own error."""
    if isinstance(thing, mmap):
        return thing.closed
    if not isinstance(thing, memoryview):
        return False
    try:
        thing.readonly  # noqa: B018  which raises
    except ValueError:
        return True
    return False


def functions_with(code: CodeType) -> list[FunctionType]:
    """All functions that have this code."""
    frozen = gc.get_freeze_count() > 0  # by `gc.freeze`: Python would not find these
    if frozen:
        gc.unfreeze()
    found = [thing for thing in gc.get_referrers(code) if isinstance(thing, FunctionType)]
    if frozen:
        gc.collect()
        gc.freeze()
    return found


#: What looks attributes up, or calls methods, that it was made for.
GETTERS = (operator.attrgetter, operator.methodcaller)


def paths_of(thing: Any) -> list[str]:
    """What a getter of attributes or a caller of methods looks up: names, with dots between."""
    if not isinstance(thing, GETTERS):
        return []
    return [text for text in thing.__reduce__()[1] if isinstance(text, str)]


def words_of(thing: Any) -> set[str]:
    """The names that a getter of attributes, a caller of methods or a slot's descriptor looks up."""
    if isinstance(thing, MethodWrapperType):
        thing = thing.__self__
    if isinstance(thing, MemberDescriptorType):
        return {thing.__name__}
    return {word for path in paths_of(thing) for word in path.split(".")}


def has_attributes(thing: Any) -> bool:
    """Whether user code may keep state in attributes of a thing."""
    if isinstance(thing, ModuleType):
        return not is_ours(thing.__name__)
    if isinstance(thing, type):
        return is_users_class(thing)
    kind = type(thing)  # asking the object may run code of the user
    has_dict = kind.__dictoffset__ != 0 or isinstance(thing, threading.local)
    return has_dict or hasattr(kind, "__slots__") or bool(kept_in_c(kind))


def kept_in_c(kind: type) -> set[str]:
    """The names of what objects of a package's class have in slots, or C code keeps for them."""
    made = [
        owner
        for owner in kind.__mro__
        if owner.__module__ not in _FIXED or issubclass(owner, _CHANGING)
    ]
    owners = [
        owner for owner in made if not is_users_class(owner) and not is_ours(owner.__module__)
    ]
    names = {n for owner in owners for n, v in vars(owner).items() if isinstance(v, _IN_C)}
    return {name for name in names if not name.startswith("__")}


def own_attributes(thing: Any) -> dict[str, Any]:
    if isinstance(thing, threading.local):
        return vars(thing)  # of this thread
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def inherited_by(kind: type, name: str) -> Any:
    """What classes of the user have under a name, or `NOTHING`."""
    for owner in kind.__mro__:
        if name in vars(owner):
            return vars(owner)[name] if is_users_class(owner) else NOTHING
    return NOTHING


def looks_up_missing(thing: Any) -> bool:
    """Whether code of the user's (`__getattr__`) gives the attributes that are nowhere else."""
    if isinstance(thing, ModuleType):
        return "__getattr__" in vars(thing)
    return inherited_by(type(thing), "__getattr__") is not NOTHING


def is_read_by_others(thing: Any) -> bool:
    """Whether code that is not followed reads an object's attributes: tapec's own, or a container's class."""
    kind = type(thing)
    if is_namespace(thing) or (kind.__module__ in _TELLING and type(thing) is not threading.local):
        return True
    if any(owner.__module__.startswith(_SETTINGS) for owner in kind.__mro__):
        return True
    is_container = isinstance(thing, Mapping | Sequence | Set) and not isinstance(thing, WEAK)
    return is_container and not is_users_class(kind)


def is_namespace(thing: Any) -> bool:
    """Whether a thing is of a class of Python's that lists its objects' attributes."""
    return any(owner.__module__ in _NAMESPACES for owner in type(thing).__mro__)


def closed_over(function: FunctionType) -> Iterator[tuple[str, CellType]]:
    """The variables that a function shares with those around it, with their cells."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def cell_of(function: FunctionType, name: str) -> CellType | None:
    """The cell that a function has for a closure variable."""
    return next((cell for own, cell in closed_over(function) if own == name), None)


def is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  which raises
    except ValueError:
        return False
    return True
