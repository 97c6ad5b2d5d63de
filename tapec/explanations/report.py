"""Report: one row for each variable of a tape, with its gradient or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapec.errors import NotImplementedError, TypeError
from tapec.explanations.explanation import Explanation
from tapec.frames import here
from tapec.recording import current_trace
from tapec.tables import Table
from tapec.tensor import Tensor, as_tensor
from tapec.variable import Variable

_COLUMNS = ("variable", "shape", "dtype", "trainable", "watched", "gradient")


@dataclass(frozen=True)
class Row:
    """What a report says of one variable.

    Attributes:
        name: as the user's code calls it, or the name it was given.
        shape: its sizes.
        dtype: its element type.
        trainable: whether tapes watch it by themselves; None for a Tensor.
        watched: whether this tape did.
        size: how many elements the gradient has; 0 without one.
        norm: the Euclidean norm of the gradient; None without one.
        nan, inf, zero: how many of its elements are NaN, infinite, zero.
        missing: why there is no gradient; None with one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool | None
    watched: bool
    size: int
    norm: float | None
    nan: int
    inf: int
    zero: int
    missing: Explanation | None

    @property
    def gradient(self) -> str:
        """The gradient in words."""
        if self.missing is not None:
            return f"None: {self.missing.cause}"
        parts = [f"norm {self.norm:.4g}"]
        parts += [f"{n} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "Inf")) if n]
        if self.size and self.zero == self.size:
            parts.append("all zeros")
        return ", ".join(parts)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table, as text."""
        said = {True: "yes", False: "no", None: "-"}
        shape = f"[{','.join(map(str, self.shape))}]"
        return (
            self.name,
            shape,
            self.dtype,
            said[self.trainable],
            said[self.watched],
            self.gradient,
        )


@dataclass(frozen=True, repr=False)
class Report:
    """Rows, and what they come to.

    Attributes:
        target: what the gradients are of, by name and value.
        rows: one for each variable, in order.
    """

    target: str
    rows: tuple[Row, ...]

    @property
    def global_norm(self) -> float:
        """The norm of all gradients together."""
        return math.sqrt(sum(row.norm**2 for row in self.rows if row.norm is not None))

    def __str__(self) -> str:
        """A table, then the explanation of each gradient that is None."""
        return "\n".join([self._table().text(), *(f"\n{e}" for e in self._missing())])

    def _table(self) -> Table:
        wrong = [i for i, row in enumerate(self.rows) if row.missing or row.nan or row.inf]
        cells = [row.cells for row in self.rows]
        return Table(_COLUMNS, cells, f"gradients of {self.target}", self._summary(), wrong)

    def _summary(self) -> str:
        given = sum(row.missing is None for row in self.rows)
        return f"global norm {self.global_norm:.4g}, of {given} gradients; {len(self.rows) - given} are None"

    def _missing(self) -> list[Explanation]:
        return [row.missing for row in self.rows if row.missing is not None]

    def __repr__(self) -> str:
        return f"<Report of {len(self.rows)} variables: {self._summary()}>"

    def __rich__(self) -> Any:
        """A table of the rich library, with the explanations below it."""
        from rich.console import Group  # heavy, and only here where it is loaded already

        return Group(self._table().rich(), *self._missing())

    def _repr_html_(self) -> str:
        return self._table().html() + "".join(e._repr_html_() for e in self._missing())


def needs_values(method: str) -> None:
    """Refuse what looks at values while a function is compiled.

    Raises:
        NotImplementedError: a function is compiled.
    """
    if current_trace() is not None:
        raise NotImplementedError(
            f"{method} looks at values, which a compiled function does not show",
            location=here(),
            hint="call the step without tapec.compile, or return the gradients",
        )


def row_of(
    name: str,
    variable: Tensor | Variable,
    watched: bool,
    gradient: Any,
    missing: Explanation | None,
) -> Row:
    """The row of a variable and its gradient, or the explanation in its place."""
    elements = _elements(gradient)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.sqrt(np.sum(elements * elements)))
    return Row(
        name,
        tuple(d for d in variable.type.shape if isinstance(d, int)),
        variable.dtype.name,
        variable.trainable if isinstance(variable, Variable) else None,
        watched,
        elements.size,
        None if gradient is None else norm,
        int(np.isnan(elements).sum()),
        int(np.isinf(elements).sum()),
        int((elements == 0).sum()),
        missing,
    )


def _elements(gradient: Any) -> Any:
    """The magnitudes of a gradient's elements in float64; none without a gradient."""
    if gradient is None:
        return np.zeros(0)
    given = as_tensor(gradient)
    if not given.type.dtype.is_differentiable:
        raise TypeError(f"a gradient is of floats, got {given.type}", location=here())
    return np.abs(given.array).astype(np.float64)
