"""GradientTape: what it records, and the questions it answers.

A tape hears of every operation and of every read of a Variable (`tapec.tapes.listener`), and keeps those that may
depend on something watched. `gradient` hands the question to whoever knows the program: `tapec.derivatives` builds it
from the records, `tapec.tracing` has it already. What answers is heard by outer tapes, so nesting gives any order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tapec.derivatives.answer import gradients_of
from tapec.derivatives.arguments import leaves_of, single, sources_of, targets_of
from tapec.derivatives.cotangents import (
    batch_cotangents,
    batch_shape,
    check_batch,
    from_batch_rows,
    from_rows,
    given_cotangents,
    unit_cotangents,
    zeros_of,
)
from tapec.derivatives.unconnected import UnconnectedGradients
from tapec.errors import NotImplementedError, RuntimeError, ValueError
from tapec.explanations.notes import note_answer, note_missing_ways
from tapec.explanations.trail import State
from tapec.frames import Origin, here, origin, resolve
from tapec.recording import current_trace, push_tape, remove_tape, tracing
from tapec.structure import unflatten
from tapec.tapes.listener import Listener
from tapec.tapes.records import Recording
from tapec.tensor import Tensor
from tapec.variable import Variable, variable_behind

if TYPE_CHECKING:
    from tapec.explanations.memory import Memory
    from tapec.explanations.report import Report
    from tapec.tracing import Trace


def _warn(text: str, *values: object) -> None:
    import logging  # slow to import, and rarely needed

    logging.getLogger("tapec").warning(text, *values)


class GradientTape(Listener):
    """Records operations for automatic differentiation.

    ::

        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean((x @ w - y) ** 2)
        gradient = tape.gradient(loss, w)

    Args:
        persistent: whether `gradient` may be called more than once; the recording is then kept until the tape goes.
        watch_accessed_variables: whether trainable Variables are watched when they are read.
    """

    def __init__(self, persistent=False, watch_accessed_variables=True):
        # type: (bool, bool) -> None
        # Types in a comment: `inspect` shows the signature as TensorFlow's, which people print to look it up.
        super().__init__(watch_accessed_variables)
        self._persistent = persistent
        #: The function that was being compiled when the recording began, if one was.
        self._home: Trace | None = None
        self._is_recording = False
        self._was_entered = False
        #: Where a tape that is not persistent gave its gradients, and the branch around that, outside of which it may
        #: give them: the program may not come by there.
        self._ended: Origin | None = None
        self._ended_in: Trace | None = None
        self._watched: tuple[Variable, ...] = ()

    # -- the block

    def __enter__(self) -> GradientTape:
        if self._is_recording:
            raise ValueError(
                "Tape is still recording, This can happen if you try to re-enter an already-active tape.",
                location=here(),
            )
        self._refuse_inside("__enter__", "enter a new GradientTape there")
        self._was_entered = True
        self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_recording:
            self._stop()

    @property
    def is_recording(self) -> bool:
        """Whether it hears what runs."""
        return self._is_recording

    def _refuse_inside(self, method: str, hint: str) -> None:
        """Raise in a branch, a loop or a compiled function inside of what it records, which it hears as one operation.

        What becomes of that operation's gradient is not the tape's to say once it is made; and only one way through
        it might come by here.
        """
        if self._recording is not None and current_trace() is not self._home:
            raise NotImplementedError(
                f"GradientTape.{method} in a branch, loop or compiled function inside of what the tape records: all "
                "of that is one operation to it",
                location=here(),
                hint=hint,
            )

    def _start(self) -> None:
        if self._recording is None:
            self._recording, self._home = Recording(), current_trace()
        self._is_recording = True
        push_tape(self)
        self.trail.begin()

    def _stop(self, state: State = State.AFTER) -> None:
        self._is_recording = False
        remove_tape(self)
        self.trail.end(state)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Record nothing inside this block.

        Raises:
            RuntimeError: the tape is not recording.
            NotImplementedError: the tape records the whole of a branch, loop or compiled function in which this is.
        """
        if not self._is_recording:
            raise RuntimeError(
                "Trying to stop recording a tape which is not recording.", location=here()
            )
        self._refuse_inside(
            "stop_recording", "tapec.stop_gradient(x) lets no gradient flow through x"
        )
        self._stop(State.STOPPED)
        try:
            yield
        finally:
            self._start()

    def reset(self) -> None:
        """Forget everything recorded so far, watched Tensors too.

        Raises:
            ValueError: the tape is not recording.
            NotImplementedError: as for `stop_recording`.
        """
        if not self._is_recording:
            raise ValueError("Tape is not recording.", location=here())
        self._refuse_inside("reset", "let the tape begin there, or use one of its own")
        assert self._recording is not None
        self.trail.reset(self._recording)
        self._recording, self._home = Recording(), current_trace()

    # -- what it hears

    def watch(self, tensor: Any) -> None:
        """Record what happens to a Tensor, a Variable, or each in a nested structure.

        Raises:
            ValueError: something else is among them.
            RuntimeError: the tape was never entered.
            NotImplementedError: as for `stop_recording`, of what is not watched yet.
        """
        if self._recording is None:
            raise RuntimeError(
                "watch() was called on a tape that does not record",
                location=here(),
                hint="enter the tape first: with tapec.GradientTape() as tape: tape.watch(x)",
            )
        for given in leaves_of(tensor):
            own = variable_behind(given)
            leaf = given if own is None else own
            if not isinstance(leaf, Tensor | Variable):
                raise ValueError(
                    f"Passed in object {leaf} of type {type(leaf).__name__!r}, not tapec.Tensor or tapec.Variable.",
                    location=here(),
                )
            if not leaf.dtype.is_differentiable:
                _warn(
                    "The dtype of the watched tensor must be floating (e.g. tapec.float32), got tapec.%s",
                    leaf.dtype.name,
                )
            if not self.follows(leaf):
                self._refuse_inside("watch", "watch it in front, where the tape was entered")
            if isinstance(leaf, Variable):
                self._reads(leaf)
                self.trail.watch(id(leaf))
            else:
                self.trail.watch(leaf.id, self._recording)
                self._recording.active.add(leaf.id)

    def watched_variables(self) -> tuple[Variable, ...]:
        """The Variables watched so far, in the order in which they were made; `gradient` leaves them known."""
        if self._recording is None:
            return self._watched
        found = [variable for variable, _ in self._recording.variables.values()]
        return tuple(sorted(found, key=lambda variable: variable.number))

    def follows(self, thing: Tensor | Variable) -> bool:
        """Whether a gradient may flow from what is made of a Tensor or Variable now."""
        recording = self._recording
        return recording is not None and recording.follows(thing, self._watches_variables)

    # -- what it answers

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradient of (the sum of the elements of) the target with respect to each source.

        Args:
            target: a Tensor or Variable, or a structure of them, whose gradients are added.
            sources: a structure of Tensors and Variables.
            output_gradients: the weights of the target's elements, one Tensor for each target, of its shape or a
                scalar; ones if None. A list of numbers is one array.
            unconnected_gradients: None or zeros for sources that the target does not depend on.

        Returns:
            A structure like ``sources``, each gradient of its source's shape and dtype, or None.

        Raises:
            RuntimeError: a second call on a tape that is not persistent, or one before it recorded.
            TypeError: target or source is no Tensor or Variable.
            ValueError: output_gradients do not fit the targets.
        """
        recording = self._take_recording()
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        targets = targets_of(target)
        checked, spec = sources_of(sources, warn=True)
        seeds = given_cotangents(targets, output_gradients)
        gradients = self._gradients(recording, targets, checked, seeds)
        if unconnected is UnconnectedGradients.ZERO:
            gradients = [
                zeros_of(s.type) if g is None else g
                for g, s in zip(gradients, checked, strict=True)
            ]
        self._explain_missing(targets, checked, gradients)
        return unflatten(spec, gradients)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivative of every element of the target with respect to every element of each source.

        Args:
            target: a Tensor or Variable.
            sources: a structure of Tensors and Variables.
            unconnected_gradients: None or zeros for sources that the target does not depend on.
            parallel_iterations: without effect: all elements are done at once, as one mapped program.
            experimental_use_pfor: without effect.

        Returns:
            A structure like ``sources``: each of shape ``target.shape + source.shape`` and of its source's dtype,
            or None.

        Raises:
            RuntimeError: a second call on a tape that is not persistent, or one before it recorded.
            TypeError: the target is no single Tensor or Variable, or a source is none.
        """
        recording = self._take_recording()
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        end = single(target, "target", "jacobian")
        checked, spec = sources_of(sources)
        shape = end.type.shape
        rows = self._gradients(recording, [end], checked, [unit_cotangents(end.type)], batched=True)
        jacobians: list[Tensor | None] = []
        for source, found in zip(checked, rows, strict=True):
            if found is not None:
                jacobians.append(from_rows(found, shape, source.type.shape))
            elif unconnected is UnconnectedGradients.ZERO:
                jacobians.append(zeros_of(source.type.with_shape((*shape, *source.type.shape))))
            else:
                jacobians.append(None)
        self._explain_missing([end], checked, jacobians)
        return unflatten(spec, jacobians)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor:
        """The jacobian of each row of the target with respect to the same row of the source.

        Where rows depend on each other, what they contribute to one another is added up.

        Args:
            target: a Tensor or Variable ``[batch, …]``.
            source: a Tensor or Variable ``[batch, …]``, of rank 2 at least.
            unconnected_gradients: as for `jacobian`; either way it is zeros where there is no path.
            parallel_iterations: without effect, as for `jacobian`.
            experimental_use_pfor: without effect.

        Returns:
            A Tensor ``[batch, …target, …source]`` of the source's dtype.

        Raises:
            RuntimeError: a second call on a tape that is not persistent, or one before it recorded.
            TypeError: target or source is no single Tensor or Variable.
            ValueError: the first axes differ, or there are none.
        """
        recording = self._take_recording()
        UnconnectedGradients.of(unconnected_gradients)
        end, start = (
            single(target, "target", "batch_jacobian"),
            single(source, "source", "batch_jacobian"),
        )
        shapes = end.type.shape, start.type.shape
        check_batch(*shapes)
        seeds = [batch_cotangents(end.type)]
        (rows,) = self._gradients(recording, [end], [start], seeds, batched=True)
        if rows is None:
            return zeros_of(start.type.with_shape(batch_shape(*shapes)))
        return from_batch_rows(rows, *shapes)

    def explain(self, target: Any, sources: Any) -> Any:
        """Why the gradient of the target with respect to a source is None; before or after `gradient`.

        Args:
            target: a Tensor or Variable, or a structure of them, as for `gradient`.
            sources: a Tensor or Variable, or a structure of them.

        Returns:
            A `tapec.debugging.Explanation`; for a structure of sources, `tapec.debugging.Explanations`.

        Raises:
            RuntimeError: the tape never recorded.
            TypeError: target or source is no Tensor or Variable.
        """
        targets = targets_of(target)
        checked, spec = sources_of(sources)
        recording = self._recording or self.trail.past
        if recording is None:
            raise RuntimeError("this tape never recorded", location=here())
        if any(r.pull is not None for r in recording.records) and self._recording is not None:
            self._peek(targets, checked)  # what a derivative of the user's own gives, only it knows
        from tapec.explanations.answers import explain_each  # as in `report`
        from tapec.explanations.explanation import Explanations

        found = explain_each(self.trail, recording, targets, checked)
        return found[0] if spec is None else Explanations(unflatten(spec, list(found)), found)

    def report(self, target: Any, variables: Any, gradients: Any = None) -> Report:
        """Print one row for each variable: name, shape, dtype, trainable, watched, gradient; and their global norm.

        A gradient is given by its norm and its counts of NaN and Inf, or by why it is None. The tape is not used up:
        `gradient` may be asked afterwards.

        Args:
            target: the loss, as for `gradient`.
            variables: a structure of Variables and Tensors.
            gradients: what `gradient` gave for them, if it was asked before; then a tape that it used up will do.

        Returns:
            The `tapec.debugging.Report`, which also shows itself in notebooks and with rich.

        Raises:
            RuntimeError: the tape never recorded, or is used up and no gradients are given.
            TypeError: target or variables are no Tensors or Variables.
            NotImplementedError: while a function is compiled: there are no values to report then.
        """
        from tapec.explanations.answers import report_on  # explanations are rarely asked for
        from tapec.explanations.report import needs_values

        needs_values("report")
        targets = targets_of(target)
        sources, _ = sources_of(variables)
        recording = self._recording or self.trail.past
        if recording is None or (gradients is None and self._recording is None):
            self._take_recording()
        assert recording is not None
        found = self._peek(targets, sources) if gradients is None else leaves_of(gradients)
        if len(found) != len(sources):
            raise ValueError(
                f"report: {len(found)} gradients for {len(sources)} variables", location=here()
            )
        report = report_on(self.trail, recording, targets, sources, found)
        sys.stdout.write(f"{report}\n")
        return report

    def memory(self) -> Memory:
        """The arrays that the tape holds: bytes by line and operation, and which derivatives will read them.

        What several tensors share counts once. A tape that gave its gradient holds none, if it is not persistent; one
        that records a function while it is compiled has none.

        Returns:
            A `tapec.explanations.memory.Memory`, which shows itself as text, in notebooks and with rich.
        """
        from tapec.explanations.memory import memory_of  # as in `report`

        return memory_of(self._recording, self.trail)

    def _peek(
        self, targets: Sequence[Tensor | Variable], sources: Sequence[Tensor | Variable]
    ) -> list[Tensor | None]:
        """The gradients, without using the tape up, and unheard by other tapes."""
        assert self._recording is not None
        with tracing(current_trace()):
            found = gradients_of(
                self._recording, self._home, self.trail.late, targets, sources, None
            )
        note_missing_ways(self.trail, targets, sources, found)
        return found

    def _explain_missing(
        self,
        targets: Sequence[Tensor | Variable],
        sources: Sequence[Tensor | Variable],
        gradients: Sequence[Tensor | None],
    ) -> None:
        """Keep in words why gradients are None, for messages about them."""
        if any(g is None for g in gradients) and self.trail.past is not None:
            from tapec.explanations.answers import explain_missing  # as in `report`

            explain_missing(self.trail, self.trail.past, targets, sources, gradients)

    def _gradients(
        self,
        recording: Recording,
        targets: Sequence[Tensor | Variable],
        sources: Sequence[Tensor | Variable],
        seeds: Sequence[Tensor] | None,
        *,
        batched: bool = False,
    ) -> list[Tensor | None]:
        """A gradient for each source; those of what carries none are None. Ends a tape that is not persistent."""
        self.trail.asked(again=self._persistent)
        gradients = gradients_of(
            recording, self._home, self.trail.late, targets, sources, seeds, batched
        )
        if not self._persistent:
            self._ended = origin()
            if (part := self._branch()) is not None:
                self._ended_in = part
            else:
                self._watched = self.watched_variables()
                self._recording = None
                self.trail.keep(recording)
        note_answer(self.trail, recording, targets, sources, gradients)
        return gradients

    def _branch(self) -> Trace | None:
        """What is being traced, if it is a branch of what the tape records."""
        part = current_trace()
        return part if part is not None and part.is_in_branch_of(self._home) else None

    def _take_recording(self) -> Recording:
        part = self._branch()
        ended = part is not None and self._ended_in is not None and part.is_within(self._ended_in)
        if self._recording is None or ended:
            reason = "; this tape never recorded"
            if self._was_entered:
                taken = resolve(self._ended)
                reason = "" if taken is None else f"; they were taken at line {taken.line}"
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                f"(or jacobians){reason}",
                location=here(),
                hint="use GradientTape(persistent=True), or ask for all sources in one call",
            )
        if self._is_recording:
            if self._persistent:
                _warn(
                    "Calling GradientTape.gradient on a persistent tape inside its context is significantly "
                    "less efficient than calling it outside the context (it causes the gradient ops to be "
                    "recorded on the tape, leading to increased CPU and memory usage). Only call "
                    "GradientTape.gradient inside the context if you actually want to trace the gradient in "
                    "order to compute higher order derivatives."
                )
            elif part is None:
                self._stop()
        return self._recording
