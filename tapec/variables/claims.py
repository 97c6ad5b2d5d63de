"""Steps are atomic: what one thread's call writes into Variables, other threads see as a whole or not at all.

A compiled step writes into the arrays of Variables, mostly while other threads have the interpreter. The rule:

* A program that writes has a claim on the Variables that it updates; programs that update the same ones share it.
* It runs while it holds the locks of all claims on any Variable that it reads or updates. So two steps that share
  Variables run one behind the other, and those that share none, or only read what they share, run side by side.
* A program that only reads holds these locks while it takes references to the arrays. Afterwards no step writes into
  these: it moves its Variables to copies first (`Variable.own_array` counts references).
* Reading a single Variable waits for the step that is writing into it (`whole_array`). Eager updates that read first
  (``assign_add``, ``scatter_add``) are atomic as well: they compute again if the array is another one by then, or have
  a claim where they write in place.

Locks are taken in the order of the claims' numbers, so no two threads wait for each other. They may be taken again by
the thread that has them: a signal handler or a finalizer may call a step in the middle of another's call. If it does so
after the outer one has taken its arrays, it leaves a note, and the outer one takes them anew: between its last look for
a note and the first native instruction there is no place where Python would run anything else.

In the middle of native code, where a long loop lets signal handlers run or a program calls back, its Variables can be
read (a copy is made) but not be updated.

A child of fork gets Variables as whole steps left them: before, all claims are waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from tapec.at_line import at_home
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.runtime import forking
from tapec.runtime.interrupts import inside_native

if TYPE_CHECKING:
    from tapec.tensor import Array
    from tapec.variable import Variable

T = TypeVar("T")

_numbers = count()
#: Guards the tables here; held for moments.
_table = RLock()
#: What has a lock that a child of fork must find free, and the name of the attribute.
_owners: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def survive_fork(owner: Any, name: str = "lock") -> None:
    """Let a child of fork give this object a new lock, if another thread of the parent holds the old one."""
    _owners[owner] = name


class _Call:
    """A call of a program, from when it takes arrays to when native code is done."""

    __slots__ = ("disturbed", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()
        #: Whether its thread came back to the Variables meanwhile.
        self.disturbed = False


class Claim:
    """The right to write into some Variables in place.

    Attributes:
        lock: held by the thread that uses it.
        call: for what it is used now.
    """

    __slots__ = ("__weakref__", "call", "lock", "number", "users", "variables")

    def __init__(self, variables: Sequence[Variable]) -> None:
        """Nobody uses it yet."""
        self.lock = RLock()
        self.call: _Call | None = None
        self.number = next(_numbers)
        self.users = 0
        self.variables = [weakref.ref(v) for v in variables]
        survive_fork(self)


class _Version:
    """Changes whenever a claim comes or goes."""

    now = object()


def _claim_on(variables: Sequence[Variable]) -> Claim:
    """The claim on exactly these Variables, made if there is none."""
    wanted = {id(v) for v in variables}
    with _table:
        for claim in variables[0].claims:
            if {id(reference()) for reference in claim.variables} == wanted:
                claim.users += 1
                return claim
        claim = Claim(variables)
        claim.users = 1
        for variable in variables:
            variable.claims = (*variable.claims, claim)
        _Version.now = object()
        return claim


def _leave(claim: Claim) -> None:
    """A user of a claim is gone."""
    with _table:
        claim.users -= 1
        if claim.users:
            return
        for reference in claim.variables:
            variable = reference()
            if variable is not None:
                variable.claims = tuple(c for c in variable.claims if c is not claim)
        _Version.now = object()


class Access:
    """How one program gets at the Variables that it reads and updates."""

    def __init__(self, variables: Sequence[Variable], updated: Sequence[Variable]) -> None:
        """``updated`` are among ``variables``."""
        self._variables = tuple(variables)
        self._claim: Claim | None = None
        self._version: object = None
        self._claims: tuple[Claim, ...] = ()
        if updated:
            self._claim = _claim_on(updated)
            weakref.finalize(self, _leave, self._claim).atexit = False

    def run(self, take: Callable[[], list[Array]], call: Callable[..., T]) -> T:
        """Call native code with the arrays that ``take`` returns.

        They are consistent, and those of Variables that are updated belong to the call until it returns.
        """
        while True:
            claims = self._current()
            if not claims:
                done, result = self._attempt(claims, take, call)
            elif len(claims) == 1:
                with claims[0].lock:
                    done, result = self._attempt(claims, take, call)
            else:
                done, result = _holding(claims, lambda: self._attempt(claims, take, call))  # noqa: B023
            if done:
                # What only reads needs no lock any more.
                return result if self._claim is not None else call(*result)

    def is_free(self) -> bool:
        """Whether no step is under way that reads or updates any of the Variables."""
        return all(claim.call is None for claim in self._current())

    def hold(self, action: Callable[[], T]) -> T:
        """Do something while no other thread's step touches the Variables."""
        while True:
            claims = self._current()
            done, result = _holding(claims, lambda: self._still(claims, action))  # noqa: B023
            if done:
                return result  # type: ignore[return-value]

    def _still(self, claims: tuple[Claim, ...], action: Callable[[], T]) -> tuple[bool, T | None]:
        return (True, action()) if self._current() is claims else (False, None)

    def _current(self) -> tuple[Claim, ...]:
        """The claims on any of the Variables."""
        if self._version is not _Version.now:
            with _table:
                found = {c.number: c for v in self._variables for c in v.claims}
                self._claims = tuple(found[number] for number in sorted(found))
                self._version = _Version.now
        return self._claims

    def _attempt(
        self, claims: tuple[Claim, ...], take: Callable[[], list[Array]], call: Callable[..., T]
    ) -> tuple[bool, Any]:
        """With all locks held: the results of a writer, the arrays of a reader; False if a new claim appeared.

        A claim that has a call already has it from this thread: that call was interrupted by this one.
        """
        mine, interrupted = _Call(), [claim.call for claim in claims]
        if self._claim is not None and inside_native() and any(interrupted):
            raise _in_the_middle()
        for claim in claims:
            claim.call = mine
        try:
            while self._version is _Version.now:
                mine.disturbed = False
                arrays = take()
                if mine.disturbed:
                    continue
                if self._claim is None:
                    return True, arrays
                result = call(*arrays)
                arrays.clear()  # references that outlive the lock would make the next call copy
                return True, result
            return False, None
        finally:
            for claim, outer in zip(claims, interrupted, strict=True):
                claim.call = outer
                if outer is not None:
                    outer.disturbed = True


