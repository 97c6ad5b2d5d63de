"""A program as people look at it in a notebook: `CompiledFunction.trace` gives one."""

from __future__ import annotations

from html import escape

from tapec.inspection.graph import dot_of, svg_of
from tapec.inspection.page import html_of
from tapec.inspection.pieces import pieces
from tapec.ir.core import Module
from tapec.ir.printer import print_module

#: Of the kinds that `pieces` finds.
_COLOURS = {
    "comment": "#7a828c",
    "value": "#1f6fb2",
    "type": "#2b8a3e",
    "text": "#a5561b",
    "word": "#8b3db8",
}


class TracedModule(Module):
    """A module that shows itself: as text, as a page with all passes, as a graph."""

    __slots__ = ()

    def __str__(self) -> str:
        """The program's text."""
        return print_module(self).rstrip("\n")

    def _repr_html_(self) -> str:
        """The text with colours."""
        return f"<pre>{highlighted(str(self))}</pre>"

    def html(self) -> str:
        """The page of ``tapec html``: the program after each pass, beside the source; one file, as text."""
        return html_of(self)

    def svg(self) -> str:
        """A picture of who reads what, as SVG."""
        return svg_of(self)

    def dot(self) -> str:
        """The same for Graphviz."""
        return dot_of(self)


def highlighted(text: str) -> str:
    """A program's text as HTML, with colours."""
    return "".join(
        escape(piece)
        if kind is None
        else f'<span style="color:{_COLOURS[kind]}">{escape(piece)}</span>'
        for kind, piece in pieces(text)
    )
