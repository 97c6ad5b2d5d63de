"""How far a `TensorArray` grows in a compiled function: as far as the index gets that it is written at.

That is known where loops surely turn a known number of times, and the index follows from what counts the turns.
"""

from __future__ import annotations

from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions.arithmetic import add, cast, less, maximum
from tapec.functions.known import dim_tensor
from tapec.functions.linear import Linear
from tapec.functions.requirements import require
from tapec.ir.dims import DimLike, bounds
from tapec.ir.types import I32
from tapec.recording import current_trace
from tapec.tensor import Tensor, as_tensor
from tapec.tracing import TracedTensor


def unknown_size(what: str) -> TypeError:
    """What to raise of an array whose size depends on what the run finds; ``what`` says where."""
    return TypeError(
        f"a TensorArray that grows {what}; in a compiled function the shape of its stack does not depend on values",
        location=here(),
        hint="give it its size, tapec.TensorArray(dtype, size=the most elements there can be), count what is written, "
        "and mask the rest",
    )


def set_range(tensor: Tensor, first: DimLike, last: DimLike) -> None:
    """Say what the first and the last value are of a number that counts in a loop: arrays grow to that at once."""
    if isinstance(tensor, TracedTensor):
        least, _ = bounds(last - first)
        ends = (first, last) if least is not None and least >= 0 else (last, first)
        tensor.trace.ranges[tensor.value] = ends


def last_of(at: Tensor) -> DimLike | None:
    """The greatest value of an index; None if that is not known."""
    trace = current_trace()
    if trace is None or not at.type.dtype.is_integer:
        return None
    index = Linear(trace)
    index.add(at)
    ends = index.range()
    return None if ends is None else ends[1]


def count_behind(count: Tensor, at: Tensor) -> Tensor:
    """How many elements there are once one is written at an index, if there were ``count``."""
    trace = current_trace()
    assert trace is not None
    beyond = Linear(trace)
    beyond.add(at)
    beyond.add(count, -1)
    following = add(cast(at, I32), 1)
    if not beyond.terms and beyond.number == 0:  # at its end, which makes it a counter
        return following
    return maximum(count, following)


def is_scouting() -> bool:
    """Whether what is traced now is only to find out what a loop does."""
    trace = current_trace()
    return trace is not None and trace.scouts


def is_behind(index: DimLike, size: DimLike) -> bool:
    """Whether an element with this number does not exist, as far as that is known."""
    least, _ = bounds(index - size)
    return least is not None and least >= 0


def is_decided(last: DimLike | None, size: DimLike) -> bool:
    """Whether it is known that there are elements up to a number, or that there are not."""
    if last is None:
        return False
    least, most = bounds(last - size)
    return (least is not None and least >= 0) or (most is not None and most < 0)


def require_place(at: int | Tensor, size: DimLike) -> None:
    """Refuse, now or when the program runs, to write behind the end where nothing says how far arrays have to grow."""
    if size == 0:
        raise TypeError(
            "how long a TensorArray gets must be known while a function is compiled",
            location=here(),
            hint="give it as many elements as there may be (size=...), or let the index follow from what counts "
            "the turns of a loop whose number is a Python number or comes from tapec.shape",
        )
    message = f"Tried to write behind the end of a TensorArray, which was made with {size} elements; in a compiled "
    message += (
        "function it grows only where the index follows from what counts a known number of turns"
    )
    require(less(cast(as_tensor(at), I32), dim_tensor(size, I32)), message)