def _holding(claims: Sequence[Claim], action: Callable[[], T]) -> T:
    """Do something with all these locks held."""
    if not claims:
        return action()
    with claims[0].lock:  # unlike `acquire`, a statement that Ctrl-C cannot tear apart
        return _holding(claims[1:], action)


def whole_array(variable: Variable) -> Array:
    """The array of a Variable on which there are claims, as a whole step left it; from a device, if that has it."""
    return at_home(_whole_array(variable))


def _whole_array(variable: Variable) -> Array:
    # The reference comes first: who begins to write after it sees that the array is shared.
    array = variable._array
    for claim in variable.claims:
        if claim.call is not None:
            with claim.lock:  # who has it excludes all that write into the Variable
                array = variable._array
                if claim.call is not None:
                    claim.call.disturbed = True
                    if inside_native():  # which will go on to write into the array
                        array = array.copy()
                return array
    return array


def refuse_in_the_middle(variable: Variable) -> None:
    """Hold code that runs in the middle of a step of its own thread to leave the step's Variables alone.

    Raises:
        RuntimeError: the step is writing into this one.
    """
    calls = [claim.call for claim in variable.claims]
    if any(c is not None and c.thread == get_ident() for c in calls) and inside_native():
        raise _in_the_middle()


def _in_the_middle() -> RuntimeError:
    return RuntimeError(
        "a signal handler or callback would update Variables that the compiled function around it is updating",
        location=here(),
        hint="let it note what is to be done, and do that after the call",
    )


_held_at_fork: list[Any] = []


def _before_fork() -> None:
    """Wait until no step is under way."""
    claims = [x for x in list(_owners) if isinstance(x, Claim)]
    for claim in sorted(claims, key=lambda claim: claim.number):
        if claim.lock.acquire(timeout=forking.PATIENCE):
            _held_at_fork.append(claim)


def _after_fork() -> None:
    for claim in reversed(_held_at_fork):
        claim.lock.release()
    _held_at_fork.clear()


def _in_child() -> None:
    """No other thread exists: what they held is free."""
    global _table
    _table = RLock()
    kept = {id(claim) for claim in _held_at_fork}
    _after_fork()
    for owner, name in list(_owners.items()):
        if id(owner) in kept:
            continue
        if getattr(owner, name).acquire(blocking=False):
            getattr(owner, name).release()
        else:
            setattr(owner, name, RLock())
            if isinstance(owner, Claim):
                owner.call = None


forking.hold(forking.Order.STEPS, _before_fork, _after_fork, _in_child)
