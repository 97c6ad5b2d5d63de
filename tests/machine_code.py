"""What a kernel's PTX and machine code must hold, given its text: for the CUDA target, with no device.

A statement of the text may be many instructions, where a compiler writes a loop out; it is never none. So instructions
are counted against the text, and what must not be there at all is looked for: double precision in kernels whose text
has none, memory of a thread's own, spilled registers, calls.
"""

from __future__ import annotations

import ast
import re
import struct
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import nvidia

from tapec.runtime.cuda.machine_code.assembly import Assembly, Compiler
from tapec.runtime.cuda.text.module_text import Text

#: The oldest one, and the one that most know.
ARCHITECTURES = ("sm_80", "sm_90")
_SPILLS = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
#: "@!PT" never happens.
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/ +(?:@(?!!PT)!?U?P\w+ )?([A-Z][\w.]*)")
#: What is done by functions of the assembler's own, at least for some numbers: quotients and roots, rounded correctly.
_BY_CALL = re.compile(r"(div|rem)\.(?!full|approx)|(sqrt|rcp)\.r[nzmp]\b")
_DOUBLE = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX|MMA)\b|[\w.]*(\.F64|64H)\b.*")
_LOCAL = re.compile(r"(LDL|STL)\b.*")
_VECTOR = re.compile(r"\.v([24])\.")
#: What PTX has for calls of a text, by the beginnings of their names.
_MEANT = {
    "barrier": r"bar\.sync\b",
    "shuffle": r"shfl\.sync\b",
    "mma": r"mma\.sync\b",
    "matrices4": r"ldmatrix\.sync\b",
    "copy": r"cp\.async\.cg\b",
    "commit": r"cp\.async\.commit_group\b",
    "wait": r"cp\.async\.wait_group\b",
    "load4": r"ld\.[\w.]*\bv4\b",
    "store4": r"st\.[\w.]*\bv4\b",
}
#: And machine code.
_MACHINE = {
    "barrier": r"BAR\.SYNC",
    "shuffle": r"SHFL",
    "mma": r"HMMA",
    "matrices4": r"LDSM",
    "copy": r"LDGSTS",
    "commit": r"LDGDEPBAR",
    "wait": r"DEPBAR",
}


@dataclass
class Counts:
    """What one kernel is made of, and what is wrong with it.

    Attributes:
        kernel: its name.
        text: primitives in its text, each as often as it stands there; ``shared`` are elements that it stores to
            memory of the block, ``fma`` products that are added at once.
        ptx: the same in PTX.
        machine: instructions of the machine code.
        registers: of a thread.
        wrong: sentences.
    """

    kernel: str
    text: Counter[str]
    ptx: Counter[str]
    machine: Counter[str]
    registers: int
    wrong: list[str] = field(default_factory=list)


class Functions:
    """The functions of a text, and what they are made of."""

    def __init__(self, text: Text) -> None:
        """Parse it."""
        tree = ast.parse(text.source())
        self._nodes = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self._own = {name: _primitives(node) for name, node in self._nodes.items()}
        self._pointers = {k.name: {code for _, code in k.pointers} for k in text.kernels.values()}

    def of(self, kernel: str) -> Counter[str]:
        """Primitives of a kernel and of all that it calls, as often as they stand there."""
        total: Counter[str] = Counter()
        for name, number in self._own[kernel].items():
            if name in self._nodes:
                for inner, times in self.of(name).items():
                    total[inner] += times * number
            total[name] += number
        for code in self._pointers.get(kernel, ()):
            total[code] += 0
        return total

    def closure(self, kernel: str) -> str:
        """A kernel and all that it calls, as text that is equal for equal ones."""
        called = sorted(name for name in self.of(kernel) if name in self._nodes)
        texts = [ast.unparse(self._nodes[name]) for name in (*called, kernel)]
        renamed = re.sub(rf"\bdef {kernel}\(", "def kernel(", "\n".join(texts))
        return f"{sorted(self._pointers[kernel])}\n{renamed}"


