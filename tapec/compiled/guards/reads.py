"""What a piece of user code reads from outside: names of globals, closure variables and attributes, by its bytecode.

Bytecode rather than source, which need not exist, and is another one where Python control flow was converted. One walk
over the instructions keeps a stack of who pushed what, so that for each load it is known who takes it. That tells
reads from changes in place: ``calls.append(1)``, ``self.count += 1``, ``cache[key] = value`` change what they load and
let nothing of it into the program.
"""

from __future__ import annotations

import builtins
import dis
import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from tapec.autograph.conversion import OPERATORS

#: Methods of built-in containers that change them and give nothing.
_MUTATORS = {"append", "appendleft", "extend", "insert", "add", "update", "clear", "discard"}
#: Names by which code asks for attributes whose names are values.
_BY_NAME = {"getattr", "hasattr"}
#: Names of what looks at all attributes of an object.
_WHOLE = {
    "__dict__",
    "asdict",
    "astuple",
    "attrgetter",
    "copy",
    "deepcopy",
    "dir",
    "fields",
    "getmembers",
    "replace",
    "vars",
}
#: Of these, what looks at classes, functions and modules, too.
_SPACES = {"__dict__", "dir", "getmembers", "vars"}

#: What converted code calls with the functions that it is going to call.
_CONVERSIONS = {"converted", "iterated"}

#: Names by which code gets at classes, at the environment, at names that are in a text.
_CLASSES = {"super", "type", "dir", "getmembers", "__class__", "__mro__", "__bases__"}
_KINDS = {"isinstance", "type", "__class__"}
_ENVIRONMENT = {"environ", "getenv"}
_EVALUATES = {"eval", "exec", "globals"}
#: Names by which code looks at functions, and what of them is read then.
_SIGNATURES = {"signature", "getfullargspec", "get_type_hints"}
_OF_SIGNATURES = ("__defaults__", "__kwdefaults__", "__annotations__")
#: What is raised where an attribute is missing; code that handles it may go on without.
_MISSING = {"AttributeError", "Exception", "BaseException"}
#: Texts of more letters are not taken for names.
_LONGEST = 80
_WORD = re.compile(r"[^\W\d]\w*")
#: Exceptions of Python by name.
_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
#: Instructions that make a name of an attribute where it is asked for.
_MAKES_NAMES = {
    "BINARY_OP",
    "BINARY_SUBSCR",
    "CALL",
    "CALL_FUNCTION_EX",
    "FORMAT_SIMPLE",
    "FORMAT_VALUE",
    "FORMAT_WITH_SPEC",
}

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_STORES = {
    **dict.fromkeys(("STORE_GLOBAL", "STORE_NAME"), "global"),
    "STORE_DEREF": "cell",
    "STORE_ATTR": "attribute",
}

#: How many values an instruction takes; of those not listed, what `dis.stack_effect` says is all.
_TAKES = {
    "BINARY_OP": 2,
    "BINARY_SLICE": 3,
    "BINARY_SUBSCR": 2,
    "BEFORE_WITH": 1,
    "COMPARE_OP": 2,
    "CONTAINS_OP": 2,
    "CONVERT_VALUE": 1,
    "DELETE_SUBSCR": 2,
    "FORMAT_SIMPLE": 1,
    "FORMAT_WITH_SPEC": 2,
    "GET_ITER": 1,
    "IMPORT_NAME": 2,
    "IS_OP": 2,
    "LIST_TO_TUPLE": 1,
    "LOAD_ATTR": 1,
    "LOAD_METHOD": 1,
    "LOAD_SUPER_ATTR": 3,
    "SET_FUNCTION_ATTRIBUTE": 2,
    "STORE_FAST_LOAD_FAST": 1,
    "TO_BOOL": 1,
    "UNARY_INVERT": 1,
    "UNARY_NEGATIVE": 1,
    "UNARY_NOT": 1,
    "UNARY_POSITIVE": 1,
    "UNPACK_EX": 1,
    "UNPACK_SEQUENCE": 1,
    "YIELD_VALUE": 1,
}
#: Those that take as many as their argument says, and some more.
_TAKES_COUNTED = {
    "BUILD_CONST_KEY_MAP": 1,
    "BUILD_LIST": 0,
    "BUILD_SET": 0,
    "BUILD_SLICE": 0,
    "BUILD_STRING": 0,
    "BUILD_TUPLE": 0,
    "CALL": 2,
    "CALL_KW": 3,
}
#: Those that only put values together.
CONSTRUCTIONS = {"BUILD_LIST", "BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_TO_TUPLE"}
#: After these the next instruction is reached by a jump only.
_ENDS = {"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"}


