"""Writes the body of one LLVM function: names, blocks, structured control flow, addresses.

Two things happen while text is written, so that LLVM's optimiser need not do them later, which costs ten times as
much. Every pure instruction goes into the outermost loop whose variables it needs, and is written once. Integer
arithmetic on indices is kept as a sum of variables with factors (`Affine`) until an address needs it, so that what is
constant in it ends up as the displacement of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tapec.ir.dims import Atom, DimLike, Symbol
from tapec.ir.ops.repetition import ENDLESS_TURNS
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.spelling import WORD


class Affine(NamedTuple):
    """``sum of factor * variable + constant``; variables are names of registers of type `spelling.WORD`."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """``self + factor * other``."""
        total = dict(self.terms)
        for name, count in other.terms:
            total[name] = total.get(name, 0) + factor * count
        kept = tuple((n, c) for n, c in total.items() if c)
        return Affine(kept, self.constant + factor * other.constant)

    def times(self, factor: int) -> Affine:
        """``factor * self``."""
        return Affine().plus(self, factor)


@dataclass
class Scope:
    """The inside of a loop or branch: its lines, the block they end in, and pure instructions written so far."""

    label: str
    #: Entering it is not certain: only cheap instructions may leave it for the outside.
    branch: bool = False
    #: It is hardly ever entered: nothing leaves it for the outside.
    rare: bool = False
    lines: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)


class FunctionWriter:
    """The lines of one function; operands and results are names (``%v3``) or constants (``7``)."""

    #: How wide an index is on the target.
    index_bits = 64
    #: Of arrays on the stack, in bytes.
    alignment = 64

    def __init__(self) -> None:
        """Start in the entry block."""
        self.scopes = [Scope("entry")]
        self.allocas: list[str] = []
        self._depth: dict[str, int] = {}
        self._count = 0
        #: What stands behind each instruction, and behind the header: where the code comes from.
        self.mark = self.attachment = ""
        #: Values of the symbols that the function's types mention.
        self.symbols: dict[str, Affine] = {}

    def fresh(self, stem: str = "v") -> str:
        """A name that is new in this function, without its ``%``."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        """Write an instruction here."""
        self.scopes[-1].lines.append(text + self.mark)

    def label(self, name: str) -> None:
        """Start a block."""
        self.scopes[-1].lines.append(f"{name}:")
        self.scopes[-1].label = name

    def emit(self, text: str) -> str:
        """Write an instruction here and name its result."""
        name = "%" + self.fresh()
        self._depth[name] = len(self.scopes) - 1
        self.line(f"{name} = {text}")
        return name

    def pure(self, text: str, *operands: str, cheap: bool = True) -> str:
        """Write an instruction without effect, as far out as its operands allow, unless it is there already."""
        depth = 0  # loops of one's own: this is asked for nearly every instruction
        for operand in operands:
            depth = max(depth, self._depth.get(operand, 0))
        for wall in range(len(self.scopes) - 1, depth, -1):
            around = self.scopes[wall]
            if around.rare or (around.branch and not cheap):
                depth = wall
                break
        scope = self.scopes[depth]
        name = scope.written.get(text)
        if name is None:
            name = scope.written[text] = "%" + self.fresh()
            self._depth[name] = depth
            scope.lines.append(f"{name} = {text}{self.mark}")
        return name

    def alloca(self, size: int, align: int | None = None) -> str:
        """Memory of this call; it is taken once, however often the place is reached."""
        align = self.alignment if align is None else align
        name = "%" + self.fresh("stack")
        self.allocas.append(f"{name} = alloca [{size} x i8], align {align}")
        return name

    def text(self, header: str) -> str:
        """The finished function; ``header`` is everything up to its brace."""
        (scope,) = self.scopes
        lines = [x if x.endswith(":") else f"  {x}" for x in (*self.allocas, *scope.lines)]
        return "\n".join([f"{header}{self.attachment} {{", "entry:", *lines, "}\n"])

    # ---- control flow

    def loop(
        self,
        low: Affine,
        high: Affine,
        step: int,
        types: Sequence[str],
        init: Sequence[str],
        body: Callable[[Affine, Sequence[str]], Sequence[str]],
    ) -> Sequence[str]:
        """Write a counted loop with carried values of LLVM types ``types``; return their names after it."""
        distance = high.plus(low, -1)
        known = distance.constant if not distance.terms else None
        if known is not None and known <= 0:
            return init
        if known is not None and known <= step:
            return body(low, init)
        start, stop = self.index(low), self.index(high)
        outside = self.scopes[-1]
        guard = (
            "" if known is not None else self.pure(f"icmp slt {WORD} {start}, {stop}", start, stop)
        )
        head, done = self.fresh("loop"), self.fresh("done")
        self._enter(head, branch=bool(guard))
        i = self._variable("i")
        carried = [self._variable("c") for _ in init]
        results = body(Affine(((i, 1),)), carried)
        following = self.emit(f"add nsw {WORD} {i}, {step}")
        again = self.emit(f"icmp slt {WORD} {following}, {stop}")
        inside = self.scopes.pop()
        before, lines = outside.label, outside.lines
        lines.append(
            f"br i1 {guard}, label %{head}, label %{done}" if guard else f"br label %{head}"
        )
        lines.append(f"{head}:")
        lines.append(f"{i} = phi {WORD} [ {start}, %{before} ], [ {following}, %{inside.label} ]")
        for name, kind, first, last in zip(carried, types, init, results, strict=True):
            lines.append(f"{name} = phi {kind} [ {first}, %{before} ], [ {last}, %{inside.label} ]")
        lines += inside.lines
        lines += [f"br i1 {again}, label %{head}, label %{done}", f"{done}:"]
        outside.label = done
        if not guard:
            for name in results:
                self._depth[name] = min(self._depth.get(name, 0), len(self.scopes) - 1)
            return results
        ends = ((before, init), (inside.label, results))
        return [self._phi(kind, ends, k) for k, kind in enumerate(types)]

    def loop_while(
        self,
        low: Affine,
        high: Affine,
        holds: Callable[[Affine], str],
        body: Callable[[Affine], None],
    ) -> str:
        """Write a counted loop that ends before an index for which ``holds`` says no; return that index.

        Where ``high`` stands for no bound, nothing is compared with it: there are addresses with fewer bits.
        """
        endless = high == Affine((), ENDLESS_TURNS)
        start, stop = self.index(low), "" if endless else self.index(high)
        outside = self.scopes[-1]
        head, ask, turn, done = (self.fresh(stem) for stem in ("loop", "ask", "turn", "done"))
        self._enter(ask, branch=True)
        i = self._variable("i")
        condition = holds(Affine(((i, 1),)))
        asked = self.scopes[-1]
        self._enter(turn, branch=True)
        body(Affine(((i, 1),)))
        following = self.emit(f"add {'' if endless else 'nsw '}{WORD} {i}, 1")
        turned = self.scopes.pop()
        self.scopes.pop()
        more = "true" if endless else f"%{head}.more"
        outside.lines += [
            f"br label %{head}",
            f"{head}:",
            f"{i} = phi {WORD} [ {start}, %{outside.label} ], [ {following}, %{turned.label} ]",
            *([] if endless else [f"{more} = icmp slt {WORD} {i}, {stop}"]),
            f"br i1 {more}, label %{ask}, label %{done}",
            f"{ask}:",
            *asked.lines,
            f"br i1 {condition}, label %{turn}, label %{done}",
            f"{turn}:",
            *turned.lines,
            f"br label %{head}",
            f"{done}:",
        ]
        outside.label = done
        self._depth[i] = len(self.scopes) - 1
        return i

    def branch(
        self,
        condition: str,
        types: Sequence[str],
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
        *,
        rare: bool = False,
    ) -> Sequence[str]:
        """Write a two-way branch whose sides yield values of LLVM types ``types``."""
        outside = self.scopes[-1]
        done = self.fresh("endif")
        labels, written, ends = [], [], []
        for side in (then, otherwise):
            labels.append(self.fresh("side"))
            self._enter(labels[-1], branch=True, rare=rare)
            results = side()
            scope = self.scopes.pop()
            ends.append((scope.label, results))
            written += [f"{labels[-1]}:", *scope.lines, f"br label %{done}"]
        outside.lines.append(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        outside.lines += [*written, f"{done}:"]
        outside.label = done
        return [self._phi(kind, ends, k) for k, kind in enumerate(types)]

    def _enter(self, label: str, *, branch: bool, rare: bool = False) -> None:
        self.scopes.append(Scope(label, branch, rare))

    def _variable(self, stem: str) -> str:
        name = "%" + self.fresh(stem)
        self._depth[name] = len(self.scopes) - 1
        return name

    def _phi(self, kind: str, ends: Iterable[tuple[str, Sequence[str]]], k: int) -> str:
        edges = ", ".join(f"[ {values[k]}, %{label} ]" for label, values in ends)
        return self.emit(f"phi {kind} {edges}")

    # ---- indices and addresses

    def index(self, value: Affine) -> str:
        """An index register or constant with this value."""
        total = ""
        for name, factor in self._outermost_first(value):
            part = name if factor == 1 else self.pure(f"mul {WORD} {name}, {factor}", name)
            total = self.pure(f"add {WORD} {total}, {part}", total, part) if total else part
        if not total:
            return str(value.constant)
        if value.constant:
            total = self.pure(f"add {WORD} {total}, {value.constant}", total)
        return total

    def dim(self, dim: DimLike) -> Affine:
        """The value of an expression over the function's symbols."""
        if isinstance(dim, int):
            return Affine((), dim)
        total = Affine()
        for monomial, factor in dim.terms:
            term = Affine((), 1)
            for atom in monomial:
                term = self.product(term, self._atom(atom))
            total = total.plus(term, factor)
        return total

    def _atom(self, atom: Atom) -> Affine:
        if isinstance(atom, Symbol):
            return self.symbols[atom.name]
        numerator, denominator = self.dim(atom.numerator), self.dim(atom.denominator)
        return self.divide(numerator, denominator, remainder=atom.remainder)

    def product(self, x: Affine, y: Affine) -> Affine:
        """The product of two index values."""
        if not x.terms:
            return y.times(x.constant)
        if not y.terms:
            return x.times(y.constant)
        a, b = self.index(x), self.index(y)
        return Affine(((self.pure(f"mul {WORD} {a}, {b}", a, b), 1),))

    def divide(self, x: Affine, y: Affine, *, remainder: bool) -> Affine:
        """Floor quotient or remainder of two index values; the divisor is positive.

        A divisor that is 0 at run time is that of a loop that does not turn: it counts as 1, and nothing traps.
        """
        a, b = self.index(x), self.index(y)
        if y.terms:
            b = self.pure(f"call {WORD} @llvm.smax.{WORD}({WORD} {b}, {WORD} 1)", b)
        quotient = self.pure(f"sdiv {WORD} {a}, {b}", a, b, cheap=not y.terms)
        product = self.pure(f"mul {WORD} {quotient}, {b}", quotient, b)
        rest = self.pure(f"sub {WORD} {a}, {product}", a, product)
        below = self.pure(f"icmp slt {WORD} {rest}, 0", rest)
        sign = self.pure(f"sext i1 {below} to {WORD}", below)
        if remainder:
            correction = self.pure(f"and {WORD} {sign}, {b}", sign, b)
            return Affine(((self.pure(f"add {WORD} {rest}, {correction}", rest, correction), 1),))
        return Affine(((self.pure(f"add {WORD} {quotient}, {sign}", quotient, sign), 1),))

    def offset(self, indices: Sequence[Affine], strides: Sequence[DimLike]) -> Affine:
        """The element number of a position."""
        total = Affine()
        for index, stride in zip(indices, strides, strict=True):
            total = total.plus(self.product(index, self.dim(stride)))
        return total

    def address(self, pointer: str, kind: str, size: int, offset: Affine) -> str:
        """The address of element ``offset`` of memory type ``kind`` (``size`` bytes).

        The parts that depend on outer loops are added first, so that they stay outside of inner ones.
        """
        levels: dict[int, list[tuple[str, int]]] = {}
        for name, factor in self._outermost_first(offset):
            levels.setdefault(self._depth.get(name, 0), []).append((name, factor))
        for terms in levels.values():
            step = self.index(Affine(tuple(terms)))
            pointer = self.pure(
                f"getelementptr {kind}, ptr {pointer}, {WORD} {step}", pointer, step
            )
        if offset.constant:
            distance = offset.constant * size
            pointer = self.pure(f"getelementptr i8, ptr {pointer}, {WORD} {distance}", pointer)
        return pointer

    def _outermost_first(self, value: Affine) -> list[tuple[str, int]]:
        return sorted(value.terms, key=lambda term: self._depth.get(term[0], 0))

    # ---- vectors

    def splat(self, value: str, name: str, lanes: int) -> str:
        """A scalar of LLVM type ``name`` in every lane."""
        if not value.startswith("%"):
            return spelling.splat_literal(name, value)
        kind = spelling.wide(name, lanes)
        one = self.pure(f"insertelement {kind} poison, {name} {value}, i64 0", value)
        mask = spelling.wide("i32", lanes)
        return self.pure(f"shufflevector {kind} {one}, {kind} poison, {mask} zeroinitializer", one)
