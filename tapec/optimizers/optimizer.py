"""Optimizer: what every update rule shares.

An update is ordinary tensor arithmetic on Variables, so that `tapec.compile` takes it into the step
it belongs to. The interface is that of Keras 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from tapec import arguments
from tapec.absences.attributes import missing_of_optimizer
from tapec.at_line import AtLine
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    clip_by_value,
    divide,
    equal,
    floordiv,
    floormod,
    multiply,
    subtract,
    where,
)
from tapec.functions.clipping import clip_by_global_norm, clip_by_norm
from tapec.functions.logic import logical_and
from tapec.ir.types import F32, I64, DType
from tapec.optimizers.given import fitted, present
from tapec.optimizers.minimization import slopes
from tapec.optimizers.native import update_natively
from tapec.optimizers.schedules import LearningRateSchedule
from tapec.optimizers.updating import Updating
from tapec.recording import tracing
from tapec.tape import GradientTape
from tapec.tensor import Reference, Tensor, TensorLike, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable, variable_behind

Rate = float | Variable | LearningRateSchedule | Callable[[], TensorLike]
#: What a rule keeps for one variable, by name.
Slots = dict[str, Variable]


def blend(share: float, old: TensorLike, new: TensorLike) -> Tensor:
    """``share * old + (1 - share) * new``: a step of a moving average."""
    return add(old, multiply(subtract(new, old), 1 - share))


def _own(variable: Any) -> Any:
    """Of a variable of another library, what holds its value."""
    if isinstance(variable, Variable):
        return variable
    found = variable_behind(variable)
    return variable if found is None else found


class Optimizer:
    """Base of the optimizers; a subclass defines `slots` and `update`.

    Args:
        learning_rate: a number, kept in a Variable that may be assigned; or a schedule, called with
            `iterations`; or a function of nothing.
        weight_decay: how much of ``learning_rate * variable`` each step takes away, before the
            update. Source: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
        clipnorm: the greatest norm of the gradient of one variable.
        clipvalue: the greatest magnitude of an element of a gradient.
        global_clipnorm: the greatest norm of all gradients together.
        use_ema: whether a moving average of each variable is kept.
        ema_momentum: ``average = momentum * average + (1 - momentum) * variable``.
        ema_overwrite_frequency: after how many steps the variables become their averages.
        gradient_accumulation_steps: how many calls one update takes the mean gradient of.
        name: of the optimizer.

    Raises:
        ValueError: arguments that exclude each other or are out of range.
    """

    #: Attributes that updates fill in by themselves, so that compiled functions rest on none of them.
    _MEMOS = frozenset({"_known", "_updating"})

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        *,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
    ) -> None:
        if sum(limit is not None for limit in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError(
                "Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set. Received: "
                f"clipnorm={clipnorm}, clipvalue={clipvalue}, global_clipnorm={global_clipnorm}",
                location=here(),
            )
        if gradient_accumulation_steps is not None and gradient_accumulation_steps < 2:
            raise ValueError(
                "`gradient_accumulation_steps` must be an integer >= 2, got "
                f"{gradient_accumulation_steps}",
                location=here(),
            )
        self.name = name or type(self).__name__.lower()
        self.weight_decay = weight_decay
        self.clipnorm = clipnorm
        self.clipvalue = clipvalue
        self.global_clipnorm = global_clipnorm
        self.use_ema = use_ema
        self.ema_momentum = ema_momentum
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._calls = Variable(0, trainable=False, name="iteration", dtype=I64)
        self._rate: Variable | LearningRateSchedule | Callable[[], TensorLike]
        if callable(learning_rate) or isinstance(learning_rate, Variable):
            self._rate = learning_rate
        else:
            self._rate = Variable(learning_rate, trainable=False, name="learning_rate", dtype=F32)
        #: The slots of each variable. References, not ids: copies of an optimizer refer to copies of variables.
        self._known: dict[Reference, Slots] = {}
        self._undecayed: set[Reference] = set()
        self._updating = Updating()

    def __getattr__(self, name: str) -> Any:
        raise missing_of_optimizer(self, name)

    # -- state

    @property
    def iterations(self) -> Any:
        """How many updates were made: an int64 Variable (a Tensor if gradients are accumulated)."""
        if self.gradient_accumulation_steps is None:
            return self._calls
        return floordiv(self._calls, self.gradient_accumulation_steps)

    @property
    def learning_rate(self) -> Any:
        """The rate now: the Variable that holds it, or what the schedule gives."""
        if isinstance(self._rate, Variable):
            return self._rate
        if isinstance(self._rate, LearningRateSchedule):
            return self._rate(self.iterations)
        return self._rate()

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) or isinstance(value, Variable):
            self._rate = value
        elif isinstance(self._rate, Variable):
            self._rate.assign(value)
        else:
            self._rate = Variable(value, trainable=False, name="learning_rate", dtype=F32)

    @property
    def lr(self) -> Any:
        """Short for `learning_rate`."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    @property
    def variables(self) -> list[Variable]:
        """All state: the count, the rate, then the slots of each variable."""
        own = [self._calls, *([self._rate] if isinstance(self._rate, Variable) else [])]
        return own + [slot for slots in self._known.values() for slot in slots.values()]

    def build(self, variables: Iterable[Variable]) -> None:
        """Make the slots of these variables now rather than at their first update."""
        own = [_own(given) for given in arguments.items(variables, "variables")]
        for given in own:
            if not isinstance(given, Variable):
                raise TypeError(
                    f"build takes tapec.Variables, got {type(given).__name__}", location=here()
                )
        with self._updating.taken():
            for variable in own:
                self._slots(variable)

    def _slots(self, variable: Variable) -> Slots:
        slots = self._known.get(variable.ref())
        if slots is None:
            with tracing(None):  # as if `build` had made them in front of a trace
                slots = self._made(variable)
            self._updating.enters(self._known, variable.ref(), slots)
        return slots

    def _made(self, variable: Variable) -> Slots:
        """New slots for a variable."""
        slots = {n: self._slot(variable, n, v) for n, v in self.slots(variable).items()}
        if self.gradient_accumulation_steps is not None:
            slots["accumulated"] = self._slot(variable, "accumulated", 0.0)
        if self.use_ema:
            slots["average"] = self._slot(variable, "average", variable.array)
        return slots

    def _slot(self, variable: Variable, name: str, value: Any) -> Variable:
        stem = variable.name.removesuffix(":0")
        own = value if isinstance(value, np.ndarray) else np.asarray(value)
        with AtLine(f"no memory for {name} of {stem}"):
            start = np.full(
                tuple(variable.shape) if own.ndim == 0 else own.shape, own, variable.dtype.numpy
            )
            return Variable(start, trainable=False, name=f"{stem}_{name}")

    def exclude_from_weight_decay(self, var_list: Iterable[Variable]) -> None:
        """Spare these variables from `weight_decay`."""
        self._undecayed |= {v.ref() for v in var_list}

    # -- what a rule defines

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The Variables that the rule keeps for a variable, by name, and where they start.

        A number fills the variable's shape; an array has its own.
        """
        return {}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """Change a variable and its slots, with `set`."""
        raise NotImplementedError("an optimizer defines update")

    def update_slices(
        self, g: IndexedSlices, variable: Variable, slots: Slots, rate: Tensor
    ) -> None:
        """`update` for a gradient of slices: of the dense gradient, but for a rule that can do with less.

        Equal indices count as their sum, in every rule.
        """
        self.update(as_tensor(g), variable, slots, rate)

    def set(self, variable: Variable, value: Tensor) -> None:
        """Assign, unless gradients are being accumulated in this call."""
        updating = self._updating
        if updating.mask is not None:
            value = where(updating.mask, value, variable)
        if updating.undo is not None:
            updating.undo.keep(variable)
        variable.assign(value)

    def add_slices(self, variable: Variable, slices: IndexedSlices) -> None:
        """Add to parts of a variable, unless gradients are being accumulated in this call."""
        updating = self._updating
        if updating.mask is not None:
            slices = slices.map(lambda values: where(updating.mask, values, 0))
        if updating.undo is not None:
            updating.undo.keep_slices(variable, slices)
        variable.scatter_add(slices)

    def step(self, dtype: DType) -> Tensor:
        """The number of the update that is being made, from 1 on, as a float."""
        return cast(add(self.iterations, 1), dtype)

    # -- what a user calls

    def apply_gradients(self, grads_and_vars: Iterable[tuple[TensorLike | None, Variable]]) -> Any:
        """Update variables by their gradients: all of them or, if that fails, none.

        Args:
            grads_and_vars: pairs ``(gradient, variable)``. Pairs whose gradient is None are left
                out, with a warning that names the variables.

        Returns:
            `iterations`.

        Raises:
            ValueError: no pairs, or no gradient at all.
            InvalidArgumentError: a gradient has another shape than its variable (ValueError while a
                function is compiled).
            AttributeError: a Tensor stands in the place of a variable.
        """
        return self.apply_where(None, grads_and_vars)

    def apply_where(
        self,
        condition: Tensor | None,
        grads_and_vars: Iterable[tuple[TensorLike | None, Variable]],
    ) -> Any:
        """`apply_gradients` that changes nothing if a scalar condition does not hold."""
        given = arguments.pairs(grads_and_vars, "grads_and_vars")
        pairs = present([(gradient, _own(variable)) for gradient, variable in given])
        variables = [v for _, v in pairs]
        dense = self._changes_whole()
        gradients = [fitted(g, v, dense) for g, v in pairs]
        # A constraint is Python code of the user's, and what a native program wrote in place cannot be taken back.
        constrained = [v for v in variables if v.constraint is not None]
        with self._updating.taken():
            for variable in variables:
                self._slots(variable)
            if constrained or not update_natively(self, condition, gradients, variables):
                self.change(condition, gradients, variables)
            for variable in constrained:
                assert variable.constraint is not None
                value = variable.constraint(as_tensor(variable))
                self.set(variable, as_tensor(value, variable.dtype))
            return self.iterations

    def change(
        self, condition: Tensor | None, gradients: Sequence[Any], variables: Sequence[Variable]
    ) -> None:
        """Change variables and slots by gradients that fit, if a condition holds that is not None."""
        gradients = self._clipped(gradients)
        self._updating.mask = condition
        try:
            if self.gradient_accumulation_steps is not None:
                gradients = self._accumulated(gradients, variables)
            self._updating.biases = {}
            self._update_all(gradients, variables)
            self._average(variables)
            self._updating.mask = condition  # a call counts, even if it only accumulates
            self.set(self._calls, add(self._calls, 1))
        finally:
            self._updating.mask = self._updating.biases = None

    def _changes_whole(self) -> bool:
        """Whether an option needs gradients of slices merged: a norm, or a mean over several calls."""
        return bool(
            self.clipnorm is not None
            or self.clipvalue is not None
            or self.global_clipnorm is not None
            or self.gradient_accumulation_steps is not None
        )

    def _update_all(self, gradients: Sequence[Any], variables: Sequence[Variable]) -> None:
        rate = as_tensor(self.learning_rate)
        for gradient, variable in zip(gradients, variables, strict=True):
            own_rate = cast(rate, variable.dtype)
            if self.weight_decay and variable.ref() not in self._undecayed:
                decay = multiply(multiply(variable, self.weight_decay), own_rate)
                self.set(variable, subtract(variable, decay))
            update = self.update_slices if isinstance(gradient, IndexedSlices) else self.update
            update(gradient, variable, self._slots(variable), own_rate)

    def apply(
        self,
        grads: Sequence[TensorLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> Any:
        """`apply_gradients` of two lists; without variables those of `build`, in order."""
        if trainable_variables is None:
            trainable_variables = [known.deref() for known in self._known]
        found = arguments.items(grads, "grads")
        variables = arguments.items(trainable_variables, "trainable_variables")
        if len(found) != len(variables):
            raise ValueError(
                f"apply: {len(found)} gradients for {len(variables)} variables", location=here()
            )
        return self.apply_gradients(zip(found, variables, strict=True))

    def minimize(
        self,
        loss: Callable[[], TensorLike] | TensorLike,
        var_list: Iterable[Variable] | Callable[[], Iterable[Variable]],
        tape: GradientTape | None = None,
    ) -> Any:
        """Update variables by the gradients of a loss.

        Args:
            loss: a function of nothing that computes it; or the loss itself, a tensor of ``tape``'s.
            var_list: the variables, or a function that gives them once the loss is computed.
            tape: what records the loss; a new one for a function, if None.

        Returns:
            `iterations`.

        Raises:
            ValueError: a tensor without its tape, or as `apply_gradients`.
        """
        return self.apply_gradients(slopes(loss, var_list, tape))

    # -- steps of an update

    def _clipped(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        if self.clipnorm is not None:
            return [clip_by_norm(g, self.clipnorm) for g in gradients]
        if self.clipvalue is not None:
            return [clip_by_value(g, -self.clipvalue, self.clipvalue) for g in gradients]
        if self.global_clipnorm is not None:
            clipped, _ = clip_by_global_norm(gradients, self.global_clipnorm)
            return [g for g in clipped if g is not None]
        return gradients

    def _accumulated(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable]
    ) -> list[Tensor]:
        """Mean gradients, and the mask that lets only every so many-th call update."""
        count = self.gradient_accumulation_steps
        last = equal(floormod(add(self._calls, 1), count), 0)
        means = []
        for gradient, variable in zip(gradients, variables, strict=True):
            slot = self._slots(variable)["accumulated"]
            total = add(slot, gradient)
            self.set(slot, where(last, 0, total))
            means.append(divide(total, count))
        mask = self._updating.mask
        self._updating.mask = last if mask is None else logical_and(mask, last)
        return means

    def _average(self, variables: Sequence[Variable]) -> None:
        if not self.use_ema:
            return
        past = where(equal(self.iterations, 0), 0.0, self.ema_momentum)
        for variable in variables:
            slot = self._slots(variable)["average"]
            share = cast(past, variable.dtype)
            mean = add(multiply(share, slot), multiply(subtract(1, share), variable))
            self.set(slot, mean)
            if self.ema_overwrite_frequency:
                step = add(self.iterations, 1)
                due = equal(floormod(step, self.ema_overwrite_frequency), 0)
                self.set(variable, where(due, mean, variable))

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        """Give variables their moving averages, at the end of training."""
        for variable in var_list:
            slots = self._slots(variable)
            if "average" in slots:
                variable.assign(slots["average"])

    def __repr__(self) -> str:
        """The class, its rate, and what it was made with that is not usual for all optimizers."""
        rate = self._rate
        settings = {"learning_rate": f"{rate.array:.6g}" if isinstance(rate, Variable) else rate}
        usual = signature(Optimizer.__init__).parameters
        for key, value in vars(self).items():
            known = usual.get(key)
            if key[0] != "_" and key != "name" and (known is None or known.default != value):
                settings[key] = value
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in settings.items())})"

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal optimizer."""
        settings = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        rate = self._rate
        settings["learning_rate"] = float(rate) if isinstance(rate, Variable) else rate
        return settings

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """An optimizer from the arguments of another's `get_config`."""
        return cls(**config)
