"""One call of a compiled function: its arguments taken apart, and the key by which they select programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tapec.compiled.comparison import Description, describe_call
from tapec.compiled.keys import Quick, as_input, leaf_key, learn, objects_among
from tapec.compiled.parameters import Parameters
from tapec.compiled.scalars import is_number
from tapec.structure import flatten, key_orders
from tapec.tensor import Tensor


class Call:
    """The arguments of a call.

    Attributes:
        args: by position, defaults included.
        kwargs: the others, by name.
        leaves: what they are made of, in order; arrays are Tensors.
        spec: how `tapec.structure.unflatten` makes them of the leaves.
        form: equal for calls of equal ``spec`` that have their names and keys in one order.
        has_kwargs: whether there are any by name, so that leaves make a list and a dict, not a list.
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

    @cached_property
    def key(self) -> Any:
        """Equal for calls that programs may be shared by."""
        learn([self.args, self.kwargs], self.leaves)
        key = Quick().key(self._parameters, self.args, self.kwargs)
        return (self.form, tuple(map(leaf_key, self.leaves))) if key is None else key

    @cached_property
    def objects(self) -> list[Any]:
        """What programs for this call may hang on; see `tapec.compiled.shelves`."""
        return objects_among(self.leaves)

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The inputs of the program."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    @cached_property
    def numbers(self) -> list[Any]:
        """The numbers, in order."""
        return [leaf for leaf in self.leaves if is_number(leaf)]

    @cached_property
    def description(self) -> Description:
        """The arguments, for comparison with those of other calls."""
        return describe_call(self._parameters, self.args, self.kwargs)

    @property
    def described_numbers(self) -> list[tuple[str, Any, bool]]:
        """Of each number the path, the value, and whether it is an argument by itself, not a part of one."""
        described = [d for d in self.description.leaves() if d.kind == "number"]
        whole = self.description.parts or {}
        pairs = zip(self.numbers, described, strict=True)
        return [(d.path, number, d.path in whole) for number, d in pairs]
