"""Functions whose derivative the user writes, or that are run again for it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, overload

import numpy as np

from tapec import arguments
from tapec.autograph.conversion import converted
from tapec.derivatives.attachment import attach
from tapec.draws import Draws
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import identity
from tapec.ir.location import Location
from tapec.recording import current_trace, tracing
from tapec.structure import flatten, unflatten
from tapec.tape import GradientTape
from tapec.tensor import Tensor, as_tensor
from tapec.variable import Variable

F = TypeVar("F", bound=Callable[..., Any])


class _Watcher(GradientTape):
    """A tape that only hears which Variables are read."""

    def record(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def record_operation(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def record_call(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    def record_custom(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""


@overload
def custom_gradient(f: F) -> F: ...
@overload
def custom_gradient(f: None = None) -> Callable[[F], F]: ...
def custom_gradient(f: Any = None) -> Any:
    """Decorate a function that returns its result together with the function of its gradient.

    ::

        @tapec.custom_gradient
        def log1pexp(x):
            e = tapec.exp(x)
            return tapec.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))

    ``f(*args)`` returns ``(result, grad_fn)``. ``grad_fn`` gets the gradient with respect to each Tensor of the
    result, in order, and returns one for each argument (or None) that the call gave by position, but for a method's
    object; nothing flows to those that it gave by name. If ``f`` reads trainable Variables that are not
    arguments, ``grad_fn`` has the keyword ``variables`` and returns two lists: for the arguments, for the Variables.
    Second derivatives follow the operations of ``grad_fn``. In a compiled function it is traced with the call.

    Returns:
        A function that returns the result alone.

    Raises:
        TypeError: at a call, if ``f`` returns no such pair, or reads Variables that ``grad_fn`` does not take.
        ValueError: at a gradient, if ``grad_fn`` returns too few or too many, or of other shapes or dtypes.
    """
    if f is None:
        return custom_gradient  # @tapec.custom_gradient()
    arguments.function(f, "f")
    return _WithGradient(f)


class _WithGradient:
    """A function with a gradient of the user's; in a class it is a method."""

    def __init__(self, f: Any) -> None:
        self._function = f
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._function, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _WithGradient(self._function.__get__(instance, owner))


def grad_pass_through(f: F) -> F:
    """A function like ``f`` whose gradient is that of the identity: the result's, for every argument.

    Example: ``grad_pass_through(tapec.round)(x)`` rounds forwards and lets gradients pass.
    """
    arguments.function(f, "f")

    def passed(*args: Any, **kwargs: Any) -> Any:
        def gradient(*upstream: Any, variables: Sequence[Variable] = ()) -> Any:
            return (upstream, [None] * len(variables)) if variables else upstream

        return converted(f)(*args, **kwargs), gradient

    return custom_gradient(functools.wraps(f)(passed))  # type: ignore[return-value]


