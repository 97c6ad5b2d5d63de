"""Of which keys alone code asks a container that it has loaded: what is under one, or whether there is one.

``registry.get(key)`` and ``key in registry`` rest on that key. Others may come and go: in a weak dictionary, or a
registry that the whole process shares, they do so by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tapec.compiled.guards.flow import Flow, Pushed, Use

#: Methods that ask for one key, and whether for what is under it.
_METHODS = {
    "__contains__": False,
    "__getitem__": True,
    "get": True,
    "pop": True,
    "setdefault": True,
}
#: Functions by which code looks after a cache of its own: how full it is, what came first.
_CARING = {"iter", "len"}
#: Who takes a container and asks for nothing that is in it.
_NO_QUESTION = {"IS_OP", "POP_TOP", "STORE_SUBSCR", "DELETE_SUBSCR"}
_CHANGING = {"STORE_SUBSCR", "DELETE_SUBSCR"}


class Question(NamedTuple):
    """One key that is asked for.

    Attributes:
        keys: the instructions that may have pushed the key.
        is_value: whether what is under it matters, rather than whether it is there.
        is_change: whether the key is entered or removed.
    """

    keys: Pushed
    is_value: bool
    is_change: bool = False


def questions(
    flow: Flow, load: int, is_cache: bool = False, changes: bool = True
) -> list[Question] | None:
    """All that is asked of a container that an instruction loads; None if it may be more than single keys.

    Args:
        flow: of the code.
        load: the number of the instruction.
        is_cache: whether the same code enters keys, so that to count them is no question.
        changes: whether keys may be entered and removed.
    """
    found: list[Question] = []
    for question in _questions(flow, load, set(), is_cache):
        if question is None or (question.is_change and not changes):
            return None
        if question.keys or not question.is_change:
            found.append(question)
    return found


def _questions(flow: Flow, load: int, known: set[int], is_cache: bool) -> Iterator[Question | None]:
    known.add(load)
    for use in flow.uses[load]:
        name, operands = flow.instructions[use.taker].opname, flow.operands.get(use.taker, [])
        if name in _NO_QUESTION and (name, use.position) != ("STORE_SUBSCR", 0):
            if name in _CHANGING:
                yield Question(frozenset(), is_value=False, is_change=True)
            continue
        if is_cache and name == "CALL" and flow.callees(use.taker) & _CARING:
            continue
        if name == "BINARY_SUBSCR" and use.position == 0:
            yield Question(operands[1], is_value=True)
        elif name == "CONTAINS_OP" and use.position == 1:
            yield Question(operands[0], is_value=False)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            yield from _of_method(flow, use)
        elif name == "STORE_FAST":
            for again in flow.loads_of(flow.instructions[use.taker]):
                if again not in known:
                    yield from _questions(flow, again, known, is_cache)
        else:
            yield None


def _of_method(flow: Flow, use: Use) -> Iterator[Question | None]:
    """What a method of a container is asked, where it is called at once."""
    is_value = _METHODS.get(flow.instructions[use.taker].argval)
    for call in {taken.taker for taken in flow.uses[use.taker]}:
        operands = flow.operands.get(call, [])
        is_call = flow.instructions[call].opname == "CALL" and len(operands) > 2
        if is_value is None or not is_call:
            yield None
        else:
            name = flow.instructions[use.taker].argval
            yield Question(operands[2], is_value, is_change=name in ("pop", "setdefault"))
