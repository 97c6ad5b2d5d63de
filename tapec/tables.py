"""A table for people: as text, for the rich library, and for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows of text, perhaps under a title.

    Attributes:
        columns: their names.
        rows: as many cells each.
        title: what the table is of.
        caption: what the rows come to.
        marked: numbers of rows that something is wrong with.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    caption: str = ""
    marked: Collection[int] = ()

    def text(self) -> str:
        """Lines of aligned columns."""
        table = [self.columns, *self.rows]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(self.columns))]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()
            for cells in table
        ]
        return "\n".join([line for line in (self.title, *lines, self.caption) if line])

    def rich(self) -> Any:
        """A table of the rich library."""
        from rich.table import Table as RichTable  # heavy, and only here where it is loaded already
        from rich.text import Text

        table = RichTable(title=self.title, caption=self.caption)
        for column in self.columns:
            table.add_column(column)
        for i, cells in enumerate(self.rows):
            table.add_row(*map(Text, cells), style="red" if i in self.marked else None)
        return table

    def html(self) -> str:
        """A table of HTML, with the caption below it."""
        from html import escape  # for notebooks

        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        lines = [line(self.columns, "th"), *(line(cells, "td") for cells in self.rows)]
        title = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{title}{''.join(lines)}</table><p>{escape(self.caption)}</p>"


def counted(number: Any) -> str:
    """A count with commas, ``32,768``; an expression of open sizes as it is."""
    return f"{number:,}" if isinstance(number, int) else str(number)
