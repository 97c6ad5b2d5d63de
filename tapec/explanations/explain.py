"""Why a gradient is None: what `tapec.GradientTape.explain` answers.

`Question.answer` goes from one possible cause to the next (is the source an integer, does the way end at an
operation, was the source watched, …), the most certain first; the first that holds gives the explanation.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from tapec.errors import RuntimeError
from tapec.explanations.causes import (
    Explanation,
    cut_remedy,
    cut_words,
    line_of,
    operation_name,
    path_words,
)
from tapec.explanations.connections import Connections, Cut
from tapec.explanations.names import Names, of_variable
from tapec.explanations.trail import CAPACITY, State, Trail, Value
from tapec.frames import here, resolve
from tapec.ir.core import Value as ProgramValue
from tapec.ir.location import Location
from tapec.ir.ops.control import Gradient
from tapec.passes.adjoint import reachable
from tapec.recording import announce_gradient, bystanders
from tapec.records import Recording
from tapec.tensor import Tensor
from tapec.variable import Variable

#: The id of the read that a Variable gets as a target.
_FRESH = -(2**62)


def explain(
    trail: Trail,
    recording: Recording | None,
    targets: Sequence[Tensor | Variable],
    source: Tensor | Variable,
) -> Explanation:
    """Why the gradient of the targets with respect to the source is None.

    Raises:
        RuntimeError: nothing was recorded.
    """
    if recording is None:
        raise RuntimeError("this tape never recorded", location=here())
    return Question(trail, recording, list(map(Value.of, targets)), Value.of(source)).answer()


class Unanswered(NamedTuple):
    """Why a Variable's latest gradient is None, to be found out while its tape is still there."""

    trail: weakref.ref[Trail]
    targets: list[Value]

    def explain(self, variable: Variable) -> Explanation | None:
        """The explanation, or None if the tape is gone."""
        trail = self.trail()
        if trail is None or trail.past is None:
            return None
        return Question(trail, trail.past, self.targets, Value.of(variable)).answer()


def note_answer(
    trail: Trail,
    recording: Recording,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    gradients: Sequence[Tensor | None],
) -> None:
    """Tell the tapes that wait for theirs of gradients that were given, and Variables where theirs is None."""
    trail.past = recording
    if bystanders:
        outputs = [g.id for g in gradients if g is not None]
        announce_gradient([t.id for t in targets if isinstance(t, Tensor)], outputs)
    noted: Unanswered | None = None
    for source, gradient in zip(sources, gradients, strict=True):
        if gradient is None:
            if noted is None:
                noted = Unanswered(weakref.ref(trail), list(map(Value.of, targets)))
            if len(trail.unanswered) >= CAPACITY:
                trail.unanswered.clear()
            trail.unanswered.add((_keys(noted.targets), Value.of(source).key))
            if isinstance(source, Variable):
                source.unanswered = noted
        elif isinstance(source, Variable):
            source.unanswered = None


def _keys(values: Sequence[Value]) -> frozenset[int]:
    return frozenset(value.key for value in values)


