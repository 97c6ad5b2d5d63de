"""What a piece of user code reads from outside: names of globals, closure variables and attributes, by its bytecode.

Bytecode rather than source, which need not exist, and is another one where Python control flow was converted. One walk
over the instructions keeps a stack of who pushed what, so that for each load it is known who takes it. That tells
reads from changes in place: ``calls.append(1)``, ``self.count += 1``, ``cache[key] = value`` change what they load and
let nothing of it into the program.
"""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from tapec.compiled.guards.flow import STORES, Flow, flow_of, kind_of
from tapec.compiled.guards.questions import questions
from tapec.instructions import kept_for

#: Names by which code asks for attributes whose names are values.
_BY_NAME = {"getattr", "hasattr"}
#: Methods that do the same.
_LOOKUPS = {"__getattribute__", "__getattr__", "getattr_static"}
#: Methods of texts that look up what a text names.
_FORMATS = {"format", "format_map"}
#: By which code gets at modules whose names are in a text.
_MODULES = {"import_module", "modules", "__import__"}
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
#: What a pattern fits without a name of it in the code.
_PATTERNS = {"MATCH_MAPPING": "Mapping", "MATCH_SEQUENCE": "Sequence"}
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


class Manner(NamedTuple):
    """How a piece of code uses a name.

    Attributes:
        read: whether something of the value gets out, or it is only changed in place.
        stored_first: whether the code gives the name a value before it reads it.
        questions: of which keys alone it asks the value, should that be a dict, and whether for what is under each;
            None if it may read anything else.
    """

    read: bool = False
    stored_first: bool = False
    questions: frozenset[tuple[Any, bool]] | None = None

    def joined(self, other: Manner) -> Manner:
        """The manner of two pieces of code together."""
        kept = self.stored_first if self.read else other.stored_first
        if self.read and other.read:
            kept = self.stored_first and other.stored_first
        asked = None
        if self.questions is not None and other.questions is not None:
            asked = self.questions | other.questions
        return Manner(self.read or other.read, kept, asked)


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
        evaluates: whether globals may be looked up whose names come from elsewhere.
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
    evaluates: bool = False
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
_FLAGS = ("computes", "whole", "spaces", "catches", "kinds", "classes", "environment", "evaluates")


@kept_for(4096)
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
                        found.add(kind, name, manner._replace(stored_first=False))
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
        kind = STORES.get(instruction.opname)
        if kind is not None and not flow.is_update(i):
            stored.setdefault((kind, instruction.argval), i)
    found.imports = _imports(flow)
    found.catches = _catches(flow)
    for text in _texts(code):
        found.words |= words_in(text)
    for i, instruction in enumerate(flow.instructions):
        if instruction.opname == "IMPORT_FROM":
            found.add("attribute", instruction.argval, READ)
        if instruction.opname in _PATTERNS:  # Python asks the classes registered with that one
            found.imports.add((0, "collections.abc"))
            found.add("attribute", _PATTERNS[instruction.opname], READ)
            found.kinds = True
        if instruction.opname == "MATCH_CLASS":
            found.whole = found.kinds = True  # by position, the class says which attributes
            found.add("attribute", "__match_args__", READ)
        kind = kind_of(instruction)
        if kind is None or (kind == "cell" and instruction.argval not in code.co_freevars):
            continue
        name = instruction.argval
        read = not flow.only_changed(i)
        first = stored.get((kind, name), len(flow.instructions))
        asked = _questions(flow, i) if read else None
        found.add(kind, name, Manner(read, read and first < i, asked))
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
        if name in _LOOKUPS or name in _FORMATS:
            found.asked |= found.words
            found.computes |= name in _LOOKUPS and not found.words
        if name in _MODULES:
            found.imports |= {(0, text) for text in _texts(code)}
    return found


def _questions(flow: Flow, load: int) -> frozenset[tuple[Any, bool]] | None:
    """Of which keys alone a value is asked, if these are constants and nothing else is done to it."""
    asked = questions(flow, load, changes=False) if flow.uses[load] else None
    if asked is None:
        return None
    found: set[tuple[Any, bool]] = set()
    for question in asked:
        pushed = [flow.instructions[i] for i in question.keys]
        if not pushed or any(i.opname != "LOAD_CONST" for i in pushed):
            return None
        found |= {(i.argval, question.is_value) for i in pushed}
    return frozenset(found)


def _texts(code: CodeType) -> Iterator[str]:
    """The texts among the constants of a code object."""
    for constant in code.co_consts:
        for text in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(text, str) and len(text) <= _LONGEST:
                yield text


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
    """Add the names in texts that code may evaluate, or look up among globals; it may make more of them."""
    found.evaluates = True
    for constant in code.co_consts:
        if isinstance(constant, str):
            for word in _WORD.findall(constant):
                found.add("global", word, READ)
                found.add("attribute", word, READ)


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
