"""Random Python functions with control flow over tensors and over Python's values, as source text.

They hold state of every kind that goes through branches and loops: tensors, numbers, a Variable, a vector that is
written at an index, a TensorArray, an entry of a dict. Values stay small, and loops end: `while` counts. Conditions
compare with numbers that no value hits.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import tapec

#: Variables that are tensors from the beginning.
NAMES = ("x", "y", "a", "b")

_files = itertools.count()

_conditions = st.sampled_from(
    [
        "a > 0.1371",
        "b < x - 0.2177",
        "-0.7313 < y < 0.5413",
        "a > 0.3319 and b < 0.4177",
        "a < -0.2113 or x > 0.1219",
        "not b > 0.0737",
        "k > 1",
        "flag",
        "flag and a > 0.0193",
        "k == 2 or y > 0.3331",
    ]
)
_values = st.sampled_from(
    [
        "tapec.tanh(a * 1.3 + y)",
        "tapec.sin(b) - x * 0.5",
        "a * b",
        "tapec.tanh(v * x + 0.3)",
        "(a if b > 0.0517 else y) * 0.7",
        "tapec.constant(0.25, tapec.float64)",
        "tapec.cast(k, tapec.float64) * 0.1",
        "helper(a, b)",
        "tapec.random.uniform([], dtype=tapec.float64) - 0.5",
        "u[k % 5] * 0.9",
        "tapec.reduce_sum(u[k % 3 : k % 3 + 2]) * 0.4",
        "ta.read(k % 4) + 0.1 * x",
        "d['h'] * y",
        "tapec.cond(a > 0.2713, lambda: tapec.sin(a), lambda: helper(b, a))",
        "tapec.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tapec.tanh(s + y)), (0, a))[1]",
        "tapec.foldl(lambda s, e: tapec.tanh(s * 0.7 + e), u, initializer=b)",
        "tapec.reduce_mean(tapec.map_fn(lambda e: tapec.sin(e * a), u))",
        "tapec.reduce_mean(tapec.vectorized_map(lambda e: helper(e, a), u))",
        "searched(u, a)",
    ]
)


@st.composite
def _simple(draw: Any) -> list[str]:
    name, value = draw(st.sampled_from(NAMES[1:])), draw(_values)
    kinds = (
        "{n} = {v}",
        "{n} = tapec.tanh({n} + {v})",
        "v.assign(tapec.tanh(v + {v}))",
        "t = {v}; {n} = t * 0.5",
        "u = tapec.tensor_scatter_nd_update(u, [[k % 5]], [tapec.tanh({v})])",
        "ta = ta.write(k % 4, tapec.tanh({v}))",
        "d['h'] = tapec.tanh({v} + d['h'] * 0.5)",
    )
    return [draw(st.sampled_from(kinds)).format(n=name, v=value)]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def _branch(draw: Any, depth: int, loop: str) -> list[str]:
    lines = [f"if {draw(_conditions)}:", *_indented(draw(blocks(depth - 1, loop)))]
    if draw(st.booleans()):
        lines += [f"elif {draw(_conditions)}:", *_indented(draw(blocks(depth - 1, loop)))]
    if draw(st.booleans()):
        lines += ["else:", *_indented(draw(blocks(depth - 1, loop)))]
    return lines


@st.composite
def _loop(draw: Any, depth: int, loop: str) -> list[str]:
    count = f"turns_{depth}"  # which nothing inside changes: loops end
    heads = (
        "for k in tapec.range(n):",
        "for k in range(3):",
        "for b in tapec.stack([x, y, a]):",
        f"while {count} < 3:",
        f"while a < 0.9171 and {count} < 2:",
    )
    head = draw(st.sampled_from(heads))
    own = "python" if head == heads[1] and loop != "tensor" else "tensor"
    body = draw(blocks(depth - 1, own))
    if head.startswith("while"):
        return [f"{count} = 0", head, *_indented([f"{count} = {count} + 1", *body])]
    lines = [head, *_indented(body)]
    if draw(st.integers(0, 3)) == 0:
        lines += ["else:", *_indented(draw(blocks(0, loop)))]
    return lines


def blocks(depth: int, loop: str) -> st.SearchStrategy[list[str]]:
    """Some statements; ``loop``: of which kind the loop around them is, if there is one ("" else)."""
    kinds = [_simple()]
    if depth > 0:
        kinds += [_branch(depth, loop), _loop(depth, loop)]
    jumps = ["return a * 0.5 + b, k"] if loop != "tensor" else []
    jumps += ["break", "continue"] if loop else []
    body = st.lists(st.one_of(kinds), min_size=1, max_size=3)
    ends = st.one_of(st.just(""), st.sampled_from(jumps)) if jumps else st.just("")
    return st.tuples(body, ends).map(
        lambda t: [line for part in t[0] for line in part] + [t[1]] * bool(t[1])
    )


@st.composite
def programs(draw: Any) -> str:
    """The source of a function of ``x, y, n, flag, v, helper, searched`` that returns a float and an integer."""
    body = draw(blocks(2, ""))
    lines = [
        "a, b, k = x * 0.9, y - 0.1, 0",
        "u, d = tapec.stack([x, y, a, b, x * y]), {'h': x * 0.3}",
        "ta = tapec.TensorArray(tapec.float64, size=4, clear_after_read=False, element_shape=[])",
        *body,
        "rest = tapec.reduce_sum(u) * 0.2 + tapec.reduce_sum(ta.stack()) * 0.3 + d['h'] * 0.7",
        "return a - b * 0.5 + v * 0.1 + rest, k",
    ]
    return "\n".join(["def program(x, y, n, flag, v, helper, searched):", *_indented(lines)]) + "\n"


def function_of(source: str) -> Callable[..., Any]:
    """The function, with its source in reach as a file's would be."""
    file = f"<program {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tapec": tapec, "__name__": "program"}
    exec(compile(source, file, "exec"), space)
    found: Callable[..., Any] = space["program"]
    return found