class Question:
    """One question, and all that is known about it."""

    def __init__(
        self, trail: Trail, recording: Recording, targets: Sequence[Value], source: Value
    ) -> None:
        """Gather what is known."""
        self.trail = trail
        self.recording = recording
        self.targets = targets
        self.source = source
        self.names = Names()
        self.variables = self._variable_reads()
        self.source_ids = self._ids(source)
        target_ids: list[int] = []
        for target in targets:
            target_ids += [target.thing] if isinstance(target.thing, int) else [_FRESH]
            if isinstance(target.thing, Variable):
                self.variables[_FRESH] = target.thing
                if target.thing is source.thing:
                    self.source_ids.add(_FRESH)
        self.ways = Connections(trail, recording, self.source_ids, target_ids)
        self.target_ids = target_ids
        start = trail.opened
        self.block = start.origin if start else None
        self.opened = resolve(self.block)
        self.began = start.time if start else 0
        self.source_name = self._name(source, "the source")
        self.target_name = ", ".join(self._name(t, "the target") for t in targets)

    def _variable_reads(self) -> dict[int, Variable]:
        """The Variable behind each id that a read gave."""
        reads: dict[int, Variable] = {}
        for variable, ids in [*self.recording.variables.values(), *self.trail.reads.values()]:
            reads.update((id, variable) for id in ids)
        return reads

    def _ids(self, value: Value) -> set[int]:
        if isinstance(value.thing, int):
            return {value.thing}
        return {id for id, variable in self.variables.items() if variable is value.thing}

    def _name(self, value: Value, otherwise: str) -> str:
        if isinstance(value.thing, int):
            return self.names.tensors.get(value.thing, otherwise)
        return of_variable(value.thing, self.names)

    def describe(self, id: int) -> str:
        """What to call a value in a sentence."""
        if id in self.names.tensors:
            return self.names.tensors[id]
        if id in self.variables:
            return of_variable(self.variables[id], self.names)
        if id in self.target_ids:
            return "the target"
        node = self.ways.makers.get(id)
        if node is not None:
            return f"the result of {operation_name(node)} ({line_of(node.location)})"
        return "a Tensor"

    def answer(self) -> Explanation:
        """The first cause that holds."""
        return (
            self._integer_source()
            or self._connected()
            or self._cut()
            or self._unwatched()
            or self._linear()
            or self._assigned()
            or self._departed()
            or self._unrelated()
            or self._before()
            or self._unread()
        )

    def _explanation(
        self,
        cause: str,
        detail: str,
        location: Location | None,
        remedy: str,
        path: tuple[str, ...] = (),
    ) -> Explanation:
        message = f"the gradient of {self.target_name} with respect to {self.source_name} is None: {detail}"
        return Explanation(cause, message, location, remedy, path)

    # -- causes, the most certain first

    def _integer_source(self) -> Explanation | None:
        dtype = self.source.type.dtype
        if dtype.is_differentiable:
            return None
        return self._explanation(
            "integer source",
            f"{self.source_name} is {dtype.name}, which is not differentiable",
            self._made() or self.opened,
            f"make {self.source_name} float32 (dtype=tapec.float32, or tapec.cast before the block)",
        )

    def _connected(self) -> Explanation | None:
        if not any(id in self.ways.reached for id in self.target_ids):
            return None
        if not self._is_connected():
            custom = [c for c in map(self.ways.custom, self.target_ids) if c is not None]
            return self._linear() or (self._explain_cut(custom) if custom else None)
        message = f"{self.target_name} depends on {self.source_name}: the gradient is not None"
        left = [
            f"{d.how} at {line_of(resolve(d.origin))}"
            for d in self.trail.departures
            if self._is_from_source(d.thing)
        ]
        if left:
            message += f"; it does not count what left the tape by {', '.join(left)}"
        return Explanation("connected", message, None, "nothing is to be done")

    def _is_connected(self) -> bool:
        """Whether a way that leads through gradients is really one."""
        if (_keys(self.targets), self.source.key) in self.trail.unanswered:
            return False
        way = [n.step for id in self.target_ids for n in self.ways.before(id)]
        if not any(isinstance(s.defn, Gradient) and s.operation is not None for s in way):
            return True
        values: dict[int, ProgramValue] = {}
        for node in self.ways.nodes:
            operation = node.step.operation
            if operation is not None:
                values.update(zip(node.step.inputs, operation.operands, strict=False))
                values.update(zip(node.step.outputs, operation.results, strict=True))
            elif node.call is not None and node.step.inputs[0] in values:  # what the call returns
                values[node.step.outputs[0]] = values[node.step.inputs[0]]
        ends = [values[id] for id in self.target_ids if id in values]
        return any(reachable(ends, [values[id] for id in self.source_ids if id in values]))

    def _cut(self) -> Explanation | None:
        return self._explain_cut(self.ways.cuts) if self.ways.cuts else None

    def _explain_cut(self, cuts: Sequence[Cut]) -> Explanation:
        cut = cuts[0]
        node, value, cause = cut.node, cut.value, cut.cause
        if cause == "watched after use":
            return self._watched_late(cut)
        path = path_words(self.ways.path(cut))
        detail = cut_words(cause, node, path, self.describe, self.source_name, value)
        if cause == "reset" and self.trail.forgot is not None:
            detail += f" at {line_of(resolve(self.trail.forgot.origin))}"
        elsewhere = dict.fromkeys(line_of(c.node.location) for c in cuts[1:])
        elsewhere.pop(line_of(node.location), None)
        if elsewhere:
            detail += f"; other paths are cut at {', '.join(elsewhere)}"
        location = node.location
        return self._explanation(cause, detail, location, cut_remedy(cause, node), path)

    def _watched_late(self, cut: Cut) -> Explanation:
        watched = self.trail.watches.get(cut.value) or self.trail.watches.get(self.source.key)
        location = resolve(watched.origin) if watched else None
        made = self.describe(cut.node.step.outputs[0])
        return self._explanation(
            "watched after use",
            f"{self.source_name} was watched at {line_of(location)}, but {made} was computed at "
            f"{line_of(cut.node.location)}, before",
            location,
            f"call tape.watch({self.source_name}) before its first use",
        )

    def _unwatched(self) -> Explanation | None:
        """The target depends on the source by operations, but the tape did not follow it."""
        unfollowed = (self.source_ids & self.ways.needed) - set(self.ways.reached)
        users = [n for n in self.ways.users(unfollowed) if self._matters(n.step.outputs)]
        if not users:
            return None
        node = users[0]
        value = next(id for id in node.step.inputs if id in unfollowed)
        cause = self.ways.state_cause(node)
        if cause is not None:
            return self._explain_cut([Cut(node, value, cause)])
        if self.source.key in self.trail.watches:
            return self._watched_late(Cut(node, value, "watched after use"))
        if isinstance(self.source.thing, Variable):
            return self._unwatched_variable(self.source.thing)
        return self._unwatched_tensor()

    def _matters(self, outputs: Collection[int]) -> bool:
        return not self.ways.needed.isdisjoint(outputs)

    def _unwatched_variable(self, variable: Variable) -> Explanation:
        name = self.source_name
        if not variable.trainable:
            return self._explanation(
                "trainable=False",
                f"{name} has trainable=False, so that no tape watches it by itself",
                self._made() or self.opened,
                f"call tape.watch({name}) inside the block, or make it trainable",
            )
        return self._explanation(
            "watch_accessed_variables=False",
            f"the tape at {line_of(self.opened)} does not watch Variables by itself "
            "(watch_accessed_variables=False)",
            self.opened,
            f"call tape.watch({name}) inside the block",
        )

    def _unwatched_tensor(self) -> Explanation:
        name, made = self.source_name, self._made()
        if len(self.names.bindings(name, self.block)) > 1 and made is not None:
            return self._explanation(
                "replaced by a tensor",
                f"{name} is a Tensor made at {line_of(made)}, not the Variable of that name before",
                made,
                f"change a Variable in place ({name}.assign_add(...)) instead of binding its name anew; "
                f"or call tape.watch({name})",
            )
        since = "" if made is None else f", made at {line_of(made)},"
        return self._explanation(
            "not watched",
            f"{name} is a Tensor{since} that was never watched by the tape at {line_of(self.opened)}",
            made or self.opened,
            f"call tape.watch({name}) inside the block, before its first use",
        )

    def _linear(self) -> Explanation | None:
        """The target comes from a gradient of something that depends on the source, but not from the source."""
        taken = [(a.outputs, a.targets, resolve(a.origin)) for a in self.trail.answers] + [
            (n.step.outputs, n.step.inputs, n.location)
            for n in self.ways.nodes
            if isinstance(n.step.defn, Gradient) and n.step.state is State.FOLLOWED
        ]
        for outputs, targets, location in reversed(taken):
            if self._matters(outputs) and not self.ways.touched.isdisjoint(targets):
                inner = self.describe(targets[0])
                return self._explanation(
                    "linear",
                    f"{self.describe(outputs[0])}, from gradient() at {line_of(location)}, does not depend "
                    f"on {self.source_name}: the derivative is zero ({inner} is linear in it)",
                    location,
                    "pass unconnected_gradients='zero' to get zeros",
                )
        return None

    def _assigned(self) -> Explanation | None:
        for event in self.trail.assignments:
            if event.value not in self.ways.touched:
                continue
            later = self._ids(Value(event.variable, event.variable.type))
            if any((id > event.time or id == _FRESH) and id in self.ways.needed for id in later):
                name = of_variable(event.variable, self.names)
                location = resolve(event.origin)
                return self._explanation(
                    "assign",
                    f"what comes from {self.source_name} went into {name} by assign at "
                    f"{line_of(location)}: gradients do not flow through assign",
                    location,
                    f"use the Tensor that is assigned, and assign it to {name} after the block",
                )
        return None

    def _is_from_source(self, thing: int | Variable) -> bool:
        return thing in self.ways.touched if isinstance(thing, int) else thing is self.source.thing

    def _departed(self) -> Explanation | None:
        unknown = [id for id in self.ways.roots() if self._is_unknown(id)]
        for event in self.trail.departures:
            if self._is_from_source(event.thing) and any(id > event.time for id in unknown):
                location = resolve(event.origin)
                what = self.source_name
                if isinstance(event.thing, int) and event.thing not in self.source_ids:
                    what = f"{self.describe(event.thing)}, which comes from {self.source_name},"
                return self._explanation(
                    "left the tape",
                    f"{what} left the tape by {event.how} at {line_of(location)}; nothing computed by "
                    "Python or NumPy from it is recorded",
                    location,
                    "keep the Tensor and use the functions of tapec (tapec.square for numpy.square)",
                )
        return None

    def _is_unknown(self, id: int) -> bool:
        """Whether the tape knows of a value neither what made it nor which Variable it was."""
        return id not in self.variables and id not in self.recording.active

    def _unrelated(self) -> Explanation | None:
        """The source was used, or made, but the target does not depend on it."""
        users = self.ways.users(self.source_ids)
        maker = next((self.ways.makers[i] for i in self.source_ids if i in self.ways.makers), None)
        if not users and maker is None:
            return None
        name = self.source_name
        if maker is not None:
            location = maker.location
            detail = (
                f"{name} is a Tensor made at {line_of(location)} ({operation_name(maker)}), and "
                f"{self.target_name} does not depend on it"
            )
        else:
            location = users[0].location
            verb = "read" if isinstance(self.source.thing, Variable) else "used"
            made = self.describe(users[0].step.outputs[0])
            detail = f"{name} was {verb} at {line_of(location)}, but {self.target_name} does not depend on {made}"
        return self._explanation(
            "not used by the target",
            f"{detail}; {self._dependence()}",
            location,
            f"let {self.target_name} be computed from {name}, or leave {name} out of the sources",
        )

    def _before(self) -> Explanation | None:
        """The target uses a value that was made of the source before the block."""
        if not isinstance(self.source.thing, Variable):
            return None
        for id in self.ways.roots():
            name = self.names.tensors.get(id)
            if name is None or not self._is_unknown(id) or id >= self.began:
                continue
            made = self.names.bindings(name, self.block)
            if made and re.search(rf"(?<!\w){re.escape(self.source_name)}(?!\w)", made[-1].text):
                return self._explanation(
                    "read before the block",
                    f"{self.source_name} was read at {line_of(made[-1])}, before the tape recorded "
                    f"({line_of(self.opened)}); {name} is a constant to the tape",
                    made[-1],
                    f"compute {name} inside the block",
                )
        return None

    def _unread(self) -> Explanation:
        """The source was not used while the tape recorded."""
        name, source = self.source_name, self.source.thing
        others = self._variables_needed()
        if isinstance(source, Variable):
            for other in others:
                if other.type == source.type and np.array_equal(other.array, source.array):
                    return self._explanation(
                        "another variable",
                        f"{self.target_name} depends on {of_variable(other, self.names)}, another Variable "
                        f"with the same value, not on {name}",
                        self._made_as(of_variable(other, self.names)) or self.opened,
                        f"ask for the gradient of {of_variable(other, self.names)}, or use {name} in the block",
                    )
        verb = "read" if isinstance(source, Variable) else "used"
        return self._explanation(
            f"not {verb}",
            f"{name} was not {verb} while the tape recorded ({line_of(self.opened)}); {self._dependence()}",
            self.opened,
            f"use {name} inside the block, or leave it out of the sources",
        )

    # -- what the sentences need

    def _made(self) -> Location | None:
        """The line above the block that gave the source its name."""
        return self._made_as(self.source_name)

    def _made_as(self, name: str) -> Location | None:
        return next(reversed(self.names.bindings(name, self.block)), None)

    def _variables_needed(self) -> list[Variable]:
        found = {
            id(variable): variable
            for value, variable in self.variables.items()
            if value in self.ways.needed
        }
        return list(found.values())

    def _dependence(self) -> str:
        """What the target depends on, as far as it has a name."""
        known = [of_variable(v, self.names) for v in self._variables_needed()]
        for id in self.ways.roots():
            if id in self.recording.active and id not in self.variables:
                known.append(self.describe(id))
            elif id in self.names.tensors and id not in self.target_ids:
                before = id < self.began
                known.append(
                    self.names.tensors[id] + (" (made before the block)" if before else "")
                )
        if not known:
            return f"{self.target_name} depends on nothing that the tape knows"
        return f"{self.target_name} depends on: {', '.join(dict.fromkeys(known))}"