class Use(NamedTuple):
    """One instruction that takes a value, as its ``position``-th operand from below."""

    taker: int
    position: int


class Manner(NamedTuple):
    """How a piece of code uses a name.

    Attributes:
        read: whether something of the value gets out, or it is only changed in place.
        stored_first: whether the code gives the name a value before it reads it.
    """

    read: bool = False
    stored_first: bool = False

    def joined(self, other: Manner) -> Manner:
        """The manner of two pieces of code together."""
        kept = self.stored_first if self.read else other.stored_first
        if self.read and other.read:
            kept = self.stored_first and other.stored_first
        return Manner(self.read or other.read, kept)


#: What most code does with what it loads.
READ = Manner(read=True)


@dataclass
class Reads:
    """What a code object, and those inside of it, read from outside.

    Attributes:
        names: by kind (``global``, ``cell``, ``attribute``), then by name.
        asked: names of attributes that may be asked for as values, by `getattr`.
        words: what is in the texts of the code, which may be taken apart and asked for.
        computes: whether such names come from elsewhere: any text in reach may be one.
        whole: whether objects are looked at as a whole, whatever attributes they have.
        spaces: whether classes, functions and modules are looked at so.
        catches: whether code may go on where an attribute is missing.
        kinds: whether it may matter of which classes objects are.
        classes: whether classes may be read other than through their objects.
        environment: whether variables of the process's environment may be read.
        imports: modules that it imports when it runs: how many packages up, and the name.
    """

    names: dict[str, dict[str, Manner]] = field(
        default_factory=lambda: {"global": {}, "cell": {}, "attribute": {}}
    )
    asked: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    computes: bool = False
    whole: bool = False
    spaces: bool = False
    catches: bool = False
    kinds: bool = False
    classes: bool = False
    environment: bool = False
    imports: set[tuple[int, str]] = field(default_factory=set)

    def absorb(self, other: Reads) -> bool:
        """Take over what other code does, but for names and imports; whether that is more than there was."""
        more = not other.asked <= self.asked
        self.asked |= other.asked
        for flag in _FLAGS:
            if getattr(other, flag) and not getattr(self, flag):
                setattr(self, flag, more := True)
        return more

    def add(self, kind: str, name: str, manner: Manner) -> None:
        """Take note of a use."""
        known = self.names[kind]
        known[name] = known[name].joined(manner) if name in known else manner


#: What is so of all code as soon as it is of some.
_FLAGS = ("computes", "whole", "spaces", "catches", "kinds", "classes", "environment")


