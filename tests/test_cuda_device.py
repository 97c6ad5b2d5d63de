"""Programs on a device that a stand-in plays: what is copied, what stays there, what fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from device_stand_in import StandIn

import tapec
from tapec.runtime.cuda.device import dlpack, driver
from tapec.runtime.cuda.device.memory import Allocation, DeviceArray


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The device that programs are made for."""
    found = StandIn()
    monkeypatch.setitem(driver.OPENED, 0, found)
    return found


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch, device: StandIn) -> StandIn:
    """One more."""
    found = StandIn(number=1)
    monkeypatch.setitem(driver.OPENED, 1, found)
    return found


def trainer(target: Any, **options: Any) -> tuple[Any, list[tapec.Variable]]:
    """A step of gradient descent, and what it trains."""
    w = tapec.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    b = tapec.Variable(np.zeros(3, np.float32))

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(tapec.tanh(x @ w + b) - 0.5))
        for variable, gradient in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(0.5 * gradient)
        return loss

    return tapec.compile(step, target=target, **options), [w, b]


def batch() -> Any:
    return np.linspace(0, 1, 20, dtype=np.float32).reshape(5, 4)


def test_variables_stay_on_the_device(device: StandIn) -> None:
    usual, expected = trainer("cpu")
    step, found = trainer("cuda")
    for _ in range(3):
        np.testing.assert_allclose(step(batch()).numpy(), usual(batch()).numpy(), rtol=1e-6)
    # Two Variables and the argument once, for it is the same each time; the loss each time.
    assert (device.counts["upload"], device.counts["download"]) == (3, 3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)
    assert device.counts["download"] == 5
    found[0].numpy()
    assert device.counts["download"] == 5


def test_what_the_host_assigns_is_seen(device: StandIn) -> None:
    usual, expected = trainer("cpu")
    step, found = trainer("cuda")
    for one, variables in ((step, found), (usual, expected)):
        one(batch())
        variables[0].assign_add(np.full((4, 3), 0.25, np.float32))
        variables[1].assign(np.ones(3, np.float32))
        one(batch())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)


def test_what_is_only_read_is_copied_when_it_has_changed(device: StandIn) -> None:
    w = tapec.Variable(np.arange(6, dtype=np.float32))
    b = tapec.Variable(np.ones(6, np.float32))
    total = tapec.compile(lambda x: tapec.reduce_sum(x * w + b), target="cuda")

    def copies() -> int:
        """How many a call makes, which has to be right."""
        before = device.counts["upload"]
        x = np.full(6, 2.0, np.float32)
        assert float(total(x)) == float(np.sum(2.0 * w.numpy() + b.numpy()))
        return device.counts["upload"] - before

    assert [copies() for _ in range(3)] == [3, 0, 0]
    w.assign(np.zeros(6, np.float32))
    assert [copies() for _ in range(2)] == [1, 0]
    b.assign_add(np.ones(6, np.float32))
    assert [copies() for _ in range(2)] == [1, 0]
    w.scatter_nd_update([[1], [3]], [5.0, 7.0])
    assert [copies() for _ in range(2)] == [1, 0]


def test_arguments_are_copied_when_they_have_changed(device: StandIn) -> None:
    """A tensor does not; small arrays are compared; of large ones nobody knows."""
    captured = np.ones(6, np.float32)
    small = tapec.compile(lambda x: x * captured, target="cuda")
    large = tapec.compile(lambda x: tapec.reduce_sum(x), target="cuda")
    many = np.ones(1 << 13, np.float32)

    def copies(function: Any, argument: Any) -> int:
        before = device.counts["upload"]
        expected = function.python_function(tapec.constant(argument)).numpy()
        np.testing.assert_array_equal(function(argument).numpy(), expected)
        return device.counts["upload"] - before

    x = np.arange(6, dtype=np.float32)
    assert [copies(small, x) for _ in range(2)] == [2, 0]
    x[2] = 7.0
    captured[1] = 3.0
    assert [copies(small, x) for _ in range(2)] == [2, 0]
    assert [copies(small, x.astype(np.int32).astype(np.float32)) for _ in range(2)] == [0, 0]
    assert [copies(large, many) for _ in range(2)] == [1, 1]
    many[5] = 3.0
    assert copies(large, many) == 1
    held = tapec.constant(many)
    assert [copies(large, held) for _ in range(3)] == [1, 0, 0]


