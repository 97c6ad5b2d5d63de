"""Attributes that arrays and tensors of other libraries have, and what to use of tapec in their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from tapec.errors import AttributeError
from tapec.frames import here

#: In place of an attribute of ``x``, under its name or one of its names.
INSTEAD: dict[str, str] = {
    # of NumPy's arrays
    "transpose permute": "tapec.transpose(x)",
    "H": "tapec.linalg.adjoint(x)",
    "reshape view resize": "tapec.reshape(x, shape)",
    "ravel flatten": "tapec.reshape(x, [-1])",
    "astype type to float double half int long": "tapec.cast(x, dtype)",
    "sum": "tapec.reduce_sum(x, axis)",
    "mean": "tapec.reduce_mean(x, axis)",
    "max amax": "tapec.reduce_max(x, axis)",
    "min amin": "tapec.reduce_min(x, axis)",
    "prod": "tapec.reduce_prod(x, axis)",
    "std": "tapec.math.reduce_std(x, axis)",
    "var": "tapec.math.reduce_variance(x, axis)",
    "any": "tapec.reduce_any(x, axis)",
    "all": "tapec.reduce_all(x, axis)",
    "numel": "tapec.size(x)",
    "dot matmul mm bmm": "tapec.matmul(x, y)",
    "clip clamp": "tapec.clip_by_value(x, low, high)",
    "conj": "tapec.math.conj(x)",
    "real": "tapec.math.real(x)",
    "imag": "tapec.math.imag(x)",
    "take index_select": "tapec.gather(x, indices)",
    "dim": "x.ndim",
    "fill put itemset masked_fill": "a new tensor, as tapec.where makes it: tensors do not change",
    "flat nbytes itemsize strides data base flags tolist tobytes": "the array x.numpy()",
    "item": "float(x), or x.numpy()",
    # of PyTorch's tensors
    "detach": "tapec.stop_gradient(x)",
    "clone copy": "x itself: tensors do not change",
    "backward": "tape.gradient(x, variables), of the tapec.GradientTape that recorded x",
    "grad": "what tape.gradient(target, x) returns: gradients are not kept in tensors",
    "requires_grad requires_grad_": "tapec.Variable, or tape.watch(x)",
    "zero_grad": "nothing: each tape.gradient begins anew",
    "unsqueeze": "tapec.expand_dims(x, axis)",
    "cuda gpu": "x as it is: tapec runs on the CPU",
    "norm": "tapec.norm(x)",
    "softmax": "tapec.nn.softmax(x)",
    "relu": "tapec.nn.relu(x)",
    # of TensorFlow's
    "eval": "x.numpy()",
    "op graph consumers": "tape.memory() or f.ir(), which show what was recorded: tensors know no program",
    "name": "the name of a Variable: tensors have none",
    "assign assign_add assign_sub": "a tapec.Variable, which can be assigned; tensors do not change",
    "initializer": "the value: a Variable has it from the start",
    "load": "v.assign(value)",
    "experimental_ref": "x.ref()",
}

#: The same of an optimizer ``opt``.
OF_OPTIMIZERS: dict[str, str] = {
    "get_weights set_weights weights state_dict load_state_dict": "the Variables in opt.variables",
    "get_slot get_slot_names add_slot add_variable add_variable_from_reference": "opt.variables; "
    "a rule of your own says in its method slots what it keeps",
    "get_gradients compute_gradients get_updates": "tape.gradient(loss, variables)",
    "zero_grad": "nothing: each tape.gradient begins anew",
    "param_groups": "one optimizer for each group of variables",
    "get_scaled_loss": "opt.scale_loss(loss), of a LossScaleOptimizer",
    "get_unscaled_gradients": "opt.apply_gradients, which divides by the scale",
    "assign": "v.assign(value) of a Variable",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: text for names, text in table.items() for name in names.split()}


_BY_NAME, _OF_OPTIMIZERS = _by_name(INSTEAD), _by_name(OF_OPTIMIZERS)

#: What Keras asks of every tensor, in every operation.
_ASKED = frozenset({"sparse", "ragged"})

_HOMES = ("", "math.", "nn.", "linalg.")


def missing_of_optimizer(owner: object, name: str) -> Exception:
    """The error for an attribute that an optimizer does not have."""
    instead = _OF_OPTIMIZERS.get(name)
    return AttributeError(
        f"{type(owner).__name__!r} object has no attribute {name!r}",
        location=None if name.startswith("_") else here(),
        hint=None if instead is None else f"use {instead}",
    )


def missing_attribute(owner: object, name: str) -> Exception:
    """The error for an attribute that a Tensor or Variable does not have."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name.startswith("_") or name in _ASKED:
        return AttributeError(text)  # what other libraries try
    instead = _BY_NAME.get(name) or _function(name)
    return AttributeError(text, location=here(), hint=None if instead is None else f"use {instead}")


@cache
def _function(name: str) -> str | None:
    """A public function of the same name."""
    for home in _HOMES:
        space: Any = import_module(f"tapec.{home}"[:-1])
        if name in dir(space) and isinstance(getattr(space, name), Callable):  # type: ignore[arg-type]
            return f"tapec.{home}{name}(x)"
    return None