def _primitives(function: ast.FunctionDef) -> Counter[str]:
    """Calls by name, and ``shared``: elements stored to memory of the block."""
    found: Counter[str] = Counter()
    shared = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            (target,), called = node.targets, node.value.func
            if isinstance(called, ast.Name) and called.id.startswith("shared_"):
                assert isinstance(target, ast.Name)
                shared.add(target.id)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found[node.func.id] += 1
            first = node.args[0] if node.args else None
            if node.func.id.startswith("store4_") and isinstance(first, ast.Name):
                found["shared"] += 4 * (first.id in shared)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found["shared"] += isinstance(node.value, ast.Name) and node.value.id in shared
    return found


class Assembled(NamedTuple):
    """A kernel as PTX and as machine code, with the names in its text, and what the assembler said."""

    ptx: Assembly
    names: Counter[str]
    code: bytes
    log: str


def assembled(one: Assembly, names: Counter[str]) -> Assembled:
    """Assemble one kernel whose text has these names."""
    return Assembled(one, names, *one.cubin())


def examined(text: Text, architecture: str) -> list[Counts]:
    """Every kernel of a text, compiled and assembled."""
    functions = Functions(text)
    compiler = Compiler(text, architecture)
    return examine([assembled(compiler.kernel(name), functions.of(name)) for name in text.kernels])


def examine(kernels: Sequence[Assembled]) -> list[Counts]:
    """Kernels, of any architectures.

    The disassembler takes longer to start than for most kernels: it is started once for each architecture.
    """
    machine: dict[int, list[str]] = {}
    for architecture in {kernel.ptx.architecture for kernel in kernels}:
        some = [n for n, kernel in enumerate(kernels) if kernel.ptx.architecture == architecture]
        code = [kernels[n].code for n in some]
        machine |= zip(some, disassembled(code, architecture), strict=True)
    return [_examine(kernel, Counter(machine[n])) for n, kernel in enumerate(kernels)]


def _examine(kernel: Assembled, machine: Counter[str]) -> Counts:
    one, names, _, log = kernel
    ptx = Counter(line.split()[0] for line in _statements(one.ptx))
    kinds = _kinds(names)
    # Loops that do not turn, as those over a matrix of one row, are dropped with the barriers in them.
    kinds["barrier"] = min(kinds["barrier"], 1)
    counts = Counts(one.kernel, kinds, _kinds_of_ptx(one.ptx), machine, _registers(log))
    double = any("f64" in name for name in names)
    wrong = counts.wrong
    if not double and any(".f64" in name for name in ptx):
        wrong.append("its PTX computes in double precision")
    if not double and any(_DOUBLE.fullmatch(name) for name in machine):
        wrong.append("its machine code computes in double precision")
    if any(re.match(r"(ld|st)\.local\b", name) for name in ptx) or any(map(_LOCAL.match, machine)):
        wrong.append("it has memory of a thread's own")
    if _SPILLS not in log:
        wrong.append("registers are spilled, or there is a stack")
    if any(name.startswith("call") for name in ptx):
        wrong.append("it calls functions")
    for kind, number in counts.text.items():
        if counts.ptx[kind] < number:
            wrong.append(f"{number} {kind} in its text are {counts.ptx[kind]} in its PTX")
    # Sums that nobody reads, as the imaginary part of a real diagonal, end in PTX and not in machine code.
    unread = unread_shuffles(one.ptx)
    for kind, pattern in _MACHINE.items():
        there = sum(n for name, n in machine.items() if re.match(pattern, name))
        if there + unread * (kind == "shuffle") < counts.text[kind]:
            wrong.append(f"{counts.text[kind]} {kind} in its text are {there} in its machine code")
    # Where nothing returns, relative calls are jumps: the assembler writes some of those behind a loop so for sm_80.
    called = any(name.startswith(("RET", "CALL.ABS")) for name in machine)
    if called and not any(map(_BY_CALL.match, ptx)):
        wrong.append("its machine code has functions, and its PTX no quotients or roots")
    wrong += _wide(counts)
    return counts


