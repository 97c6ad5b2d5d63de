"""NVIDIA's driver as tapec calls it: what it is asked for, and what is said of it when it refuses."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from driver_stand_in import CUresult, install

import tapec
from tapec.runtime.cuda.device import dlpack, driver
from tapec.runtime.cuda.launches import Launch

X = np.ones(4, np.float32)


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line that needs it."""
    install(monkeypatch, status=100)
    with pytest.raises(tapec.errors.TargetError, match="no CUDA driver") as raised:
        tapec.compile(lambda x: x + 1.0, target="cuda")(np.ones(3, np.float32))
    assert "test_cuda_driver.py" in str(raised.value)
    with pytest.raises(tapec.errors.TargetError, match=r"(?s)no CUDA driver.*test_cuda_driver.py"):
        tapec.experimental.cuda.to_device(1.0)


def test_an_old_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, version=12080)
    with pytest.raises(tapec.errors.TargetError, match=r"(?s)for CUDA 12.8.*needs 13.0.*580"):
        tapec.experimental.cuda.to_device(1.0)


def test_the_driver_is_asked_for_memory_and_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of streams, and its want of memory is ours."""
    calls = install(monkeypatch, room=64).calls
    x: Any = tapec.experimental.cuda.to_device(np.ones(4, np.float32))
    with pytest.raises(tapec.errors.ResourceExhaustedError, match="no memory left"):
        tapec.experimental.cuda.to_device(np.ones(32, np.float32))
    with tapec.experimental.cuda.stream(5):
        tapec.experimental.cuda.synchronize()
    assert x.__cuda_array_interface__["stream"] == 3
    x.__dlpack__(stream=5)
    np.testing.assert_array_equal(x.numpy(), np.ones(4))
    del x
    dlpack.given()  # looks for capsules that nobody took
    names = [name.removeprefix("cu") for name, *_ in calls]
    assert names == [
        *("MemAllocAsync", "MemcpyHtoDAsync", "MemAllocAsync", "StreamSynchronize"),
        *("EventCreate", "EventRecord", "StreamWaitEvent", "EventDestroy"),
        *("MemcpyDtoHAsync", "StreamSynchronize", "MemFreeAsync"),
    ]
    assert calls[3] == ("cuStreamSynchronize", 5)
    assert calls[6][1] == 5


@pytest.mark.parametrize("number", [1, -1])
def test_devices_are_counted(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    install(monkeypatch)
    with pytest.raises(tapec.errors.TargetError, match=rf"no CUDA device {number}\b"):
        tapec.experimental.cuda.to_device(1.0, device=number)


def test_an_old_device_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch).capability = (7, 5)
    with pytest.raises(tapec.errors.TargetError, match=r"capability 7\.5, and this needs 8\.0"):
        tapec.experimental.cuda.to_device(1.0)


#: What the driver is asked for to put an array there and to read it, and to wait.
CALLS = (
    *("set_current", "cuMemAllocAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"),
    "cuStreamSynchronize",
)


@pytest.mark.parametrize("name", CALLS)
def test_what_fails_is_said_with_the_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And not taken for something else; when it does not fail any more, all is well."""
    api = install(monkeypatch)
    api.failing[name] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    said = r"(?s)the CUDA device failed: CUDA_ERROR_ILLEGAL_ADDRESS.*test_cuda_driver\.py"
    with pytest.raises(tapec.errors.InternalError, match=said):
        tapec.experimental.cuda.to_device(X).numpy()
    with pytest.raises(tapec.errors.InternalError, match=said):
        tapec.experimental.cuda.to_device(X).numpy()
    api.failing.clear()
    np.testing.assert_array_equal(tapec.experimental.cuda.to_device(X).numpy(), X)


def test_no_memory_for_a_process_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what the driver needs for itself."""
    install(monkeypatch).failing["set_current"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(tapec.errors.ResourceExhaustedError, match="no memory left"):
        tapec.experimental.cuda.synchronize()


def test_no_memory_for_a_copy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    api = install(monkeypatch)
    x: Any = tapec.experimental.cuda.to_device(X)
    api.failing["cuMemAllocAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(tapec.errors.ResourceExhaustedError, match="for a copy of f32"):
        x.__dlpack__(copy=True)


def test_memory_of_a_device_that_failed_goes_quietly(
    monkeypatch: pytest.MonkeyPatch, recwarn: Any
) -> None:
    """What runs at any time, when nobody refers to an array any more, tells nobody."""
    api = install(monkeypatch)
    x: Any = tapec.experimental.cuda.to_device(X)
    api.failing["cuMemFreeAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    del x
    gc.collect()
    assert not recwarn.list


def test_pinned_memory_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads it later, when its owner may have changed it."""
    api = install(monkeypatch)
    opened: Any = driver.device()
    address = opened.allocate(X.nbytes, 3)
    for pinned, names in ((False, []), (True, ["cuStreamSynchronize"])):
        api.pinned = {X.ctypes.data} if pinned else set()
        api.calls.clear()
        opened.upload(address, X, 3)
        assert [name for name, *_ in api.calls] == ["cuMemcpyHtoDAsync", *names]