def test_what_is_copied_on_the_device_is_not_taken_for_what_was_there(device: StandIn) -> None:
    whole = on_device(device, np.arange(24, dtype=np.float32))
    part = Foreign(whole, shape=(20,), data=(whole.memory.address + 4, False))
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    x = tapec.constant(np.ones(20, np.float32))
    for given, expected in ((x, 2.0 * np.ones(20)), (part, 2.0 * np.arange(1, 21))) * 2:
        np.testing.assert_array_equal(double(given).numpy(), expected)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_is_only_read_is_seen_when_steps_write_in_place(device: StandIn, target: Any) -> None:
    w = tapec.Variable(np.arange(6, dtype=np.float32))
    total = tapec.compile(lambda: tapec.reduce_sum(w), target="cuda")
    grow = tapec.compile(lambda: w.assign_add(tapec.ones([6])), target=target)
    for turn in range(4):
        assert float(total()) == 15.0 + 12.0 * turn
        grow()
        grow()
        if turn % 2:
            w.numpy()


def test_what_is_only_read_on_one_device_is_seen_when_another_writes(
    device: StandIn, second: StandIn
) -> None:
    w = tapec.Variable(np.arange(6, dtype=np.float32))
    total = tapec.compile(lambda: tapec.reduce_sum(w), target="cuda")
    grow = tapec.compile(lambda: w.assign_add(tapec.ones([6])), target="cuda:1")
    for turn in range(3):
        assert [float(total()) for _ in range(2)] == [15.0 + 6.0 * turn] * 2
        grow()


def test_programs_of_the_host_read_what_the_device_wrote(device: StandIn) -> None:
    step, (w, _) = trainer("cuda")
    total = tapec.compile(lambda: tapec.reduce_sum(w))
    for _ in range(2):
        step(batch())
        np.testing.assert_allclose(total().numpy(), w.numpy().sum(), rtol=1e-5)


def test_a_step_is_one_graph(device: StandIn) -> None:
    step, _ = trainer("cuda")
    for _ in range(3):
        step(batch())
        assert len(device.memory) == 5  # the arena, an argument, the loss, two Variables
    assert (device.counts["record"], device.counts["replay"]) == (1, 3)


def test_without_graphs_kernels_are_launched_one_by_one(device: StandIn) -> None:
    device.graphs = False
    step, _ = trainer("cuda")
    step(batch())
    assert device.counts["replay"] == 0
    assert device.counts["launch"] > 0


def test_no_memory_updates_nothing(device: StandIn) -> None:
    step, variables = trainer("cuda")
    before = [v.numpy().copy() for v in variables]
    device.room = 100
    with pytest.raises(tapec.errors.ResourceExhaustedError, match="no memory left"):
        step(batch())
    for variable, old in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)


def test_loops_that_depend_on_numbers(device: StandIn) -> None:
    @tapec.compile(target="cuda")
    def halve(x: Any) -> Any:
        while tapec.reduce_max(x) > 1.0:
            x = x / 2.0
        return x

    np.testing.assert_array_equal(halve(np.array([9.0, 4.0], np.float32)).numpy(), [0.5625, 0.25])


def test_results_stay_on_the_device(device: StandIn) -> None:
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    y = double(double(batch()))
    assert (device.counts["upload"], device.counts["download"]) == (1, 0)
    assert y.device.endswith("GPU:0")
    assert y.shape == (5, 4)
    np.testing.assert_array_equal(y.numpy(), batch() * 4)
    np.testing.assert_array_equal((y + 1.0).numpy(), batch() * 4 + 1)
    assert device.counts["download"] == 1
    assert y.cpu().device.endswith("CPU:0")


def test_a_result_stays_what_it_was(device: StandIn) -> None:
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    results = [double(np.full(3, n, np.float32)) for n in range(7)]
    for n, y in enumerate(results):
        np.testing.assert_array_equal(y.numpy(), np.full(3, 2.0 * n))
    # Four sets of addresses have graphs; others are launched, and recorded when they come again.
    assert (device.counts["record"], device.counts["replay"]) == (4, 4)


