"""From compiled functions to a model: traced, lowered for a target, with the Variables that they share as its state."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec.compiled.concrete import BoundFunction
from tapec.compiled.function import CompiledFunction, compile
from tapec.compiled.traced import TracedProgram
from tapec.compiler import lowered, lowered_for
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.core import Module
from tapec.ir.errors import TargetError, underline
from tapec.ir.evaluator import evaluate_module
from tapec.ir.lazy import lazy
from tapec.ir.ops.check import Check
from tapec.ir.ops.host import Notify
from tapec.ir.types import BufferType
from tapec.passes.commit import checks_of
from tapec.runtime.aot.interface import EntryPoint, Member, Model, Parameter, Slot, c_name, lay_out
from tapec.runtime.aot.selftest import WHOLE, Vectors, numbers
from tapec.runtime.aot.targets import EdgeTarget
from tapec.tensor import Array, Tensor
from tapec.traces.scalars import HostNumber
from tapec.variable import Variable

#: Names in C that are no argument's; and where a header lists launches.
_USED = ("state", "arena", "arena_bytes", "status")
_USED_ON_DEVICES = (*_USED, "constants", "launches", "buffers")
#: What such a header calls by the model's name.
_DEVICE_MACROS = ("STATE_BYTES", "CONSTANTS_BYTES", "CUDA_H")
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Modelling:
    """Functions of one model, as they are added, and the Variables that they share."""

    def __init__(self, name: str, *, device: bool = False) -> None:
        """Begin with none; it is for a processor, or for a CUDA ``device``."""
        self.name = name
        self._used = _USED_ON_DEVICES if device else _USED
        self._macros = _DEVICE_MACROS if device else ()
        self._programs: dict[str, TracedProgram] = {}
        self._names: dict[int, str] = {}
        self._variables: dict[int, Variable] = {}
        self._functions: dict[str, Any] = {}

    def add(self, name: str, function: Any, arguments: Sequence[Any]) -> None:
        """Trace a function for arguments: tensors or `tapec.TensorSpec`, or Python values that are constants.

        Raises:
            TypeError, ValueError: what a call of the function raises while it is traced.
        """
        if not callable(function):
            raise TypeError(
                f"aot.build: {name} is a {type(function).__name__}, not a function", location=here()
            )
        if isinstance(function, BoundFunction):
            arguments, function = [*function.args, *arguments], function.func
        if not isinstance(function, CompiledFunction):
            function = compile(function)
        if arguments or function.input_signature is not None or not function.programs:
            named: dict[str, Any] = {}
            if arguments or function.input_signature is None:
                arguments, named = _placed(function.python_function, name, arguments)
            program = function.traced(*arguments, **named)
        else:
            program = _called(name, function)
        self._programs[name] = program
        self._functions[name] = function.python_function
        for captured, argument in zip(program.captures, _captured(program), strict=True):
            if isinstance(captured, Variable) and id(captured) not in self._names:
                taken = ["padding", *self._names.values()]
                self._names[id(captured)] = c_name(argument.name or "variable", taken, cased=True)
                self._variables[id(captured)] = captured

    @property
    def variables(self) -> dict[str, Variable]:
        """The Variables that are the state, by their names there."""
        return {name: self._variables[key] for key, name in self._names.items()}

    def for_target(self, target: EdgeTarget, *, compact: bool) -> Model:
        """The model with its programs lowered for a target; ``compact``: little code counts most."""
        for name, program in self._programs.items():
            _refuse_python(name, program, target)
        return self._model(
            lambda m: lowered(m, pipeline="ahead", unit=target.vectors, compact=compact)
        )

    def for_device(self, target: EdgeTarget) -> Model:
        """The model with its programs dealt out to the threads of a CUDA device."""
        for name, program in self._programs.items():
            _refuse_python(name, program, target)
        return self._model(lambda m: lowered_for(m, "cuda"))

    def _model(self, lower: Callable[[Module], Module]) -> Model:
        state = self._state()
        entries = [
            self._entry(name, program, lower(program.module), state)
            for name, program in self._programs.items()
        ]
        return Model(self.name, tuple(entries), state)

    def vectors(self) -> list[Vectors]:
        """What each function gives, from the Variables' present values, for numbers that a formula makes.

        Raises:
            ValueError: for none of them do all checks of a function hold.
        """
        return [self._vectors(name, program) for name, program in self._programs.items()]

    def _vectors(self, name: str, program: TracedProgram) -> Vectors:
        evaluated = lowered(program.module, pipeline="evaluated")
        function = evaluated.entry
        given = len(function.args) - len(program.captures)
        numbers_of = iter(program.first_numbers())
        captured = [
            np.array(c.numpy())
            if isinstance(c, Variable)
            else np.array(next(numbers_of) if type(c) is HostNumber else _array(c))
            for c in program.captures
        ]
        whole, results = _results(name, program, evaluated, captured)
        state, outputs = {}, []
        order = {m.name: i for i, m in enumerate(self._state())}
        for i, result in enumerate(results):
            if i not in function.updates:
                outputs.append(result)
                continue
            variable = program.captures[function.updates[i] - given]
            if isinstance(variable, Variable):
                state[order[self._names[id(variable)]]] = np.asarray(result)
        _, called = self._parameters[name]
        return Vectors(dict(zip(called, map(np.asarray, outputs), strict=True)), state, whole)

    @lazy
    def _parameters(self) -> dict[str, tuple[list[str], list[str]]]:
        """What C calls the arguments of each function, and its results.

        No two macros are alike: they are made of a function's name and a parameter's.
        """
        found, macros = {}, set(self._macros)
        macros |= {f"{name}_{title}".upper() for name in self._programs for title in self._used}
        for name, program in self._programs.items():
            paths = [d.path for d in program.description.leaves() if d.kind == "tensor"]
            results = result_names(self._functions[name], program.result_paths)
            used, called = [*self._used, *_sizes(name, program)], []
            for text in (*paths, *results):
                while f"{name}_{(title := c_name(text, used))}".upper() in macros:
                    used.append(title)
                used.append(title)
                called.append(title)
            macros |= {f"{name}_{title}".upper() for title in called}
            found[name] = called[: len(paths)], called[len(paths) :]
        return found

    def _state(self) -> tuple[Member, ...]:
        """The state with the Variables' present values."""
        arrays = [
            (name, np.array(self._variables[key].numpy()), self._variables[key].value().type)
            for key, name in self._names.items()
        ]
        return lay_out(arrays)

    def _entry(
        self, name: str, program: TracedProgram, loops: Module, state: Sequence[Member]
    ) -> EntryPoint:
        count = len(loops.entry.args) - bool(loops.entry.attrs.get("arena", 0))
        inputs = loops.entry.attrs.get("inputs", count)
        given = inputs - len(program.captures)
        called, returned = self._parameters[name]
        taken = map(_parameter, loops.entry.args[:given], called)
        members = {member.name: i for i, member in enumerate(state)}
        slots = [Slot("input", i) for i in range(given)]
        numbers = iter(program.first_numbers())
        for captured in program.captures:
            if isinstance(captured, Variable):
                slots.append(Slot("state", members[self._names[id(captured)]]))
            else:
                array = next(numbers) if type(captured) is HostNumber else _array(captured)
                slots.append(Slot("constant", array=np.array(array)))
        has_status = bool(loops.entry.attrs.get("checks", 0))
        results = loops.entry.args[inputs : count - has_status]
        given_out = map(_parameter, results, returned)
        slots += [Slot("output", i) for i in range(len(results))]
        slots += [Slot("status")] * has_status
        slots += [Slot("arena")] * (len(loops.entry.args) - count)
        code = (
            self._functions[name].__code__ if hasattr(self._functions[name], "__code__") else None
        )
        where = (
            "" if code is None else f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
        )
        checks = _checks(program.module) if has_status else ()
        return EntryPoint(name, loops, tuple(taken), tuple(given_out), tuple(slots), checks, where)


