"""One call of a compiled function: its arguments taken apart, and the key by which they select programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapec.compiled.comparison import Description, describe_call
from tapec.compiled.keys import Quick, as_input, leaf_key, learn, objects_among
from tapec.compiled.parameters import Parameters
from tapec.structure import flatten, key_orders
from tapec.tensor import Tensor
from tapec.traces.scalars import is_number


class Call:
    """The arguments of a call.

    Attributes:
        args: by position, defaults included.
        kwargs: the others, by name.
        leaves: what they are made of, in order; arrays are Tensors.
        spec: how `tapec.structure.unflatten` makes them of the leaves.
        form: equal for calls of equal ``spec`` that have their names and keys in one order.
        has_kwargs: whether there are any by name, so that leaves make a list and a dict, not a list.
        key: equal for calls that programs may be shared by.
        tensors: the leaves that are inputs of the program.
        numbers: those that are Python's numbers.
        objects: those that programs for this call may hang on; see `tapec.compiled.shelves`.
    """

    def __init__(
        self, parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Take arguments apart that `Parameters.bind` put in order."""
        self._parameters = parameters
        self.args = args
        self.kwargs = kwargs
        self.has_kwargs = bool(kwargs)
        structure = [list(args), dict(kwargs)] if kwargs else list(args)
        found, self.spec = flatten(structure, parts=True)
        self.leaves = [as_input(leaf) for leaf in found]
        self.form = self.spec, parameters.order(kwargs), key_orders([*args, *kwargs.values()])
        self.tensors = [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]
        self.numbers = [leaf for leaf in self.leaves if is_number(leaf)]
        self.objects = objects_among(self.leaves)
        # None of these is a `cached_property`: that has a lock, which a fork would leave to nobody (Python 3.11).
        self.key = self._key()
        self._description: Description | None = None

    def _key(self) -> Any:
        learn([self.args, self.kwargs], self.leaves)
        key = Quick().key(self._parameters, self.args, self.kwargs)
        return (self.form, tuple(map(leaf_key, self.leaves))) if key is None else key

    @property
    def description(self) -> Description:
        """The arguments, for comparison with those of other calls."""
        if self._description is None:
            self._description = describe_call(self._parameters, self.args, self.kwargs)
        return self._description

    @property
    def described_numbers(self) -> list[tuple[str, Any, bool]]:
        """Of each number the path, the value, and whether it is an argument by itself, not a part of one."""
        described = [d for d in self.description.leaves() if d.kind == "number"]
        whole = self.description.parts or {}
        pairs = zip(self.numbers, described, strict=True)
        return [(d.path, number, d.path in whole) for number, d in pairs]