def test_gradients_go_through_what_is_on_the_device(device: StandIn) -> None:
    x = tapec.experimental.cuda.to_device(batch())
    square = tapec.compile(lambda x: x * x, target="cuda")
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(square(x))
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * batch(), rtol=1e-6)


def test_arguments_are_put_on_a_device_once(device: StandIn) -> None:
    step, _ = trainer("cuda")
    x = tapec.experimental.cuda.to_device(batch())
    for _ in range(3):
        step(x)
    assert device.counts["upload"] == 3  # x and two Variables
    tapec.experimental.cuda.synchronize()
    assert device.counts["wait"] == 1


def test_programs_are_placed_on_devices(device: StandIn, second: StandIn) -> None:
    """A Variable goes where it is updated."""
    v = tapec.Variable(np.ones(3, np.float32))

    def add(x: Any) -> Any:
        v.assign_add(x)
        return v * 1.0

    here, there = (tapec.compile(add, target=target) for target in ("cuda:0", "cuda:1"))
    x = np.arange(3, dtype=np.float32)
    here(x)
    y = there(x)
    y = here(y)
    assert y.device.endswith("GPU:0")
    np.testing.assert_array_equal(v.numpy(), 2 * (1 + 2 * x))
    np.testing.assert_array_equal(y.numpy(), v.numpy())
    assert second.counts["launch"] > 0


def test_streams(device: StandIn) -> None:
    """A stream waits for another one where it uses the same memory, and nowhere else."""
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    half = tapec.compile(lambda x: x / 2.0, target="cuda")
    with tapec.experimental.cuda.stream(7):
        y = double(batch())
    with tapec.experimental.cuda.stream(SimpleNamespace(cuda_stream=8)):
        half(batch())
    assert device.launched_in == [7, 8]
    assert set(device.ordered) <= {(100, 7), (100, 8)}  # constants
    half(y)
    assert (7, 100) in device.ordered
    assert (8, 100) in device.ordered  # the program's own memory
    with pytest.raises(TypeError, match="stream"), tapec.experimental.cuda.stream("seven"):
        pass


def on_device(device: StandIn, array: Any) -> DeviceArray:
    """An array as another library has it on the device."""
    memory = Allocation(device, array.nbytes, 9)
    device.upload(memory.address, array, 9)
    return DeviceArray(memory, array.dtype, array.shape)


class Foreign:
    """Another library's array, with either protocol."""

    def __init__(self, held: DeviceArray, **changed: Any) -> None:
        """Shown as it is, or with changes."""
        self.held, self.changed = held, changed

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.held.interface() | self.changed


class ForeignCapsule:
    """Another library's array that gives capsules, of one form."""

    def __init__(self, held: DeviceArray, *, versioned: bool) -> None:
        """Which form."""
        self.held, self.versioned = held, versioned
        self.streams: list[Any] = []

    def __dlpack__(self, *, stream: Any, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("max_version")
        self.streams.append(stream)
        return self.held.export(stream, options.get("max_version"))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.held.number)


def test_arrays_of_others_by_their_interface(device: StandIn) -> None:
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    other = Foreign(on_device(device, batch()))
    x = tapec.convert_to_tensor(other)
    for given in (x, other):
        np.testing.assert_array_equal(double(given).numpy(), batch() * 2)
    assert device.counts["upload"] == 1  # what the other library did
    assert (9, device.stream) in device.ordered
    strided = Foreign(other.held, strides=(8, 4))
    with pytest.raises(ValueError, match="contiguous"):
        tapec.convert_to_tensor(strided)


def test_memory_of_others_may_begin_anywhere(device: StandIn) -> None:
    """Kernels read 16 bytes at once, so what does not begin at such places is copied."""
    whole = on_device(device, np.arange(24, dtype=np.float32))
    part = Foreign(whole, shape=(20,), data=(whole.memory.address + 4, False))
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    np.testing.assert_array_equal(double(part).numpy(), np.arange(1, 21) * 2.0)
    assert device.counts["copy"] == 1


