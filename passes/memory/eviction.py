"""Let kernels run again where what they made was given up, so that no more than so many bytes are in use.

A function is gone through kernel by kernel, as it was planned. What a kernel reads has to be there: what was given up
is made again, from what it was made of, which may have been given up, too. Where there is no room for what a kernel
makes, the value is given up that has most bytes, is read latest, and takes least arithmetic to come back (Kirisame et
al., Dynamic Tensor Rematerialization, 2021; but here it is known when a value is read next). So nothing is asked of a
program but an order: gradients of gradients, which go through layers four times, are like others.

This is reckoned with the kernels of the program as it is; those of the copy that is written may be others, so a plan
has to tell what it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tapec.ir.core import Function, Operation, Value, clone_function, clone_operation
from tapec.ir.dims import typical
from tapec.passes import dce
from tapec.passes.memory.footprint import PlannedKernel
from tapec.passes.memory.recomputation import SMALL, is_repeatable

#: How much arithmetic may be done again, for that of the whole function.
_MOST_AGAIN = 8
#: What it counts to give up what can only come back if updates wait, which takes as much memory as that gives.
_HARDLY = 1e-9


class Run(NamedTuple):
    """One run of a kernel: the first, or one that makes a value ``again``."""

    kernel: PlannedKernel
    again: Value | None = None


class NoRoomError(Exception):
    """There is no order of runs that takes as little."""


def with_reruns(
    function: Function, kernels: Sequence[PlannedKernel], bytes: int
) -> Function | None:
    """A copy of a function, planned as these kernels, that needs about so many bytes; None if there is none."""
    try:
        runs = _Simulation(kernels, bytes).runs()
    except NoRoomError:
        return None
    return _Writer(function, kernels).written(runs)


class _Simulation:
    """Runs kernels without computing anything, to see what is in memory."""

    def __init__(self, kernels: Sequence[PlannedKernel], bytes: int) -> None:
        self.kernels, self.room = kernels, bytes
        self.maker = {value: kernel for kernel in kernels for value in kernel.writes}
        self.size = {v: size for k in kernels for v, size in zip(k.writes, k.sizes, strict=True)}
        #: When a value is read, in terms of the program as it is, the last time first.
        self.reads: dict[Value, list[int]] = {}
        for turn in reversed(range(len(kernels))):
            for value in kernels[turn].reads:
                self.reads.setdefault(value, []).append(turn)
        self.last = {value: turns[0] for value, turns in self.reads.items()}
        self.cost = {kernel: _arithmetic(kernel) for kernel in kernels}
        self.updated = {a: turn for turn, kernel in enumerate(kernels) for a in kernel.updates}
        self.can_leave = {
            value: size > SMALL and all(map(is_repeatable, self.maker[value].ops))
            for value, size in self.size.items()
        }
        self.there: dict[Value, None] = {}
        self.locks: dict[Value, int] = {}
        self.used = self.turn = 0
        self.left = _MOST_AGAIN * sum(self.cost.values())
        self.made: list[Run] = []

    def runs(self) -> list[Run]:
        """All runs, in order."""
        for turn, kernel in enumerate(self.kernels):
            self.turn = turn
            self._lock(kernel, 1)
            for value in kernel.reads:
                if value not in self.there:
                    self._again(value)
            self._enter(kernel.writes)
            self.made.append(Run(kernel))
            self._lock(kernel, -1)
            self._forget((*kernel.reads, *kernel.writes), turn + 1)
        return self.made

    def _again(self, value: Value) -> None:
        """Make a value that was given up, and before it, what that is made of."""
        stack = [value]
        self._lock(self.maker[value], 1)
        while stack:
            kernel = self.maker[stack[-1]]
            missing = next((v for v in kernel.reads if v not in self.there), None)
            if missing is not None:
                stack.append(missing)
                self._lock(self.maker[missing], 1)
                continue
            self.left -= self.cost[kernel]
            if self.left < 0:
                raise NoRoomError
            self._enter([stack[-1]])
            self.made.append(Run(kernel, stack.pop()))
            self._lock(kernel, -1)
            self._forget(kernel.reads, self.turn)

    def _lock(self, kernel: PlannedKernel, change: int) -> None:
        """Let what a kernel reads stay, or not any more."""
        for value in kernel.reads:
            self.locks[value] = self.locks.get(value, 0) + change

    def _enter(self, values: Sequence[Value]) -> None:
        """Make room for values, and put them there."""
        bytes = sum(self.size[value] for value in values)
        while self.used + bytes > self.room:
            leaving = max(
                (v for v in self.there if self.can_leave[v] and not self.locks.get(v)),
                key=self._merit,
                default=None,
            )
            if leaving is None:
                raise NoRoomError
            self._leave(leaving)
        self.there.update(dict.fromkeys(values))
        self.used += bytes

    def _leave(self, value: Value) -> None:
        del self.there[value]
        self.used -= self.size[value]

    def _forget(self, values: Iterable[Value], turn: int) -> None:
        """Let go what nobody reads from a turn on."""
        for value in values:
            idle = self.last.get(value, -1) < turn and not self.locks.get(value)
            if idle and value in self.there and self.size[value]:
                self._leave(value)

    def _merit(self, value: Value) -> float:
        """How good it is to give a value up now."""
        turns = self.reads[value]
        while turns[-1] < self.turn:
            turns.pop()
        then = turns[-1]
        cost, waiting = 0, set[int]()
        for kernel in self._needed(value, then):
            cost += self.cost[kernel]
            waiting |= {t for a in kernel.arguments if (t := self.updated.get(a, then)) < then}
        # What replaces an argument would have to wait until that was read again, and so would what it is made of.
        kept = sum(self.size[v] for turn in waiting for v in self.kernels[turn].reads)
        gain = max(self.size[value] - kept, _HARDLY * self.size[value])
        return gain * (then - self.turn + 1) / cost

    def _needed(self, value: Value, then: int) -> Iterator[PlannedKernel]:
        """The kernels that have to run to make a value again at a turn."""
        stack, seen = [value], {value}
        while stack:
            kernel = self.maker[stack.pop()]
            yield kernel
            for other in kernel.reads:
                stays = other in self.there and (self.last[other] >= then or not self.size[other])
                if not stays and other not in seen:
                    seen.add(other)
                    stack.append(other)


def _arithmetic(kernel: PlannedKernel) -> int:
    return 1 + sum(1 + typical(op.defn.flops(op)) for op in kernel.ops if op.results)


class _Writer:
    """Writes a copy of a function, its operations in the order in which kernels run."""

    def __init__(self, function: Function, kernels: Sequence[PlannedKernel]) -> None:
        self.function = clone_function(function)
        ops = self.function.block.ops
        self.twins = dict(zip(function.block.ops, ops, strict=True))
        in_memory = [self._twin(value) for kernel in kernels for value in kernel.writes]
        #: The last that was made of each value that is in memory.
        self.known = dict(zip(in_memory, in_memory, strict=True))
        #: What is not written yet.
        self.left = dict.fromkeys(ops[:-1])
        self.ops: list[Operation] = []

    def written(self, runs: Iterable[Run]) -> Function:
        """The copy."""
        for number, (kernel, again) in enumerate(runs, 1):
            now: dict[Value, Value] = {}
            for op in (self.twins[op] for op in kernel.ops):
                operands = [now.get(v, self.known.get(v, v)) for v in op.operands]
                if again is None and op in self.left:
                    op.set_operands(operands)
                    self._put(op)
                elif is_repeatable(op) and (again is not None or operands != list(op.operands)):
                    copy = clone_operation(op, dict(zip(op.operands, operands, strict=True)))
                    copy.attrs["recompute"] = number
                    self._put(copy)
                    now.update(zip(op.results, copy.results, strict=True))
            if again is not None:
                self.known[self._twin(again)] = now[self._twin(again)]
        for op in list(self.left):
            self._put(op)
        self.function.block.ops = [*self.ops, self.function.block.terminator]
        dce.sweep(self.function.block)
        return self.function

    def _twin(self, value: Value) -> Value:
        assert value.op is not None
        return self.twins[value.op].results[value.index]

    def _put(self, op: Operation) -> None:
        """Write an operation, behind what it reads."""
        stack = [op]
        while stack:
            missing = [v.op for v in stack[-1].operands if v.op in self.left and v.op is not op]
            if missing:
                stack += missing
                continue
            last = stack.pop()
            self.left.pop(last, None)
            last.block = self.function.block
            self.ops.append(last)
