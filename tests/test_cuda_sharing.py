"""Memory that is given to other libraries and comes back, and interfaces of theirs that make no array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_stand_in import StandIn

import tapec
from tapec.runtime.cuda.device import dlpack, driver
from tapec.runtime.cuda.device.memory import uploaded


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The device that programs are made for."""
    found = StandIn()
    monkeypatch.setitem(driver.OPENED, 0, found)
    return found


def batch() -> Any:
    return np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


class Interface:
    """An object that says something of itself."""

    def __init__(self, told: Any) -> None:
        """What it says."""
        self.told = told

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.told


#: What the protocol does not allow.
MALFORMED: list[dict[str, Any]] = [
    {"shape": 5},
    {"shape": (2.5,)},
    {"shape": (-1, 4)},
    {"shape": None},
    {"typestr": "<q4"},
    {"typestr": 3},
    {"data": None},
    {"data": ("0x10", False)},
    {"data": ()},
    {"strides": (4,)},
    {"strides": 4},
    {"strides": ("a", "b")},
    {"stream": "1"},
    {"stream": 0},  # the protocol forbids it: it may be either default stream
]


def test_interfaces_that_make_no_array_are_refused_with_the_line(device: StandIn) -> None:
    held = uploaded(device, batch(), device.stream)
    good = held.interface()
    lacking = [
        {k: v for k, v in good.items() if k != name} for name in ("shape", "typestr", "data")
    ]
    empty: list[Any] = [None, [], {}]
    for told in (*lacking, *(good | wrong for wrong in MALFORMED), *empty):
        with pytest.raises(
            TypeError, match=r"(?s)Interface has a __cuda_arr.*test_cuda_sharing\.py"
        ):
            tapec.convert_to_tensor(Interface(told))
    unnamed = {k: v for k, v in good.items() if k not in ("strides", "stream", "version")}
    for told in (good, unnamed):
        np.testing.assert_array_equal(tapec.convert_to_tensor(Interface(told)).numpy(), batch())


def test_what_nobody_took_goes_with_the_next_call(device: StandIn) -> None:
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    y = double(batch())
    before = dlpack.given()
    y.__dlpack__()
    double(batch())
    assert len(dlpack._given) == before  # asked without a look


@pytest.mark.parametrize(("stream", "waits"), [(None, True), (1, True), (12, False), (-1, False)])
def test_memory_is_used_again_behind_who_was_lent_it(
    device: StandIn, stream: Any, waits: bool
) -> None:
    """In the default stream, which is always there."""
    double = tapec.compile(lambda x: x * 2.0, target="cuda")
    y = double(batch())
    _, taken = dlpack.taken(y.__dlpack__(stream=stream))
    del y, taken
    for _ in range(2):
        assert ((1, device.stream) in device.ordered) is False
        double(batch())
        assert ((1, device.stream) in device.ordered) is waits
        device.ordered.clear()
        waits = False
    y = double(batch())
    y.__dlpack__(stream=1, copy=True)  # which is given back
    double(batch())
    assert (1, device.stream) in device.ordered
