"""What eager code works out once for an operation with operands of certain types and with certain attributes.

A loop runs the same operations again and again; each finds its `Signature` by one look into a table.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tapec.arguments import shown
from tapec.eager.native_operations import repeated
from tapec.errors import TypeError
from tapec.frames import here
from tapec.ir.errors import NotDifferentiableError
from tapec.ir.op import OPS, Elementwise, Op
from tapec.ir.ops.index import Lookup
from tapec.ir.ops.movement import Movement
from tapec.ir.reachability import vjp_reads
from tapec.ir.types import TensorType

#: Signatures kept; the table starts anew when it is full.
_CAPACITY = 8192


class Signature:
    """An operation, the types of its operands, and its attributes.

    Attributes:
        defn: the operation.
        attrs: the attributes.
        inputs: the operands' types.
        outputs: the results' types.
        single: whether there is one result, not a tuple.
        kernel: the operation's meaning, a function of arrays.
        looks_up: it is a lookup of rows.
        makes: a result may hold NaN or an infinity that no operand holds.
        flows: which results may carry gradients, by number; none where the operation has no derivative.
    """

    __slots__ = (
        "_saving",
        "attrs",
        "defn",
        "flows",
        "inputs",
        "kernel",
        "looks_up",
        "makes",
        "outputs",
        "single",
    )

    def __init__(self, defn: Op, inputs: tuple[TensorType, ...], attrs: Mapping[str, Any]) -> None:
        """Work it out.

        Raises:
            ShapeError, DTypeError: the operands do not fit.
        """
        found: Any = defn.infer(*inputs, **attrs)
        self.defn = defn
        self.attrs = attrs
        self.inputs = inputs
        self.single = not isinstance(found, tuple)
        outputs = (found,) if self.single else found
        self.outputs: tuple[TensorType, ...] = tuple([_types.setdefault(t, t) for t in outputs])
        self.kernel: Callable[..., Any] = (
            repeated(defn, inputs, attrs) if defn.repeats_natively else defn.kernel(**attrs)
        )
        self.looks_up = isinstance(defn, Lookup)
        self.makes = _makes(defn, self.inputs, self.outputs)
        carrying = [i for i, t in enumerate(self.outputs) if t.dtype.is_differentiable]
        self.flows = tuple(carrying) if defn.differentiable else ()
        self._saving: dict[tuple[bool, ...], Saving] = {}

    def saving(self, followed: tuple[bool, ...]) -> Saving:
        """What a tape keeps that follows some of the operands."""
        found = self._saving.get(followed)
        if found is None:
            found = self._saving[followed] = Saving(self, followed)
        return found


def _makes(defn: Op, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
    """Whether a result may hold NaN or an infinity that no operand holds."""
    if isinstance(defn, Movement) or not any(_may_be_bad(t) for t in outputs):
        return False
    real = not any(t.dtype.is_complex for t in (*inputs, *outputs))
    return not (real and isinstance(defn, Elementwise) and defn.stays_finite)


def _may_be_bad(type: TensorType) -> bool:
    return type.dtype.is_floating or type.dtype.is_complex


class Saving:
    """What a tape keeps of a call.

    Attributes:
        signature: what was called.
        followed: which operands depend on something watched.
        reads: the values that the derivative by these reads: ``i`` operand i, ``~i`` result i.
        pick: takes these from operands and results.
    """

    __slots__ = ("followed", "pick", "reads", "signature")

    def __init__(self, signature: Signature, followed: tuple[bool, ...]) -> None:
        """Ask the derivative's own rule."""
        self.signature = signature
        self.followed = followed
        wanted = [i for i, has in enumerate(followed) if has]
        try:
            reads = vjp_reads(signature.defn, signature.inputs, signature.attrs, wanted)
        except NotDifferentiableError:
            reads = frozenset()  # whoever asks for a gradient through it is told then
        self.reads = tuple(sorted(reads))
        count = len(followed)
        self.pick = _picker([i if i >= 0 else count + ~i for i in self.reads])


def _picker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Takes the entries at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    if not places:
        return lambda values: ()
    (place,) = places
    return lambda values: (values[place],)


_signatures: dict[Any, Signature] = {}
#: The types of results: equal ones are the same object, as far as signatures go.
_types: dict[TensorType, TensorType] = {}


def signature_of(op: str, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> Signature:
    """The signature of a call.

    Raises:
        ShapeError, DTypeError: the operands do not fit.
        TypeError: an attribute is a list, an array or the like.
    """
    # By identity: signatures keep their types, and types that are equal are nearly always the same object.
    key: Any = (op, *map(id, types))
    if attrs:
        key = (key, tuple(attrs.items()))
        for value in attrs.values():
            if type(value) is float:  # -0.0 equals 0.0, and is another attribute
                key = (key, repr(value))
    try:
        found = _signatures.get(key)
    except builtins.TypeError:  # what has no hash is no attribute: a list, an array
        raise TypeError(
            f"an argument of {op} has no meaning: {shown(dict(attrs))}", location=here()
        ) from None
    if found is None:
        found = Signature(OPS[op], tuple(types), dict(attrs))
        if len(_signatures) >= _CAPACITY:
            _signatures.clear()
            _types.clear()
        _signatures[key] = found
    return found
