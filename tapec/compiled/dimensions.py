"""Sizes that are not known before run time: which dims of a call's arguments a program leaves open.

A program is traced for a *pattern*: a type for each tensor among the arguments, whose dims may be symbols. Calls of
equal structure are a family, and share the programs whose patterns they match:

* Sizes that are declared (`tapec.compiled.declarations`) are symbols from the first trace on.
* With ``dynamic="auto"`` the first call of a family is traced for its very shapes. At the second distinct size of a
  dim, the function is traced with that dim open. Where it needs the number (Python code compares or counts by it, an
  operation has no code for it, it has to equal a number), the very shapes are traced again, as for any other call.
* With ``dynamic=True`` all dims are open from the first trace on; with ``False`` none is.

A program holds for sizes of 1 and more that meet its *guards*: what type inference had to assume, such as that two
sizes are equal, or one is at least 5. Sizes of 0, a 1 that would be repeated, and what is less than was assumed, get a
program of their own, in which they are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tapec.compiled.declarations import AnyRank, Declared, InputSignature, NamedDims, Size
from tapec.compiled.keys import leaf_key
from tapec.compiled.parameters import Parameters
from tapec.errors import InvalidArgumentError, ValueError
from tapec.frames import here
from tapec.ir.dims import DimLike, substitute, symbol, symbols
from tapec.ir.guards import as_bound
from tapec.ir.text.type_text import parse_dim
from tapec.ir.types import TensorType
from tapec.structure import flatten
from tapec.tensor import Tensor
from tapec.traces.open_size import SizeRead, are_kept, guessing_sizes

if TYPE_CHECKING:
    from tapec.compiled.program import Program
    from tapec.compiled.variants import Variants

Dynamic = Literal["auto", True, False]
Pattern = tuple[TensorType, ...]
#: Traces the function for inputs, and compiles the program.
Tracer = Callable[[Sequence[Any]], "Program"]

#: How often the dims of a family are opened before it is left at very shapes.
_PATIENCE = 3
#: How many programs a family shares.
_MOST = 32


@dataclass(eq=False)
class Family:
    """Calls that differ in sizes at most."""

    programs: list[Program] = field(default_factory=list)
    #: The shapes of calls that got programs of their own, the latest last.
    exact: list[Pattern] = field(default_factory=list)
    #: Places of dims that had several sizes: of which tensor, and along which axis.
    open: set[tuple[int, int]] = field(default_factory=set)
    failures: int = 0

    def keep(self, program: Program) -> None:
        """Share a program from now on; of those for Python state that has passed, few are kept."""
        self.programs.append(program)
        del self.programs[:-_MOST]


class Dimensions:
    """How one compiled function treats sizes."""

    def __init__(
        self,
        parameters: Parameters,
        *,
        input_signature: Any = None,
        dims: Mapping[str, Any] | None = None,
        dynamic: Dynamic = "auto",
    ) -> None:
        """Take the options of `tapec.compile`.

        Raises:
            TypeError, ValueError: an option is none, or two contradict one another.
        """
        if dynamic not in ("auto", True, False):
            raise ValueError(f'dynamic is "auto", True or False, got {dynamic!r}', location=here())
        if input_signature is not None and dims is not None:
            raise ValueError(
                "input_signature and dims both declare sizes",
                location=here(),
                hint="use one of them",
            )
        self.signature = (
            None if input_signature is None else InputSignature(parameters, input_signature)
        )
        self._named = None if dims is None else NamedDims(parameters, dims)
        self._dynamic = dynamic

    # ---- a call

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The arguments as an input signature wants them."""
        if self.signature is None:
            return args, kwargs
        return tuple(self.signature.bind(args, kwargs)), {}

    def declared(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """What is declared of each leaf of the arguments, tensor or not; None if there are no declarations."""
        if self.signature is not None:
            spread: Any = self.signature.spread(args)
        elif self._named is not None:
            spread = self._named.spread(args, kwargs)
        else:
            return None
        return flatten(spread, parts=True)[0]

    def program(
        self,
        inputs: Sequence[Any],
        family: Family,
        declared: list[Any] | None,
        trace: Tracer,
        admits: Callable[[Program], bool],
    ) -> Program:
        """The program for a call that none was kept for, made if there is none yet.

        Args:
            inputs: the leaves of the arguments; tensors have their types.
            family: the calls that differ from this one in sizes at most.
            declared: what `declared` said of the leaves.
            trace: makes a program for inputs like these.
            admits: whether a program, apart from sizes, is for the call.

        Raises:
            ValueError: sizes are not as declared.
            InvalidArgumentError: sizes do not fit together in a way that only a call shows.
        """
        types = tuple(i.type for i in inputs if isinstance(i, Tensor))
        wanted = self._wanted(inputs, declared)
        hold_to(types, wanted)
        broken: list[tuple[Program, dict[str, int]]] = []
        for program in family.programs:
            sizes = match(program.pattern, types)
            if sizes is not None and admits(program):
                if not unmet(program.guards, sizes):
                    return program.at(sizes)
                broken.append((program, sizes))
        pattern = _opened(types, wanted)
        for program, sizes in broken:
            if program.pattern == pattern:
                pattern = _closed(pattern, types, program, sizes)
        if pattern != types:
            return self._open(inputs, family, pattern, wanted, trace)
        return self._exact(inputs, family, types, wanted, trace)

    def opened(self, inputs: Sequence[Any], declared: list[Any] | None) -> list[Any]:
        """The leaves for a trace that nobody will call: with the sizes open that are declared to be."""
        types = tuple(i.type for i in inputs if isinstance(i, Tensor))
        wanted = self._wanted(inputs, declared)
        if not all(t.is_static for t in types):
            return with_types(inputs, _asked(types, wanted))
        hold_to(types, wanted)
        return with_types(inputs, _opened(types, wanted))

    def _wanted(self, inputs: Sequence[Any], declared: list[Any] | None) -> list[Declared | None]:
        """What is declared of each tensor."""
        tensors = [i for i, leaf in enumerate(inputs) if isinstance(leaf, Tensor)]
        found: list[Declared | None] = []
        for n, i in enumerate(tensors):
            said = None if declared is None else declared[i]
            if isinstance(said, AnyRank):
                said = said.of(inputs[i].type)
            elif not isinstance(said, Declared):
                rank = inputs[i].type.rank
                said = Declared(f"arg{n}_", (None,) * rank) if self._dynamic is True else None
            found.append(said)
        return found

    # ---- tracing

    def _open(
        self,
        inputs: Sequence[Any],
        family: Family,
        pattern: Pattern,
        wanted: Sequence[Declared | None],
        trace: Tracer,
    ) -> Program:
        """A program with open dims, as they are declared."""
        types = tuple(i.type for i in inputs if isinstance(i, Tensor))
        program = trace(with_types(inputs, pattern))
        family.keep(program)
        sizes = match(program.pattern, types)
        assert sizes is not None
        if not (broken := unmet(program.guards, sizes)):
            return program.at(sizes)
        closed = _closed(pattern, types, program, sizes)
        if closed == pattern:
            raise _misfit(program, broken[0], sizes, _titles(wanted))
        return self._open(inputs, family, closed, wanted, trace)

    def _exact(
        self,
        inputs: Sequence[Any],
        family: Family,
        types: Pattern,
        wanted: Sequence[Declared | None],
        trace: Tracer,
    ) -> Program:
        """A program for these very shapes, or one in which the dims are open that have had other sizes before."""
        free = self._dynamic == "auto" and family.failures < _PATIENCE
        places = _changed(family.exact, types, wanted) if free else set()
        if places and not any(types[n].shape[axis] == 0 for n, axis in places):
            family.open |= places
            found = _guessed(inputs, family, types, trace)
            if found is not None:
                return found
            family.failures += 1
        family.exact.append(types)
        del family.exact[:-_PATIENCE]
        return trace(inputs)


def _guessed(
    inputs: Sequence[Any], family: Family, types: Pattern, trace: Tracer
) -> Program | None:
    """A program with open dims that nobody asked for; None if the function needs their sizes."""
    shapes = [list(t.shape) for t in types]
    for n, axis in sorted(family.open):
        shapes[n][axis] = symbol(f"d{n}_{axis}", 1)
    pattern = tuple(t.with_shape(tuple(s)) for t, s in zip(types, shapes, strict=True))
    try:
        with guessing_sizes() as seen:
            program = trace(with_types(inputs, pattern))
    except (Exception, SizeRead):
        return None  # whatever it is, if it is the user's it comes again with the very shapes
    if are_kept(seen):
        return None  # the function stored a size somewhere, for others who want a number
    sizes = match(program.pattern, types)
    assert sizes is not None
    equal = [guard for guard in program.guards if as_bound(guard) is None]
    tied = any(isinstance(parse_dim(text), int) for guard in equal for text in guard)
    if tied or unmet(program.guards, sizes):
        return None
    family.keep(program)
    return program.at(sizes)


def family_key(inputs: Sequence[Any], form: Any) -> Any:
    """What calls share that differ in sizes at most: leaves of these kinds, and the structure around them, as a key."""
    leaves = [(i.type.dtype, i.type.rank) if isinstance(i, Tensor) else leaf_key(i) for i in inputs]
    return form, tuple(leaves)


def with_types(inputs: Sequence[Any], pattern: Pattern) -> list[Any]:
    """The leaves with tensors of these types, which have no values."""
    types = iter(pattern)
    return [Tensor(None, next(types)) if isinstance(i, Tensor) else i for i in inputs]


# ---- patterns


def match(pattern: Pattern, types: Pattern) -> dict[str, int] | None:
    """What the symbols of a pattern are for these types; None if it has other numbers, or symbols outside of bounds.

    Pattern and types are of one family.
    """
    sizes: dict[str, int] = {}
    for wanted, given in zip(pattern, types, strict=True):
        for dim, size in zip(wanted.shape, given.shape, strict=True):
            assert isinstance(size, int)
            if isinstance(dim, int):
                if dim != size:
                    return None
                continue
            (of,) = symbols(dim)
            if size < of.low or (of.high is not None and size > of.high):
                return None
            if sizes.setdefault(of.name, size) != size:
                return None
    return sizes


def unmet(guards: Sequence[tuple[str, str]], sizes: Mapping[str, int]) -> list[tuple[str, str]]:
    """The guards that do not hold for these sizes."""
    return [guard for guard in guards if _value(guard[0], sizes) != _value(guard[1], sizes)]


def _value(text: str, sizes: Mapping[str, int]) -> DimLike:
    return substitute(parse_dim(text), dict(sizes))


def _opened(types: Pattern, wanted: Sequence[Declared | None]) -> Pattern:
    """The types with symbols where a size is declared open; an empty axis stays a number."""
    found = []
    for type, declared in zip(types, wanted, strict=True):
        if declared is None:
            found.append(type)
            continue
        dims = [
            size if isinstance(said, int) or size == 0 else _symbol(said, declared.argument, axis)
            for axis, (said, size) in enumerate(zip(declared.sizes, type.shape, strict=True))
        ]
        found.append(type.with_shape(tuple(dims)))
    return tuple(found)


def _asked(types: Pattern, wanted: Sequence[Declared | None]) -> Pattern:
    """Types whose open sizes somebody asks for: what is declared of these holds, too."""
    found = []
    for type, declared in zip(types, wanted, strict=True):
        if declared is not None and len(declared.sizes) != type.rank:
            raise _undeclared(declared, f"{len(declared.sizes)} axes", type)
        sizes = (None,) * type.rank if declared is None else declared.sizes
        dims: list[DimLike] = []
        for axis, (said, size) in enumerate(zip(sizes, type.shape, strict=True)):
            if isinstance(said, Size) and not isinstance(size, int):
                dims.append(_symbol(said, "", axis))
            else:
                dims.append(said if isinstance(said, int) and not isinstance(size, int) else size)
        found.append(type.with_shape(tuple(dims)))
    return tuple(found)


def _symbol(said: Size | None, argument: str, axis: int) -> DimLike:
    if said is not None:
        return symbol(said.name, max(said.low, 1), said.high)
    plain = "".join(c if c.isalnum() else "_" for c in argument)
    return symbol(f"{plain}{axis}", 1)


def _closed(
    pattern: Pattern, types: Pattern, program: Program, sizes: Mapping[str, int]
) -> Pattern:
    """The pattern with numbers for sizes that are in the way: of 1, and those that are less than they should be."""
    numbers: dict[str, DimLike] = {}
    for guard in unmet(program.guards, sizes):
        names = {s.name for text in guard for s in symbols(parse_dim(text))}
        for name in names & sizes.keys():
            if sizes[name] == 1 or as_bound(guard) is not None:
                numbers[name] = sizes[name]
    return tuple(t.substitute(numbers) for t in pattern)


def _changed(
    known: Sequence[Pattern], types: Pattern, wanted: Sequence[Declared | None]
) -> set[tuple[int, int]]:
    """Where the latest call of other sizes had them, apart from what is declared."""
    if not known:
        return set()
    return {
        (n, axis)
        for n, (a, b) in enumerate(zip(known[-1], types, strict=True))
        for axis, (i, j) in enumerate(zip(a.shape, b.shape, strict=True))
        if i != j and wanted[n] is None
    }


def hold_to(types: Pattern, wanted: Sequence[Declared | None]) -> None:
    """Refuse sizes that are not as they are declared.

    Raises:
        ValueError: a rank, a number or a bound is another one, or one name stands for two sizes.
    """
    met: dict[str, tuple[int, str]] = {}
    for type, declared in zip(types, wanted, strict=True):
        if declared is None:
            continue
        if len(declared.sizes) != type.rank:
            raise _undeclared(declared, f"{len(declared.sizes)} axes", type)
        for said, size in zip(declared.sizes, type.static_shape, strict=True):
            if isinstance(said, int) and said != size:
                raise _undeclared(declared, str(said), type)
            if not isinstance(said, Size):
                continue
            if size < said.low and not (size == 0 and said.low == 1):
                raise _undeclared(declared, f"{said.name} of at least {said.low}", type)
            if said.high is not None and size > said.high:
                raise _undeclared(declared, f"{said.name} of at most {said.high}", type)
            before, where = met.setdefault(said.name, (size, declared.argument))
            if before != size:
                raise ValueError(
                    f"the size {said.name} is {before} in {where} and {size} in {declared.argument}",
                    location=here(),
                )


def _undeclared(declared: Declared, wanted: str, type: TensorType) -> ValueError:
    return ValueError(
        f"{declared.argument} is declared with {wanted}, got shape {list(type.shape)}",
        location=here(),
    )


def _titles(wanted: Sequence[Declared | None]) -> dict[str, str]:
    """What users call sizes that have no name: ``x.shape[0]``."""
    found = {}
    for declared in wanted:
        for axis, said in enumerate(() if declared is None else declared.sizes):
            if said is None:
                (of,) = symbols(_symbol(None, declared.argument, axis))  # type: ignore[union-attr]
                found[of.name] = f"{declared.argument}.shape[{axis}]"  # type: ignore[union-attr]
    return found


def _misfit(
    program: Program, broken: tuple[str, str], sizes: Mapping[str, int], titles: Mapping[str, str]
) -> InvalidArgumentError:
    """What a guard wanted, and the line of the user that made inference want it."""
    left, right = (titles.get(text, text) for text in broken)
    one, other = (_value(text, sizes) for text in broken)
    return InvalidArgumentError(
        f"Incompatible shapes: {left} and {right} must be equal here, got {one} and {other}",
        location=program.guard_places.get(broken, here()),
    )


#: How many shapes a function keeps programs for that serve others too.
_MOST_SHAPES = 1024


def forget(shapes: dict[Any, Variants]) -> None:
    """Drop the oldest shapes whose programs stay known, as those of other sizes, if there are very many."""
    if len(shapes) > _MOST_SHAPES:
        served = [key for key, kept in shapes.items() if any(p.sizes for p in kept.programs)]
        for key in served[: _MOST_SHAPES // 2]:
            del shapes[key]
