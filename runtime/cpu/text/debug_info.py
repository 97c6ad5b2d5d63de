"""Which line of the user's code an instruction comes from, as LLVM metadata: what gdb and perf show.

One subprogram for each function that is written, one location for each line of it. Instructions keep theirs through
LLVM's passes; what is inlined has the line of the call.
"""

from __future__ import annotations

import json
import os

from tapec.ir.core import Function
from tapec.ir.location import Location


class DebugInfo:
    """The metadata of one module."""

    def __init__(self, name: str) -> None:
        """``name`` is the program's."""
        self.name = name
        self._nodes: list[str] = []
        self._known: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._types = self._node("!DISubroutineType(types: !{})")
        self._unit: str | None = None

    def subprogram(self, function: Function) -> Scope:
        """The scope of a function that is being written: a new one each time."""
        start = next((op.location for op in function.walk() if op.location is not None), None)
        place = start or Location("<tapec>", 1)
        if self._unit is None:
            self._unit = self._node(
                f"distinct !DICompileUnit(language: DW_LANG_C99, file: {self._file(place.file)}, "
                'producer: "tapec", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)'
            )
        own = self.name if function.kind == "func" else f"{self.name}.{function.name}"
        file = self._file(place.file)
        node = self._node(
            f"distinct !DISubprogram(name: {_text(own)}, scope: {file}, file: {file}, line: {place.line}, "
            f"type: {self._types}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        )
        return Scope(self, node, place)

    def location(self, scope: str, home: str, place: Location) -> str:
        """The node of a line inside of a subprogram that begins in the file ``home``."""
        if place.file != home:
            file = self._file(place.file)
            scope = self._once(
                f"!DILexicalBlockFile(scope: {scope}, file: {file}, discriminator: 0)"
            )
        return self._once(f"!DILocation(line: {place.line}, scope: {scope})")

    def text(self) -> str:
        """All of it, for the end of the module's text."""
        if self._unit is None:
            return ""
        version = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        dwarf = self._node('!{i32 7, !"Dwarf Version", i32 4}')
        nodes = [f"!{i} = {node}" for i, node in enumerate(self._nodes)]
        named = [
            f"!llvm.dbg.cu = !{{{self._unit}}}",
            f"!llvm.module.flags = !{{{version}, {dwarf}}}",
        ]
        return "\n".join([*named, *nodes, ""])

    def _node(self, text: str) -> str:
        self._nodes.append(text)
        return f"!{len(self._nodes) - 1}"

    def _once(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = self._node(text)
        return self._known[text]

    def _file(self, name: str) -> str:
        folder, base = os.path.split(os.path.abspath(name))
        return self._once(f"!DIFile(filename: {_text(base)}, directory: {_text(folder)})")


class Scope:
    """The function that is being written, and the line that it is at."""

    def __init__(self, info: DebugInfo, node: str, start: Location) -> None:
        """Made by `DebugInfo.subprogram`."""
        self._info = info
        self._node = node
        self._start = start
        #: What stands behind the header of the function.
        self.attachment = f" !dbg {node}"

    def mark(self, place: Location | None) -> str:
        """What stands behind an instruction of a line; without one it is where the function begins."""
        node = self._info.location(self._node, self._start.file, place or self._start)
        return f", !dbg {node}"


def _text(name: str) -> str:
    """A metadata string: LLVM escapes other bytes than JSON does, but what paths and names hold is spelled alike."""
    return json.dumps(name, ensure_ascii=False).replace("\\\\", "\\5C").replace('\\"', "\\22")
