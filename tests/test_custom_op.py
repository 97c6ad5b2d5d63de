"""Users' kernels: each is run eagerly, compiled, evaluated, differentiated and mapped; what cannot be is refused."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_kernels import CASES, registered

import tapec
from tapec.compiler import lowered
from tapec.errors import InvalidArgumentError
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.program import write_text

NAMES = sorted(CASES)
DIFFERENTIABLE = [name for name in NAMES if CASES[name].sources]
Arrays = list[np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def ops() -> Iterator[dict[str, Any]]:
    with registered() as found:
        yield found


def operands(name: str) -> list[tapec.Tensor]:
    return [tapec.constant(x) for x in CASES[name].operands]


def as_arrays(found: Any) -> Arrays:
    return [y.numpy() for y in (found if isinstance(found, tuple | list) else (found,))]


def by_python(name: str, like: Arrays) -> Arrays:
    """What Python gives: of a kernel of numbers for each element, of one of arrays in arrays that it fills."""
    case = CASES[name]
    function = getattr(case.function, "py_func", case.function)
    if case.infer is None:
        called = np.vectorize(lambda *xs: float(function(*xs)), otypes=[float])
        return [called(*case.operands)]
    outputs = [np.empty_like(y) for y in like]
    function(*(x[()] for x in case.operands), *outputs)
    return outputs


def program(call: Callable[..., Any], *inputs: Any) -> Module:
    """What a function becomes for these inputs."""
    compiled = tapec.compile(call)
    compiled(*inputs)
    return compiled.ir()


# ---- the same everywhere


@pytest.mark.parametrize("name", NAMES)
def test_eager_is_python(name: str, ops: dict[str, Any]) -> None:
    found = as_arrays(ops[name](*operands(name)))
    for got, want in zip(found, by_python(name, found), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_evaluated_are_eager(name: str, ops: dict[str, Any]) -> None:
    given = operands(name)
    eager = as_arrays(ops[name](*given))
    # The mathematical functions are ours here, the C library's there: both are right to an ulp or two.
    for got, want in zip(as_arrays(tapec.compile(ops[name])(*given)), eager, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    module = program(ops[name], *given)
    for level in (module, lowered(module)):
        found = evaluate_module(level, [x.numpy() for x in given])
        for got, want in zip(found, eager, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_text_reads_back(name: str, ops: dict[str, Any]) -> None:
    module = program(ops[name], *operands(name))
    for level in (module, lowered(module)):
        text = print_module(level, full_constants=True)
        assert print_module(parse_module(text), full_constants=True) == text
    assert f"test.{name} " in print_module(module)


@pytest.mark.parametrize("dtype", [tapec.float32, tapec.float64], ids=lambda d: d.name)
def test_result_has_the_operands_dtype(dtype: tapec.DType, ops: dict[str, Any]) -> None:
    x = tapec.constant(np.linspace(-2, 2, 21), dtype)
    y = ops["softplus"](x)
    assert y.dtype == dtype  # though 0.0 in the kernel is a float64 to Numba
    np.testing.assert_allclose(
        tapec.compile(ops["softplus"])(x).numpy(), y.numpy(), rtol=4 * np.finfo(dtype.numpy).eps
    )
    assert ops["softplus"](0.5).dtype == tapec.float32


# ---- derivatives


def loss(name: str, call: Callable[..., Any], given: list[tapec.Tensor]) -> tapec.Tensor:
    found = call(*given)
    listed = found if isinstance(found, tuple) else (found,)
    return tapec.add_n([tapec.reduce_sum(tapec.sin(y) * tapec.cos(y)) for y in listed])


def slopes(name: str, call: Callable[..., Any], given: list[tapec.Tensor], order: int) -> Any:
    """Derivatives of the loss by the sources; of order 2 those of the sum of the first ones."""
    sources = [given[i] for i in CASES[name].sources]
    with tapec.GradientTape() as outer:
        outer.watch(sources)
        with tapec.GradientTape() as inner:
            inner.watch(sources)
            y = loss(name, call, given)
        first = inner.gradient(y, sources)
        total = tapec.add_n([tapec.reduce_sum(g * g) for g in first])
    return first if order == 1 else outer.gradient(total, sources)


@pytest.mark.parametrize(
    ("name", "order"),
    # The derivative of `horner` is a kernel that has none.
    [(n, o) for n in DIFFERENTIABLE for o in (1, 2) if (n, o) != ("horner", 2)],
)
def test_derivatives(name: str, order: int, ops: dict[str, Any]) -> None:
    """Eager and compiled alike, and as differences say."""
    call, given = ops[name], operands(name)
    eager = as_arrays(slopes(name, call, given, order))
    compiled = tapec.compile(lambda *xs: slopes(name, call, list(xs), order))
    for got, want in zip(as_arrays(compiled(*given)), eager, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)

    def value(shifted: list[tapec.Tensor]) -> float:
        if order == 1:
            return float(loss(name, call, shifted))
        return sum(float(tapec.reduce_sum(g * g)) for g in slopes(name, call, shifted, 1))

    step = 1e-5
    for source, slope in zip(CASES[name].sources, eager, strict=True):
        direction = np.cos(np.arange(slope.size, dtype=float)).reshape(slope.shape)
        ends = []
        for sign in (1, -1):
            shifted = list(given)
            shifted[source] = given[source] + sign * step * direction
            ends.append(value(shifted))
        difference = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(np.sum(slope * direction), difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("wrap", [lambda f: f, tapec.compile], ids=["eager", "compiled"])
def test_mapping_is_a_loop(name: str, wrap: Any, ops: dict[str, Any]) -> None:
    """`vectorized_map` gives what the rows give, and so does a Jacobian, which maps the derivative."""
    given = operands(name)
    rows = [tapec.stack([x, x * 2, x]) for x in given]
    found = as_arrays(wrap(lambda *xs: tapec.vectorized_map(lambda r: ops[name](*r), xs))(*rows))
    for i in range(3):
        for got, want in zip(found, as_arrays(ops[name](*(r[i] for r in rows))), strict=True):
            np.testing.assert_allclose(got[i], want, rtol=1e-14)

    def jacobian(*xs: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(xs[0])
            found = ops[name](*xs)
            y = found[0] if isinstance(found, tuple) else found
        return tape.jacobian(y, xs[0])

    def entry(x: tapec.Tensor, place: tuple[int, ...]) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            found = ops[name](x, *given[1:])
            y = (found[0] if isinstance(found, tuple) else found)[place]
        slope: tapec.Tensor = tape.gradient(y, x)
        return slope

    whole = wrap(jacobian)(*given).numpy()
    place = tuple(n - 1 for n in whole.shape[: whole.ndim - given[0].ndim])
    np.testing.assert_allclose(whole[place], entry(given[0], place).numpy(), rtol=1e-12)


def test_no_derivative_is_explained(ops: dict[str, Any]) -> None:
    x, n = operands("horner_slope")
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = ops["horner_slope"](x, n)
    assert tape.gradient(y, x) is None
    said = str(tape.explain(y, x))
    assert "test.horner_slope" in said
    assert "test_custom_op.py" in said
    assert "vjp=" in said


# ---- inside of control flow


def test_in_branches_and_loops(ops: dict[str, Any]) -> None:
    softplus = ops["softplus"]

    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            _, y = tapec.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, softplus(v)), (0, x))
            z = tapec.cond(x[0] > 0.0, lambda: softplus(y), lambda: softplus(-y))
        return z, tape.gradient(z, x)

    x = tapec.constant([-1.5, 0.3, 2.0])
    for got, want in zip(as_arrays(tapec.compile(f)(x)), as_arrays(f(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_numbers_that_are_no_numbers_are_found(ops: dict[str, Any]) -> None:
    """Also where an operation behind the kernel would hide them."""
    tapec.debugging.enable_check_numerics()
    try:
        x = tapec.constant([1.0, 2000.0])
        hidden: list[Callable[[Any], Any]] = [
            lambda x: tapec.minimum(ops["running"](x)[0], 5.0),
            lambda x: tapec.minimum(ops["remainder"](x, x), 5.0),
        ]
        for f in hidden:
            for run in (f, tapec.compile(f)):
                with pytest.raises(InvalidArgumentError, match=r"test\.(running|remainder)"):
                    run(x)
    finally:
        tapec.debugging.disable_check_numerics()


# ---- native code


def test_scalar_kernels_are_inlined(ops: dict[str, Any]) -> None:
    """No call is left, and what has no loops computes on vectors."""
    compiler = host_compiler(1)
    for name in ("softplus", "piecewise", "norm", "horner"):
        text, _ = write_text(lowered(program(ops[name], *operands(name))))
        assert re.search(r"call <\d+ x double> @foreign\.\w+\.v\d+", text)
        optimised = str(compiler.optimised(text))
        assert re.findall(r"call .*@[\w.]+\(", optimised)  # of LLVM's own, which are instructions
        assert not re.search(r"call .*@foreign", optimised)


def test_foreign_symbols_are_listed(ops: dict[str, Any]) -> None:
    assert ops["softplus"].foreign_symbols(1.0) == ()
    assert ops["blur"].foreign_symbols(*operands("blur")) == ()
    assert set(ops["remainder"].foreign_symbols(1.0, 2.0)) == {"fmodf", "exp2f"}
    assert ops["running"].foreign_symbols(tapec.zeros([3])) == ("itself",)

    @tapec.compile
    def mixed(x: Any) -> Any:
        rows = tapec.vectorized_map(lambda r: ops["running"](r)[0], x)
        return tapec.cond(
            x[0, 0] > 0.0, lambda: ops["remainder"](rows, 2.0), lambda: ops["softplus"](x)
        )

    found = mixed.lower(tapec.TensorSpec([2, 3])).foreign_symbols()
    assert {name: set(symbols) for name, symbols in found.items()} == {
        "test.running": {"itself"},
        "test.remainder": {"fmodf", "exp2f"},
    }


def test_sizes_may_be_open(ops: dict[str, Any]) -> None:
    @tapec.compile(dims={"x": ("N", "M")})
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.reduce_sum(tapec.square(ops["blur"](ops["softplus"](x), 0.5)))
        return y, tape.gradient(y, x)

    for shape in ((2, 5), (3, 9), (7, 40)):
        x = tapec.constant(np.linspace(-1, 1, math.prod(shape)).reshape(shape))
        for got, want in zip(as_arrays(f(x)), as_arrays(f.python_function(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert len(f.programs) == 1


SCRIPT = """
import math, sys, tapec
@tapec.custom_op("acme.half")
def half(x):
    return math.sin(x) * SCALE
