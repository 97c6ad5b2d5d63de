"""Checks: operations that raise unless something holds of a value.

They compute nothing and are not pure: `dce` keeps them where nobody reads the result, and their order is that of the
program. The evaluator raises at once. For native code the pass `commit` turns them into one more result, so below it
no operation has an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import Dim, DimLike
from tapec.ir.errors import CheckError, DTypeError, ShapeError
from tapec.ir.op import Cotangents, Op
from tapec.ir.ops.control import Identity
from tapec.ir.types import BOOL, U64, TensorType, Type, as_dtype

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

#: Elements that a message shows of each tensor.
_SHOWN = 3


class Check(Op):
    """The family of operations that raise unless something holds."""

    pure = False

    def condition(self, b: Builder, op: Operation) -> Value:
        """Whether it holds, as one bool computed by the program."""
        raise NotImplementedError(f"{self.name} has no condition")

    def failure(self, *arrays: Any, **attrs: Any) -> str | None:
        """What to say of these operands; None if it holds."""
        raise NotImplementedError(f"{self.name} says nothing")

    def guarded(self, b: Builder, op: Operation, when: Value) -> Sequence[Value]:
        """Write a check like this one that holds where a bool of rank 0 is false; return its results."""
        raise NotImplementedError(f"{self.name} has no guarded form")

    def remains(self, op: Operation) -> Sequence[Value]:
        """The values that the results are once it is known to hold."""
        return op.operands[len(op.operands) - len(op.results) :]

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """Nothing."""
        wrong = self.failure(*arrays, **attrs)
        if wrong is not None:
            raise CheckError(wrong)
        return ()


class CheckNumerics(Check, Identity):
    """``x``, whose elements must be finite; so must those of its cotangent be, which is checked in the same way."""

    name = "check_numerics"
    form = "structural"

    def infer(self, *types: Any, message: str = "") -> TensorType:
        """The operand's type, of floats."""
        result = super().infer(*types)
        if not result.dtype.is_floating:
            raise DTypeError(f"check_numerics: expected floats, got {result}")
        return result

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The operand."""
        wrong = self.failure(*arrays, **attrs)
        if wrong is not None:
            raise CheckError(wrong)
        return arrays[0]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = check_numerics(ct)``."""
        said = str(op.attrs.get("message", "")).removeprefix(_IN_GRADIENT)
        return (b.emit(self, cts[0], message=_IN_GRADIENT + said),)

    def stands_for(self, op: Operation) -> Sequence[Value] | None:
        """Nothing: it stays until `commit` has seen it."""
        return None

    def condition(self, b: Builder, op: Operation) -> Value:
        """All elements are finite."""
        (x,) = op.operands
        found: Value = b.reduce_all(b.is_finite(x), axes=tuple(range(x.tensor.rank)))
        return found

    def guarded(self, b: Builder, op: Operation, when: Value) -> Sequence[Value]:
        """Zeros are looked at instead, and the operand is the result all the same."""
        (x,) = op.operands
        wide = b.broadcast_to(when, x.tensor.shape)
        found = b.emit(self, b.where(wide, x, b.full_like(0, x)), **op.parameters)
        return [b.where(wide, found, x)]

    def failure(self, *arrays: Any, **attrs: Any) -> str | None:
        """Which kinds of bad elements there are, how many, where the first one is."""
        array = np.asarray(arrays[0])
        bad = ~np.isfinite(array)
        if not bad.any():
            return None
        found = {"-Inf": array == -np.inf, "Inf": array == np.inf, "NaN": np.isnan(array)}
        kinds = [kind for kind, places in found.items() if places.any()]
        first = [int(i) for i in np.argwhere(bad)[0]]
        return (
            f"{attrs.get('message', '')} : Tensor had {_listed(kinds)} values: "
            f"{int(bad.sum())} of {array.size} elements of a {_type(array)}, the first at {first}"
        )


def _listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


_IN_GRADIENT = "Not a number (NaN) or infinity (Inf) values detected in gradient. "


