"""A compiled program that takes and gives NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tapec.ir.core import Module
from tapec.ir.dims import DimLike, Symbol, plain_symbol, substitute
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.guards import as_bound
from tapec.ir.text.type_text import parse_dim, parse_type
from tapec.ir.types import U8, BufferType, TensorType
from tapec.runtime.boxes import boxes

Array = Any

#: What the program itself says, without details, of arguments that are not exactly of their types.
MISMATCH = "an argument is not of the type that the program was compiled for"


def is_mismatch(error: TypeError) -> bool:
    """Whether a program refused its arguments and did nothing; signal handlers may raise TypeError too."""
    return error.args == (MISMATCH,)


class Signature(NamedTuple):
    """What a compiled program takes and gives; see `Executable`."""

    name: str
    names: tuple[str, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    updates: Mapping[int, int]
    arena_bytes: DimLike
    kernels: int
    checks: int = 0
    #: Pairs of dims, as texts, that have to be equal.
    guards: tuple[tuple[str, str], ...] = ()

    @property
    def symbols(self) -> list[Symbol]:
        """The sizes that are known at a call, with their bounds."""
        return sorted({s for t in self.inputs for s in t.symbols()}, key=str)

    @classmethod
    def of(cls, module: Module) -> Signature:
        """The signature of a loop-level module."""
        entry = module.entry
        types = [_tensor(arg.type) for arg in entry.args]
        has_arena = bool(entry.attrs.get("arena", 0))
        arrays = types[: len(types) - has_arena]
        count = entry.attrs.get("inputs", len(arrays))
        return cls(
            entry.name,
            tuple(arg.name or f"argument {i}" for i, arg in enumerate(entry.args[:count])),
            tuple(arrays[:count]),
            tuple(arrays[count:]),
            dict(entry.updates),
            types[-1].bytes if has_arena else 0,
            sum(f.kind == "kernel" for f in module.functions.values()),
            entry.attrs.get("checks", 0),
            tuple(entry.guards),
        )

    def to_json(self) -> str:
        """One line of text."""
        fields: dict[str, Any] = {
            "name": self.name,
            "names": self.names,
            "inputs": [str(t) for t in self.inputs],
            "outputs": [str(t) for t in self.outputs],
            "updates": list(self.updates.items()),
            "arena": str(TensorType(U8, (self.arena_bytes,))),
            "kernels": self.kernels,
            "checks": self.checks,
            "guards": self.guards,
            "symbols": [(s.name, s.low, s.high) for s in self.symbols],
        }
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Signature:
        """What `to_json` wrote."""
        fields = json.loads(text)
        symbols = {name: Symbol(name, low, high) for name, low, high in fields["symbols"]}

        def types(key: str) -> tuple[TensorType, ...]:
            parsed = [parse_type(t, symbols) for t in fields[key]]
            return tuple(t for t in parsed if isinstance(t, TensorType))

        inputs, outputs = types("inputs"), types("outputs")
        fields["arena"] = [fields["arena"]]
        (arena,) = types("arena")
        return cls(
            fields["name"],
            tuple(fields["names"]),
            inputs,
            outputs,
            dict(fields["updates"]),
            arena.shape[0],
            fields["kernels"],
            fields["checks"],
            tuple((left, right) for left, right in fields["guards"]),
        )


class Executable:
    """One native program for a whole function.

    Attributes:
        inputs: types of the arguments, those that are updated in place among them.
        outputs: types of the results that each call makes anew: those that update no argument.
        updates: which result (by number among all results) is written into which argument.
        arena_bytes: scratch memory of one call, kept between calls.
        kernels: how many loop nests the program runs.
        native: whether it is machine code; else NumPy evaluates it, operation by operation.
        resident: whether it keeps what it updates on a device; see `tapec.runtime.residence`.
        steady: places of arguments in whose arrays nobody writes as long as somebody else refers to them. Who calls the
            program adds to it; a program on a device copies such an array there once.
        checks: how many checks the program makes. If there are any, the last of `outputs` tells of them: 0, or the
            number of the first one that failed; then nothing was updated.
        call_raw: the program itself, a C function. With the inputs it returns the list of new outputs; with the
            inputs and arrays for all outputs it writes there and returns None. It checks that the arrays are
            exactly of their types, raises TypeError without details, and copies nothing.
        call_boxed: the same for boxes (`tapec.runtime.boxes`), where it was compiled for them and is small: with boxes
            or arrays for all inputs it returns the only output in a box, or a list of boxes; NotImplemented where
            `call_raw` would raise TypeError. Where sizes are open it takes more, and gives NotImplemented for those
            that make the call long, too: see `boxed_at`.
        times: i64[kernels, 2], to which each call adds: for each number that launches of the module have, nanoseconds
            and runs. Who reads it sets it back to 0. None if no launch has a number.
    """

    def __init__(
        self,
        signature: Signature,
        call_raw: Callable[..., Any],
        *,
        native: bool = True,
        call_boxed: Callable[..., Any] | None = None,
        times: Array | None = None,
        resident: bool = False,
        steady: set[int] | None = None,
    ) -> None:
        """``call_raw`` is a program with this signature, ``native`` or a function of Python's."""
        self.native = native
        self.resident = resident
        self.steady = set() if steady is None else steady
        self.times = times
        self.call_raw = call_raw
        self.call_boxed = call_boxed
        self.signature = signature
        self.name = signature.name
        self.names = signature.names
        self.inputs = signature.inputs
        self.outputs = signature.outputs
        self.updates = dict(signature.updates)
        self.arena_bytes = signature.arena_bytes
        self.kernels = signature.kernels
        self.checks = signature.checks

    def __call__(self, *arrays: Array) -> list[Array]:
        """Run the program; return new arrays for `outputs`. Arguments in `updates` are written to.

        Raises:
            DTypeError, ShapeError: an argument is not of its type.
        """
        if len(arrays) == len(self.inputs):
            try:
                return self.call_raw(*arrays)  # type: ignore[no-any-return]
            except TypeError as error:
                if not is_mismatch(error):
                    raise
            # Out of the handler: errors from here on are not about that one.
        return self._call_carefully(arrays)

    def boxed_at(self, sizes: Mapping[str, int]) -> Callable[..., Any] | None:
        """`call_boxed` for arguments of these sizes, by the names of symbols; None if it cannot be called so."""
        names = [of.name for of in self.signature.symbols]
        if self.call_boxed is None or not names:
            return self.call_boxed
        if not sizes.keys() >= set(names):
            return None
        extents = np.array([sizes[name] for name in names], np.int64)
        type_of = boxes().type_of
        types = [type_of(kind.substitute(sizes)) for kind in self.outputs]
        return partial(self.call_boxed, extents, *types)

    def _call_carefully(self, arrays: Sequence[Array]) -> list[Array]:
        """Say what is wrong with the arguments, or repair what is only inconvenient about them."""
        self._check(arrays)
        updated = sorted(set(self.updates.values()))
        exact = [_exact(a, t) for a, t in zip(arrays, self.inputs, strict=True)]
        for i in range(len(exact)):
            if i not in updated and any(np.may_share_memory(exact[i], exact[u]) for u in updated):
                exact[i] = exact[i].copy()
        results: list[Array] = self.call_raw(*exact)
        for i in updated:
            if exact[i] is not arrays[i]:
                arrays[i][...] = exact[i]
        return results

    def _check(self, arrays: Sequence[Array]) -> None:
        """Hold the arguments to their types, in the user's terms."""
        if len(arrays) != len(self.inputs):
            raise ShapeError(f"{self.name} takes {len(self.inputs)} arrays, got {len(arrays)}")
        dims = self._dims(arrays)
        for name, array, wanted in zip(self.names, arrays, self.inputs, strict=True):
            given = np.asarray(array)
            if given.dtype != wanted.dtype.numpy:
                raise DTypeError(f"{self.name}: {name} is {wanted}, got an array of {given.dtype}")
            if given.shape != tuple(substitute(d, dims) for d in wanted.shape):
                raise ShapeError(f"{self.name}: {name} is {wanted}, got shape {list(given.shape)}")
        self._check_sizes(dims)
        for i in set(self.updates.values()):
            given = arrays[i]
            if not isinstance(given, np.ndarray) or not given.flags.writeable:
                raise DTypeError(f"{self.name} writes to {self.names[i]}: it must be writable")
            for j in set(self.updates.values()):
                if j < i and np.may_share_memory(given, arrays[j]):
                    raise ShapeError(
                        f"{self.name} writes to {self.names[j]} and to {self.names[i]}, "
                        "which share memory"
                    )

    def _check_sizes(self, dims: dict[str, DimLike]) -> None:
        """Hold sizes to their bounds, and to what the program assumes of them."""
        for of in self.signature.symbols:
            size = dims[of.name]
            assert isinstance(size, int)
            if size < of.low or (of.high is not None and size > of.high):
                most = "more" if of.high is None else str(of.high)
                raise ShapeError(f"{self.name}: {of} is {of.low} to {most}, got {size}")
        for guard in self.signature.guards:
            left, right = (substitute(parse_dim(text), dims) for text in guard)
            if left != right:
                bound = as_bound(guard)
                needed = " == ".join(guard) if bound is None else "{} >= {}".format(*bound)
                left, right = (substitute(dim, dims) for dim in bound or (left, right))
                raise ShapeError(f"{self.name} needs {needed}, got {left} and {right}")

    def _dims(self, arrays: Sequence[Array]) -> dict[str, DimLike]:
        """What the symbols of the types stand for, from the first axis that is just one."""
        found: dict[str, DimLike] = {}
        for array, wanted in zip(arrays, self.inputs, strict=False):
            for dim, size in zip(wanted.shape, np.shape(array), strict=False):
                name = plain_symbol(dim)
                if name is not None:
                    found.setdefault(name, size)
        return found

    def __repr__(self) -> str:
        how = f"{self.kernels} kernels" if self.native else "evaluated by NumPy"
        return f"<Executable {self.name}: {len(self.inputs)} inputs, {how}>"