SCALE = {scale}
f = tapec.compile(lambda x: half(x))
y = f(tapec.ones([5]))
print(f.ir().entry.block.ops[0].attrs["content"], float(y[0]))
print("compiled" if "tapec.runtime.cpu.program" in sys.modules else "kept")
"""


def test_programs_are_kept_by_the_kernels_code(tmp_path: Path) -> None:
    """A process that finds a program on disk takes it if, and only if, the kernel is the same."""
    said = []
    for scale in ("0.5", "0.5", "0.25"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(scale=scale)],
            env={"TAPEC_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.split())
    assert said[0][0] == said[1][0] != said[2][0]
    assert float(said[0][1]) == float(said[1][1]) == 2 * float(said[2][1])
    assert [words[2] for words in said] == ["compiled", "kept", "compiled"]


CACHED = """
import math, numba, tapec
@tapec.custom_op("acme.cached")
@numba.njit(error_model="numpy", cache=True)
def cached(x):
    return math.sin(x)
print(float(tapec.compile(cached)(1.0)), float(cached(1.0)), sum(cached.python_function.stats.cache_hits.values()))
"""


def test_kernels_in_numbas_cache(tmp_path: Path) -> None:
    """Numba keeps no LLVM text on disk: what it finds there is compiled again."""
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)],
            env={"TAPEC_CACHE": "0", "PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.split())
        assert not done.stderr
    assert said[0][:2] == said[1][:2]
    assert [words[2] for words in said] == ["0", "1"]
