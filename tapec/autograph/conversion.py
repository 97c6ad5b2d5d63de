"""Which functions are converted, and the converted ones.

A function keeps everything but its code: globals, defaults and the cells of its closure are the same objects, so what
changes outside is seen. Code is converted once.
"""

from __future__ import annotations

import ast
import functools
import inspect
import site
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tapec.autograph.jumps import OURS, Refused
from tapec.autograph.source import OPERATORS, compiled, source_of
from tapec.autograph.tracebacks import shortened
from tapec.errors import ValueError
from tapec.frames import here, is_ours
from tapec.recording import current_trace

_enabled: ContextVar[bool] = ContextVar("autograph", default=True)

#: Where Python and installed packages are, which are not converted.
_INSTALLED = tuple(
    {sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {site.getusersitepackages()}
)

#: Why a function without control flow and calls has no converted code.
NOTHING = "it has nothing to convert"

#: Modules of tapec whose functions take functions that they call as part of the program.
_TAKING_FUNCTIONS = ("tapec.control.", "tapec.functions.mapping")

#: For each code object and file (equal code of two files is equal) its converted code, or why there is none.
_known: weakref.WeakKeyDictionary[CodeType, dict[str, CodeType | str]]
_known = weakref.WeakKeyDictionary()

#: What converted code was made of.
_originals: weakref.WeakKeyDictionary[CodeType, CodeType] = weakref.WeakKeyDictionary()


@contextmanager
def converting(autograph: bool) -> Iterator[None]:
    """Convert functions that are called inside, or call them as they are."""
    token = _enabled.set(autograph)
    try:
        yield
    finally:
        _enabled.reset(token)


def call(function: Callable[..., Any], autograph: bool, args: Any, kwargs: Any) -> Any:
    """What a function returns in a trace, converted if ``autograph``."""
    with converting(autograph):
        try:
            return converted(function)(*args, **kwargs)
        except Exception as error:
            error.__traceback__ = shortened(error.__traceback__)
            raise


def is_converting() -> bool:
    """Whether functions are converted that are called now."""
    return _enabled.get() and current_trace() is not None


def converted(function: Any) -> Any:
    """What is to be called in a function's place: itself, unless it is user code with control flow.

    Methods, partial functions and objects with a ``__call__`` are what they are made of, converted.
    """
    if not is_converting():
        return function
    if isinstance(function, FunctionType):
        home = function.__globals__.get(
            "__name__", ""
        )  # a decorator of ours bears the user's module
        if is_ours(home):
            takes_functions = home.startswith(_TAKING_FUNCTIONS)
            return functools.partial(_with_converted, function) if takes_functions else function
        code = converted_code(function)
        return function if isinstance(code, str) else with_code(function, code)
    if isinstance(function, MethodType):
        inner = converted(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, functools.partial):
        inner = converted(function.func)
        if inner is function.func:
            return function
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, BuiltinFunctionType | type | ModuleType):
        return function
    call = inspect.getattr_static(type(function), "__call__", None)
    if isinstance(call, FunctionType):
        inner = converted(call)
        return function if inner is call else MethodType(inner, function)
    return function


def iterated(function: Any) -> Any:
    """The same for a call in the head of a ``for``."""
    if is_converting():
        from tapec.autograph.ranges import in_head  # it knows operations, which this need not

        function = in_head(function)
    return converted(function)


def why_not(code: CodeType) -> str | None:
    """Why code that is running was not converted; None if it was, or was not asked for."""
    found = _known.get(code, {}).get(code.co_filename)
    if found is code or found is NOTHING:
        return None
    return found if isinstance(found, str) else "it was called by code that is not converted"


def _with_converted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of tapec, with the functions that it is given and calls converted."""
    return function(*_functions_in(args), **_functions_in(kwargs))


def _functions_in(arguments: Any) -> Any:
    kind = type(arguments)
    if kind in (list, tuple):
        return kind([_functions_in(a) for a in arguments])
    if kind is dict:
        return {key: _functions_in(a) for key, a in arguments.items()}
    if isinstance(arguments, FunctionType | MethodType | functools.partial):
        return converted(arguments)
    return arguments


# ---- code


def converted_code(function: FunctionType) -> CodeType | str:
    """A function's code, converted; or why it is not."""
    code = function.__code__
    files = _known.setdefault(code, {})
    found = files.get(code.co_filename)
    if found is None:
        found = files[code.co_filename] = _convert(function)
    return found


def converted_source(function: FunctionType) -> str:
    """The source of a function's converted code.

    Raises:
        ValueError: there is none.
    """
    found = converted_code(function)
    source = None if isinstance(found, str) else source_of(function.__code__, function.__globals__)
    if source is None:
        raise ValueError(f"{function.__name__} is not converted: {found}", location=here())
    rewriting().rewritten(source.node, source.owner)
    return ast.unparse(source.node)


def _convert(function: FunctionType) -> CodeType | str:
    code = function.__code__
    if getattr(function, "__tapec_unconverted__", False):
        return "it is marked with do_not_convert"
    if code.co_filename.startswith(_INSTALLED):
        return "it is part of an installed package"
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "it is a generator or coroutine"
    source = source_of(code, function.__globals__)
    if source is None:
        return "its source is not available, or has changed since it was imported"
    try:
        if not rewriting().rewritten(source.node, source.owner):
            return NOTHING
    except Refused as refusal:
        return str(refusal)
    made = compiled(source, code)
    assert made is not None
    made = _named(made, code.co_name, code.co_qualname)
    _register(made, code)
    return made


def rewriting() -> ModuleType:
    """The converter proper, loaded once there is something to convert."""
    from tapec.autograph import rewriting

    return rewriting


def _named(code: CodeType, name: str, qualname: str) -> CodeType:
    """Code whose parts bear the name of the function that the user wrote, in tracebacks."""
    inner = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            own = constant.co_name
            if own.startswith(OURS):
                constant = _named(constant, name, qualname)
            else:
                constant = _named(constant, own, f"{qualname}.<locals>.{own}")
        inner.append(constant)
    return code.replace(co_consts=tuple(inner), co_name=name, co_qualname=qualname)


def original_code(code: CodeType) -> CodeType:
    """The code that the user wrote which converted code, or code inside of it, was made of; any other code itself."""
    found = _originals.get(code)
    return code if found is None else found


def _register(code: CodeType, original: CodeType) -> None:
    """Know that code and the functions inside are converted; not those in the bodies of classes."""
    _known.setdefault(code, {})[code.co_filename] = code
    _originals[code] = original
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_flags & inspect.CO_NEWLOCALS:
            _register(constant, original)


@functools.cache
def _operators() -> CellType:
    from tapec.autograph import operators  # it needs what is here

    return CellType(operators)


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A function like another one, with the same globals, cells and defaults."""
    if code is function.__code__:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[OPERATORS] = _operators()
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made
