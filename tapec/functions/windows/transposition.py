"""Depthwise convolutions the other way: linear in the image, and in the filters, they have transposes.

Tapes take these by themselves; TensorFlow has names for them.
"""

from __future__ import annotations

from typing import Any

from tapec.functions.arrays import zeros
from tapec.functions.broadcasting import misfit, shape_text
from tapec.functions.known import as_shape
from tapec.functions.windows.convolution import depthwise_conv2d
from tapec.tape import GradientTape
from tapec.tensor import Tensor, TensorLike, as_tensor


def depthwise_conv2d_backprop_input(
    input_sizes: Any,
    filter: TensorLike,
    out_backprop: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The cotangent of the image of `depthwise_conv2d`, from that of its result.

    Args:
        input_sizes: the shape of the image.
        filter: as there; so are the arguments that follow the next one.
        out_backprop: in the shape of the result.

    Raises:
        InvalidArgumentError: the shapes do not fit (ValueError while a function is compiled).
    """
    w = as_tensor(filter)
    image = zeros(as_shape(input_sizes), w.type.dtype)
    with GradientTape() as tape:
        tape.watch(image)
        result = depthwise_conv2d(image, w, strides, padding, data_format, dilations)
    return _transposed(tape, result, image, out_backprop)


def depthwise_conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: Any,
    out_backprop: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The cotangent of the filters of `depthwise_conv2d`, from that of its result.

    Args:
        input: the image, as there; so are the arguments that follow the next two.
        filter_sizes: the shape of the filters, ``[I, J, C, M]``.
        out_backprop: in the shape of the result.

    Raises:
        InvalidArgumentError: the shapes do not fit (ValueError while a function is compiled).
    """
    x = as_tensor(input)
    weights = zeros(as_shape(filter_sizes), x.type.dtype)
    with GradientTape() as tape:
        tape.watch(weights)
        result = depthwise_conv2d(x, weights, strides, padding, data_format, dilations)
    return _transposed(tape, result, weights, out_backprop)


def _transposed(
    tape: GradientTape, result: Tensor, source: Tensor, out_backprop: TensorLike
) -> Tensor:
    seed = as_tensor(out_backprop, result.type.dtype)
    if seed.type.shape != result.type.shape:
        raise misfit(
            f"out_backprop must have shape {shape_text(result.type.shape)}, got {shape_text(seed.type.shape)}"
        )
    found: Tensor = tape.gradient(result, source, seed)
    return found