def recompute_grad(f: F) -> F:
    """A function like ``f`` that is run again for its gradient: tapes keep its arguments, nothing from inside.

    Any order of derivative. Variables that it reads have gradients too, at the values that they have by then. What is
    drawn at random is the same when it runs again. In a compiled function, too, nothing from inside is kept: it is
    computed again right before the gradient reads it.
    """
    arguments.function(f, "f")

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten([list(args), kwargs])
        draws = Draws()

        def gradient(*upstream: Any, variables: Sequence[Variable] = ()) -> Any:
            with GradientTape() as tape:
                # Each argument is one of its own, also where the call gave a tensor twice.
                own = [identity(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
                tensors = [v for v in own if isinstance(v, Tensor) and v.dtype.is_differentiable]
                tape.watch(tensors)
                positional, named = unflatten(spec, own)
                with _computing_again(), draws.again():
                    result = converted(f)(*positional, **named)
            targets = [as_tensor(y) for y in flatten(result)[0] if y is not None]
            sources = [*tensors, *variables]
            found = iter(tape.gradient(targets, sources, list(upstream)) if sources else ())
            flows = set(map(id, tensors))
            gradients = [next(found) if id(v) in flows else None for v in own]
            return (gradients, list(found)) if variables else gradients

        with draws.heard():
            return converted(f)(*args, **kwargs), gradient

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return _call(recomputed, args, kwargs, named_too=True, unheard=True)

    return decorated  # type: ignore[return-value]


@contextmanager
def _computing_again() -> Iterator[None]:
    """Mark what is traced: the same is there already, and nobody shall take one for the other."""
    trace = current_trace()
    first = 0 if trace is None else len(trace.function.block.ops)
    yield
    for op in [] if trace is None else trace.function.block.ops[first:]:
        if op.operands and not op.regions:
            op.attrs = {
                **op.attrs,
                "recompute": True,
            }  # tapes have what there was: no rule takes the mark


def _call(
    f: Callable[..., Any],
    args: Any,
    kwargs: Any,
    *,
    named_too: bool = False,
    unheard: bool = False,
) -> Any:
    """Call ``f`` and attach its gradient.

    Args:
        f: it.
        args: its arguments by position.
        kwargs: those by name.
        named_too: these have gradients, too.
        unheard: no tape records what happens inside.
    """
    leaves, spec = flatten([list(args), kwargs])
    count = len(leaves) if named_too else len(flatten(list(args))[0])
    leaves = [as_tensor(v) if isinstance(v, Variable | np.ndarray) else v for v in leaves]
    positional, named = unflatten(spec, leaves)
    with tracing(current_trace()) if unheard else nullcontext(), _Watcher() as watcher:
        returned = converted(f)(*positional, **named)
    if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
        raise TypeError(
            f"{_name(f)} must return (result, grad_fn), got {type(returned).__name__}",
            location=here(),
            hint="custom_gradient: return y, lambda upstream: ...",
        )
    result, grad_fn = returned
    variables = watcher.watched_variables()
    if variables and not _takes_variables(grad_fn):
        raise TypeError(
            "@tapec.custom_gradient grad_fn must accept keyword argument 'variables', since function uses "
            f"variables: {list(variables)}",
            location=here(),
            hint="def grad_fn(*upstream, variables=None): ... return gradients, variable_gradients",
        )
    reads = [variable.read_value() for variable in variables]
    leaves_out, result_spec = flatten(result)
    outputs = [as_tensor(y) for y in leaves_out if y is not None]
    leaves, named = leaves[:count], [v for v in leaves[count:] if isinstance(v, Tensor)]
    inputs = [*(v for v in leaves if isinstance(v, Tensor)), *reads, *named]

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        return [*_pull(grad_fn, leaves, variables, cotangents), *[None] * len(named)]

    code = getattr(grad_fn, "__code__", None)
    rule = None if code is None else Location(code.co_filename, code.co_firstlineno)
    results = iter(attach(outputs, inputs, pull, _name(f), rule) if outputs else ())
    return unflatten(result_spec, [y if y is None else next(results) for y in leaves_out])


def _name(f: Callable[..., Any]) -> str:
    return str(getattr(f, "__name__", type(f).__name__))


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def _pull(
    grad_fn: Callable[..., Any],
    leaves: Sequence[Any],
    variables: Sequence[Variable],
    cotangents: Sequence[Tensor],
) -> list[Tensor | None]:
    """Call the user's function: a gradient for each Tensor among the arguments, then for each Variable."""
    own: Any = ()
    if variables:
        found = grad_fn(*cotangents, variables=list(variables))
        if not (isinstance(found, tuple | list) and len(found) == 2):
            raise ValueError(
                "grad_fn must return (gradients, variable_gradients), since the function uses variables",
                location=here(),
            )
        found, own = found
    else:
        found = grad_fn(*cotangents)
    gradients, _ = flatten(list(found) if isinstance(found, tuple) else found)
    if len(gradients) != len(leaves):
        raise ValueError(
            f"custom_gradient function expected to return {len(leaves)} gradients, but returned "
            f"{len(gradients)} instead.",
            location=here(),
        )
    if len(own) != len(variables):
        raise ValueError(
            f"Must return gradient for each variable from @custom_gradient grad_fn: {len(variables)} "
            f"variables, {len(own)} gradients",
            location=here(),
        )
    pairs: list[tuple[Any, Tensor | Variable]] = [
        (g, v) for g, v in zip(gradients, leaves, strict=True) if isinstance(v, Tensor)
    ]
    pairs += zip(own, variables, strict=True)
    return [_fitted(gradient, source) for gradient, source in pairs]


def _fitted(gradient: Any, source: Tensor | Variable) -> Tensor | None:
    if gradient is None or not source.dtype.is_differentiable:
        return None
    result = as_tensor(gradient, source.dtype)
    if result.type.shape != source.type.shape:
        raise ValueError(
            f"grad_fn returned a gradient of shape {result.shape} for an argument of shape {source.shape}",
            location=here(),
        )
    return result
