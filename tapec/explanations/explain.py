"""Why a gradient is None: what `tapec.GradientTape.explain` answers.

`explain` goes from one possible cause to the next (is the source an integer, does the way end at an operation, was
the source watched, …), the most certain first; the first that holds gives the explanation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapec.explanations.causes import cut_remedy, cut_words, path_words
from tapec.explanations.connections import Cut, Remembered
from tapec.explanations.explanation import Cause, Explanation
from tapec.explanations.mentions import in_branches, numpy_calls
from tapec.explanations.names import Names, of_variable
from tapec.explanations.question import Question, is_fresh
from tapec.explanations.trail import Departure, State, Value
from tapec.frames import resolve
from tapec.ir.location import Location
from tapec.ir.ops.control import Gradient
from tapec.passes.adjoint import reachable
from tapec.variable import Variable

#: How many places one explanation lists.
_PLACES = 8


def explain(
    remembered: Remembered, names: Names, targets: Sequence[Value], source: Value
) -> Explanation:
    """Why the gradient of the targets with respect to the source is None."""
    question = Question(remembered, names, targets, source)
    known = _connected(question) if source.type.dtype.is_differentiable else None
    if known is not None and known.cause is Cause.CONNECTED:
        return known
    found = [known] if known is not None else _first(question)
    head = f"the gradient of {question.target_name} with respect to {question.source_name} is None"
    first, *others = found
    count = f" (one of {len(found)} reasons)" if others else ""
    message = f"{head}: {first.message}{count}"
    return replace(first, message=message, further=tuple(others[: _PLACES - 1]))


def _first(question: Question) -> list[Explanation]:
    """The explanations by the first cause that holds: in the order in which things ran."""
    if not question.source.type.dtype.is_differentiable:
        return [_integer_source(question)]
    for cause in (_cuts, _unwatched, _linear, _assigned, _departed):
        found = cause(question)
        if found:
            if cause in (_cuts, _assigned):  # what left the tape elsewhere is another reason
                found += [e for e in _departed(question) if e.location != found[0].location]
            return found
    return [_spent(question) or _unrelated(question) or _before(question) or _unread(question)]


def _integer_source(question: Question) -> Explanation:
    name = question.source_name
    return Explanation(
        Cause.INTEGER_SOURCE,
        f"{name} is {question.source.type.dtype.name}, which is not differentiable",
        question.made_source() or question.opened,
        f"make {name} float32 (dtype=tapec.float32, or tapec.cast before the block)",
    )


# -- a derivative flows


def _connected(question: Question) -> Explanation | None:
    """The gradient is not None, or only a function that answers when it is asked for it knows why it is."""
    ways = question.ways
    if not any(id in ways.reached for id in question.target_ids):
        return None
    if not _is_connected(question):
        linear = _linear(question)
        if linear:
            return linear[0]
        custom = [c for c in map(ways.custom, question.target_ids) if c is not None]
        return _explained_cut(question, custom[0]) if custom else None
    message = f"{question.target_name} depends on {question.source_name}: the gradient is not None"
    left = [
        f"{d.how} at {question.line(resolve(d.origin))}"
        for d in question.trail.departures
        if question.is_from_source(d.thing)
    ]
    if left:
        message += f"; it does not count what left the tape by {', '.join(dict.fromkeys(left))}"
    return Explanation(Cause.CONNECTED, message, None, "nothing is to be done")


def _is_connected(question: Question) -> bool:
    """Whether a way that leads through gradients is really one."""
    keys = frozenset(value.key for value in question.targets)
    if (keys, question.source.key) in question.trail.unanswered:
        return False
    ways = question.ways
    way = [n.step for id in question.target_ids for n in ways.before(id)]
    if not any(isinstance(s.defn, Gradient) and s.operation is not None for s in way):
        return True
    values = ways.values
    ends = [values[id] for id in question.target_ids if id in values]
    return any(reachable(ends, [values[id] for id in question.source_ids if id in values]))


# -- an operation cuts it


def _cuts(question: Question) -> list[Explanation]:
    return [] if all(cut.behind for cut in question.ways.cuts) else _all_cuts(question)


def _all_cuts(question: Question) -> list[Explanation]:
    return _distinct([_explained_cut(question, cut) for cut in question.ways.cuts])


def _distinct(found: Sequence[Explanation]) -> list[Explanation]:
    """One for each cause and line, with the shortest path: a loop runs a line many times."""
    kept: dict[tuple[Cause, Location | None], Explanation] = {}
    for explanation in found:
        kept.setdefault((explanation.cause, explanation.location), explanation)
    return list(kept.values())


def _explained_cut(question: Question, cut: Cut) -> Explanation:
    if cut.cause is Cause.WATCHED_LATE:
        return _watched_late(question, cut)
    path = path_words(question.ways.path(cut), question.line)
    detail = cut_words(
        cut,
        path,
        question.describe,
        question.line,
        question.source_name,
        question.line(question.opened),
    )
    change = None
    if cut.cause is Cause.RESET and question.trail.forgot is not None:
        change = resolve(question.trail.forgot.origin)
        detail += f" at {question.line(change)}"
    if cut.cause is Cause.GRADIENT_AFTER:
        change = question.opened
    if cut.cause is Cause.CUSTOM:
        change = cut.node.step.rule
    return Explanation(
        cut.cause, detail, cut.node.location, cut_remedy(cut.cause, cut.node), change, path
    )


def _watched_late(question: Question, cut: Cut) -> Explanation:
    name, watches = question.source_name, question.trail.watches
    watched = watches.get(cut.value) or watches.get(question.source.key)
    location = resolve(watched.origin) if watched else None
    made = question.describe(cut.node.step.outputs[0])
    used = cut.node.location
    return Explanation(
        Cause.WATCHED_LATE,
        f"{name} was watched at {question.line(location)}, but {made} was computed at "
        f"{question.line(used)}, before",
        location,
        f"call tape.watch({name}) before its first use",
        used,
    )


# -- it was not watched


def _unwatched(question: Question) -> list[Explanation]:
    """The targets depend on the source by operations, but the tape did not follow it."""
    ways = question.ways
    unfollowed = (question.source_ids & ways.needed) - set(ways.reached)
    users = [n for n in ways.users(unfollowed) if question.matters(n.step.outputs)]
    if not users:
        return []
    node = users[0]
    value = next(id for id in node.step.inputs if id in unfollowed)
    if ways.state_cause(node) is not None:
        return _all_cuts(question)
    if question.source.key in question.trail.watches:
        return [_watched_late(question, Cut(node, value, Cause.WATCHED_LATE))]
    if isinstance(question.source.thing, Variable):
        found = _unwatched_variable(question, question.source.thing)
    else:
        found = _unwatched_tensor(question)
    return [found, *_all_cuts(question)]


def _unwatched_variable(question: Question, variable: Variable) -> Explanation:
    name, opened = question.source_name, question.opened
    if not variable.trainable:
        return Explanation(
            Cause.NOT_TRAINABLE,
            f"{name} has trainable=False, so that no tape watches it by itself",
            question.made(name) or opened,
            f"call tape.watch({name}) inside the block, or make it trainable",
            opened,
        )
    return Explanation(
        Cause.UNWATCHED_VARIABLES,
        f"the tape at {question.line(opened)} does not watch Variables by itself "
        "(watch_accessed_variables=False)",
        opened,
        f"call tape.watch({name}) inside the block",
    )


def _unwatched_tensor(question: Question) -> Explanation:
    name, opened = question.source_name, question.opened
    made = question.made_source()
    before = question.bindings(name)[:-1]
    if made is not None and any("Variable(" in place.text for place in before):
        return Explanation(
            Cause.REPLACED,
            f"{name} is a Tensor made at {question.line(made)}, not a Variable: its name was bound anew",
            made,
            f"change a Variable in place ({name}.assign_add(...)) instead of binding its name anew; "
            f"or call tape.watch({name})",
        )
    since = "" if made is None else f", made at {question.line(made)},"
    return Explanation(
        Cause.NOT_WATCHED,
        f"{name} is a Tensor{since} that was never watched by the tape at {question.line(opened)}",
        made or opened,
        f"call tape.watch({name}) inside the block, before its first use",
        opened,
    )


# -- it went another way


def _linear(question: Question) -> list[Explanation]:
    """The targets come from a gradient of something that depends on the source, but not from the source."""
    taken = [(a.outputs, a.targets, resolve(a.origin)) for a in question.trail.answers] + [
        (n.step.outputs, n.step.inputs, n.location)
        for n in question.ways.nodes
        if isinstance(n.step.defn, Gradient) and n.step.state is State.FOLLOWED
    ]
    for outputs, targets, location in reversed(taken):
        if question.matters(outputs) and not question.ways.touched.isdisjoint(targets):
            inner, name = question.describe(targets[0]), question.source_name
            return [
                Explanation(
                    Cause.LINEAR,
                    f"{question.describe(outputs[0])}, from gradient() at {question.line(location)}, does "
                    f"not depend on {name}: the derivative is zero ({inner} is linear in {name})",
                    location,
                    "pass unconnected_gradients='zero' to get zeros",
                )
            ]
    return []


def _assigned(question: Question) -> list[Explanation]:
    found = []
    for event in question.trail.assignments:
        if event.value not in question.ways.touched:
            continue
        later = question.ids(Value(event.variable, event.variable.type))
        if any((id > event.time or is_fresh(id)) and id in question.ways.needed for id in later):
            name = of_variable(event.variable, question.names)
            location = resolve(event.origin)
            found.append(
                Explanation(
                    Cause.ASSIGNED,
                    f"what comes from {question.source_name} went into {name} by assign at "
                    f"{question.line(location)}: gradients do not flow through assign",
                    location,
                    f"use the Tensor that is assigned, and assign it to {name} after the block",
                )
            )
    return _distinct(found)


def _departed(question: Question) -> list[Explanation]:
    """Elements were read by Python or NumPy, and the targets use something that came later from nowhere."""
    unknown = [id for id in question.ways.roots() if question.is_unknown(id)]
    found = []
    for event in question.trail.departures:
        if question.is_from_source(event.thing) and any(id > event.time for id in unknown):
            if isinstance(event.thing, int):
                found += [
                    _explained_cut(question, cut) for cut in question.cuts_before(event.thing)
                ]
            found.append(_departure(question, event))
    return _distinct(found)


def _departure(question: Question, event: Departure) -> Explanation:
    location, what = resolve(event.origin), question.source_name
    if isinstance(event.thing, int) and event.thing not in question.source_ids:
        what = f"{question.describe(event.thing)}, which comes from {what},"
    calls = numpy_calls(location) if location else []
    remedy = "keep the Tensor and use the functions of tapec on it, not those of NumPy"
    if calls:
        remedy = "keep the Tensor, and use " + ", ".join(f"{own} for {np}" for np, own in calls)
    elif event.how in ("float()", "int()", "complex()", ".item()"):
        remedy = "keep the Tensor: arithmetic and the functions of tapec take it like a number"
    return Explanation(
        Cause.DEPARTED,
        f"{what} left the tape by {event.how} at {question.line(location)}; nothing computed by "
        "Python or NumPy from it is recorded",
        location,
        remedy,
    )


# -- it was not used


def _spent(question: Question) -> Explanation | None:
    """The targets were computed when the tape had given its gradient."""
    spent = question.trail.spent
    if spent is None or not any(
        id > spent.time and id not in question.ways.makers for id in question.target_ids
    ):
        return None
    location = resolve(spent.origin)
    return Explanation(
        Cause.AFTER,
        f"{question.target_name} was computed after the tape gave its gradient at "
        f"{question.line(location)}: it records no longer",
        location,
        "use GradientTape(persistent=True), or another tape around this one",
        question.opened,
    )


def _unrelated(question: Question) -> Explanation | None:
    """The source was used, or made, but the targets do not depend on it."""
    ways, name = question.ways, question.source_name
    users = ways.users(question.source_ids)
    maker = next((ways.makers[i] for i in question.source_ids if i in ways.makers), None)
    if maker is not None:
        location = maker.location
        detail = (
            f"{name} is a Tensor made at {question.line(location)}, and {question.target_name} does "
            "not depend on it"
        )
    elif users:
        location = users[0].location
        verb = "read" if isinstance(question.source.thing, Variable) else "used"
        detail = (
            f"{name} was {verb} at {question.line(location)}, but {question.target_name} does not "
            f"depend on {question.describe(users[0].step.outputs[0])}"
        )
    else:
        return None
    return Explanation(
        Cause.UNRELATED,
        f"{detail}; {question.dependence()}",
        location,
        f"let {question.target_name} be computed from {name}, or leave {name} out of the sources",
    )


def _before(question: Question) -> Explanation | None:
    """The targets use a value that was made of the source before the block."""
    if not isinstance(question.source.thing, Variable):
        return None
    mention = re.compile(rf"(?<!\w){re.escape(question.source_name)}(?!\w)")
    for id in question.ways.roots():
        name = question.names.tensors.get(id)
        if name is None or not question.is_unknown(id) or id >= question.began:
            continue
        made = question.made(name)
        if made is not None and mention.search(made.text):
            return Explanation(
                Cause.BEFORE,
                f"{question.source_name} was read at {question.line(made)}, before the tape recorded "
                f"({question.line(question.opened)}); {name} is a constant to the tape",
                made,
                f"compute {name} inside the block",
            )
    return None


def _unread(question: Question) -> Explanation:
    """The source was not used while the tape recorded."""
    name, source, opened = question.source_name, question.source.thing, question.opened
    tape = f"while the tape recorded ({question.line(opened)})"
    if isinstance(source, Variable):
        branches = in_branches(opened, name) if opened else []
        if branches:
            places = " and ".join(question.line(place) for place in branches)
            return Explanation(
                Cause.BRANCH,
                f"{name} was not read in this run: it is used at {places}, in a branch that was not "
                f"taken or a function that was not called; {question.dependence()}",
                branches[0],
                "nothing, if the branch was meant; else choose by values, as tapec.where does",
            )
        for other in question.variables_needed():
            if _is_copy(other, source):
                return _another(question, of_variable(other, question.names))
    verb, cause = (
        ("read", Cause.NOT_READ) if isinstance(source, Variable) else ("used", Cause.NOT_USED)
    )
    return Explanation(
        cause,
        f"{name} was not {verb} {tape}; {question.dependence()}",
        opened,
        f"use {name} inside the block, or leave it out of the sources",
    )


def _is_copy(other: Variable, source: Variable) -> bool:
    """Whether one Variable was made of the other, or has the same values, which are not all one number."""
    if source.number == other.copied or other.number == source.copied:
        return True
    if other.type != source.type or not source.array.size:
        return False
    return bool((source.array != source.array.flat[0]).any()) and np.array_equal(
        other.array, source.array
    )


def _another(question: Question, other: str) -> Explanation:
    made = question.made(other)
    since = "" if made is None else f", made at {question.line(made)}"
    return Explanation(
        Cause.OTHER_VARIABLE,
        f"{question.target_name} depends on {other}{since}, another Variable that began as a copy, "
        f"not on {question.source_name}",
        made or question.opened,
        f"ask for the gradient of {other}, or use {question.source_name} in the block",
        question.opened,
    )
