"""How two programs differ, by value: what both compute has one name, whatever it is called and where it stands."""

from __future__ import annotations

import difflib
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tapec.inspection.lines import lines_of
from tapec.ir.core import Block, Module, Operation, Value
from tapec.ir.printer import name_values
from tapec.ir.text.literals import literal


@dataclass(frozen=True)
class Differences:
    """Two programs beside each other.

    Attributes:
        removed: lines of the first program that the second one lacks.
        added: lines that only the second one has.
        shared: how many lines are in both.
        text: a unified difference; the second program's values have the names that they have in the first.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    shared: int
    text: str

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.text)


def differences(left: Module, right: Module, names: tuple[str, str] = ("a", "b")) -> Differences:
    """Compare two programs, whose values are renamed.

    Operations correspond if they compute the same of the same; the others, in order, if they are of one kind and type.

    Args:
        left: the first program.
        right: the second one.
        names: what the programs are called in the text.
    """
    for module in (left, right):
        for function in module.functions.values():
            for value, name in name_values(function.args, function.block.ops).items():
                value.name = f"v{name}" if name[0].isdigit() else name
    _take_over_names(left, right)
    ours, theirs = ([line.text for line in lines_of(module)] for module in (left, right))
    both = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    opcodes = [code for code in both.get_opcodes() if code[0] != "equal"]
    return Differences(
        tuple(ours[i].strip() for _, a, b, _, _ in opcodes for i in range(a, b)),
        tuple(theirs[j].strip() for _, _, _, a, b in opcodes for j in range(a, b)),
        sum(block.size for block in both.get_matching_blocks()),
        "\n".join(difflib.unified_diff(ours, theirs, *names, lineterm="", n=1)),
    )


def _take_over_names(left: Module, right: Module) -> None:
    """Call values of the second program as those that correspond to them in the first."""
    ours, theirs = _computations(left), _computations(right)
    pairs = dict(_equal(ours, theirs))
    taken = set(pairs.values())
    rest = [op for op in ours if op not in taken], [op for op in theirs if op not in pairs]
    pairs |= _alike(*rest)
    free = (f"new{i}" for i in range(len(theirs) * 8))
    for function, other in zip(right.functions.values(), left.functions.values(), strict=False):
        _rename(function.args, other.args, free)
    for op in theirs:
        paired = pairs.get(op)
        _rename(_defined(op), [] if paired is None else _defined(paired), free)


def _rename(values: Sequence[Value], like: Sequence[Value], free: Iterator[str]) -> None:
    for i, value in enumerate(values):
        value.name = like[i].name if i < len(like) else next(free)


def _defined(op: Operation) -> list[Value]:
    """The results of an operation, then the arguments of its regions."""
    return [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]


def _equal(
    ours: dict[Operation, object], theirs: dict[Operation, object]
) -> Iterator[tuple[Operation, Operation]]:
    """Pairs (of the second, of the first program) that compute the same of the same."""
    waiting: dict[object, deque[Operation]] = defaultdict(deque)
    for op, key in ours.items():
        waiting[key].append(op)
    for op, key in theirs.items():
        if waiting[key]:
            yield op, waiting[key].popleft()


def _alike(ours: Sequence[Operation], theirs: Sequence[Operation]) -> dict[Operation, Operation]:
    """Pairs of operations of one kind, type and line, in order."""
    matcher = difflib.SequenceMatcher(None, [_kind(o) for o in ours], [_kind(o) for o in theirs])
    blocks = matcher.get_matching_blocks()
    return dict(
        chain.from_iterable(
            zip(theirs[m.b : m.b + m.size], ours[m.a : m.a + m.size], strict=True) for m in blocks
        )
    )


def _kind(op: Operation) -> object:
    place = op.location
    return op.name, tuple(str(r.type) for r in op.results), place and (place.file, place.line)


def _computations(module: Module) -> dict[Operation, object]:
    """For each operation what it computes: equal for equal operations on equal operands."""
    keys: dict[Operation, object] = {}
    for function in module.functions.values():
        values: dict[Value, object] = {a: ("argument", i) for i, a in enumerate(function.args)}
        _walk(function.block, values, keys)
    return keys


def _walk(block: Block, values: dict[Value, object], keys: dict[Operation, object]) -> object:
    """Fill ``keys`` for a block; return a key of the whole of it."""
    for op in block.ops:
        operands = tuple(values.get(v, "?") for v in op.operands)
        attrs = tuple(sorted((name, literal(v, None)) for name, v in op.parameters.items()))
        keys[op] = None  # in the order of the text
        inner = []
        for region in op.regions:
            for nested in region.blocks:
                place = ("in", op.name, operands, attrs)
                values.update({a: (*place, i) for i, a in enumerate(nested.args)})
                inner.append(_walk(nested, values, keys))
        # A hash of them: keys of long programs would grow without end.
        types = tuple(str(r.type) for r in op.results)
        key = keys[op] = hash((op.name, operands, attrs, types, tuple(inner)))
        values.update({r: (key, i) for i, r in enumerate(op.results)})
    return hash(tuple(keys[op] for op in block.ops))