class Assert(Check):
    """All elements of the first operand must be true; the other operands are shown where they are not.

    ``sign`` says what was compared: the others are then the two sides. Without it they stand between the ``texts``;
    without these the message says it all.
    """

    name = "assert"
    form = "structural"
    differentiable = False

    def infer(
        self, *types: Any, message: str = "", sign: str = "", texts: tuple[str, ...] = ()
    ) -> tuple[Type, ...]:
        """No results."""
        if not types or types[0].dtype != BOOL:
            raise DTypeError("assert: the condition must be bool")
        if sign and (len(types) != 3 or any(t.shape != types[0].shape for t in types[1:])):
            raise ShapeError("assert: two sides of the condition's shape are compared")
        if not sign and len(texts or ("",)) != len(types):
            raise ShapeError(f"assert: {len(texts)} texts do not go around {len(types) - 1} values")
        return ()

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """It must hold in every row."""
        if attrs.get("sign"):
            shape = operands[list(batched).index(True)].tensor.shape
            operands = [
                v if has else b.broadcast(v, shape=shape, axes=tuple(range(1, len(shape))))
                for v, has in zip(operands, batched, strict=True)
            ]
        return b.emit(self, *operands, **attrs)

    def condition(self, b: Builder, op: Operation) -> Value:
        """All elements are true."""
        holds = op.operands[0]
        found: Value = b.reduce_all(holds, axes=tuple(range(holds.tensor.rank)))
        return found

    def guarded(self, b: Builder, op: Operation, when: Value) -> Sequence[Value]:
        """The condition or not ``when``."""
        holds, *shown = op.operands
        wide = b.broadcast_to(b.not_(when), holds.tensor.shape)
        b.emit(self, b.or_(wide, holds), *shown, **op.parameters)
        return ()

    def failure(self, *arrays: Any, **attrs: Any) -> str | None:
        """The first places where it does not hold with both sides there, or the values that were given for it."""
        holds, *shown = map(np.asarray, arrays)
        if holds.all():
            return None
        message = attrs.get("message", "")
        if not attrs.get("sign") and not attrs.get("texts"):
            return str(message)
        if not attrs.get("sign"):
            texts = [*attrs["texts"]]
            after = zip(map(str, shown), texts[1:], strict=True)
            data = "".join([texts[0], *(part for pair in after for part in pair)])
            return f"{message} Expected the condition to be true. Summarized data: {data}".strip()
        places = np.argwhere(~holds)[:_SHOWN]
        x, y = (side[~holds][:_SHOWN].tolist() for side in shown)
        return (
            f"{message} Condition x {attrs['sign']} y did not hold. Indices of first {len(places)} "
            f"different values: {places.tolist()} Corresponding x values: {x} "
            f"Corresponding y values: {y}"
        ).strip()


class CheckBounds(Check):
    """All elements must be in ``[0, size)``, whose end a call may tell; ``message`` says what they are."""

    name = "check_bounds"
    form = "structural"
    differentiable = False

    def infer(self, *types: Any, size: DimLike, message: str = "") -> tuple[Type, ...]:
        """No results."""
        (indices,) = types
        if not indices.dtype.is_integer:
            raise DTypeError(f"check_bounds: expected integers, got {indices}")
        return ()

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """In every row."""
        return b.emit(self, *operands, **attrs)

    def condition(self, b: Builder, op: Operation) -> Value:
        """One comparison: what is negative is large as an unsigned number."""
        indices, size = b.cast(op.operands[0], dtype=U64), op.attrs["size"]
        if isinstance(size, Dim):
            known = b.extent(dim=size, type=TensorType(U64))
            inside = b.lt(indices, b.broadcast_to(known, indices.tensor.shape))
        else:
            inside = b.lt(indices, b.full_like(size, indices))
        found: Value = b.reduce_all(inside, axes=tuple(range(indices.tensor.rank)))
        return found

    def guarded(self, b: Builder, op: Operation, when: Value) -> Sequence[Value]:
        """The index 0 is looked at instead, and read by who comes behind: it is in every axis that has an entry."""
        (indices,) = op.operands
        wide = b.broadcast_to(when, indices.tensor.shape)
        if op.attrs["size"] == 0:
            outside = b.not_(wide)
            b.emit("assert", outside, message="indices of an axis without entries")
            return ()
        inside = b.where(wide, indices, b.full_like(0, indices))
        b.emit(self, inside, **op.parameters)
        assert op.block is not None
        for reader in op.block.ops[op.block.ops.index(op) + 1 :]:
            reader.set_operands([inside if v is indices else v for v in reader.operands])
        return ()

    def failure(self, *arrays: Any, **attrs: Any) -> str | None:
        """The first index that is not, and where it is."""
        (indices,) = map(np.asarray, arrays)
        wrong = np.argwhere((indices < 0) | (indices >= attrs["size"]))
        if not len(wrong):
            return None
        place = tuple(int(i) for i in wrong[0])
        where = f"[{','.join(map(str, place))}]" if place else ""
        what = attrs.get("message") or "indices"
        return f"{what}{where} = {indices[place]} is not in [0, {attrs['size']})"


def _type(array: Any) -> str:
    return str(TensorType(as_dtype(array.dtype), array.shape))
