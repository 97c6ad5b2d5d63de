"""What commands look at: a compiled function in a user's file, or a program in a ``.tir`` file."""

from __future__ import annotations

import contextlib
import inspect
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tapec.cli.programs import WrongTarget, read
from tapec.compiler import lowered
from tapec.ir.core import Function, Module
from tapec.ir.dims import symbol
from tapec.ir.errors import TapecError
from tapec.ir.type_text import TypeTextError, parse_type
from tapec.ir.types import TensorType
from tapec.ir.verifier import verify
from tapec.passes.observers import random_inputs
from tapec.recording import program_listeners
from tapec.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from tapec.compiled.call import Call
    from tapec.compiled.function import CompiledFunction
    from tapec.compiled.program import Program

Command = Callable[..., Any]


@dataclass(frozen=True)
class Target:
    """A program, and the compiled function that it is of.

    Attributes:
        module: the program as traced, or as read.
        file: where it comes from.
        function: what `tapec.compile` made; None for a program that was read from a file.
        caught: the call that was traced, as the file made it; None if the types were given.
        given: the types of its arguments that were given, those by name apart.
    """

    module: Module
    file: Path
    function: Any = None
    caught: tuple[Call, Program] | None = None
    given: tuple[Sequence[TensorType], Mapping[str, TensorType]] = ((), {})

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.module.entry.name

    @property
    def can_be_called(self) -> bool:
        """Whether there is a function, and a call of it or sizes for one."""
        positional, named = self.given
        known = all(t.is_static for t in (*positional, *named.values()))
        return self.function is not None and (self.caught is not None or known)

    def arrays(self, seed: int = 0) -> list[Any]:
        """Arrays for the arguments of the program: those of the call that was caught, else random ones."""
        if self.caught is None:
            return list(random_inputs(self.module.entry, seed))
        call, program = self.caught
        return program.arrays(call.tensors)

    def examples(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Tensors of random numbers for a call with arguments of the types that were given.

        Raises:
            WrongTarget: a size is open, or no types were given.
        """
        positional, named = self.given
        types = [*positional, *named.values()]
        if not types or not all(t.is_static for t in types):
            raise WrongTarget("give sizes that are numbers, by --shapes or --arg")
        example = Function("example", types)
        values = [as_tensor(array) for array in random_inputs(example)]
        count = len(positional)
        return values[:count], dict(zip(named, values[count:], strict=True))


def target_argument(command: Command) -> Command:
    """Take ``FILE:FUNCTION [ARGS]`` or ``FILE.tir``, and ``--shapes``, ``--arg``, ``--run``; a `Target` is given on."""

    def find(
        where: str,
        args: Sequence[str],
        shapes: str | None,
        arg: Sequence[str],
        run: bool,
        **options: Any,
    ) -> Any:
        if run and (shapes or arg):
            raise WrongTarget(
                "--run takes the types of the call that it catches: leave --shapes and --arg out"
            )
        return command(find_target(where, shapes, arg, args), **options)

    find.__name__, find.__doc__ = command.__name__, command.__doc__
    # click keeps the options of decorators further in on the function.
    find.__dict__.update(command.__dict__)
    find = click.option(
        "--arg",
        multiple=True,
        metavar="NAME=TYPE",
        help="The type of one argument: x=f32[32,784]; may be repeated.",
    )(find)
    find = click.option(
        "--shapes",
        metavar="TYPES",
        help="The types of all arguments, 'f32[32,784] i32[32]'; letters are sizes left open.",
    )(find)
    find = click.option(
        "--run",
        is_flag=True,
        help="Run FILE until it calls the function: what is done if no types are given.",
    )(find)
    find = click.argument("args", nargs=-1, metavar="[-- ARGS...]")(find)
    return click.argument("where", metavar="FILE:FUNCTION")(find)


def find_target(
    where: str, shapes: str | None = None, arg: Sequence[str] = (), args: Sequence[str] = ()
) -> Target:
    """The program of a compiled function, or of a file.

    Args:
        where: ``FILE:FUNCTION``, or a ``.tir`` file. Without types, the file is run as a program until it calls the
            function.
        shapes: the types of all arguments, in order.
        arg: types of arguments by name.
        args: what the file is called with, as a program.

    Raises:
        WrongTarget: there is none; or no call says for which types.
    """
    file, colon, name = where.rpartition(":")
    if where.endswith(".tir") and Path(where).is_file():
        module = read(Path(where))
        verify(module)
        return Target(module, Path(where))
    if not colon:
        raise WrongTarget(f"expected FILE:FUNCTION, such as train.py:step, got {where!r}")
    if not Path(file).is_file():
        raise WrongTarget(f"there is no file {file}")
    positional = [type_of(text) for text in (shapes or "").split()]
    named = dict(map(_named, arg))
    if not positional and not named:
        return _called(Path(file), name, args)
    with as_program(Path(file), *args):
        function = function_of(runpy.run_path(file, run_name=Path(file).stem), name, file)
        specs = {key: Tensor(None, type) for key, type in named.items()}
        _refuse_misfits(function, name, positional, named)
        module = function.trace(*(Tensor(None, type) for type in positional), **specs)
        return Target(module, Path(file), function, given=(positional, named))


def after_pass(module: Module, name: str | None) -> Module:
    """A program after the last run of a pass; as it is for ``input``, or without a name."""
    return module if name in (None, "input") else lowered(module, name)


class _Caught(BaseException):
    """Ends a user's program; not an Exception, which it might catch."""


def _refuse_misfits(
    function: Any, name: str, positional: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Say which arguments a function has, if types were given for others."""
    python = function.python_function
    signature = inspect.signature(python)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        raise WrongTarget(f"{name} takes {signature}: {error}") from None


def _called(file: Path, name: str, args: Sequence[str] = ()) -> Target:
    """The program of the first call that running the file makes, else for the function's own signature."""
    found: list[Target] = []

    def hear(function: CompiledFunction[Any, Any], call: Call, program: Program) -> None:
        code = getattr(function.python_function, "__code__", None)
        if code is None or Path(code.co_filename).resolve() != file.resolve():
            return
        if code.co_qualname == name or code.co_name == name.rpartition(".")[2]:
            found.append(Target(program.module, file, function, (call, program)))
            raise _Caught

    program_listeners.append(hear)
    names: dict[str, Any] = {}
    try:
        with as_program(file, *args):
            names = runpy.run_path(str(file), run_name="__main__")
    except _Caught:
        return found[0]
    except SystemExit as end:
        hint = "" if args else "; what it is to be called with follows FILE:FUNCTION, behind --"
        raise WrongTarget(
            f"{file} ended before it called {name}: exit code {end.code}{hint}"
        ) from end
    finally:
        program_listeners.remove(hear)
    function = function_of(names, name, str(file))
    if function.programs:  # of another name than the function in it
        return Target(function.programs[-1].module, file, function)
    if function.input_signature is not None:
        return Target(function.trace(), file, function)
    raise WrongTarget(
        f"running {file} does not call {name}: give the types of its arguments, by --arg NAME=TYPE or --shapes TYPES"
    )


@contextlib.contextmanager
def as_program(file: Path, *args: str) -> Iterator[None]:
    """Let a file be run as by ``python FILE``: its own arguments, its folder first on the path.

    Raises:
        WrongTarget: it raises an error of Python's, which is shown from its first line on; those of ours pass.
    """
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *args]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (TapecError, click.ClickException, MemoryError):
        raise
    except Exception as error:
        raise WrongTarget(f"{file} raises {_shown(error, file)}") from error
    finally:
        sys.argv, sys.path[:] = argv, path


def _shown(error: Exception, file: Path) -> str:
    """An error of a user's program in a line, and below it the way there, from the file on."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((i for i, f in enumerate(frames) if Path(f.filename) == file), len(frames))
    what = "".join(traceback.format_exception_only(error)).strip()
    way = "".join(traceback.format_list(frames[own:])).rstrip()
    last = what.splitlines()[-1]
    return "\n".join(filter(None, [last, way, what if what != last else ""]))


def function_of(names: dict[str, Any], name: str, file: str) -> Any:
    """The compiled function of that name."""
    first, *rest = name.split(".")
    try:
        found = reduce(getattr, rest, names[first])
    except (KeyError, AttributeError):
        found = None
    if not callable(getattr(found, "ir", None)):
        compiled = sorted(n for n, value in names.items() if callable(getattr(value, "ir", None)))
        hint = f"it has {', '.join(compiled)}" if compiled else "decorate one with @tapec.compile"
        raise WrongTarget(f"{file} has no compiled function {name}: {hint}")
    return found


def _named(text: str) -> tuple[str, TensorType]:
    name, equals, written = text.partition("=")
    if not equals or not name.isidentifier():
        raise WrongTarget(f"--arg: expected NAME=TYPE such as x=f32[32,784], got {text!r}")
    return name, type_of(written)


def type_of(text: str) -> TensorType:
    """A type that was written on the command line; its symbols are sizes of at least 1.

    Raises:
        WrongTarget: it is not one of a tensor.
    """
    try:
        given = parse_type(text)
    except TypeTextError as error:
        raise WrongTarget(f"{text}: {error}") from None
    if not isinstance(given, TensorType):
        raise WrongTarget(f"expected types such as f32[32,784], got {text}")
    return given.substitute({s.name: symbol(s.name, 1) for s in given.symbols()})
