"""Functions of all kinds, built ahead of time: the bits of compiled functions as a library, nearly so as C."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import called
from test_aot import HOST, example_of, load
from toolchains import need, run

import tapec
from tapec import aot
from tapec.edge.modelling import Modelling
from tapec.runtime.aot.building import Build, Options

BFLOAT16 = tapec.bfloat16.as_numpy_dtype


@dataclass(frozen=True)
class Case:
    """A function, arrays to call it with, and the bytes of scratch that it may take."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    budget: int | None = None

    @property
    def compiled(self) -> Any:
        """The function, compiled anew."""
        return tapec.compile(self.function, memory_budget=self.budget)

    @property
    def signature(self) -> list[Any]:
        """What it takes."""
        return [tapec.TensorSpec(a.shape, a.dtype) for a in map(np.asarray, self.arrays)]


CASES: dict[str, Case] = {}


def case(
    *arrays: Any, budget: int | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function to the cases."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = Case(function, arrays, budget)
        return function

    return add


def real(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@case()
def takes_nothing() -> Any:
    return tapec.constant([1.0, 2.0, 3.0]) * 2.0


@case(real(3))
def gives_much(x: Any) -> Any:
    return x, x + 1, tapec.reduce_sum(x), {"a": x - 1, "b": (x / 2, x * 3)}


@case(np.array([1, 0, 1], bool), np.array([1, 1, 0], bool))
def truths(a: Any, b: Any) -> Any:
    return tapec.logical_and(a, b), tapec.logical_not(a), tapec.reduce_any(a)


@case(np.array([100, -100, 5], np.int8), np.array([100, -100, -7], np.int8))
def small_integers(a: Any, b: Any) -> Any:
    return a + b, a * b, tapec.maximum(a, b), a // b


@case(
    np.array([250, 2], np.uint8),
    np.array([2**32 - 1, 2], np.uint32),
    np.array([2**63, 3], np.uint64),
)
def unsigned_integers(a: Any, b: Any, c: Any) -> Any:
    return a + a, b + b, c + c, tapec.cast(c, tapec.float32), tapec.cast(b, tapec.float32)


@case(np.array([2**62, -7, 9]), np.array([3, 2, -2]))
def large_integers(a: Any, b: Any) -> Any:
    half = tapec.cast(a, tapec.float32) * 0.5
    return a * b, a // b, a % b, tapec.cast(half, tapec.int64), tapec.cast(a, tapec.float64)


@case(np.array([7, 9], np.uint16), np.array([3, -4], np.int32), np.int32(2), np.array([True, True]))
def numbers_that_are_checked(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Which a selftest may not give as 0."""
    tapec.debugging.Assert(tapec.reduce_all(d), ["all have to be set"])
    return a % tapec.cast(b * b, tapec.uint16), b // c, tapec.logical_not(d)


@case(100 * real(3, dtype=np.float64))
def doubles(x: Any) -> Any:
    return tapec.sin(x), tapec.exp(-x * x / 1e4), tapec.reduce_sum(x)


@case(real(4, dtype=np.float16), real(4, dtype=BFLOAT16))
def halves(a: Any, b: Any) -> Any:
    return a * a + a, tapec.tanh(b), tapec.cast(a, tapec.float32), tapec.reduce_sum(b)


@case(np.array([1 + 2j, -0.5j], np.complex64), np.complex128(1 - 2j))
def complex_numbers(x: Any, y: Any) -> Any:
    return x * x, tapec.abs(x), tapec.math.conj(y) * y


@case(real(4), np.int32(5))
def branches_and_loops(x: Any, n: Any) -> Any:
    i = tapec.constant(0)
    while i < n:
        x = tapec.tanh(x * 1.5) if tapec.reduce_sum(x) > 0 else x + 0.5
        i += 1
    return x, i


@case(np.int32(7))
def loops_that_count(n: Any) -> Any:
    total = tapec.constant(0.0)
    for i in tapec.range(n):
        total += tapec.cast(i, tapec.float32)
        if total > 11:
            break
    turns = 0
    while total > 0.5:
        total /= 2
        turns += 1
    return total, turns


@case(np.array([2**40, -7]), np.array([3, 37]), np.array([2**63, 9], np.uint64))
def shifts(a: Any, count: Any, b: Any) -> Any:
    right = tapec.bitwise.right_shift
    few = tapec.cast(count, tapec.uint64)
    return tapec.bitwise.left_shift(a, count), right(a, count), right(b, few)


@case(np.float16(1.5), np.bool_(True), np.int8(-5), np.uint16(20000), np.complex64(1 - 2j))
def numbers_of_all_kinds(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    return a * 2, tapec.logical_not(b), c * 2, d + d, e * e


@case(real(6, 3))
def gradient_of_a_scan(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(tapec.scan(lambda a, b: tapec.tanh(a * 0.5 + b), x) ** 2)
    return tape.gradient(y, x)


@case(real(17), real(24), budget=1_400)
def gradients_from_few_states(x: Any, start: Any) -> Any:
    """All 17 states would take 1,632 bytes, so most are computed again on the way back."""
    with tapec.GradientTape() as tape:
        tape.watch([x, start])
        last = tapec.foldl(lambda s, r: s + 0.1 * tapec.tanh(start * s + r), x, start)
        loss = tapec.reduce_sum(last**2)
    return tape.gradient(loss, [x, start])


@case()
def random_numbers() -> Any:
    seed = [1, 2]
    normal = tapec.random.stateless_normal([3], seed=seed)
    return tapec.random.stateless_uniform([4], seed=seed), normal


@case(real(5))
def array_that_grows(x: Any) -> Any:
    array = tapec.TensorArray(tapec.float32, size=5)
    for i in tapec.range(5):
        array = array.write(i, x[i] * 2)
    return array.stack()


@case(real(5, 3), np.array([0, 4, 2, 2], np.int32))
def lookups(x: Any, i: Any) -> Any:
    rows = tapec.gather(x, i)
    return rows, tapec.scatter_nd(i[:, None], rows, [5, 3])


@case(real(0, 3))
def nothing_in_it(x: Any) -> Any:
    return tapec.reduce_sum(x, axis=0), x * 2


@case(real(20))
def large_constant(x: Any) -> Any:
    return tapec.linalg.matvec(tapec.constant(real(300, 20)), x)


@case(real(2), real(2), real(2))
def int_(register: Any, while_: Any, größe: Any) -> Any:
    return {"double": register + while_ * größe, "class": register, "memory": größe}


@case(real(2), real(3), real(2), real(2), real(2), real(2))
def args(x: Any, X: Any, np: Any, status: Any, NULL: Any, max: Any) -> Any:
    i0 = x + np * status
    return {"memory": i0, "x": X, "State": {"size_t": NULL - max, "v0": i0 + x}}


@case(real(3, 3))
def matrices(x: Any) -> Any:
    a = x @ tapec.transpose(x) + 3 * tapec.eye(3)
    return tapec.linalg.cholesky(a), tapec.linalg.inv(a), tapec.linalg.det(a)


@case(real(4, 4))
def factors_and_values(x: Any) -> Any:
    """On AVR, LLVM lets a store to a large stack come between a product and its last use, which it then loses."""
    a = x @ tapec.transpose(x) + tapec.eye(4)
    return tapec.linalg.cholesky(a), tapec.linalg.eigvalsh(a)


@case(real(8))
def orders_and_spectra(x: Any) -> Any:
    top = tapec.math.top_k(x, 3)
    return tapec.sort(x), tapec.argsort(x), top, tapec.cumsum(x), tapec.signal.rfft(x)


@case(real(2, 3, 4))
def shapes(x: Any) -> Any:
    padded = tapec.pad(x, [[0, 0], [1, 1], [0, 0]])
    return tapec.einsum("abc->cb", x), tapec.reverse(padded, [0]), tapec.tile(x, [1, 2, 1])


counts = tapec.Variable(np.array([1, 2, 3], np.int64), name="arena")
numbers = tapec.Variable(np.array([1 + 1j, 2], np.complex64), name="zwei größen")
flag = tapec.Variable(True, name="int")
none = tapec.Variable(np.zeros((0, 2), np.float32), name="state")
hidden = tapec.Variable(np.float32(2), name="memory")
STATE = [counts, numbers, flag, none, hidden]


@case(real(3))
def state_of_all_kinds(x: Any) -> Any:
    counts.assign_add(counts)
    numbers.assign(numbers * numbers)
    flag.assign(tapec.logical_not(flag))
    none.assign(none * 2)
    hidden.assign_add(hidden)
    return x + tapec.cast(counts, tapec.float32), numbers


@pytest.fixture(autouse=True)
def state_as_it_was() -> Any:
    before = [np.array(v.numpy()) for v in STATE]
    yield
    for variable, value in zip(STATE, before, strict=True):
        variable.assign(value)


def as_bits(array: Any) -> Any:
    return array.view(np.uint16) if array.dtype == BFLOAT16 else array


@functools.cache
def as_library(name: str) -> aot.Built:
    """A case for this machine; the module that calls it calls C's library too."""
    case = CASES[name]
    options: dict[str, Any] = {"target": HOST, "emit": "so,header", "selftest": True}
    return aot.build(case.compiled, case.signature, name="net", **options)


def found_and_wanted(name: str, target: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """What a library gives, and what the compiled function gives: results, then what is in the state."""
    need("gcc", "g++")
    case = CASES[name]
    function, built = case.compiled, as_library(name)
    if target == "c":
        (folder / "net.py").write_bytes(built.files["net.py"])
        options: dict[str, Any] = {"target": "c", "emit": "c", "selftest": True}
        built = aot.build(function, case.signature, name="net", **options)
    assert case.budget is None or built.arena_bytes <= case.budget
    built.write(folder)
    if target == "c":
        strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
        run("gcc", *strict, "-O1", "-fPIC", "-shared", "net.c", "-o", "libnet.so", cwd=folder)
    header = built.files["net.h"].decode()
    (folder / "example.c").write_text(example_of(header))
    for language, standard in (("c", "c99"), ("c++", "c++17")):
        strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-std={standard}", "-x", language]
        strict += ["-Wconversion", "-Wsign-conversion", "-Wshadow"]
        run("g++", *strict, "-S", "example.c", cwd=folder)
    module = load(folder)
    size = re.search(r"SELFTEST_BYTES (\d+)", header)
    assert size is not None
    memory = np.zeros(int(size[1]) // 8 + 1)
    assert module["_library"].net_selftest(ctypes.c_void_p(memory.ctypes.data)) == 0
    entry = next(v for k, v in module.items() if k.rstrip("_").startswith(name.rstrip("_")))
    state = [module["initial_state"]()] if "initial_state" in module else []
    results = entry(*state, *map(as_bits, case.arrays))
    found = list(results) if isinstance(results, tuple) else [results]
    wanted = [np.asarray(x) for x in tapec.nest.flatten(function(*case.arrays))]
    for key, variable in built.variables.items():
        found.append(getattr(state[0], key))
        wanted.append(variable.numpy())
    return found, wanted


@pytest.mark.parametrize("target", [HOST, "c"])
@pytest.mark.parametrize("name", CASES)
def test_a_function_does_as_here(tmp_path: Path, name: str, target: str) -> None:
    found, wanted = found_and_wanted(name, target, tmp_path)
    agree(found, wanted, exact=target == HOST)


def agree(found: list[Any], wanted: list[Any], *, exact: bool) -> None:
    """Integers are equal, floats nearly so where another machine computed them."""
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        got = np.asarray(got).view(BFLOAT16) if want.dtype == BFLOAT16 else np.asarray(got)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if exact or want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            rtol = 1e-2 if want.dtype in (np.float16, BFLOAT16) else 2e-5
            np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=1e-6)


#: What AVR's compilers have no numbers for, its memory no room, or its calls no registers.
_NOT_ON_AVR = {
    "large_integers", "doubles", "complex_numbers", "large_constant", "args", "numbers_of_all_kinds",
}  # fmt: skip
_SMALL = [
    (m, n) for m in ("cortex-m4f", "avr") for n in CASES if m != "avr" or n not in _NOT_ON_AVR
]


@pytest.mark.parametrize(("machine", "name"), _SMALL)
def test_a_function_does_so_on_small_machines(tmp_path: Path, name: str, machine: str) -> None:
    """Where addresses have 32 bits, or 16; with and without instructions for floats."""
    case, target = CASES[name], aot.targets()[machine]
    function = case.compiled
    modelling = Modelling("net")
    modelling.add("f", function, case.signature)
    model = modelling.for_target(target, compact=True)
    found = called(machine, Build(model, target, Options(optimize="size")), case.arrays, tmp_path)
    wanted = [np.asarray(x) for x in tapec.nest.flatten(function(*case.arrays))]
    wanted += [modelling.variables[member.name].numpy() for member in model.state]
    agree(found, wanted, exact=False)
