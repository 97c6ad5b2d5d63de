"""Depthwise convolutions the other way: linear in the image, and in the filters, they have transposes.

Tapes take these by themselves; TensorFlow has names for them.
"""

from __future__ import annotations

from collections.abc import Callable
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

    def convolved(image: Tensor) -> Tensor:
        return depthwise_conv2d(image, w, strides, padding, data_format, dilations)

    return _transposed(convolved, input_sizes, w, out_backprop)


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

    def convolved(weights: Tensor) -> Tensor:
        return depthwise_conv2d(x, weights, strides, padding, data_format, dilations)

    return _transposed(convolved, filter_sizes, x, out_backprop)


def _transposed(
    linear: Callable[[Tensor], Tensor], sizes: Any, other: Tensor, out_backprop: TensorLike
) -> Tensor:
    """The transpose of a linear function of tensors of the given sizes, and of the other factor's dtype."""
    source = zeros(as_shape(sizes), other.type.dtype)
    with GradientTape() as tape:
        tape.watch(source)
        result = linear(source)
    seed = as_tensor(out_backprop, result.type.dtype)
    if seed.type.shape != result.type.shape:
        raise misfit(
            f"out_backprop must have shape {shape_text(result.type.shape)}, got {shape_text(seed.type.shape)}"
        )
    found: Tensor = tape.gradient(result, source, seed)
    return found