def test_a_fork_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    api = install(monkeypatch)
    opened: Any = driver.device()
    opened.process = os.getpid() + 1
    api.failing["cuMemAllocAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(tapec.errors.InternalError, match=r"(?s)this is a fork.*\"spawn\""):
        tapec.experimental.cuda.to_device(X)


class Stream:
    """Another library's."""

    def __init__(self, number: int) -> None:
        """Of a number that there may be again when this is gone."""
        self.ptr = number


def test_streams_live_as_long_as_memory_is_used_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    api = install(monkeypatch)
    chosen = Stream(9)
    kept = weakref.ref(chosen)
    with tapec.experimental.cuda.stream(chosen):
        x: Any = tapec.experimental.cuda.to_device(X)
    del chosen
    assert kept() is not None
    del x
    assert (api.calls[-1][0], api.calls[-1][2]) == ("cuMemFreeAsync", 9)
    api.calls.clear()
    assert kept() is None


def test_the_default_stream_has_a_number_that_others_understand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0 is PyTorch's number for it, and in both protocols none."""
    install(monkeypatch)
    with tapec.experimental.cuda.stream(SimpleNamespace(cuda_stream=0)):
        x: Any = tapec.experimental.cuda.to_device(X)
    assert x.__cuda_array_interface__["stream"] == 1


# ---- graphs


class Capture:
    """A graph builder, and the graph that it makes, as cuda.core has them."""

    def __init__(self, fails: str = "") -> None:
        """Note what is called; one of it may fail."""
        self.calls: list[str] = []
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Capture:
            self.calls.append(name)
            if self.fails == name:
                raise RuntimeError("CUDA_ERROR_OUT_OF_MEMORY")
            return self

        return call


def opened_with(monkeypatch: pytest.MonkeyPatch, builder: Capture) -> Any:
    """A driver that records into this."""
    install(monkeypatch)
    found: Any = driver.device()
    found._device.create_graph_builder = lambda: builder
    return found


BEGIN, END = ["begin_building", "launched"], ["end_building", "complete", "upload"]


def test_launches_are_captured_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Capture()
    opened = opened_with(monkeypatch, builder)
    opened._streams[5] = "the stream"
    graph = opened.record(lambda: builder.calls.append("launched"), 5)
    opened.replay(graph, 5)
    assert builder.calls == [*BEGIN, *END, "launch"]


@pytest.mark.parametrize("name", ["begin_building", *END])
def test_where_no_graph_can_be_made_it_is_said(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And kernels are launched one by one."""
    builder = Capture(name)
    opened = opened_with(monkeypatch, builder)
    opened._streams[5] = "the stream"
    with pytest.warns(RuntimeWarning, match=r"kernel by kernel.*OUT_OF_MEMORY"):
        assert opened.record(lambda: builder.calls.append("launched"), 5) is None
    names = [*BEGIN, *END]
    assert builder.calls == names[: names.index(name) + 1]


def test_a_launch_that_fails_ends_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Capture()
    opened = opened_with(monkeypatch, builder)
    with pytest.warns(RuntimeWarning, match="kernel by kernel.*no such kernel"):
        assert opened.record(lambda: opened._checked((_Status("no such kernel"),)), 3) is None
    assert builder.calls == ["begin_building", "end_building"]


class _Status(int):
    """A status that is none of the driver's."""

    def __new__(cls, name: str) -> _Status:
        made = super().__new__(cls, 1)
        made.name = name
        return made

    name: str


def test_other_threads_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they launch meanwhile goes into their streams."""
    builder = Capture()
    opened = opened_with(monkeypatch, builder)
    opened._streams[5] = "the stream"
    targets: list[Any] = []
    core = SimpleNamespace(
        LaunchConfig=lambda **options: options, launch=lambda target, *_: targets.append(target)
    )
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    kernel: Any = SimpleNamespace(name="k", shared=0, threads=32, sizes=())
    one = Launch(kernel, 1, (), (), ())

    def launches() -> None:
        opened.launch("k", one, [], 5)
        other = threading.Thread(target=opened.launch, args=("k", one, [], 5))
        other.start()
        other.join()

    opened.record(launches, 5)
    assert targets == [builder, "the stream"]