def evaluated(module: Module) -> Executable:
    """A tensor-level program that NumPy evaluates, as an executable like native ones."""
    entry = module.entry
    fresh = [i for i in range(len(entry.returns)) if i not in entry.updates]
    signature = Signature(
        entry.name,
        tuple(arg.name or f"argument {i}" for i, arg in enumerate(entry.args)),
        tuple(arg.tensor for arg in entry.args),
        tuple(entry.returns[i].tensor for i in fresh),
        dict(entry.updates),
        0,
        0,
        entry.attrs.get("checks", 0),
    )

    def call(*arrays: Array) -> list[Array]:
        results = evaluate_module(module, arrays)
        # A result may be an argument itself, or share its memory: it must not change with it.
        outputs = [np.array(results[i]) for i in fresh]
        for result, argument in entry.updates.items():
            arrays[argument][...] = results[result]
        return outputs

    return Executable(signature, call, native=False)


def _tensor(kind: Any) -> TensorType:
    assert isinstance(kind, BufferType)
    return kind.tensor


def _exact(array: Array, wanted: TensorType) -> Array:
    """The array itself if the native entry takes it, else a copy that it takes."""
    dtype = wanted.dtype.numpy
    good = type(array) is np.ndarray and array.dtype is dtype
    if good and array.flags.c_contiguous and array.flags.aligned:
        return array
    exact = np.empty(np.shape(array), dtype)  # of this very dtype: pickle makes equal ones
    exact[...] = array
    return exact
