"""Random programs like train steps, whose numbers are small integers: so any order of sums gives equal bits.

They are made of what fusion, plans and schedules decide about: rows that are reduced and repeated, products with work
behind them, values that several kernels read, state that is replaced, results that are each other or arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, DType, Shape, TensorType

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Up to here a dtype counts without gaps; half precision adds up in single.
EXACT = {F64: 1 << 52, F32: 1 << 24, F16: 1 << 11, BF16: 1 << 8, I32: 1 << 31, I8: 127, BOOL: 1}
#: Lengths around those of vectors, one and none.
SIZES = [1, 2, 3, 4, 5, 8, 13, 16, 17, 33, 40]
RARE_SIZES = [0, 64, 70, 129]


class Steps:
    """A program in the making; ``bound`` tells how large the elements of a value may be."""

    def __init__(self, draw: Draw, dtypes: Sequence[DType]) -> None:
        """Start with a few arguments of a few shapes."""
        self.draw = draw
        self.function = Function("step")
        self.b = Builder(self.function.block)
        self.bound: dict[Value, int] = {}
        self.updates: dict[Value, Value] = {}
        self.dtypes = dtypes
        dims = [draw(st.sampled_from(SIZES + RARE_SIZES)) for _ in range(3)]
        self.shapes = [tuple(dims[:2]), tuple(dims[:1]), tuple(dims[1:2]), tuple(dims[1:]), ()]
        self.shapes += [(dims[0], 1), (1, dims[1]), (2, *dims[:2])]
        for _ in range(draw(st.integers(2, 5))):
            self.argument(draw(st.sampled_from(self.shapes)), draw(st.sampled_from(dtypes)))

    # ---- values

    def argument(self, shape: Shape, dtype: DType) -> Value:
        """A new argument."""
        value = self.function.block.add_arg(TensorType(dtype, shape), f"a{len(self.function.args)}")
        return self.note(value, 1 if dtype.is_bool else 3)

    def note(self, value: Value, bound: int) -> Value:
        """Remember a value with its bound."""
        self.bound[value] = bound
        return value

    @property
    def pool(self) -> list[Value]:
        """All values so far."""
        return list(self.bound)

    def value(self, *, rank: int = 0, last: int = 8) -> Value:
        """An earlier value, often one of the latest."""
        some = [v for v in self.pool if v.tensor.rank >= rank]
        if not some:
            return self.argument(self.shapes[0], self.dtypes[0])
        chosen: Value = self.draw(
            st.sampled_from(some[-last:] if self.draw(st.booleans()) else some)
        )
        return chosen

    def number(self, value: Value) -> Value:
        """The same elements as numbers."""
        if not value.tensor.dtype.is_bool:
            return value
        dtype = self.draw(st.sampled_from([d for d in self.dtypes if not d.is_bool]))
        return self.note(self.b.cast(value, dtype=dtype), 1)

    def limited(self, value: Value, most: int) -> Value:
        """The value itself, or held to a range if it may be larger."""
        if self.bound[value] <= most:
            return value
        low, high = self.b.full_like(-most, value), self.b.full_like(most, value)
        return self.note(self.b.max(self.b.min(value, high), low), most)

    def partner(self, x: Value) -> Value:
        """A value of the type of ``x``: an earlier one, perhaps repeated, a constant, or a new argument."""
        kind = self.draw(st.integers(0, 9))
        t = x.tensor
        if kind == 0:
            return self.note(self.b.full_like(self.draw(st.integers(0, 2)) != 0, x), 1)
        if kind == 1 and t.size:
            numbers = np.arange(int(np.prod(t.static_shape))).reshape(t.static_shape) % 3
            return self.note(self.b.dense(numbers.astype(t.dtype.numpy), t.dtype), 2)
        same = [v for v in self.pool if v.type == x.type]
        fitting = [v for v in self.pool if v.tensor.dtype == t.dtype and fits(v, t.shape)]
        if kind < 5 and fitting:
            y = self.draw(st.sampled_from(fitting))
            return y if y.type == x.type else self.repeated(y, t.shape)
        if kind == 5:
            return self.argument(t.shape, t.dtype)
        chosen: Value = self.draw(st.sampled_from(same))
        return chosen

    def repeated(self, y: Value, shape: Shape) -> Value:
        """A value repeated to a shape that it fits."""
        return self.note(self.b.broadcast_to(y, shape), self.bound[y])

    # ---- steps

    def unary(self) -> None:
        """Something of each element."""
        x = self.number(self.value())
        kinds = ["neg", "abs", "sign", "square"]
        if x.tensor.dtype.is_floating:
            kinds += ["costly", "costly"]
        kind = self.draw(st.sampled_from(kinds))
        if kind == "square":
            x = self.limited(x, root(x.tensor.dtype))
            self.note(self.b.mul(x, x), self.bound[x] ** 2)
        elif kind == "costly":
            self.costly(x)
        else:
            self.note(self.b.emit(kind, x), self.bound[x])

    def costly(self, x: Value) -> Value:
        """What is not worth computing twice: tanh(n) * 4 is never near a half, so its rounding is of no account."""
        x = self.limited(x, 4 if x.tensor.dtype.bits > 16 else 1)
        scaled = self.b.mul(self.b.tanh(x), self.b.full_like(4.0, x))
        return self.note(self.b.round(scaled), 4)

    def binary(self) -> None:
        """Something of two values, element by element."""
        x = self.value()
        if x.tensor.dtype.is_bool:
            name = self.draw(st.sampled_from(["and", "or"]))
            self.note(self.b.emit(name, *self.draw(st.permutations([x, self.partner(x)]))), 1)
            return
        y = self.partner(x)
        name = self.draw(st.sampled_from(["add", "sub", "mul", "max", "min", "lt", "where"]))
        if name in ("add", "sub"):
            x, y = (self.limited(v, EXACT[v.tensor.dtype] // 4) for v in (x, y))
            bound = self.bound[x] + self.bound[y]
        elif name == "mul":
            x, y = (self.limited(v, root(v.tensor.dtype)) for v in (x, y))
            bound = self.bound[x] * self.bound[y]
        else:
            bound = max(self.bound[x], self.bound[y])
        operands = self.draw(st.permutations([x, y]))
        if name == "where":
            masks = [v for v in self.pool if v.tensor == x.tensor.with_dtype(BOOL)]
            test = self.draw(st.sampled_from(masks)) if masks else self.b.ge(x, y)
            self.note(self.b.where(test, *operands), bound)
        else:
            self.note(self.b.emit(name, *operands), 1 if name == "lt" else bound)

    def reduce(self) -> None:
        """A reduction over some axes, often repeated to the shape from which it came."""
        x = self.number(self.value(rank=1))
        t = x.tensor
        axes = tuple(a for a in range(t.rank) if self.draw(st.booleans())) or (t.rank - 1,)
        count = int(np.prod([t.static_shape[a] for a in axes]))
        name = self.draw(st.sampled_from(["sum", "sum", "reduce_max"]))
        if name == "sum" or count == 0:
            x = self.limited(x, max(EXACT[t.dtype] // 4 // max(count, 1), 1))
            if count > EXACT[t.dtype] // 4:
                return
            y = self.note(self.b.sum(x, axes=axes), self.bound[x] * max(count, 1))
        else:
            y = self.note(self.b.reduce_max(x, axes=axes), self.bound[x])
        if self.draw(st.booleans()):
            kept = tuple(a for a in range(t.rank) if a not in axes)
            self.note(self.b.broadcast(y, shape=t.shape, axes=kept), self.bound[y])

    def move(self) -> None:
        """The elements in another order or shape."""
        x = self.value(rank=1)
        shape = x.tensor.static_shape
        rank = len(shape)
        kind = self.draw(
            st.sampled_from(["transpose", "reshape", "reverse", "slice", "pad", "repeat", "concat"])
        )
        if kind == "transpose":
            y = self.b.transpose(x, permutation=tuple(self.draw(st.permutations(range(rank)))))
        elif kind == "reshape":
            shapes = [(x.tensor.size,), (1, *shape), (*shape, 1), shape[::-1]]
            y = self.b.reshape(x, shape=self.draw(st.sampled_from(shapes)))
        elif kind == "reverse":
            y = self.b.reverse(x, axes=(self.draw(st.integers(0, rank - 1)),))
        elif kind == "slice":
            y = self.cut(x)
        elif kind == "pad":
            low, high, inner = (
                tuple(self.draw(st.integers(0, 2)) for _ in shape) for _ in range(3)
            )
            value = False if x.tensor.dtype.is_bool else 0.0
            y = self.b.pad(x, value=value, low=low, high=high, interior=inner)
        elif kind == "repeat":
            at, n = self.draw(st.integers(0, rank)), self.draw(st.sampled_from([1, 2, 17]))
            axes = tuple(a for a in range(rank + 1) if a != at)
            y = self.b.broadcast(x, shape=(*shape[:at], n, *shape[at:]), axes=axes)
        else:
            other = self.partner(x)
            y = self.b.concat(x, other, axis=self.draw(st.integers(0, rank - 1)))
            self.bound[x] = max(self.bound[x], self.bound[other])
        if y.tensor.size <= 20_000:
            self.note(y, self.bound[x])

    def cut(self, x: Value) -> Value:
        """Some of the elements along each axis."""
        shape = x.tensor.static_shape
        starts = tuple(self.draw(st.integers(0, n // 2)) for n in shape)
        strides = tuple(self.draw(st.sampled_from([1, 1, 2])) for _ in shape)
        sizes = tuple(-(-(n - s) // t) for n, s, t in zip(shape, starts, strides, strict=True))
        y: Value = self.b.slice(x, starts=starts, sizes=sizes, strides=strides)
        return y

    def convert(self) -> None:
        """Another dtype."""
        x = self.value()
        dtype = self.draw(st.sampled_from(self.dtypes))
        if dtype.is_bool:
            self.note(self.b.gt(x, self.b.full_like(0, x)) if not x.tensor.dtype.is_bool else x, 1)
            return
        x = self.limited(x, EXACT[dtype]) if not x.tensor.dtype.is_bool else x
        self.note(self.b.cast(x, dtype=dtype), self.bound[x])

    def multiply(self) -> None:
        """A product with an earlier value, or with a new argument, in one of four forms."""
        x = self.number(self.value(rank=2))
        t = x.tensor
        if not t.dtype.is_floating or t.rank > 3:
            return
        shape = t.static_shape
        left, turned, other = (self.draw(st.booleans()) for _ in range(3))
        k = shape[-2] if turned == left else shape[-1]
        same = [
            v
            for v in self.pool
            if v.tensor.dtype == t.dtype
            and v.tensor.shape[:-2] == shape[:-2]
            and v.tensor.rank == t.rank
            and v.tensor.shape[-1 if other == left else -2] == k
        ]
        if same and self.draw(st.integers(0, 3)):
            y = self.draw(st.sampled_from(same))
        else:
            n = self.draw(st.sampled_from(SIZES))
            y = self.argument((*shape[:-2], *((n, k) if other == left else (k, n))), t.dtype)
        most = max(int((EXACT[t.dtype] / 4 / max(k, 1)) ** 0.5), 1)
        if k > EXACT[t.dtype] // 4:
            return
        x, y = self.limited(x, most), self.limited(y, most)
        if left:
            z = self.b.matmul(x, y, transpose_a=turned, transpose_b=other)
        else:
            z = self.b.matmul(y, x, transpose_a=other, transpose_b=turned)
        if z.tensor.size <= 20_000:
            self.note(z, self.bound[x] * self.bound[y] * max(k, 1))

    def rearrange(self) -> None:
        """What has loops of its own: positions that are looked up, sums that run on."""
        x = self.number(self.value(rank=1))
        t = x.tensor
        axis = self.draw(st.integers(0, t.rank - 1))
        n = t.static_shape[axis]
        kind = self.draw(st.sampled_from(["gather", "cumsum", "argmax"]))
        if kind == "cumsum":
            if n > EXACT[t.dtype] // 4:
                return
            x = self.limited(x, max(EXACT[t.dtype] // 4 // max(n, 1), 1))
            reverse = self.draw(st.booleans())
            self.note(
                self.b.cumsum(x, axis=axis, exclusive=False, reverse=reverse), self.bound[x] * n
            )
        elif kind == "argmax" and n:
            self.note(self.b.argmax(x, axis=axis, dtype=I32), n)
        elif n > 4:
            places = np.arange(7) * 3 % n
            positions = self.b.dense(places.astype(np.int32), I32)
            self.note(self.b.gather(x, positions, axis=axis, batch_dims=0), self.bound[x])

    # ---- what programs are full of

    def layer(self) -> None:
        """A product with work behind it, which often is kept for another reader."""
        before = self.pool
        self.multiply()
        z = self.pool[-1]
        if z in before:
            return
        most = EXACT[z.tensor.dtype] // 8
        if z.tensor.rank and self.draw(st.booleans()):
            bias = self.argument(z.tensor.shape[-1:], z.tensor.dtype)
            z = self.limited(z, most)
            z = self.note(self.b.add(z, self.repeated(bias, z.tensor.shape)), self.bound[z] + 3)
        kind = self.draw(st.sampled_from(["none", "relu", "mask", "costly", "other"]))
        if kind == "relu":
            self.note(self.b.max(z, self.b.full_like(0, z)), self.bound[z])
        elif kind == "mask":
            mask = self.note(self.b.ge(z, self.b.full_like(0, z)), 1)
            other = self.partner(z)
            self.note(self.b.where(mask, other, self.b.full_like(0, z)), self.bound[other])
        elif kind == "costly":
            self.costly(z)
        elif kind == "other":
            z = self.limited(z, most)
            other = self.limited(self.partner(z), most)
            self.note(self.b.sub(z, other), self.bound[z] + self.bound[other])

    def rows(self) -> None:
        """A reduction by rows or columns whose result meets what was reduced, as in a softmax."""
        x = self.number(self.value(rank=2))
        shape, dtype = x.tensor.static_shape, x.tensor.dtype
        axis = self.draw(st.sampled_from([len(shape) - 1, len(shape) - 1, 0]))
        kept = tuple(a for a in range(len(shape)) if a != axis)
        most = EXACT[dtype] // 8 // max(shape[axis], 1)
        if most == 0 or shape[axis] == 0:
            return
        for _ in range(self.draw(st.integers(1, 2))):
            x = self.limited(x, most)
            name = self.draw(st.sampled_from(["sum", "reduce_max"]))
            row = self.b.emit(name, x, axes=(axis,))
            self.note(row, self.bound[x] * (shape[axis] if name == "sum" else 1))
            again = self.note(self.b.broadcast(row, shape=shape, axes=kept), self.bound[row])
            x = self.note(self.b.sub(x, again), self.bound[x] + self.bound[row])
            if dtype.is_floating and self.draw(st.booleans()):
                x = self.costly(x)

    def update(self) -> None:
        """An argument moved by a value of its type: what state becomes."""
        x = self.number(self.value(rank=1))
        same = [a for a in self.function.args if a.type == x.type]
        if same and self.draw(st.integers(0, 3)):
            w = self.draw(st.sampled_from(same))
        else:
            w = self.argument(x.tensor.shape, x.tensor.dtype)
        x = self.limited(x, EXACT[x.tensor.dtype] // 8)
        moved = self.note(self.b.sub(w, x), self.bound[x] + self.bound[w])
        self.updates.setdefault(w, moved)

    def step(self) -> None:
        """One step of any kind."""
        kinds = [self.unary, self.binary, self.binary, self.binary, self.reduce, self.reduce]
        kinds += [self.move, self.convert, self.layer, self.layer, self.rearrange]
        kinds += [self.rows, self.rows, self.update, self.update]
        self.draw(st.sampled_from(kinds))()

    # ---- the end

    def finish(self, gradients: bool) -> Module:
        """Return some values, let some of them replace arguments."""
        pool = self.pool
        if gradients:
            self.differentiate()
            pool = self.pool
        updates: dict[int, int] = {}
        results: list[Value] = []
        for n, arg in enumerate(self.function.args):
            same = [v for v in pool if v.type == arg.type]
            if arg in self.updates and self.draw(st.integers(0, 3)):
                updates[len(results)] = n
                results.append(self.updates[arg])
            elif self.draw(st.integers(0, 3)) == 0:
                updates[len(results)] = n
                results.append(self.draw(st.sampled_from(same[::-1])))
        results += self.draw(st.lists(st.sampled_from(pool[::-1]), min_size=1, max_size=4))
        order = self.draw(st.permutations(range(len(results))))
        self.function.updates = {order.index(i): n for i, n in updates.items()}
        self.b.emit("return", *(results[i] for i in order))
        return Module([self.function])

    def differentiate(self) -> None:
        """The gradient of the last value of float64 with respect to arguments."""
        floats = [v for v in self.pool if v.tensor.dtype == F64]
        sources = [a for a in self.function.args if a.tensor.dtype == F64]
        if floats and sources:
            segments = (1, 0, len(sources), 0)
            found = self.b.gradient(floats[-1], *sources, segments=segments)
            for value in found if isinstance(found, tuple) else (found,):
                self.note(value, 1 << 60)


def fits(value: Value, shape: Shape) -> bool:
    """Whether NumPy's rule repeats a value to a shape."""
    own = value.tensor.shape
    return len(own) <= len(shape) and all(
        n in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)
    )


def root(dtype: DType) -> int:
    """What may be squared."""
    return int((EXACT[dtype] // 4) ** 0.5)


DTYPES = [F64, F64, F32, F32, F32, I32, BOOL]
WITH_GRADIENTS = [F64, F64, F64, BOOL]
HALVES = [F16, BF16, F32, I8, BOOL]


@st.composite
def steps(
    draw: Draw, max_steps: int = 12, dtypes: Sequence[DType] = DTYPES, gradients: bool = False
) -> Module:
    """A module of one function of some arguments; see the module docstring."""
    made = Steps(draw, dtypes)
    for _ in range(draw(st.integers(max_steps // 2, max_steps))):
        made.step()
    return made.finish(gradients)


def arrays(module: Module, seed: int = 0) -> list[Any]:
    """Small integers for every argument."""
    rng = np.random.default_rng(seed)
    found = []
    for arg in module.entry.args:
        shape, dtype = arg.tensor.static_shape, arg.tensor.dtype
        numbers = rng.integers(0 if dtype.is_bool else -3, 2 if dtype.is_bool else 4, shape)
        found.append(np.asarray(numbers).astype(dtype.numpy))
    return found
