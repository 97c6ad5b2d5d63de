"""A plan of memory as a picture: operations from left to right, bytes of the arena from below upwards.

Each value in the arena is a rectangle: as wide as it is needed, as high as it is large, where it lies. Written as SVG,
as letters for terminals, and through matplotlib, if that is installed, as PNG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tapec.errors import RuntimeError
from tapec.ir.dims import typical

if TYPE_CHECKING:
    from tapec.compiled.buffers import Buffer, ProgramMemory

#: Colours by kind; told apart by those who see no red or no green as well (Okabe and Ito).
COLOURS = {
    "product": "#0072b2",
    "sum": "#56b4e9",
    "elementwise": "#009e73",
    "copy": "#999999",
    "loop or branch": "#cc79a7",
    "computed again": "#e69f00",
}
_ARENA, _BOUND, _PEAK = "#000000", "#d55e00", "#d55e00"
#: Of the picture, in pixels: all, and the margins around the map.
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 960, 440, 84, 30, 16, 62
#: Of the text: columns at most, and rows.
_COLUMNS, _ROWS = 96, 24
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Box(NamedTuple):
    """A rectangle: from when to when, and from which byte to which."""

    buffer: Buffer
    start: float
    end: float
    low: int
    high: int


def boxes(memory: ProgramMemory) -> list[Box]:
    """What is in the arena, in the order in which it is made; open sizes are typical ones."""
    found = []
    for buffer in sorted(memory.buffers, key=lambda b: b.span):
        low = typical(buffer.offset)
        found.append(Box(buffer, *buffer.span, low, low + typical(buffer.bytes)))
    return found


def bytes_text(number: int) -> str:
    """Bytes as people say them."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.4g} {name}"
    return f"{number} B"


# ---- SVG


def drawing(memory: ProgramMemory) -> str:
    """The picture as SVG, which stands by itself."""
    return "\n".join(_Drawing(memory).lines()) + "\n"


class _Drawing:
    """Where things are in the picture."""

    def __init__(self, memory: ProgramMemory) -> None:
        self.memory = memory
        self.boxes = boxes(memory)
        self.time = max(memory.operations, 1)
        self.top = max(typical(memory.arena), 1)

    def x(self, moment: float) -> float:
        """Where a moment is."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * moment / self.time

    def y(self, offset: float) -> float:
        """Where an offset in the arena is."""
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * offset / self.top

    def lines(self) -> Iterator[str]:
        """The elements, one a line."""
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" font-family="sans-serif" font-size="11">'
        )
        yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
        yield from self._axes()
        peak = self.memory.peak_at
        alive = set(map(id, self.memory.alive))
        for box in self.boxes:
            yield from self._box(box, at_peak=id(box.buffer) in alive)
        yield self._level(typical(self.memory.arena), _ARENA, "none")
        yield self._level(typical(self.memory.lower_bound), _BOUND, "6 4")
        x = self.x(peak)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="{_PEAK}" '
            'stroke-dasharray="2 3"/>'
        )
        yield from self._legend()
        yield "</svg>"

    def _axes(self) -> Iterator[str]:
        memory = self.memory
        title = (
            f"arena {bytes_text(typical(memory.arena))}, alive at one time "
            f"{bytes_text(typical(memory.lower_bound))}; parameters updated in place "
            f"{bytes_text(typical(memory.states))}"
        )
        yield f'<text x="{_LEFT}" y="18" font-size="13">{escape(title)}</text>'
        for step in range(5):
            offset = self.top * step // 4
            yield (
                f'<text x="{_LEFT - 6}" y="{self.y(offset) + 4:.1f}" text-anchor="end">'
                f"{bytes_text(offset)}</text>"
            )
        stride = max(1, self.time // 12)
        for number in range(0, self.time, stride):
            x, y = self.x(number + 0.5), _HEIGHT - _BOTTOM + 14
            yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{number}</text>'

    def _box(self, box: Box, *, at_peak: bool) -> Iterator[str]:
        buffer = box.buffer
        x, y = self.x(box.start), self.y(box.high)
        width, height = self.x(box.end) - x, self.y(box.low) - y
        stroke = _PEAK if at_peak else "#ffffff"
        source = "" if buffer.location is None else buffer.location.text
        told = [
            f"%{buffer.name}: {buffer.type}, {typical(buffer.bytes):,} bytes at {buffer.offset}",
            f"made by {buffer.made_by} ({buffer.kind}), needed {buffer.first}-{buffer.last}",
            f"{buffer.line}   {source}".strip(),
        ]
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{max(height, 0.5):.1f}" '
            f'fill="{COLOURS[buffer.kind]}" fill-opacity="0.85" stroke="{stroke}" stroke-width="1">'
            f"<title>{escape(chr(10).join(told))}</title></rect>"
        )
        label = _label(buffer, int(width / 6.2))
        if label and height >= 13:
            yield (
                f'<text x="{x + 4:.1f}" y="{y + height / 2 + 4:.1f}" fill="#ffffff" '
                f'pointer-events="none">{escape(label)}</text>'
            )

    def _level(self, offset: int, colour: str, dashes: str) -> str:
        y = self.y(offset)
        return (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" '
            f'stroke-dasharray="{dashes}"/>'
        )

    def _legend(self) -> Iterator[str]:
        y = _HEIGHT - 16
        yield f'<text x="{_LEFT}" y="{y - 18}">operations in the order in which they run</text>'
        entries = [(kind, COLOURS[kind]) for kind in COLOURS if self._has(kind)]
        x = _LEFT
        for name, colour in entries:
            yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
            yield f'<text x="{x + 14}" y="{y}">{escape(name)}</text>'
            x += 30 + 7 * len(name)
        for name, dashes, colour in (
            ("arena", "none", _ARENA),
            ("most alive at one time", "6 4", _BOUND),
            ("when that is", "2 3", _PEAK),
        ):
            yield (
                f'<line x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" '
                f'stroke-dasharray="{dashes}"/>'
            )
            yield f'<text x="{x + 22}" y="{y}">{escape(name)}</text>'
            x += 40 + 6 * len(name)

    def _has(self, kind: str) -> bool:
        return any(box.buffer.kind == kind for box in self.boxes)


def _label(buffer: Buffer, room: int) -> str:
    """What fits into a rectangle: the user's line, or its number."""
    if buffer.location is None:
        return buffer.made_by if len(buffer.made_by) <= room else ""
    number = f"line {buffer.location.line}"
    for text in (f"{number}: {buffer.location.text}", f"{number}: {buffer.made_by}", number):
        if len(text) <= room:
            return text
    return ""


