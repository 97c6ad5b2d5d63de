"""Take out of loops what need not be done turn by turn.

Seven things leave a loop, or go from one to another:

- What does not change from turn to turn is computed once, in front of the loop.
- A product of a row with what does not change (an RNN's input times its weights) becomes one product of all rows, in
  front of the loop; what belongs to it goes along: what it is made of, and what is added to it, where that needs no
  more room than the product itself.
- Such a product that no turn reads, of which all rows are a result (a layer behind the RNN), becomes one behind the
  loop, with what is done to it in its place. The rows that it is made of are kept instead, if they are no larger.
- A sum of products over all turns that no turn reads (a weight's gradient) becomes one product behind the loop, over
  all rows. The rows are kept for that, if they are no larger than the sum, which each turn would read and write.
- What a loop back computes of rows that a loop there has kept, products above all, that loop has computed before: it
  keeps them too. `tapec.ir.ops.repetition` writes such loops, which begin each turn with the turn there.
- What both compute of these in many instructions (the gates of a cell, of a product) is kept instead of them, if it is
  no larger and nothing else of them is read.
- A matrix that is the same in all turns, and lies the wrong way round for a product, is turned once.

Rows are kept only where all turns come for certain, and up to `Options.room` bytes in each case, or so many as the
attribute ``row_bytes`` of the function tells (`tapec.passes.loops.checkpoint`); where a size is open, what is typical.
The order in which numbers are added changes, so results are equal but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tapec.ir.batching import batch_operations
from tapec.ir.builder import Builder
from tapec.ir.compare import exact
from tapec.ir.core import Block, Module, Operation, Value, clone_operation
from tapec.ir.dims import typical
from tapec.ir.op import Elementwise
from tapec.ir.ops.arith import Add
from tapec.ir.ops.repetition import Loop
from tapec.passes.loops.turns import Change, Turns, behind, changed_loop, with_stacks

#: Turns that are too few to make something for them.
_FEW_TURNS = 3


@dataclass(frozen=True)
class Options:
    """``room``: how many bytes of rows are kept at most, for one loop and one purpose."""

    room: int = 1 << 28


def run(module: Module, options: Options = Options()) -> bool:
    """Do it in every function, and in the loops inside of loops first."""
    changed = False
    for function in module.functions.values():
        changed |= _visit(function.block, function.attrs.get("row_bytes", options.room))
    return changed


def _visit(block: Block, room: int) -> bool:
    changed = False
    for op in list(block.ops):
        for region in op.regions:
            changed |= _visit(region.block, room)
    for step in (_share, _continue, _lift, _stack, _gather, _release, _prepare):
        for op in [op for op in block.ops if isinstance(op.defn, Loop)]:
            changed |= step(Turns(op), room)
    return changed


# ---- what does not change


def _lift(turns: Turns, room: int) -> bool:
    """Compute in front of the loop what does not depend on the turn; cheap things only if they are part of it."""
    fixed = _unchanging(turns)
    dear = [op for op in fixed if not (op.defn.cheap or not op.operands)]
    moved = _with_sources(dear, fixed)
    outside = _read_outside(turns, moved, {r for op in moved for r in op.results})
    outside = [v for v in outside if v.op in dear]
    if not outside:
        return False
    moved = _with_sources([v.op for v in outside if v.op is not None], fixed)
    assert turns.op.block is not None
    b = Builder(turns.op.block, before=turns.op)
    mapping = dict(turns.same)
    for op in turns.body.ops[:-1]:
        if op in moved:
            b.insert(clone_operation(op, mapping))
    changed_loop(turns, Change(same={v: mapping[v] for v in outside}))
    return True


def _unchanging(turns: Turns) -> list[Operation]:
    """The operations of a body that give the same in all turns."""
    known = set(turns.same)
    found = []
    for op in turns.body.ops[:-1]:
        if _is_free(op) and known.issuperset(op.operands):
            known.update(op.results)
            found.append(op)
    return found


def _is_free(op: Operation) -> bool:
    """Whether an operation may be done at another time."""
    return op.defn.pure and not op.regions and not op.defn.marks_path


def _with_sources(wanted: Iterable[Operation], among: Collection[Operation]) -> set[Operation]:
    """Operations, and those that they read, directly or not, ``among`` some."""
    allowed, found, todo = set(among), set(), list(wanted)
    while todo:
        op = todo.pop()
        if op in allowed and op not in found:
            found.add(op)
            todo += [v.op for v in op.operands if v.op is not None]
    return found


def _read_outside(
    turns: Turns, moved: Collection[Operation], values: Collection[Value]
) -> list[Value]:
    """Those of the values, made by what moved, that what stays in the body reads; in program order."""
    return [
        v
        for op in turns.body.ops[:-1]
        if op in moved
        for v in op.results
        if v in values and any(user not in moved for user in v.users)
    ]


# ---- one product of all rows


def _stack(turns: Turns, room: int) -> bool:
    """Compute products of rows with what does not change in front of the loop, all at once."""
    if not turns.certain:
        return False
    fixed = set(_unchanging(turns))
    known = {*turns.same, *(r for op in fixed for r in op.results)}
    rows, free = set(turns.rows), []
    for op in turns.body.ops[:-1]:
        if op in fixed or not _is_free(op) or not {*rows, *known}.issuperset(op.operands):
            continue
        rows.update(op.results)
        free.append(op)
    products = [op for op in free if op.defn.merges_batch(op, [v in rows for v in op.operands])]
    if not products:
        return False
    moved = _with_sources(products, [*free, *fixed])
    for (
        op
    ) in free:  # in program order: what is behind a product goes along if it is read in its place
        if op not in moved and _is_continued(op, moved):
            moved |= _with_sources([op], [*free, *fixed])
    ends = _read_outside(turns, moved, rows)
    if not ends or not turns.fits(ends, room):
        return False
    assert turns.op.block is not None
    b = Builder(turns.op.block, before=turns.op)
    values = {**turns.rows, **turns.same}
    batch_operations(b, [op for op in turns.body.ops if op in moved], values, set(turns.rows))
    changed_loop(turns, Change(rows={v: values[v] for v in ends}))
    return True


def _is_continued(op: Operation, moved: Collection[Operation]) -> bool:
    """Whether an operation is all that reads something that moved, and is no larger: it can be kept in its place."""
    if len(op.results) != 1:
        return False
    size = op.result.tensor.size
    return any(
        v.op in moved and list(v.users) == [op] and v.tensor.size == size for v in op.operands
    )


# ---- one product of all rows, behind the loop


def _release(turns: Turns, room: int) -> bool:
    """Compute products that nobody in the loop reads behind it, all rows at once."""
    changed = False
    while turns.certain:
        fixed = _unchanging(turns)
        known = {*turns.same, *(r for op in fixed for r in op.results)}
        chain = next(_releasable(turns, known, room), None)
        if chain is None:
            break
        turns = _released(turns, chain, fixed, known)
        changed = True
    return changed


def _releasable(
    turns: Turns, known: Collection[Value], room: int
) -> Iterator[tuple[Operation, ...]]:
    """Products, each with what is done to it alone, that end in rows of a result."""
    last = turns.body.terminator
    state = set(last.operands[: len(turns.carried)])
    for op in turns.body.ops[:-1]:
        if not _is_free(op) or not op.defn.merges_batch(op, [v not in known for v in op.operands]):
            continue
        chain = [op]
        while True:
            value = chain[-1].result
            users = list(value.users)
            if users == [last] and value not in state and _is_read(turns, value):
                kept = [v for v in _inputs(chain, known) if turns.stack_of(v) is None]
                size, made = turns.bytes(kept), turns.bytes([value])
                if size <= made and turns.fits(kept, room):
                    yield tuple(chain)
                break
            following = users[0] if len(users) == 1 else last
            if following is last or not _is_free(following) or not _is_continued(following, chain):
                break
            chain.append(following)


def _is_read(turns: Turns, value: Value) -> bool:
    """Whether somebody reads the rows of a value that the body yields."""
    yielded = turns.body.terminator.operands
    return any(v is value and r.users for v, r in zip(yielded, turns.op.results, strict=False))


def _inputs(chain: Sequence[Operation], known: Collection[Value]) -> list[Value]:
    """What operations read that changes from turn to turn, and that they do not make themselves."""
    read = dict.fromkeys(v for op in chain for v in op.operands)
    return [v for v in read if v not in known and v.op not in chain]


def _released(
    turns: Turns,
    chain: Sequence[Operation],
    fixed: Sequence[Operation],
    known: Collection[Value],
) -> Turns:
    """The loop with the rows that operations read, and these behind it."""
    needed = _inputs(chain, known)
    apart = Block([v.tensor for v in needed])  # the old body goes, these are still to be read
    mapping = dict(zip(needed, apart.args, strict=True)) | turns.same
    moved = _with_sources(chain, [*fixed, *chain])
    for op in turns.body.ops:
        if op in moved:
            apart.append(clone_operation(op, mapping))
    end = chain[-1].result
    rows = [i for i, v in enumerate(turns.body.terminator.operands) if v is end]
    new, stacks = with_stacks(turns, needed)
    values = {arg: stacks[v] for arg, v in zip(apart.args, needed, strict=True)}
    batch_operations(behind(new), apart.ops, values, set(apart.args))
    for i in rows:
        new.op.results[i].replace_all_uses(values[mapping[end]])
    for op in reversed(apart.ops):
        op.drop()
    return new


# ---- one sum of products behind the loop


def _gather(turns: Turns, room: int) -> bool:
    """Compute sums of products over all turns behind the loop, from rows that are kept."""
    if not turns.certain:
        return False
    sums = _sums(turns)
    if not sums:
        return False
    needed = dict.fromkeys(v for term in sums.values() for v in term.operands)
    kept = [v for v in needed if turns.stack_of(v) is None]
    size, saved = turns.bytes(kept), turns.bytes(turns.carried[i] for i in sums)
    if size > saved or not turns.fits(kept, room):
        return False
    terms = {i: (term.defn, term.operands, term.parameters) for i, term in sums.items()}
    new, stacks = with_stacks(turns, list(needed))
    b = behind(new)
    for i, (defn, operands, attrs) in terms.items():
        old = new.op.results[i]
        users = list(old.users)
        total = b.add(new.op.operands[i], defn.batch_sum(b, [stacks[v] for v in operands], **attrs))
        for user in users:
            user.set_operands([total if v is old else v for v in user.operands])
    return True


def _sums(turns: Turns) -> dict[int, Operation]:
    """For carried values, by number, that only add up what an operation gives: that operation."""
    found = {}
    yielded = turns.body.terminator.operands
    for i, arg in enumerate(turns.carried):
        adding = yielded[i].op
        if adding is None or not isinstance(adding.defn, Add) or not turns.op.results[i].users:
            continue
        terms = [v for v in adding.operands if v is not arg]
        alone = list(arg.users) == [adding] and list(yielded[i].users) == [turns.body.terminator]
        if len(terms) != 1 or not alone or yielded.count(yielded[i]) != 1:
            continue
        term = terms[0].op
        if term is not None and term.defn.sums_batch and not set(term.operands) & set(turns.same):
            found[i] = term
    return found


# ---- what lies the wrong way round


def _prepare(turns: Turns, room: int) -> bool:
    """Make of what does not change, in front of the loop, what an operation reads best in every turn."""
    if 0 < typical(turns.length) < _FEW_TURNS:
        return False
    same: dict[Value, Value] = {}
    assert turns.op.block is not None
    outer = Builder(turns.op.block, before=turns.op)
    for op in list(turns.body.ops[:-1]):
        b = Builder(turns.body, before=op)
        with b.at(op.location):
            found = op.defn.prepared(b, op, [v in turns.same for v in op.operands])
        if found is not None:
            made, result = found
            assert made.op is not None
            mapping = dict(turns.same)
            outer.insert(clone_operation(made.op, mapping))
            same[made] = mapping[made]
            op.replace([result])
    if same:
        changed_loop(turns, Change(same=same))
    return bool(same)


# ---- what another loop has computed


#: Gives the loop as it is to be if it takes something from another one; None if there is nothing to take.
Taking = Callable[[Turns, Turns, int], Turns | None]


def _share(turns: Turns, room: int) -> bool:
    """Let a loop take from those in front of it the products that both compute of the same rows."""
    return _taken(turns, room, _shared)


def _continue(turns: Turns, room: int) -> bool:
    """Let a loop take from those in front of it what both make of rows, in the place of these."""
    return _taken(turns, room, _continued)


def _taken(turns: Turns, room: int, take: Taking) -> bool:
    if not turns.certain:
        return False
    sources = dict.fromkeys(stack.op for stack in turns.rows.values() if stack.op is not None)
    changed = False
    for source in sources:
        if isinstance(source.defn, Loop):
            other = Turns(source)
            if other.certain and other.length == turns.length:
                found = take(turns, other, room)
                turns = found or turns
                changed |= found is not None
    return changed


def _shared(turns: Turns, other: Turns, room: int) -> Turns | None:
    """The loop with the rows that the other one now keeps for it; None if there is nothing to take."""
    twins = _twins(turns, other)
    dear = _dear(turns, twins)
    ends = _read_outside(turns, dear, {r for op in dear for r in op.results})
    wanted = dict.fromkeys(twins[v] for v in ends)
    kept = [v for v in wanted if other.stack_of(v) is None]
    if not ends or not other.fits(kept, room):
        return None
    op = turns.op
    _, stacks = with_stacks(other, list(wanted))
    return changed_loop(Turns(op), Change(rows={v: stacks[twins[v]] for v in ends}))


def _continued(turns: Turns, other: Turns, room: int) -> Turns | None:
    """The loop with what the other one makes of rows that it keeps for this one alone; None without such rows."""
    twins = _twins(turns, other)
    for row, stack in turns.rows.items():
        if stack.op is not other.op or set(stack.users) != {turns.op}:
            continue
        ends = _costly_ends(turns, row, twins)
        wanted = dict.fromkeys(twins[v] for v in ends)
        kept = [v for v in wanted if other.stack_of(v) is None]
        size, freed = turns.bytes(kept), turns.bytes([row])
        if not ends or size > freed or not other.fits(kept, room):
            continue
        op = turns.op
        _, stacks = with_stacks(other, list(wanted))
        return changed_loop(Turns(op), Change(rows={v: stacks[twins[v]] for v in ends}))
    return None


def _costly_ends(turns: Turns, row: Value, twins: Mapping[Value, Value]) -> list[Value]:
    """Values with twins of many instructions each, through which alone a row is read; none if there is another way."""
    ends: dict[Value, None] = {}
    todo = [row]
    while todo:
        for user in todo.pop().users:
            if not _is_free(user) or len(user.results) != 1 or user.result not in twins:
                return []
            if isinstance(user.defn, Elementwise) and user.defn.costly:
                ends[user.result] = None
            elif user.defn.cheap:
                todo.append(user.result)
            else:
                return []
    return list(ends)


def _twins(turns: Turns, other: Turns) -> dict[Value, Value]:
    """For values of a body those of another that are the same in the turn of the same number."""
    stacks: dict[Value, Value] = {stack: row for row, stack in other.rows.items()}
    yielded = other.body.terminator.operands
    for i in range(len(other.carried), len(yielded)):
        stacks[other.op.results[i]] = yielded[i]
    constants = {value: arg for arg, value in other.same.items()}
    twins = {row: stacks[stack] for row, stack in turns.rows.items() if stack in stacks}
    twins |= {arg: constants[v] for arg, v in turns.same.items() if v in constants}
    known = {_key(op, op.operands): op for op in other.body.ops[:-1] if _is_free(op)}
    for op in turns.body.ops[:-1]:
        if _is_free(op) and all(v in twins for v in op.operands):
            twin = known.get(_key(op, [twins[v] for v in op.operands]))
            if twin is not None:
                twins.update(zip(op.results, twin.results, strict=True))
    return twins


def _key(op: Operation, operands: Sequence[Value]) -> object:
    return op.defn, tuple(map(id, operands)), exact(op.attrs), tuple(r.type for r in op.results)


def _dear(turns: Turns, twins: Mapping[Value, Value]) -> set[Operation]:
    """Operations that have a twin and are a product, what one is made of, or what alone continues one."""
    free = [op for op in turns.body.ops[:-1] if op.results and op.results[0] in twins]
    dear = _with_sources([op for op in free if op.defn.form == "contraction"], free)
    if not dear:
        return dear
    for op in free:
        if op not in dear and _is_continued(op, dear):
            dear |= _with_sources([op], free)
    return dear
