"""Which functions are converted, and the converted ones.

A function keeps everything but its code: globals, defaults and the cells of its closure are the same objects, so what
changes outside is seen. Code is converted once.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import site
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tapec.autograph.tracebacks import shortened
from tapec.errors import ValueError
from tapec.frames import here, installed_places, is_ours
from tapec.recording import current_trace
from tapec.traces.hearing import unheard

_enabled: ContextVar[bool] = ContextVar("autograph", default=True)

#: The variable of converted code that holds `tapec.autograph.operators`.
OPERATORS = "ag__"

#: Why a function has no converted code that cannot be read.
NO_SOURCE = "its source is not available, or has changed since it was imported"

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
            return _converting_its_own(function) if takes_functions else function
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
    if function is type or function is print:
        from tapec.autograph.stand_ins import STAND_INS  # as in `iterated`

        return STAND_INS[function]
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


def _converting_its_own(function: FunctionType) -> Callable[..., Any]:
    """A function of tapec, with the functions that it is given and calls converted.

    It bears its name: reports show what the user calls.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*_functions_in(args), **_functions_in(kwargs))

    called.__code__ = called.__code__.replace(co_name=function.__name__)
    return called


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


@unheard
def converted_code(function: FunctionType) -> CodeType | str:
    """A function's code, converted; or why it is not."""
    code = function.__code__
    files = _known.setdefault(code, {})
    found = files.get(code.co_filename)
    if found is None:
        found = files[code.co_filename] = _convert(function)
    elif isinstance(found, CodeType) and found is not code and _originals.get(found) is not code:
        _register(found, code)  # equal code of another function: the module was loaded again
    return found


def converted_source(function: FunctionType) -> str:
    """The source of a function's converted code.

    Raises:
        ValueError: there is none.
    """
    found = converted_code(function)
    if isinstance(found, str):
        raise ValueError(f"{function.__name__} is not converted: {found}", location=here())
    text: str = _converter().text_of(function)
    return text


def _convert(function: FunctionType) -> CodeType | str:
    code = function.__code__
    if getattr(function, "__tapec_unconverted__", False):
        return "it is marked with do_not_convert"
    if code.co_filename.startswith((*installed_places(), site.getusersitepackages())):
        return "it is part of an installed package"
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "it is a generator or coroutine"
    if OPERATORS in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return f"it has a variable named {OPERATORS}, as converted code has"
    from tapec.autograph.kept import found_or_made  # not before there is something to convert

    made = found_or_made(code, lambda: _made(function))
    if isinstance(made, CodeType):
        _register(made, code)
    return NOTHING if made is None else made


def _made(function: FunctionType) -> CodeType | str | None:
    """What the converter makes of a function; it is not loaded for one whose source nobody has."""
    if not linecache.getlines(function.__code__.co_filename, function.__globals__):
        return NO_SOURCE
    made: CodeType | str | None = _converter().code_of(function)
    return made


def _converter() -> Any:
    """The converter proper, loaded once there is something to convert."""
    from tapec.autograph import converter

    return converter


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