def unread_shuffles(ptx: str) -> int:
    """How many shuffles have results that nothing reads but such shuffles, and what copies and adds them."""
    alive = [(line.split()[0], re.findall(r"%\w+", line)) for line in _statements(ptx)]
    there = _shuffles(alive)
    while True:
        read = Counter(r for name, registers in alive for r in registers[_results(name) :])
        kept = [
            (name, registers)
            for name, registers in alive
            if not _results(name) or any(read[r] for r in registers[: _results(name)])
        ]
        if len(kept) == len(alive):
            break
        alive = kept
    return there - _shuffles(alive)


def _shuffles(statements: Sequence[tuple[str, list[str]]]) -> int:
    return sum(name.startswith("shfl.sync") for name, _ in statements)


def _results(name: str) -> int:
    """Registers that come first in a statement because it sets them, where that is all it does."""
    if name.startswith("shfl.sync"):
        return 2
    return int(name.startswith(("mov.", "add.")))


def _wide(counts: Counts) -> list[str]:
    """What is read or written by four at once is so in machine code, too."""
    found = []
    for kind, pattern in (
        ("load4", r"LD[GS][\w.]*\.(128|64)"),
        ("store4", r"ST[GS][\w.]*\.(128|64)"),
    ):
        there = sum(n for name, n in counts.machine.items() if re.fullmatch(pattern, name))
        if there < counts.text[kind]:
            found.append(f"{counts.text[kind]} {kind} in its text are {there} in its machine code")
    stores = sum(_elements(name) * n for name, n in counts.machine.items() if name[:3] == "STS")
    if stores < counts.text["shared"]:
        found.append(f"{counts.text['shared']} stores to shared memory are {stores}")
    return found


def _elements(name: str) -> int:
    """How many elements a store to shared memory may be of, by its name."""
    return {"128": 4, "64": 4}.get(name.rpartition(".")[2], 1)


def _kinds(names: Counter[str]) -> Counter[str]:
    """Calls of a text by kind."""
    found: Counter[str] = Counter({"shared": names["shared"]})
    for name, number in names.items():
        kind = re.sub(r"^copy\d", "copy", name).partition("_")[0]
        if kind in _MEANT:
            found[kind] += number
    return found


def _kinds_of_ptx(ptx: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in _statements(ptx):
        name = line.split()[0]
        for kind, pattern in _MEANT.items():
            found[kind] += bool(re.match(pattern, name))
        if name.startswith("st.shared"):
            wide = _VECTOR.search(name)
            found["shared"] += int(wide[1]) if wide else 1
    return found


def _statements(ptx: str) -> Iterator[str]:
    """Instructions, without predicates."""
    for line in ptx.splitlines():
        plain = re.sub(r"^\s*(@!?%p\d+\s+)?", "", line)
        if plain.endswith(";") and plain[0] not in ".}{":
            yield plain


def _registers(log: str) -> int:
    found = re.search(r"Used (\d+) registers", log)
    return int(found[1]) if found else 0


def instructions(one: Assembly) -> Counter[str]:
    """Names of instructions of a kernel's machine code, as NVIDIA's disassembler has them."""
    return Counter(disassembled([one.cubin()[0]], one.architecture)[0])


def disassembled(cubins: Sequence[bytes], architecture: str) -> list[list[str]]:
    """Names of the instructions of kernels, in order: all of them as if they were one piece of code."""
    pieces = [b"".join(_code(cubin)) for cubin in cubins]
    ends = list(accumulate(map(len, pieces)))
    found: list[list[str]] = [[] for _ in pieces]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(pieces))
        file.flush()
        command = [str(_disassembler()), "-ndf", "-b", architecture.upper().replace("_", "")]
        command.append(file.name)
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for place, name in _INSTRUCTION.findall(text):
        found[bisect_right(ends, int(place, 16))].append(name)
    return found


def _code(cubin: bytes) -> Iterator[bytes]:
    """The sections of an ELF file in which kernels are; functions of the assembler's have others, used or not."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, last = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", cubin, start + n * size) for n in range(count)]
    names = heads[last][4]
    for name, _, _, _, at, length in heads:
        is_code = cubin.startswith(b".text.", names + name)
        if is_code and not cubin.startswith(b".text.__", names + name):
            yield cubin[at : at + length]


@cache
def _disassembler() -> Path:
    return next(iter(Path(nvidia.__path__[0]).glob("*/bin/nvdisasm")))