@lru_cache(4096)
def reads_of(code: CodeType) -> Reads:
    """What a code object reads; functions made inside of it, and comprehensions, are part of it."""
    found = _own_reads(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = reads_of(constant)
            for kind, names in inner.names.items():
                for name, manner in names.items():
                    if kind != "cell" or name in code.co_freevars:
                        # What runs when, and whether it does, is not known: a store inside comes first for nobody.
                        found.add(kind, name, Manner(manner.read))
            found.absorb(inner)
            found.words |= inner.words
            found.imports |= inner.imports
    return found


def parts(code: CodeType) -> Iterator[CodeType]:
    """A code object and all those inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts(constant)


def _own_reads(code: CodeType) -> Reads:
    flow = flow_of(code)
    found = Reads()
    stored: dict[tuple[str, str], int] = {}
    for i, instruction in enumerate(flow.instructions):
        kind = _STORES.get(instruction.opname)
        if kind is not None and not flow.is_update(i):
            stored.setdefault((kind, instruction.argval), i)
    found.imports = _imports(flow)
    found.catches = _catches(flow)
    for constant in code.co_consts:
        for text in constant if isinstance(constant, tuple) else (constant,):
            found.words |= words_in(text) if isinstance(text, str) else set()
    for i, instruction in enumerate(flow.instructions):
        if instruction.opname == "IMPORT_FROM":
            found.add("attribute", instruction.argval, READ)
        kind = kind_of(instruction)
        if kind is None or (kind == "cell" and instruction.argval not in code.co_freevars):
            continue
        name = instruction.argval
        read = not flow.only_changed(i)
        first = stored.get((kind, name), len(flow.instructions))
        found.add(kind, name, Manner(read, stored_first=read and first < i))
        found.whole |= name in _WHOLE
        found.spaces |= name in _SPACES
        found.kinds |= name in _KINDS
        found.classes |= name in _CLASSES
        if name in _SIGNATURES:
            for part in _OF_SIGNATURES:
                found.add("attribute", part, READ)
        found.environment |= name in _ENVIRONMENT
        if name in _EVALUATES and kind == "global":
            _evaluated(code, found)
        if name in _BY_NAME and kind == "global":
            _asked(flow, i, found)
    return found


def words_in(text: str) -> set[str]:
    """The names in a text; none in a long one, which is for people."""
    return set(_WORD.findall(text)) if len(text) <= _LONGEST else set()


def _imports(flow: Flow) -> set[tuple[int, str]]:
    """The modules that code imports."""
    found = set()
    for i, instruction in enumerate(flow.instructions):
        if instruction.opname == "IMPORT_NAME":
            levels = flow.operands.get(i) or [frozenset()]
            level = max((flow.instructions[n].argval or 0 for n in levels[0]), default=0)
            found.add((int(level), instruction.argval))
    return found


def _catches(flow: Flow) -> bool:
    """Whether code handles exceptions that a missing attribute may raise, as far as its names tell."""
    names = {i.argval for i in flow.instructions if kind_of(i) is not None}
    if names & _MISSING:
        return True
    for i, following in itertools.pairwise(flow.instructions):
        if i.opname == "PUSH_EXC_INFO" and following.opname == "POP_TOP":
            return True  # a bare `except:`
        if following.opname == "CHECK_EXC_MATCH" and not names & _ERRORS:
            return True  # of a class that a name of the user's means
    return False


def _evaluated(code: CodeType, found: Reads) -> None:
    """Add the names in texts that code may evaluate, or look up among globals."""
    for constant in code.co_consts:
        if isinstance(constant, str):
            for word in _WORD.findall(constant):
                found.add("global", word, READ)
                found.add("attribute", word, READ)


def kind_of(instruction: dis.Instruction) -> str | None:
    """What an instruction loads: ``global``, ``cell``, ``attribute``, or something else."""
    name = instruction.opname
    if name in _GLOBALS:
        return "global"
    if name in _CELLS:
        return "cell"
    return "attribute" if name in _ATTRIBUTES else None


def _asked(flow: Flow, load: int, found: Reads) -> None:
    """Which names a `getattr` asks for: constants are known, others may be any text."""
    texts = [c for c in flow.code.co_consts if isinstance(c, str)]
    found.asked |= {text for text in texts if text.isidentifier()}
    for use in flow.uses[load]:
        operands = flow.operands.get(use.taker, [])
        names = operands[3] if len(operands) > 3 else frozenset()
        if not names or any(flow.instructions[name].opname != "LOAD_CONST" for name in names):
            found.computes = True
            made = {flow.instructions[name].opname for name in names}
            found.whole |= bool(made & _MAKES_NAMES) or any(map(flow.makes_text, texts))
    found.whole |= any(i.opname == "BUILD_STRING" for i in flow.instructions)


#: A value on the stack: the numbers of the instructions that may have pushed it.
Pushed = frozenset[int]


class Flow:
    """Who takes what each instruction pushes.

    Attributes:
        instructions: of the code, in order.
        uses: by the number of an instruction, who takes what it pushed.
        operands: by the number of an instruction, who pushed what it takes.
    """

    def __init__(self, code: CodeType) -> None:
        """Walk over the code once; where ways meet that go forward, what they bring is joined."""
        self.code = code
        self.instructions = list(dis.get_instructions(code))
        self.uses: dict[int, list[Use]] = {i: [] for i in range(len(self.instructions))}
        self.operands: dict[int, list[Pushed]] = {}
        coming: dict[int, list[Pushed]] = {}
        stack: list[Pushed] | None = []
        for i, instruction in enumerate(self.instructions):
            stack = _met(stack, coming.pop(instruction.offset, None))
            self._step(i, instruction, stack)
            if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                target = instruction.argval
                coming[target] = _met(list(stack), coming.get(target))
            if instruction.opname in _ENDS:
                stack = None

    def _step(self, i: int, instruction: dis.Instruction, stack: list[Pushed]) -> None:
        name, argument = instruction.opname, instruction.arg or 0
        if name == "COPY":
            stack.append(stack[-argument] if len(stack) >= argument else frozenset())
            return
        if name == "SWAP":
            if len(stack) >= argument:
                stack[-1], stack[-argument] = stack[-argument], stack[-1]
            return
        effect = _effect(instruction)
        takes = _takes(name, argument, effect)
        operands = stack[len(stack) - takes :] if takes <= len(stack) else []
        del stack[max(len(stack) - takes, 0) :]
        self.operands[i] = operands
        if name == "CALL" and self._is_converted(operands):
            stack.append(operands[-1])
            return
        for position, pushed in enumerate(operands):
            for source in pushed:
                self.uses[source].append(Use(i, position))
        stack += [frozenset([i])] * (takes + effect)

    def _is_converted(self, operands: Sequence[Pushed]) -> bool:
        """Whether this is ``ag__.converted(f)``, which converted code has for the function ``f`` of a call."""
        for callee in operands[0] if operands else ():
            owners = self.operands[callee][0] if self.operands.get(callee) else ()
            if self.instructions[callee].argval in _CONVERSIONS:
                return any(self.instructions[owner].argval == OPERATORS for owner in owners)
        return False

    def makes_text(self, constant: str) -> bool:
        """Whether an operator makes another text of a constant, as in ``"w" + str(i)``."""
        return any(
            self.instructions[use.taker].opname == "BINARY_OP"
            for i, instruction in enumerate(self.instructions)
            if instruction.opname == "LOAD_CONST" and instruction.argval is constant
            for use in self.uses[i]
        )

    def number(self, at: int) -> int:
        """Which instruction is at a place in the code, or has it in its cache."""
        offsets = [instruction.offset for instruction in self.instructions]
        return bisect_right(offsets, at) - 1

    def only_changed(self, load: int) -> bool:
        """Whether what an instruction loads is only changed in place, so that nothing of it gets into the program."""
        uses = self.uses[load]
        return self._is_updated(load) or (bool(uses) and all(map(self._changes, uses)))

    def _changes(self, use: Use) -> bool:
        taker = self.instructions[use.taker]
        name, position = taker.opname, use.position
        if _is_item(taker) and position == 0:
            return self._is_updated(use.taker)
        if name in _ATTRIBUTES:
            return taker.argval in _MUTATORS
        changing = {"POP_TOP": 0, "STORE_SUBSCR": 1, "DELETE_SUBSCR": 0, "STORE_ATTR": 1}
        return changing.get(name) == position

    def is_update(self, store: int) -> bool:
        """Whether what is stored was made in place of what the same place held: that rests on what there was."""
        own = self.instructions[store]
        for maker in (self.operands.get(store) or [frozenset()])[0]:
            made = self.instructions[maker]
            if made.opname == "BINARY_OP" and made.argrepr.endswith("="):
                held = [self.instructions[i] for i in self.operands[maker][0]]
                if any((kind_of(i), i.argval) == (_STORES[own.opname], own.argval) for i in held):
                    return True
        return False

    def _is_updated(self, load: int) -> bool:
        """Whether a value is loaded to be stored again at the same place, as in ``x.count += 1``."""
        if len(self.uses[load]) != 1:
            return False
        (use,) = self.uses[load]
        taker = self.instructions[use.taker]
        if not (taker.opname == "BINARY_OP" and taker.argrepr.endswith("=") and use.position == 0):
            return False
        stores = [self.instructions[u.taker] for u in self.uses[use.taker]]
        own = self.instructions[load]
        if _is_item(own):
            return [s.opname for s in stores] == ["STORE_SUBSCR"]
        return [(_STORES.get(s.opname), s.argval) for s in stores] == [(kind_of(own), own.argval)]


def _is_item(instruction: dis.Instruction) -> bool:
    """Whether an instruction loads an item; Python 3.14 has it among the operators."""
    name = instruction.opname
    return name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]")


def _effect(instruction: dis.Instruction) -> int:
    """How much longer the stack gets; Python 3.11 counts a call's operands off in the instruction before it."""
    if instruction.opname == "PRECALL":
        return 0
    if instruction.opname in ("CALL", "CALL_KW"):
        return 1 - _TAKES_COUNTED[instruction.opname] - (instruction.arg or 0)
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=False)


def _met(stack: list[Pushed] | None, other: list[Pushed] | None) -> list[Pushed]:
    """The stack where two ways meet; None is a way that does not lead here."""
    if stack is None or other is None:
        return (stack or other) or []
    shorter = min(len(stack), len(other))
    joined = [a | b for a, b in zip(stack[:shorter], other[:shorter], strict=True)]
    return joined + (stack if len(stack) > len(other) else other)[shorter:]


@lru_cache(1024)
def flow_of(code: CodeType) -> Flow:
    """The flow of a code object."""
    return Flow(code)


def _takes(name: str, argument: int, effect: int) -> int:
    if name in _TAKES:
        return _TAKES[name]
    if name in _TAKES_COUNTED:
        return argument + _TAKES_COUNTED[name]
    if name == "FORMAT_VALUE":
        return 2 if argument & 4 else 1
    return 1 - effect if name in _PUSHING_TAKERS else max(-effect, 0)


#: They take at least one value and push one.
_PUSHING_TAKERS = {"CALL_FUNCTION_EX", "BUILD_MAP", "MAKE_FUNCTION", "CALL_INTRINSIC_1"}
