"""Buffers that live for a time: plans are valid, and the search finds and proves the best."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tapec.cli import main
from tapec.passes.memory.arena import planning, search
from tapec.passes.memory.arena.buffers import Buffer, Plan, collisions, most_alive
from tapec.passes.memory.arena.first_fit import (
    _beside,
    _in_crowd,
    _in_order,
    _is_crowd,
    first_fit,
)
from tapec.passes.memory.arena.planning import best_plan

INSTANCES = Path(__file__).resolve().parents[1] / "benchmarks" / "minimalloc" / "challenging"


@st.composite
def buffers(draw: st.DrawFn, most: int = 6) -> list[Buffer]:
    """A few buffers in a short time."""
    found = []
    for _ in range(draw(st.integers(1, most))):
        first = draw(st.integers(0, 6))
        found.append(Buffer(first, first + draw(st.integers(1, 5)), draw(st.integers(1, 6))))
    return found


def least(found: list[Buffer]) -> int:
    """The fewest bytes: of all orders, one places buffers as they lie in a best plan, from below."""
    return min(
        max(o + found[i].size for i, o in enumerate(_in_order(_beside(found), found, order)))
        for order in permutations(range(len(found)))
    )


@given(buffers())
def test_the_best_plan_is_the_best(found: list[Buffer]) -> None:
    plan = best_plan(found, seconds=60)
    assert plan.total == plan.bound == least(found)
    assert not collisions(found, plan.offsets)


@given(buffers(), st.integers(0, 30))
def test_the_search_decides(found: list[Buffer], capacity: int) -> None:
    """Whether there is a plan within a capacity, whatever comes first."""
    problem = search.Problem(found)
    priorities = np.array([b.size for b in found], float)
    result, offsets = problem.within(capacity, priorities, 100_000, np.zeros(len(found)))
    assert result == (search.FOUND if least(found) <= capacity else search.NONE)
    if result == search.FOUND:
        assert not collisions(found, offsets.tolist())
        assert max(o + b.size for o, b in zip(offsets, found, strict=True)) <= capacity


@given(buffers(most=25), st.integers(0, 5))
def test_first_fit_is_valid(found: list[Buffer], tries: int) -> None:
    plan = first_fit(found, tries)
    assert plan.bound == most_alive(found) <= plan.total
    assert plan.total == max(o + b.size for o, b in zip(plan.offsets, found, strict=True))
    assert not collisions(found, plan.offsets)


@given(buffers(most=40), st.randoms(use_true_random=False))
def test_what_many_share_is_placed_as_what_few_do(found: list[Buffer], random: Random) -> None:
    """A tree of moments and lists of pairs give the same plans, of buffers without bytes too."""
    found += [Buffer(b.first, b.last + 3, 0) for b in found[:2]]
    order = random.sample(range(len(found)), len(found))
    assert _in_crowd(found, order) == _in_order(_beside(found), found, order)


def test_states_of_a_long_loop_are_many_at_one_time() -> None:
    """As the states of a long unrolled loop, which its gradient reads from the last to the first."""
    number = 3000
    found = [Buffer(i, 2 * number - i, 64 + 64 * (i % 3 == 0)) for i in range(number)]
    assert _is_crowd(found)
    assert first_fit(found).is_optimal


@given(buffers(most=25), st.data())
def test_faults_are_seen(found: list[Buffer], data: st.DataObject) -> None:
    """A buffer is moved onto another that lives at the same time."""
    offsets = list(first_fit(found).offsets)
    pairs = [
        (i, k)
        for i, a in enumerate(found)
        for k, b in enumerate(found)
        if i != k and a.first < b.last and b.first < a.last
    ]
    if pairs:
        i, k = data.draw(st.sampled_from(pairs))
        offsets[i] = offsets[k] + data.draw(st.integers(0, found[k].size - 1))
        assert {i, k} in map(set, collisions(found, offsets))


def test_nothing_takes_nothing() -> None:
    assert best_plan([], seconds=1) == Plan((), 0, 0)


@given(buffers(most=4))
def test_empty_buffers_are_placed(found: list[Buffer]) -> None:
    plan = best_plan([*found, Buffer(0, 9, 0)], seconds=60)
    assert plan.total == plan.bound == least(found)


def load(name: str) -> list[Buffer]:
    """An instance of MiniMalloc's."""
    with (INSTANCES / f"{name}.1048576.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [Buffer(int(r["lower"]), int(r["upper"]), int(r["size"])) for r in rows]


@pytest.mark.parametrize("name", ["B", "F", "G", "K"])
def test_hard_instances_waste_nothing(name: str) -> None:
    """Where first fit takes 17 to 35 percent more than are alive at one time."""
    found = load(name)
    assert first_fit(found).total > 1.15 * most_alive(found)
    plan = best_plan(found, seconds=300)
    assert plan.is_optimal
    assert not collisions(found, plan.offsets)


def run(*arguments: str) -> tuple[int, str]:
    """The exit status of ``tapec plan``, and all that it printed."""
    result = CliRunner().invoke(main, ["plan", *arguments])
    return result.exit_code, result.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three buffers of which two live at a time."""
    path = tmp_path / "three.csv"
    path.write_text("id,lower,upper,size\na,0,5,4\nb,2,8,3\nc,6,9,5\n", "utf-8")
    return path


def test_command(table: Path) -> None:
    status, text = run(str(table))
    assert status == 0
    assert "total        8 bytes" in text
    assert "optimal      yes, proven" in text
    status, text = run(str(table), "--json")
    found = json.loads(text)
    assert (found["total"], found["lower_bound"], found["optimal"]) == (8, 8, True)
    assert set(found["offsets"]) == {"a", "b", "c"}


def test_command_beyond_a_capacity(table: Path) -> None:
    assert run(str(table), "--capacity", "8")[0] == 0
    status, text = run(str(table), "--capacity", "7")
    assert status == 1
    assert "no plan stays within 7 bytes: none takes less than 8" in text


def test_a_search_has_an_end(table: Path) -> None:
    """No time is compared with what is no number."""
    status, text = run(str(table), "--seconds", "nan")
    assert status == 2
    assert "nan is no time" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,lower,size\na,0,4\n", "has no column upper"),
        ("", "has no column id"),
        ("id,lower,upper,size\na,0,x,4\n", "line 2: lower, upper and size must be integers"),
        ("id,lower,upper,size\na,0\n", "line 2: lower, upper and size must be integers"),
        ("id,lower,upper,size\na,3,3,4\n", "line 2: a buffer lives for a time"),
        ("id,lower,upper,size\na,0,3,-4\n", "line 2: a buffer lives for a time"),
    ],
)
def test_command_with_a_wrong_table(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text, "utf-8")
    status, printed = run(str(path))
    assert status == 2
    assert says in printed


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffid,lower,upper,size\na,0,5,4\n",
        "id, lower, upper, size\r\na, 0, 5, 4\r\n\r\n",
        "id,lower,upper,size,alignment,gaps\na,0,5,4,1,\n",
    ],
    ids=["byte order mark", "spaces", "columns that change nothing"],
)
def test_tables_of_other_programs_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text, "utf-8", newline="")
    status, output = run(str(path), "--json")
    assert status == 0
    assert json.loads(output)["offsets"] == {"a": 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"id,lower,upper,size\na,0,5,4\n\na,1,5,4\n", "line 4: there is a buffer 'a' already"),
        (b"id,lower,upper,size,alignment\na,0,5,4,8\n", "line 2: alignment 8 is not planned for"),
        (b"id,lower,upper,size,gaps\na,0,5,4,2-3\n", "line 2: gaps 2-3 is not planned for"),
        (b"id,lower,upper,size\na,0,5,4,9\n", "line 2: there are more cells than columns: 9"),
        (b"id,lower,upper,size,size\na,0,5,4,5\n", "has two columns size"),
        (b"id,lower,upper,size\n\xe9,0,5,4\n", "is no table of text"),
        (b"id,lower,upper,size\n" + 200_000 * b"a" + b",0,5,4\n", "is no table of text"),
    ],
    ids=["twice", "alignment", "gaps", "long row", "two sizes", "not UTF-8", "a long field"],
)
def test_other_tables_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    status, output = run(str(path))
    assert status == 2
    assert message in output


def test_what_is_too_large_to_search_is_placed() -> None:
    """Sizes beyond 64 bits, where first fit wastes some."""
    found = [b._replace(size=b.size << 60) for b in load("K")]
    plan = best_plan(found, seconds=0.1)
    assert most_alive(found) == plan.bound < plan.total
    assert not collisions(found, plan.offsets)


def test_bytes_that_no_float_counts_are_placed() -> None:
    found = [Buffer(first, last, size * 10**400) for first, last, size in load("K")]
    assert first_fit(found, tries=1).total == first_fit(load("K"), tries=1).total * 10**400


def test_loading_the_search_takes_none_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that stands still but while machine code is made."""
    now = [0.0]

    def load_slowly(tell: object) -> None:
        now[0] += 100

    monkeypatch.setattr(planning, "monotonic", lambda: now[0])
    monkeypatch.setattr(search, "load", load_slowly)
    found = load("K")
    assert best_plan(found, seconds=1).total == most_alive(found)
    assert now == [100]


def test_the_search_is_compiled_once() -> None:
    """For all problems: their arrays have the types of those that it is loaded with."""
    search.load()
    best_plan(load("K"), seconds=60)
    assert len(search._search.signatures) == 1


def test_it_is_told_that_the_search_is_compiled(tmp_path: Path) -> None:
    """Where no cache has it, once, and beside the plan."""
    command = [sys.executable, "-m", "tapec", "plan", str(INSTANCES / "K.1048576.csv"), "--json"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for told in ("compiling the search, which takes some seconds and is done once\n", ""):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == told
        assert json.loads(done.stdout)["optimal"]


def test_many_buffers_are_placed_in_time() -> None:
    chance = np.random.default_rng(0)
    starts, sizes = chance.integers(0, 1000, 5000), chance.integers(1, 1 << 20, 5000)
    found = [Buffer(int(t), int(t) + 50, int(n)) for t, n in zip(starts, sizes, strict=True)]
    start = time.process_time()
    plan = best_plan(found, seconds=0.1)
    assert time.process_time() - start < 10
    assert plan.bound <= plan.total
