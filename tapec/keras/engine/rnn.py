"""Recurrent layers: a cell, applied to the steps of a sequence in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from keras.src import tree

import tapec
from tapec.keras.engine.control import scan
from tapec.keras.engine.conversion import convert_to_tensor
from tapec.tensor import Tensor

Step = Callable[[Any, Any], tuple[Any, Any]]


def rnn(
    step_function: Step,
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Sequence[Any] | None = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Tensor, Tensor, Any]:
    """The last output, all outputs and the last states of ``output, states = step_function(input, states)``.

    Args:
        step_function: takes the inputs of a step and the states, with ``constants`` behind them.
        inputs: a structure of tensors ``[batch, time, …]``.
        initial_states: a list of structures of tensors.
        go_backwards: from the last step to the first; outputs come in that order.
        mask: ``[batch, time]``; where it does not hold, states stay and the output is that of the step before.
        constants: more of what the step function takes.
        unroll: whether the steps are written out, instead of a loop.
        input_length: without effect: sequences have one length.
        time_major: whether the axis of time comes first, in and out.
        zero_output_for_mask: whether the output is 0 where the mask does not hold.
        return_all_outputs: whether all are wanted, or ``[:, -1:]``.

    Raises:
        ValueError: ``unroll``, and the number of steps is not known.
    """
    inputs = tree.map_structure(convert_to_tensor, inputs)
    if not time_major:
        inputs = tree.map_structure(_swapped, inputs)
    steps = _Steps(step_function, tuple(constants or ()), zero_output_for_mask)
    if mask is not None:
        mask = convert_to_tensor(mask, "bool")
        mask = mask if time_major else _swapped(mask)
        while mask.type.rank > 2:
            mask = tapec.reduce_any(mask, -1)
    states = tree.map_structure(convert_to_tensor, list(initial_states))
    if mask is not None:
        states = [states, _first_output(steps, inputs, states)]
    run = _unrolled if unroll else _looped
    states, outputs = run(steps, inputs, mask, states, go_backwards)
    if mask is not None:
        states = states[0]
    last = tree.map_structure(lambda x: x[-1], outputs)
    if not return_all_outputs:
        outputs = tree.map_structure(lambda x: x[-1:], outputs)
    if not time_major:
        outputs = tree.map_structure(_swapped, outputs)
    return last, outputs, states


def _swapped(x: Tensor) -> Tensor:
    return tapec.transpose(x, [1, 0, *range(2, x.type.rank)])


class _Steps:
    """A step function, with what masks and constants make of it."""

    def __init__(self, function: Step, constants: tuple[Any, ...], zero: bool) -> None:
        self._function, self._constants, self._zero = function, constants, zero

    def plain(self, states: Any, inputs: Any) -> tuple[Any, Any]:
        """The next states and the output."""
        output, new = self._function(inputs, [*states, *self._constants])
        new = tree.map_structure(convert_to_tensor, list(new))
        return new, tree.map_structure(convert_to_tensor, output)

    def masked(self, before: Any, row: Any) -> tuple[Any, Any]:
        """The same, where a mask holds."""
        (inputs, holds), (states, output) = row, before
        new, now = self.plain(states, inputs)
        kept = tree.map_structure(lambda a, b: _chosen(holds, a, b), new, states)
        output = tree.map_structure(lambda a, b: _chosen(holds, a, b), now, output)
        shown = output
        if self._zero:
            shown = tree.map_structure(lambda a: _chosen(holds, a, tapec.zeros_like(a)), now)
        return [kept, output], shown


def _chosen(holds: Tensor, new: Tensor, old: Tensor) -> Tensor:
    for _ in range(new.type.rank - holds.type.rank):
        holds = tapec.expand_dims(holds, -1)
    return tapec.where(holds, new, tapec.cast(old, new.dtype))


def _first_output(steps: _Steps, inputs: Any, states: Any) -> Any:
    """Zeros of the shape of an output."""
    _, output = steps.plain(states, tree.map_structure(lambda x: x[0], inputs))
    return tree.map_structure(tapec.zeros_like, output)


def _looped(
    steps: _Steps, inputs: Any, mask: Tensor | None, states: Any, backwards: bool
) -> tuple[Any, Any]:
    if mask is None:
        states, outputs = scan(steps.plain, states, inputs, reverse=backwards)
    else:
        states, outputs = scan(steps.masked, states, (inputs, mask), reverse=backwards)
    if backwards:
        outputs = tree.map_structure(lambda x: tapec.reverse(x, [0]), outputs)
    return states, outputs


def _unrolled(
    steps: _Steps, inputs: Any, mask: Tensor | None, states: Any, backwards: bool
) -> tuple[Any, Any]:
    count = tree.flatten(inputs)[0].shape[0]
    if not count:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    found = []
    for i in reversed(range(count)) if backwards else range(count):
        row = tree.map_structure(lambda x, i=i: x[i], inputs)
        if mask is None:
            states, output = steps.plain(states, row)
        else:
            states, output = steps.masked(states, (row, mask[i]))
        found.append(output)
    return states, tree.map_structure(lambda *rows: tapec.stack(rows), *found)


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    """Whether a library of NVIDIA's would do it: no."""
    return False


def lstm(*args: Any, **kwargs: Any) -> NoReturn:
    """There is none beside `rnn`, which Keras then takes: compiled, it is one loop.

    Raises:
        NotImplementedError: always; Keras expects it.
    """
    raise NotImplementedError


gru = lstm
bidirectional_lstm = lstm
bidirectional_gru = lstm
