"""tapec.autodiff: derivatives along a direction.

The derivative of ``J^T u`` with respect to ``u``, in the direction of the tangents, is ``J tangents``. A walk back is
linear in its seeds, so two of them give it exactly, and whatever differentiates a walk back differentiates this.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tapec import arguments
from tapec.absences.names import namespace
from tapec.derivatives.unconnected import UnconnectedGradients
from tapec.errors import RuntimeError, TypeError, ValueError
from tapec.frames import here
from tapec.structure import flatten, unflatten
from tapec.tape import GradientTape
from tapec.tensor import Tensor, apply, as_tensor
from tapec.variable import Variable

__all__ = ["ForwardAccumulator", "GradientTape"]


class ForwardAccumulator:
    """Jacobian-vector products: how results change when the primals move along the tangents.

    ::

        with tapec.autodiff.ForwardAccumulator(x, direction) as accumulator:
            y = f(x)
        change = accumulator.jvp(y)

    Accumulators and tapes nest in any order. The operations of the block are recorded, as on a tape.

    Args:
        primals: a Tensor or Variable, or a structure of them.
        tangents: a structure of the same number of tensors, each of its primal's shape and dtype.

    Raises:
        TypeError: a primal is no Tensor or Variable.
        ValueError: tangents do not fit the primals, or a primal is given twice.
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._primals = list(flatten(primals)[0])
        given = flatten(tangents)[0]
        if len(given) != len(self._primals):
            raise ValueError(
                f"{len(self._primals)} primals, but {len(given)} tangents", location=here()
            )
        if len({id(primal) for primal in self._primals}) < len(self._primals):
            raise ValueError(
                "a primal was given several times",
                location=here(),
                hint="give it once, with the sum of its tangents",
            )
        self._tangents: list[Tensor] = []
        for primal, tangent in zip(self._primals, given, strict=True):
            if not isinstance(primal, Tensor | Variable):
                raise TypeError(
                    f"a primal must be a Tensor or Variable, got {type(primal).__name__}",
                    location=here(),
                )
            value = as_tensor(tangent, primal.dtype)
            if value.type.shape != primal.type.shape:
                raise ValueError(
                    f"a tangent has shape {value.shape}, its primal has {primal.shape}",
                    location=here(),
                )
            self._tangents.append(value)
        self._tape = GradientTape(persistent=True)
        self._is_recording = False
        self._was_entered = False

    def __enter__(self) -> ForwardAccumulator:
        if self._is_recording:
            raise ValueError("The accumulator is already recording.", location=here())
        self._is_recording = self._was_entered = True
        self._tape.__enter__()
        self._tape.watch(self._primals)
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_recording = False
        self._tape.__exit__(*exception)

    def jvp(
        self,
        primals: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """How values change along the tangents.

        Args:
            primals: a Tensor computed in the block, or a structure of them.
            unconnected_gradients: None or zeros for what does not depend on the accumulator's primals.

        Returns:
            A structure like ``primals``: each of its value's shape and dtype, or None.

        Raises:
            RuntimeError: the block was never entered.
        """
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        if not self._was_entered:
            raise RuntimeError("this accumulator never recorded", location=here())
        leaves, spec = flatten(primals)
        changes: list[Tensor | None] = []
        with self._tape.stop_recording() if self._is_recording else nullcontext():
            for leaf in leaves:
                change = self._jvp(leaf)
                if change is None and unconnected is UnconnectedGradients.ZERO:
                    change = apply("constant", value=0, type=leaf.type)
                changes.append(change)
        return unflatten(spec, changes)

    def _jvp(self, value: Tensor | Variable) -> Tensor | None:
        if not isinstance(value, Tensor | Variable):
            raise TypeError(
                f"jvp takes Tensors and Variables, got {arguments.shown(value)}", location=here()
            )
        if not value.dtype.is_differentiable:
            return None
        seed: Tensor = apply("constant", value=0, type=value.type)
        with GradientTape() as tape:
            tape.watch(seed)
            pulled = self._tape.gradient(value, self._primals, output_gradients=[seed])
        pairs = [(g, t) for g, t in zip(pulled, self._tangents, strict=True) if g is not None]
        if not pairs:
            return None
        change: Tensor | None = tape.gradient(
            [g for g, _ in pairs], seed, output_gradients=[t for _, t in pairs]
        )
        return change


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("autodiff")
