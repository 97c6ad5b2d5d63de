"""What commands look at: a compiled function in a user's file, or a program in a ``.tir`` file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tapec.cli.catching import Catch, Caught
from tapec.cli.naming import (
    compiled_in,
    function_of,
    named_types,
    refuse_missing,
    resolved,
    types_in,
)
from tapec.cli.programs import WrongTarget, hold_to_memory, read
from tapec.cli.running import Ended, as_program, run_file
from tapec.compiler import lowered
from tapec.ir.core import Function, Module
from tapec.ir.errors import TapecError
from tapec.ir.types import TensorType
from tapec.ir.verifier import verify
from tapec.passes.observers import random_inputs
from tapec.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from tapec.compiled.call import Call
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
        types = [*positional, *named.values()]
        known = bool(types) and all(t.is_static for t in types)
        return self.function is not None and (self.caught is not None or known)

    def trace(self) -> Module:
        """Trace the function once more, as it was for this program."""
        if self.caught is None:
            return _trace(self.function, *self.given)
        call, _ = self.caught
        # The call's own values: leaves of a trace are those of the arguments.
        module: Module = self.function.trace(*call.args, **call.kwargs)
        return module

    def arrays(self, seed: int = 0) -> list[Any]:
        """Arrays for the arguments of the program: those of the call that was caught, else random ones."""
        if self.caught is None:
            hold_to_memory(self.module)
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
        hold_to_memory(self.module)
        example = Function("example", types)
        values = [as_tensor(array) for array in random_inputs(example)]
        count = len(positional)
        return values[:count], dict(zip(named, values[count:], strict=True))


def target_options(command: Command) -> Command:
    """Take ``[ARGS]``, ``--shapes``, ``--arg`` and ``--run``, for `find_target`; ``run`` is not given on."""

    @wraps(command)
    def told(shapes: str | None, arg: Sequence[str], run: bool, **options: Any) -> Any:
        if run and (shapes or arg):
            raise WrongTarget(
                "--run takes the types of the call that it catches: leave --shapes and --arg out"
            )
        return command(shapes=shapes, arg=arg, **options)

    for option in (
        click.option(
            "--arg",
            multiple=True,
            metavar="NAME=TYPE",
            help="The type of one argument: x=f32[32,784]; may be repeated.",
        ),
        click.option(
            "--shapes",
            metavar="TYPES",
            help="The types of all arguments, 'f32[32,784] i32[32]'; letters are sizes left open.",
        ),
        click.option(
            "--run",
            is_flag=True,
            help="Run FILE until it calls the function: what is done if no types are given.",
        ),
        click.argument("args", nargs=-1, metavar="[-- ARGS...]", type=click.UNPROCESSED),
    ):
        told = option(told)
    return told


def target_argument(command: Command) -> Command:
    """Take ``FILE:FUNCTION [ARGS]`` or ``FILE.tir``, and the options of `target_options`; a `Target` is given on."""

    @wraps(command)
    def find(
        where: str, args: Sequence[str], shapes: str | None, arg: Sequence[str], **options: Any
    ) -> Any:
        return command(find_target(where, shapes, arg, args), **options)

    where = click.argument("where", metavar="FILE:FUNCTION", shell_complete=complete_where)
    return where(target_options(find))


def complete_where(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """What a shell offers for FILE:FUNCTION: files, and behind the colon the functions that the file decorates."""
    file, colon, name = begun.rpartition(":")
    if not colon:
        return [CompletionItem(begun, type="file")]
    functions = compiled_in(Path(file)) if Path(file).is_file() else []
    return [CompletionItem(f"{file}:{f}") for f in functions if f.startswith(name)]


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
    if not (colon and file and name):
        raise _no_function(where)
    refuse_missing(file)
    positional, named = types_in(shapes or ""), named_types(arg)
    if not positional and not named:
        return _called(Path(file), name, args)
    with as_program(Path(file), *args):
        function = function_of(run_file(Path(file), args, main=False), name, file)
        _refuse_misfits(function, name, positional, named)
        module = _trace(function, positional, named)
        return Target(module, Path(file), function, given=(positional, named))


def _trace(
    function: Any, positional: Sequence[TensorType], named: Mapping[str, TensorType]
) -> Module:
    """The program for arguments of these types; of the function's own signature without any."""
    specs = {name: Tensor(None, type) for name, type in named.items()}
    module: Module = function.trace(*(Tensor(None, type) for type in positional), **specs)
    return module


def _no_function(where: str) -> WrongTarget:
    """What is wrong with a place that names no file, or no function in it."""
    file = where.rstrip(":")
    if not Path(file).is_file():
        if file.endswith((".py", ".tir")):
            refuse_missing(file)
        return WrongTarget(f"expected FILE:FUNCTION, such as train.py:step, got {where!r}")
    written = compiled_in(Path(file))
    hint = f": {file} has {', '.join(written)}" if written else ""
    example = f"{file}:{written[0]}" if written else "train.py:step"
    return WrongTarget(f"expected FILE:FUNCTION, such as {example}, got {where!r}{hint}")


def after_pass(module: Module, name: str | None) -> Module:
    """A program after the last run of a pass; as it is for ``input``, or without a name."""
    return module if name in (None, "input") else lowered(module, name)


def _refuse_misfits(
    function: Any, name: str, positional: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Say which arguments a function has, if types were given for others."""
    python = function.python_function
    signature = inspect.signature(python)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        own = next(iter(signature.parameters), "") == "self"
        hint = f"; name the method of an object, as trainer.{name.split('.')[-1]}" if own else ""
        raise WrongTarget(f"{name} takes {signature}: {error}{hint}") from None


def _called(file: Path, name: str, args: Sequence[str] = ()) -> Target:
    """The program of the first call that running the file makes, else for the function's own signature."""
    names: dict[str, Any] = {}
    end: Ended | None = None
    with Catch(file, name).listening() as catch:
        try:
            with as_program(file, *args):
                names = run_file(file, args)
        except Caught:
            pass
        except Ended as error:
            names, end = error.names, error
        except (TapecError, click.ClickException, KeyboardInterrupt):
            # A thread that calls the function interrupts the program; or what ends it was swallowed.
            if catch.found is None:
                raise
    seen = catch.found or (None if resolved(names, name) else catch.elsewhere)
    if seen is not None:
        return Target(seen.program.module, file, seen.function, (seen.call, seen.program))
    if end is not None and not resolved(names, name) and name in (compiled_in(file) or [name]):
        raise _ended(file, name, end, args)
    function = function_of(names, name, str(file))
    if function.programs:  # of another name than the function in it
        return Target(function.programs[-1].module, file, function)
    parameters = inspect.signature(function.python_function).parameters
    if function.input_signature is not None or not parameters:
        with as_program(file, *args):
            return Target(function.trace(), file, function)
    if end is not None:
        raise _ended(file, name, end, args)
    raise WrongTarget(
        f"running {file} does not call {name}: give the types of its arguments, by --arg NAME=TYPE or --shapes TYPES"
    )


def _ended(file: Path, name: str, end: Ended, args: Sequence[str]) -> WrongTarget:
    hint = "" if args else "; what it is to be called with follows FILE:FUNCTION, behind --"
    return WrongTarget(f"{file} ended before it called {name}: {end.said}{hint}")