def _results(
    name: str, program: TracedProgram, evaluated: Module, captured: Sequence[Array]
) -> tuple[int, list[Array]]:
    """What a function gives for the first numbers of which its checks hold, and what the integers are in these.

    Raises:
        ValueError: there are none.
    """
    arguments = evaluated.entry.args
    sizes = {s.name: s.high for arg in arguments for s in arg.tensor.symbols() if s.high}
    types = [arg.tensor.substitute(sizes) for arg in arguments[: len(arguments) - len(captured)]]
    failed = 0
    for whole in WHOLE:
        given = [numbers(type, whole) for type in types]
        results = list(evaluate_module(evaluated, [*given, *captured]))
        status = int(results.pop()) if evaluated.entry.attrs.get("checks", 0) else 0
        if not status:
            return whole, results
        failed = failed or status
    raise ValueError(
        f"aot.build: {name} cannot test itself: {_checks(program.module)[failed - 1]!r} does not hold of what "
        f"a selftest gives, floats between 0 and 2 and integers that are all {' or all '.join(map(str, WHOLE))}",
        location=here(),
        hint="build it without a selftest, or take the check out of the function",
    )


def _placed(
    function: Any, name: str, arguments: Sequence[Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Arguments in the order of the parameters, by position as far as these may be, and by name.

    Raises:
        ValueError: the function takes more, or fewer.
    """
    signature = inspect.signature(function)
    kinds = [p.kind for p in signature.parameters.values()]
    count = len(arguments)
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        count = sum(kind in _BY_PLACE for kind in kinds)
    only = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    named = dict(zip(only, arguments[count:], strict=False))
    placed = [*arguments[:count], *arguments[count + len(only) :]]
    try:
        signature.bind(*placed, **named)
    except builtins.TypeError as error:
        raise ValueError(
            f"aot.build: {name} is built for {len(arguments)} arguments: {error}",
            location=here(),
            hint="tell the type of each argument: signature='f32[1,784] i32[1]' (--shapes on the command line)",
        ) from None
    return placed, named


def _called(name: str, function: CompiledFunction[Any, Any]) -> TracedProgram:
    """The program of the function's last call.

    Raises:
        ValueError: Python state that it depends on has changed since, or it is for one outcome of a condition.
    """
    program = function.programs[-1].general
    for outcome in program.path:
        raise ValueError(
            f"aot.build: {name} has a program for each outcome of this condition, whose branches give different shapes",
            location=outcome.location,
            hint="give both branches one shape",
        )
    if not (program.build.fits and program.state.holds()):
        raise ValueError(
            f"aot.build: what {name} reads from outside has changed since its last call",
            location=here(),
            hint="call it once more, or tell the type of each argument: signature='f32[1,784] i32[1]'",
        )
    return program


def _sizes(name: str, program: TracedProgram) -> list[str]:
    """The sizes that a call tells.

    Raises:
        ValueError: C cannot call one so.
    """
    found = sorted({s.name for type in program.pattern for s in type.symbols()})
    for size in found:
        if c_name(size, _USED, cased=True) != size:
            raise ValueError(
                f"aot.build: {name} has a size {size!r}, which is no name for an argument in C",
                location=here(),
                hint="give it another name, such as N",
            )
    return found


def _refuse_python(name: str, program: TracedProgram, target: EdgeTarget) -> None:
    """Hold a program to what needs nobody outside: what it tells is lost where nobody listens.

    Raises:
        TargetError: it prints, or calls Python in another way.
    """
    for op in program.module.entry.walk():
        if isinstance(op.defn, Notify):
            what = op.attrs["what"] or op.name
            text = (
                f"{name} cannot be built for {target.name}: {what} calls Python, which is not there"
            )
            raise TargetError(
                underline(op, text),
                location=op.location,
                hint="return what is to be printed, or take the call out of the function",
            )


def _captured(program: TracedProgram) -> list[Any]:
    """The arguments of a traced program that are what it captured."""
    args = program.module.entry.args
    return list(args[len(args) - len(program.captures) :])


def _parameter(argument: Any, name: str) -> Parameter:
    kind = argument.type
    assert isinstance(kind, BufferType)
    return Parameter(name, kind.tensor)


def _array(captured: Any) -> Array:
    return captured.array if isinstance(captured, Tensor) else np.asarray(captured)


def _checks(module: Module) -> tuple[str, ...]:
    """What each check of a program is about, in the order in which they are numbered."""
    found = []
    for op in checks_of(lowered(module, "prune").entry):
        assert isinstance(op.defn, Check)
        where = (
            ""
            if op.location is None
            else f"{op.location.file.rsplit('/', 1)[-1]}:{op.location.line}: "
        )
        message = op.attrs.get("message") or ""
        found.append(f"{where}{op.name}{': ' if message else ''}{message}".replace("\n", " "))
    return tuple(found)


def result_names(function: Any, paths: Sequence[str]) -> list[str]:
    """What to call the results of a function that are at these places of what it returns.

    Keys of dicts and fields are names. What is in a tuple has that of the last ``return``, where it names it.
    """
    names = _returned_names(function)
    found = []
    for path in paths:
        place = re.match(r"\[(\d+)\](.*)", path)
        if place is None:
            found.append(path or names.get(None, "result"))
            continue
        number, rest = int(place[1]), place[2]
        plain = "" if rest.startswith((".", '["')) else f"result{number}"
        found.append(names.get(number, plain) + rest)
    return found


def _returned_names(function: Any) -> dict[int | None, str]:
    """The names in the last ``return`` of a function, by their places in a tuple; None: there is none."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, builtins.TypeError):
        return {}
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value]
    if not returns:
        return {}
    value = max(returns, key=lambda node: node.lineno).value
    if isinstance(value, ast.Name):
        return {None: value.id}
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else ()
    return {i: part.id for i, part in enumerate(parts) if isinstance(part, ast.Name)}
