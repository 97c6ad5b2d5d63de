"""Instructions of newer versions of Python are read as those of older ones that do the same."""

from __future__ import annotations

from typing import Any

import pytest

import tapec
from tapec.explanations.names import Names
from tapec.instructions import instructions_of, plainly

PAIR = ("a", "b")
#: What an instruction is, by its name, argument, value and text, and the same in Python 3.12.
PLAIN = {
    ("LOAD_FAST_LOAD_FAST", 1, PAIR, "a, b"): [("LOAD_FAST", "a"), ("LOAD_FAST", "b")],
    ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", 1, PAIR, "a, b"): [("LOAD_FAST", "a"), ("LOAD_FAST", "b")],
    ("STORE_FAST_LOAD_FAST", 1, PAIR, "a, b"): [("STORE_FAST", "a"), ("LOAD_FAST", "b")],
    ("STORE_FAST_STORE_FAST", 1, PAIR, "a, b"): [("STORE_FAST", "a"), ("STORE_FAST", "b")],
    ("LOAD_FAST_BORROW", 0, "a", "a"): [("LOAD_FAST", "a")],
    ("LOAD_SMALL_INT", 2, 2, ""): [("LOAD_CONST", 2)],
    ("CALL_KW", 2, 2, ""): [("POP_TOP", None), ("CALL", 2)],
    ("BINARY_OP", 26, 26, "[]"): [("BINARY_SUBSCR", 26)],
    ("BINARY_OP", 0, 0, "+"): [("BINARY_OP", 0)],
}  # fmt: skip


@pytest.mark.parametrize("given", PLAIN, ids=lambda given: f"{given[0]} {given[3]}")
def test_an_instruction_is_those_of_older_versions(given: tuple[str, int, Any, str]) -> None:
    name, arg, value, text = given
    any_one = instructions_of(moved.__code__)[0]
    made = any_one._replace(opname=name, arg=arg, argval=value, argrepr=text)
    assert [(i.opname, i.argval) for i in plainly(made)] == PLAIN[given]


def moved(p: Any, q: Any) -> Any:
    a, b = p, q
    return a(b, key=q)


def test_this_python_has_no_instructions_on_two_variables() -> None:
    found = [(i.opname, i.argval) for i in instructions_of(moved.__code__)]
    told = [i for i in found if i[0].rpartition("_")[0] in ("LOAD", "STORE") and i[1] in ("a", "b")]
    assert sorted(told[:2]) == [("STORE_FAST", "a"), ("STORE_FAST", "b")]
    assert [name.replace("_BORROW", "") for name, _ in told[2:]] == ["LOAD_FAST", "LOAD_FAST"]
    assert [name for name, _ in found if name.startswith("CALL")] == ["CALL"]


def test_lines_that_bind_two_names_are_found() -> None:
    one, other = tapec.constant(1.0), tapec.constant(2.0)
    code = test_lines_that_bind_two_names_are_found.__code__
    for name in ("one", "other"):
        lines = [place.line for place in Names().bindings(name, code)]
        assert lines == [code.co_firstlineno + 1]
    assert other is not one
