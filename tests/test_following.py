"""What passes tell of values, and how a value is followed by it."""

from __future__ import annotations

import re

import pytest

import tapec
from tapec.compiler import lowered
from tapec.inspection.following import cotangents_of, followed
from tapec.inspection.lines import Line, lines_of
from tapec.inspection.machine_code import machine_code
from tapec.inspection.stages import Snapshot, snapshots, snapshots_to
from tapec.ir.core import Module
from tapec.ir.parser import parse_module

TEXT = """\
func @f(%x: f32[4], %w: f32[4]) -> (f32, f32[4]) {
  %a = exp %x : f32[4]
  %b = exp %x : f32[4]
  %zero = constant {value = 1.0} : f32
  %ones = broadcast %zero {axes = [], shape = [4]} : f32[4]
  %c = mul %b, %ones : f32[4]
  %unread = sin %a : f32[4]
  %d = mul %c, %w : f32[4]
  %e = add %d, %a : f32[4]
  %loss = sum %e {axes = [0]} : f32
  %g = gradient %loss, %w {segments = [1, 0, 1, 0]} : f32[4]
  return %loss, %g
}
"""


PRODUCT = """\
func @f(%x: f32[4,6], %w: f32[6,3]) -> f32[4,3] {
  %p = matmul %x, %w : f32[4,3]
  %q = tanh %p : f32[4,3]
  return %q
}
"""


def test_instructions_know_what_they_compute() -> None:
    """Products are summed in a loop, whose results they are; what sets up the kernel is mute."""
    stages, loops = snapshots_to(parse_module(PRODUCT))
    elements: dict[str, set[str]] = {}
    for stage in stages:
        for value, found in stage.elements.items():
            elements.setdefault(value, set()).update(found)
    lines = machine_code(loops)
    summed = [line for line in lines if elements["p"].intersection(line.values)]
    rounded = [line for line in lines if elements["q"].intersection(line.values)]
    assert summed
    assert rounded
    assert not set(summed) & set(rounded)
    assert any(re.search(r"fm(add|la)", line.text) for line in summed)
    assert any(re.search(r"div", line.text) for line in rounded)
    labels = [line for line in lines if not line.text.startswith(" ")]
    saved = [line for line in lines if re.search(r"\b(pushq|stp)\b", line.text)]
    assert not any(line.values for line in [*labels, *saved])
    known = {name for line in stages[-1].lines for name in line.values}
    assert {name for line in lines for name in line.values} <= known


@pytest.fixture(scope="module")
def stages() -> list[Snapshot]:
    return snapshots(parse_module(TEXT))


def changes(stages: list[Snapshot], name: str) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """The passes that did something to a value, what stands for it since, and by which rules."""
    return [
        (stage.stage, *stage.changes[name])
        for stage in stages
        if name in stage.changes and not stage.stage.startswith("lower")
    ]


def test_rules_are_told(stages: list[Snapshot]) -> None:
    assert changes(stages, "c") == [("canonicalize", "b", ("x * 1 -> x, x * -1 -> -x",))]
    assert changes(stages, "b") == [("cse", "a", ("both compute the same",))]
    assert changes(stages, "g") == [("adjoint", "w_ct", ("the gradient is written out",))]


def test_what_nobody_reads_has_no_rule(stages: list[Snapshot]) -> None:
    assert changes(stages, "unread") == [("dce", None, ())]


def test_every_value_that_is_replaced_has_a_reason(stages: list[Snapshot]) -> None:
    for stage in stages:
        for name, change in stage.changes.items():
            assert change.rules or change.instead is None, (stage.stage, name)


def test_a_value_goes_by_what_stands_for_it(stages: list[Snapshot]) -> None:
    way = {station.stage: station for station in followed(stages, "c")}
    assert way["input"].names == ("c",)
    assert way["canonicalize"].names == ("b",)
    assert way["cse"].names == ("a",)
    assert way["lower"].in_loops
    assert any(" = exp " in line.text for line in way["lower"].lines)
    assert str(way["cse"]).startswith(
        "cse           removes %b by both compute the same; %a stands for it\n"
    )


def test_adjoints_are_those_of_the_pass_whatever_they_are_called(stages: list[Snapshot]) -> None:
    """What is added passes its cotangent on as it is: one value is the adjoint of both."""
    assert cotangents_of(stages, "e") == cotangents_of(stages, "d")
    ((name, stage),) = cotangents_of(stages, "e")
    assert stage == "adjoint"
    lines = [line for s in stages if s.stage == "adjoint" for line in s.lines]
    assert any(name in line.values and "broadcast" in line.text for line in lines)


def test_adjoints_of_loops_and_of_rows() -> None:
    @tapec.compile
    def looped(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tapec.range(5):
                y = tapec.sin(y)
        rows: tapec.Tensor = tape.jacobian(y, x)
        return rows

    stages = snapshots(looped.trace(tapec.ones([3])))
    made = {name for stage in stages for name in stage.cotangents}
    assert made
    known = {name for stage in stages for name in stage.values}
    assert {c for s in stages for all_ in s.cotangents.values() for c in all_} <= known


def test_nothing_is_told_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    monkeypatch.setattr("tapec.ir.history.Told", lambda *args: heard.append(args))
    lowered(parse_module(TEXT))
    assert heard == []


def test_a_pass_that_changes_nothing_costs_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing is what a dump costs: it is done once for each pass that did something."""
    printed: list[Module] = []

    def counted(module: Module, **options: bool) -> list[Line]:
        printed.append(module)
        return list(lines_of(module, **options))

    monkeypatch.setattr("tapec.inspection.stages.lines_of", counted)
    stages = snapshots(parse_module(TEXT))
    assert len(printed) == sum(stage.changed for stage in stages) < len(stages)
