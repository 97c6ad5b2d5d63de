"""The namespace ``tapec.train``: averages of Variables while they are trained. Optimizers are in `tapec.optimizers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec import arguments
from tapec.absences.names import namespace
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, divide, minimum, multiply, pow, subtract
from tapec.functions.arrays import zeros_like
from tapec.optimizers.undo import Undo
from tapec.recording import tracing
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.variable import Variable


class ExponentialMovingAverage:
    """Averages of Variables over their latest values: ``average -= (1 - decay) * (average - variable)``.

    ::

        ema = tapec.train.ExponentialMovingAverage(0.999)
        for batch in batches:
            train(batch)
            ema.apply(model.trainable_variables)
        ema.average(model.w)

    `apply` may be part of a compiled step.

    Args:
        decay: how much of an average stays, near 1.
        num_updates: the number of the step, a number or a Variable; then the decay is at most
            ``(1 + num_updates) / (10 + num_updates)``, less at the beginning.
        zero_debias: begin with 0 and divide by ``1 - decay ** steps``, instead of beginning with the first value.
            Source: Kingma, Ba, "Adam: a method for stochastic optimization", 2015.
        name: what the averages' names end with.
    """

    def __init__(
        self,
        decay: TensorLike,
        num_updates: TensorLike = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}
        #: With `zero_debias`: the sums that are not divided yet, and the number of steps.
        self._biased: dict[Any, tuple[Variable, Variable]] = {}

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def apply(self, var_list: Sequence[Variable] | None = None) -> None:
        """Move the averages on by one step, all or, if that fails, none; of a new Variable begin one.

        Raises:
            TypeError: something is no Variable.
            ValueError: no Variables are given, or one is not of floats.
        """
        if var_list is None:
            raise ValueError(
                "ExponentialMovingAverage.apply needs the Variables",
                location=here(),
                hint="pass a list of them",
            )
        variables = [_required(variable) for variable in arguments.items(var_list, "var_list")]
        for variable in variables:
            if not variable.dtype.is_floating:
                raise ValueError(
                    f"The variables must be half, float, or double, got {variable.name} of {variable.dtype.name}",
                    location=here(),
                )
        with Undo() as undo:
            for variable in variables:
                self._apply(variable, undo)

    def _apply(self, variable: Variable, undo: Undo) -> None:
        key = variable.ref()
        if key not in self._averages:
            self._begin(variable, undo)
        value, decay = variable.read_value(), self._decay_for(variable)
        average = self._averages[key]
        undo.keep(average)
        if not self._zero_debias:
            average.assign_sub(multiply(subtract(average, value), subtract(1, decay)))
            return
        total, steps = self._biased[key]
        undo.keep(total)
        undo.keep(steps)
        steps.assign_add(1)
        total.assign_sub(multiply(subtract(total, value), subtract(1, decay)))
        average.assign(divide(total, subtract(1, pow(decay, steps))))

    def _begin(self, variable: Variable, undo: Undo) -> None:
        """Variables for an average; they outlive the function that is being compiled."""
        name, key = f"{variable.name.partition(':')[0]}/{self._name}", variable.ref()
        with tracing(None):
            start = zeros_like(variable.array) if self._zero_debias else variable.array
            average = Variable(start, trainable=False, name=name)
            if self._zero_debias:
                total = Variable(start, trainable=False, name=f"{name}/biased")
                steps = Variable(
                    as_tensor(0, variable.dtype), trainable=False, name=f"{name}/steps"
                )
                undo.enters(self._biased, key, (total, steps))
        undo.enters(self._averages, key, average)

    def _decay_for(self, variable: Variable) -> Tensor:
        decay = cast(self._decay, variable.dtype)
        if self._num_updates is None:
            return decay
        count = cast(self._num_updates, variable.dtype)
        return minimum(decay, divide(count + 1, count + 10))

    def average(self, var: Variable) -> Variable | None:
        """The average of a Variable, itself a Variable; None if `apply` never saw it."""
        return self._averages.get(_required(var).ref())

    def average_name(self, var: Variable) -> str:
        """The name of the average of a Variable."""
        return f"{_required(var).name.partition(':')[0]}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Variable]:
        """The averages by name."""
        return {average.name.partition(":")[0]: average for average in self._averages.values()}


def _required(variable: Any) -> Variable:
    """A Variable.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(variable, Variable):
        raise TypeError(
            f"ExponentialMovingAverage takes tapec.Variables, got {type(variable).__name__}",
            location=here(),
        )
    return variable


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("train")