# ---- text


def picture(memory: ProgramMemory) -> str:
    """The picture in letters, one for each value, and what they stand for: those at the peak first."""
    found = boxes(memory)
    time, top = max(memory.operations, 1), max(typical(memory.arena), 1)
    columns = min(time * max(1, _COLUMNS // time), _COLUMNS)
    alive = set(map(id, memory.alive))
    ordered = sorted(found, key=lambda b: (id(b.buffer) not in alive, b.low - b.high, b.start))
    letters = {id(b.buffer): c for b, c in zip(ordered, _LETTERS, strict=False)}
    peak = min(columns - 1, int(_middle_of_peak(memory) * columns / time))
    lines = [f"{bytes_text(top):>10} ┐ arena"]
    for row in reversed(range(_ROWS)):
        cells = _cells(found, letters, (row + 0.5) * top / _ROWS, time / columns, columns)
        lines.append(f"{'':10} │{''.join(cells)}".rstrip())
    lines.append(f"{'0 B':>10} └{'─' * peak}┴{'─' * (columns - peak - 1)}")
    lines.append(f"{'':12}{' ' * peak}most alive: {bytes_text(typical(memory.lower_bound))}")
    for box in ordered[: len(_LETTERS)]:
        b = box.buffer
        mark = "*" if id(b) in alive else " "
        source = "" if b.location is None else b.location.text
        size = bytes_text(box.high - box.low)
        lines.append(
            f"{mark} {letters[id(b)]}  {size:>10}  {b.type}  {b.made_by}  {b.line}  {source}".rstrip()
        )
    if len(ordered) > len(_LETTERS):
        lines.append(f"  .  {len(ordered) - len(_LETTERS)} more")
    return "\n".join(lines)


def _middle_of_peak(memory: ProgramMemory) -> float:
    """A moment while the operation runs at which most bytes are in use, be it inside of a loop or branch."""
    start = memory.peak_at
    edges = (edge for b in memory.buffers for edge in b.span if edge > start)
    return (start + min(edges, default=start + 1)) / 2 if start % 1 else start + 0.5


def _cells(
    found: Sequence[Box], letters: dict[int, str], offset: float, step: float, columns: int
) -> list[str]:
    """One line of the picture: who has the byte at an offset, at one moment after the other."""
    cells = [" "] * columns
    for box in found:
        if box.low <= offset < box.high:
            for column in range(columns):
                if box.start < (column + 1) * step and column * step < box.end:
                    cells[column] = letters.get(id(box.buffer), ".")
    return cells


# ---- PNG


def save_png(memory: ProgramMemory, file: Path) -> None:
    """Draw the picture through matplotlib.

    Raises:
        RuntimeError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # heavy, and no dependency
    except ImportError as error:
        raise RuntimeError(
            "a PNG is drawn by matplotlib, which is not installed",
            hint="pip install 'tapec[plot]', or write an SVG",
        ) from error
    figure = Figure(figsize=(_WIDTH / 100, _HEIGHT / 100), dpi=200, layout="constrained")
    axes = figure.subplots()
    alive, top = set(map(id, memory.alive)), typical(memory.arena)
    for box in boxes(memory):
        axes.bar(
            box.start,
            box.high - box.low,
            box.end - box.start,
            box.low,
            align="edge",
            color=COLOURS[box.buffer.kind],
            edgecolor=_PEAK if id(box.buffer) in alive else "#ffffff",
        )
    axes.axhline(top, color=_ARENA, label=f"arena {bytes_text(top)}")
    bound = typical(memory.lower_bound)
    axes.axhline(bound, color=_BOUND, linestyle="--", label=f"most alive {bytes_text(bound)}")
    axes.axvline(memory.peak_at, color=_PEAK, linestyle=":")
    for kind, colour in COLOURS.items():
        if any(b.kind == kind for b in memory.buffers):
            axes.bar(0, 0, color=colour, label=kind)
    axes.set(xlabel="operations in the order in which they run", ylabel="bytes of the arena")
    axes.legend(loc="upper right", fontsize="small")
    figure.savefig(file)