def test_what_is_on_the_device_has_their_interface(device: StandIn) -> None:
    y = tapec.compile(lambda x: x * 2.0, target="cuda")(batch())
    told = y.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["strides"]) == ((5, 4), "<f4", None)
    assert told["stream"] == device.stream
    address, read_only = told["data"]
    assert read_only
    found = device.bytes_at(address, 80).view(np.float32).reshape(5, 4)
    np.testing.assert_array_equal(found, batch() * 2)
    assert not hasattr(tapec.constant(1.0), "__cuda_array_interface__")
    small: Any = tapec.compile(lambda x: tapec.cast(x, "bfloat16"), target="cuda")(batch())
    with pytest.raises(TypeError, match="has no bfloat16"):
        _ = small.__cuda_array_interface__


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_both_ways(device: StandIn, versioned: bool) -> None:
    other = ForeignCapsule(on_device(device, batch()), versioned=versioned)
    x = tapec.experimental.dlpack.from_dlpack(other)
    assert other.streams == [device.stream]
    y = tapec.compile(lambda x: x * 2.0, target="cuda")(x)
    assert y.__dlpack_device__() == (2, 0)
    before = dlpack.given()
    capsule = y.__dlpack__(stream=12, max_version=(1, 0) if versioned else None)
    assert (device.stream, 12) in device.ordered
    told, taken = dlpack.taken(capsule)
    assert (told.shape, told.dtype, told.read_only) == ((5, 4), np.float32, versioned)
    del y, capsule
    found = device.bytes_at(told.address, 80).view(np.float32).reshape(5, 4)
    np.testing.assert_array_equal(found, batch() * 2)
    assert dlpack.given() == before + 1
    del taken
    assert dlpack.given() == before


def test_capsules_are_used_once(device: StandIn) -> None:
    y = tapec.compile(lambda x: x * 2.0, target="cuda")(batch())
    before = dlpack.given()
    capsule = y.__dlpack__(copy=True)
    again = tapec.experimental.dlpack.from_dlpack(capsule)
    np.testing.assert_array_equal(again.numpy(), batch() * 2)
    with pytest.raises(ValueError, match="from_dlpack"):
        tapec.experimental.dlpack.from_dlpack(capsule)
    del again, capsule
    y.__dlpack__()  # and nobody takes it
    assert dlpack.given() == before


def test_who_knows_no_devices_refuses_a_capsule(device: StandIn) -> None:
    """In words of its own; the memory goes with the next capsule."""
    y: Any = tapec.compile(lambda x: x * 2.0, target="cuda")(batch())
    before = dlpack.given()
    with pytest.raises((RuntimeError, BufferError), match="device"):
        np.from_dlpack(y)
    assert dlpack.given() == before
    np.testing.assert_array_equal(np.from_dlpack(y, device="cpu"), batch() * 2)


class Refusing:
    """Another library's array that gives no capsule, or none that holds anything."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("its memory is gone")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_what_others_refuse_is_said_with_the_line(device: StandIn) -> None:
    with pytest.raises(ValueError, match=r"(?s)from_dlpack: its memory is gone.*test_cuda_device"):
        tapec.experimental.dlpack.from_dlpack(Refusing())


def test_what_checks_say_is_heard(device: StandIn) -> None:
    """And nothing is updated where one fails."""
    v = tapec.Variable(np.zeros(3, np.float32))

    @tapec.compile(target="cuda")
    def put(at: Any) -> Any:
        v.assign_add(tapec.gather(tapec.constant([1.0, 2.0, 3.0]), at))
        return v * 1.0

    put(np.array([0, 2, 1], np.int32))
    with pytest.raises(tapec.errors.InvalidArgumentError, match="3"):
        put(np.array([0, 3, 1], np.int32))
    np.testing.assert_array_equal(v.numpy(), [1, 3, 2])


def test_what_calls_python_is_refused_by_name(device: StandIn) -> None:
    @tapec.compile(target="cuda")
    def call(x: Any) -> Any:
        return tapec.numpy_function(lambda a: a + 1, [x], tapec.float32)

    with pytest.raises(
        tapec.errors.TargetError, match=r"no tapec.numpy_function.*: a device cannot call functions"
    ):
        call(batch())


def test_targets_and_engines_are_named() -> None:
    with pytest.raises(ValueError, match="there is no target 'tpu'"):
        tapec.compile(lambda x: x, target="tpu")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="there is no target 'cuda:x'"):
        tapec.compile(lambda x: x, target="cuda:x")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="no engine 'simulator' for target='cpu'"):
        tapec.compile(lambda x: x, engine="simulator")
