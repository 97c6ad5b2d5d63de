"""Random Python functions with control flow over tensors and over Python's values, as source text.

They hold state of every kind that goes through branches and loops: tensors of several dtypes, numbers, Variables that
are assigned as a whole and in part, a vector that is written at an index, a TensorArray, an entry of a dict, random
state. Values stay small, and loops end: `while` counts. Conditions compare with numbers that no value hits.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import tapec

#: Variables that are tensors from the beginning.
NAMES = ("x", "y", "a", "b")

#: How many statements a block has at most: they nest, and each derivative of a program is longer than the last.
MOST = 2

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
        "q",
        "q and not flag",
        "w[k % 5] > 0.2137",
        "c % 2 == 1",
        "tapec.reduce_any(u > 0.5519)",
        "m[k % 5] > k",
        "n > 1",
        "tapec.random.uniform([], dtype=tapec.float64) > 0.4377",
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
        # Variables, and random state of one's own
        "w[k % 5] * a",
        "tapec.reduce_sum(w * u) * 0.3",
        "tapec.gather(w, [k % 5, 0])[0] * x",
        "tapec.cast(c, tapec.float64) * 0.03",
        "generator.normal([], dtype=tapec.float64) * 0.1",
        # what a gradient passes in another way, or not at all
        "tapec.stop_gradient(a) * b",
        "again(a, b)",
        "clipped(a * b)",
        "direction(a, y)",
        "slope(b, a)",
        # functions that are compiled by themselves
        "stepped(a, b)",
        "counted(a)",
        # arrays
        "tapec.unstack(u)[2] * a",
        "tapec.gather(u, [k % 5, 0])[0] * b",
        "tapec.concat([u[:2], w[3:], [a]], 0)[k % 5]",
        "tapec.reduce_max(u) - tapec.sort(u)[1] * x",
        "tapec.reduce_sum(tapec.where(u > a, u, u * u)) * 0.3",
        "tapec.cumsum(u)[k % 5] * 0.3",
        "tapec.linalg.matvec(tapec.reshape(u[:4], [2, 2]), u[3:])[1]",
        "tapec.reduce_sum(z * a) * 0.2",
        "tapec.reduce_sum(tapec.concat([z, u], 0)) * 0.1",
        "tapec.reduce_prod(1.0 + z * 0.3) * y",
        # other dtypes
        "tapec.cast(tapec.reduce_sum(m), tapec.float64) * 0.01",
        "tapec.cast(q, tapec.float64) * b",
        "tapec.cast(tapec.cast(a, tapec.bfloat16) * tapec.cast(0.7, tapec.bfloat16), tapec.float64)",
        # forms in forms
        "tapec.scan(lambda s, e: tapec.tanh(s * 0.5 + e * a), u, initializer=b)[k % 5]",
        "tapec.scan(lambda s, e: searched(u, s) + e, z, initializer=a, reverse=True)[0]",
        "tapec.case([(a > 0.3117, lambda: helper(a, b)), (b > 0.1173, lambda: b * a)], lambda: x * a)",
        "tapec.switch_case(tapec.convert_to_tensor(k) % 3, [lambda: a * y, lambda: searched(u, b)])",
        "tapec.map_fn(lambda e: tapec.foldl(lambda s, r: tapec.tanh(s + r * e), u, initializer=a), w)[k % 5]",
        "tapec.foldr(lambda s, e: tapec.cond(s > e, lambda: tapec.while_loop(lambda i, r: i < n, "
        "lambda i, r: (i + 1, tapec.tanh(r * e + s)), (0, s))[1], lambda: s * 0.5 + e), u, initializer=a)",
        "tapec.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tapec.switch_case(i, "
        "[lambda: tapec.tanh(s + w), lambda: tapec.cumsum(s) * a])), (0, u))[1][k % 5]",
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
        "v.assign_add(tapec.tanh({v}) * 0.1)",
        "w[k % 5].assign(tapec.tanh({v}))",
        "w[1:3].assign([{n}, tapec.tanh({v})])",
        "w.scatter_nd_add([[k % 5], [1]], [tapec.tanh({v}), {n} * 0.1])",
        "w.assign(tapec.tanh(u * {v}))",
        "c.assign_add(k + 1)",
        "m = tapec.tensor_scatter_nd_add(m, [[k % 5]], [k + 1])",
        "q = q != ({v} > 0.1093)",
        "{n}, b = b, tapec.tanh({v})",
        "u = tapec.tanh(tapec.concat([u[3:], [{v}], w[:2]], 0))",
        "u = tapec.stack([*tapec.unstack(u)[1:], tapec.tanh({v})])",
        "{n}, q = tapec.cond(q, lambda: ({n}, b > a), lambda: ({v}, {n} > 0.0173))",
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
    python = "for k in range(3):"
    heads = (
        "for k in tapec.range(n):",
        python,
        "for b in tapec.stack([x, y, a]):",
        f"while {count} < 3:",
        f"while a < 0.9171 and {count} < 2:",
        "for k in range(n):",
        "for k in tapec.range(n, 0, -1):",
        "for b in z:",
        "for a, b in zip(u, tapec.reverse(w, [0])):",
        "for a, y in zip(z, z * 0.5):",
        "while True:",
    )
    head = draw(st.sampled_from(heads))
    own = "python" if head == python and loop != "tensor" else "tensor"
    body = draw(blocks(depth - 1, own))
    if head == "while True:":
        body = [f"if {count} > 1:", "    break", f"if {draw(_conditions)}:", "    break", *body]
    if head.startswith("while"):
        lines = [f"{count} = 0", head, *_indented([f"{count} = {count} + 1", *body])]
    else:
        lines = [head, *_indented(body)]
    if draw(st.integers(0, 3)) == 0 and head != "while True:":
        lines += ["else:", *_indented(draw(blocks(0, loop)))]
    return lines


@st.composite
def _taped(draw: Any, depth: int) -> list[str]:
    """A block under a tape of its own, and what its gradients change. Nothing leaves it but by its end."""
    persistent = draw(st.booleans())
    name, value = draw(st.sampled_from(NAMES[1:])), draw(_values)
    by = draw(st.sampled_from(["[a, v]", "[b, w]", "[x, a]"]))
    lines = [
        f"with tapec.GradientTape(persistent={persistent}) as tape_{depth}:",
        f"    tape_{depth}.watch([x, a, b])",
        f"    x_{depth}, a_{depth}, b_{depth} = x, a, b",
        *_indented(draw(blocks(depth - 1, "none"))),
        f"    t = tapec.tanh({name} + {value})",
    ]
    for old in "xab":
        by = by.replace(old, f"{old}_{depth}")
    for _ in range(1 + persistent):
        lines += [
            f"g = tape_{depth}.gradient(t, {by}, unconnected_gradients='zero')",
            f"{name} = tapec.tanh({name} + g[0] + tapec.reduce_sum(g[1]))",
        ]
    return lines


def blocks(depth: int, loop: str) -> st.SearchStrategy[list[str]]:
    """Some statements.

    ``loop``: of which kind the loop around them is, if there is one ("" else); ``none``: nothing may leave them.
    """
    kinds = [_simple()]
    if depth > 0:
        kinds += [_branch(depth, loop), _loop(depth, loop), _taped(depth)]
    jumps = ["return a * 0.5 + b, k"] if loop in ("", "python") else []
    jumps += ["break", "continue"] if loop in ("python", "tensor") else []
    body = st.lists(st.one_of(kinds), min_size=1, max_size=MOST)
    ends = st.one_of(st.just(""), st.sampled_from(jumps)) if jumps else st.just("")
    return st.tuples(body, ends).map(
        lambda t: [line for part in t[0] for line in part] + [t[1]] * bool(t[1])
    )


@st.composite
def programs(draw: Any, depth: int = 2) -> str:
    """The source of a function of ``x, y, z, n, flag`` that returns a float and an integer.

    ``depth`` is how deep its blocks nest. What else it names is in `State`, and among what is given to `function_of`.
    """
    body = draw(blocks(depth, ""))
    lines = [
        "a, b, k = x * 0.9, y - 0.1, 0",
        "u, d = tapec.stack([x, y, a, b, x * y]), {'h': x * 0.3}",
        "m, q = tapec.constant([1, 4, -2, 3, 0]), a > 0.2171",
        "ta = tapec.TensorArray(tapec.float64, size=4, clear_after_read=False, element_shape=[])",
        *body,
        "rest = tapec.reduce_sum(u) * 0.2 + tapec.reduce_sum(ta.stack()) * 0.3 + d['h'] * 0.7",
        "rest += tapec.reduce_sum(w * w) * 0.1 + tapec.cast(tapec.reduce_sum(m), a.dtype) * 0.01",
        "return a - b * 0.5 + v * 0.1 + rest * tapec.where(q, x, y), k",
    ]
    return "\n".join(["def program(x, y, z, n, flag):", *_indented(lines)]) + "\n"


@dataclass
class State:
    """What programs change: Variables, one of them of integers, and a stream of random numbers."""

    v: tapec.Variable
    w: tapec.Variable
    c: tapec.Variable
    generator: tapec.random.Generator

    @staticmethod
    def new() -> State:
        """As it is before each run."""
        return State(
            tapec.Variable(0.3, dtype=tapec.float64),
            tapec.Variable([0.2, -0.4, 0.6, 0.1, -0.3], dtype=tapec.float64),
            tapec.Variable(1),
            tapec.random.Generator.from_seed(3),
        )

    def start(self) -> None:
        """Make it as it was when it was new, and the global random state, too."""
        tapec.random.set_seed(5)
        self.v.assign(0.3)
        self.w.assign([0.2, -0.4, 0.6, 0.1, -0.3])
        self.c.assign(1)
        self.generator.reset_from_seed(3)


def function_of(source: str, **names: Any) -> Callable[..., Any]:
    """The function, with its source in reach as a file's would be, and with these globals."""
    file = f"<program {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tapec": tapec, "__name__": "program", **names}
    exec(compile(source, file, "exec"), space)
    found: Callable[..., Any] = space["program"]
    return found
