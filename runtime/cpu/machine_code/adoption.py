"""Take in native code that another compiler made: LLVM text of a user's kernel, cleaned until it needs nobody.

Numba's functions return a status and write their result to memory, and a module holds much beside them. Here the
kernel's function gets a plain wrapper, everything is inlined into it and the rest is dropped. Its mathematical
functions become ours, so it computes on vectors and runs where there is no C library. What is left over that is
defined nowhere is listed: `tapec.ir.foreign.ForeignCode.foreign`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from tapec.ir.errors import TargetError
from tapec.ir.foreign import KERNEL, ForeignCode, ForeignSymbol, StraightLine
from tapec.ir.types import DType
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.mathematics.straight_line import blocks_of, plain_line, straighten
from tapec.runtime.cpu.mathematics.vectormath import BOUNDS
from tapec.runtime.cpu.text import spelling

#: LLVM's functions that are instructions on every target, so that no library is behind them.
_INSTRUCTIONS = frozenset(
    """abs bitreverse bswap ceil copysign ctlz ctpop cttz fabs floor fma fshl fshr maximum maximumnum maxnum minimum
    minimumnum minnum nearbyint rint round roundeven sadd.sat sadd.with.overflow scmp smax smin smul.with.overflow
    sqrt ssub.sat ssub.with.overflow trunc uadd.sat uadd.with.overflow ucmp umax umin umul.with.overflow usub.sat
    usub.with.overflow""".split()
)
#: Functions of the C library that are instructions.
_AS_INSTRUCTIONS = {
    **{
        name: name for name in ("ceil", "copysign", "fabs", "floor", "fma", "rint", "sqrt", "trunc")
    },
    "fmin": "minnum",
    "fmax": "maxnum",
    "nearbyint": "nearbyint",
}
_MATHS = frozenset(BOUNDS) - {"sigmoid", "rsqrt", "digamma"}
_KINDS = {"f32": "float", "f64": "double"}
#: What optimisation takes away, so that nobody need keep it.
_DROPPED = re.compile(r"llvm\.(assume|lifetime\.\w+|experimental\.noalias\.\w+|dbg\.\w+)\b")
#: A global name, or bytes, in which there may be what looks like one.
_GLOBAL = re.compile(r'\bc"[^"]*"|@(?:"[^"]*"|[-\w.$]+)')
_REMAINDER = re.compile(r"(.* = )frem(?: \w+)*? (double|float) (\S+), (\S+)")
#: The foreign symbol that is the kernel itself, as its own compiler left it.
ITSELF = "itself"
#: A constant that Numba left where it is.
_ADDRESS = re.compile(r"inttoptr \(i64 \d+ to ptr\)")
_ENTRY, _STATUS = "tapec.entry", "tapec.status"


class MayRaise(Exception):
    """The kernel has a way on which it raises, which native code cannot."""


def adopt_scalar(
    text: str, native: str, operands: Sequence[DType], returned: DType, result: DType
) -> ForeignCode:
    """The code of a kernel of scalars.

    Args:
        text: an LLVM module.
        native: the name of the kernel's function in it: Numba's calling convention for CPUs.
        operands: dtypes of its operands.
        returned: that of what it returns.
        result: a dtype of the same kind, no wider, to which that is rounded.

    Raises:
        MayRaise: it does not always return normally.
        TargetError: LLVM does not take the text.
    """
    kinds = [spelling.element(d) for d in operands]
    memory, register = spelling.memory(returned), spelling.element(result)
    # Numba's bool is a byte.
    lines = [f"%b{i} = zext i1 %a{i} to i8" for i, k in enumerate(kinds) if k == "i1"]
    passed = [f"i8 %b{i}" if k == "i1" else f"{k} %a{i}" for i, k in enumerate(kinds)]
    # To write an exception to no address would be undefined, so that there would seem to be none.
    lines += [f"%slot = alloca {memory}", "%error = alloca ptr"]
    lines.append(
        f'%status = call i32 @"{native}"({", ".join(["ptr %slot", "ptr %error", *passed])})'
    )
    after = [f"%r = load {memory}, ptr %slot"]
    if register == "i1":
        after += ["%t = trunc i8 %r to i1", "ret i1 %t"]
    elif returned != result:
        word = "fptrunc" if result.is_floating else "trunc"
        after += [f"%t = {word} {memory} %r to {register}", f"ret {register} %t"]
    else:
        after.append(f"ret {register} %r")
    arguments = ", ".join(f"{k} %a{i}" for i, k in enumerate(kinds))
    module = _cleaned(text, native, arguments, register, lines, after)
    code = _code(module, register, arguments, (result,))
    if _ADDRESS.search(code.text):
        raise TargetError("it holds an address of this process, of a large array for example")
    return code


def adopt_arrays(
    text: str,
    native: str,
    operands: Sequence[tuple[DType, int]],
    results: Sequence[tuple[DType, int]],
) -> ForeignCode:
    """The code of a kernel of arrays of these dtypes and ranks: operands first, then those that it fills.

    It takes the address of each, and behind these all extents, in order. An operand of rank 0 is passed to the
    kernel as a number.

    Raises:
        MayRaise, TargetError: as `adopt_scalar`.
    """
    lines: list[str] = []
    passed = ["ptr %slot", "ptr %error"]
    every = [*operands, *results]
    for i, (dtype, rank) in enumerate(every):
        memory = spelling.memory(dtype)
        if rank == 0 and i < len(operands):
            lines.append(f"%v{i} = load {memory}, ptr %a{i}")
            passed.append(f"{memory} %v{i}")
            continue
        count, strides = "1", [str(dtype.bytes)]
        for axis in reversed(range(rank)):
            dim = f"%n{i}.{axis}"
            lines.append(f"%c{i}.{axis} = mul i64 {count}, {dim}")
            lines.append(f"%s{i}.{axis} = mul i64 {strides[0]}, {dim}")
            count = f"%c{i}.{axis}"
            strides.insert(0, f"%s{i}.{axis}")
        # Numba's array: owner, parent, number of elements, bytes of one, data, extents, strides.
        passed += ["ptr null", "ptr null", f"i64 {count}", f"i64 {dtype.bytes}", f"ptr %a{i}"]
        passed += [f"i64 %n{i}.{axis}" for axis in range(rank)]
        passed += [f"i64 {stride}" for stride in strides[1:]]
    lines += ["%slot = alloca i64", "%error = alloca ptr"]
    lines.append(f'%status = call i32 @"{native}"({", ".join(passed)})')
    # No two of them overlap: that is so of all buffers of a kernel.
    arguments = ", ".join(
        [f"ptr noalias %a{i}" for i in range(len(every))]
        + [f"i64 %n{i}.{axis}" for i, (_, rank) in enumerate(every) for axis in range(rank)]
    )
    module = _cleaned(text, native, arguments, "void", lines, ["ret void"])
    dtypes = tuple(dtype for dtype, _ in results)
    code = _code(module, "void", arguments, dtypes)
    if not code.foreign and not _ADDRESS.search(code.text):
        return code
    # It runs in this process only, so it may as well stay as its own compiler optimised it.
    types = tuple(p.rsplit(" ", 1)[0] for p in passed)
    symbol = ForeignSymbol(ITSELF, "i32", types)
    call = f'  %status = call i32 {KERNEL}.{ITSELF}"({", ".join(passed)})'
    body = "\n".join(["entry:", *(f"  {x}" for x in lines[:-1]), call, "  ret void"])
    return ForeignCode(
        code.content, dtypes, f"{_header('void', arguments)}{{\n{body}\n}}\n", foreign=(symbol,)
    )


def _cleaned(
    text: str,
    native: str,
    arguments: str,
    result: str,
    lines: Sequence[str],
    after: Sequence[str],
) -> Any:
    """A module with the wrapper, into which all is inlined.

    Raises:
        MayRaise, TargetError: see `adopt_scalar`.
    """
    plain = arguments.replace(" noalias", "")
    wrappers = []
    for name, kind, end in ((_ENTRY, result, after), (_STATUS, "i32", ["ret i32 %status"])):
        body = "\n".join(["entry:", *lines, *end])
        given = arguments if name == _ENTRY else plain
        wrappers.append(f"define {kind} @{name}({given}) {{\n{body}\n}}\n")
    compiler = host_compiler(1)
    try:
        module = llvm.parse_assembly("\n".join([text, *wrappers]))
        module.verify()
    except RuntimeError as error:
        raise TargetError(f"LLVM does not take the code of {native}: {error}") from error
    _hold_to_convention(module.get_function(native), lines)
    for function in module.functions:
        if not function.is_declaration and function.name not in (_ENTRY, _STATUS):
            function.linkage = "internal"
    module.get_function(native).add_function_attribute("alwaysinline")
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(compiler.machine, options)
    builder.getModulePassManager().run(module, builder)
    _refuse_raising(module.get_function(_STATUS))
    return module


def _hold_to_convention(native: Any, lines: Sequence[str]) -> None:
    """Compare how a kernel is called with how it wants to be: LLVM would not.

    Raises:
        TargetError: another version of its compiler has another convention.
    """
    (call,) = [line for line in lines if f'@"{native.name}"' in line]
    passed = tuple(a.rsplit(" ", 1)[0] for a in call[call.index("(") + 1 : -1].split(", "))
    if _signature(native) != ("i32", passed):
        raise TargetError(
            f"this version of Numba calls functions in an unknown way: {native.global_value_type}",
            hint="tapec.custom_op knows that of Numba 0.62 to 0.68",
        )


def _refuse_raising(status: Any) -> None:
    for block in status.blocks:
        for line in map(plain_line, map(str, block.instructions)):
            if line.startswith(("ret ", "unreachable")) and line != "ret i32 0":
                raise MayRaise


def _code(module: Any, result: str, arguments: str, results: tuple[DType, ...]) -> ForeignCode:
    """What the wrapper became, with everything that it reads."""
    texts = [_function_text(module.get_function(_ENTRY), _header(result, arguments))]
    names = _Names(module)
    seen: set[str] = set()
    waiting = [texts[0]]
    while waiting:
        for name in _GLOBAL.findall(waiting.pop()):
            own = name[1:].strip('"')
            is_ours = name.startswith(KERNEL) or own.startswith("tapec.")
            if name[0] != "@" or is_ours or own in seen:
                continue
            seen.add(own)
            found = _definition(module, own)
            if found is not None:
                texts.append(found)
                waiting.append(found)
    texts = [names.renamed(text) for text in texts]
    text = "\n".join(texts)
    digest = hashlib.sha256(repr((text, results)).encode()).hexdigest()[:16]
    line: StraightLine | None = None
    if result != "void" and len(texts) == 1:
        blocks = [
            (label, [names.renamed(x) for x in lines])
            for label, lines in blocks_of(module.get_function(_ENTRY))
        ]
        line = straighten(blocks)
    return ForeignCode(
        digest, results, text, line, tuple(names.maths), tuple(names.foreign.values())
    )


def _header(result: str, arguments: str) -> str:
    # A function of scalars has to vanish in the loop around it; one of arrays is called once for each.
    inlined = "noinline #0" if result == "void" else "#1"
    return f'define internal {result} {KERNEL}"({arguments}) {inlined} '


def _function_text(function: Any, header: str) -> str:
    """A function with this header and nothing that only informs the optimiser."""
    lines = [header + "{"]
    for label, instructions in blocks_of(function):
        lines.append(f"{label[1:]}:")
        lines += [f"  {line}" for line in instructions if not _DROPPED.search(line)]
    return "\n".join([*lines, "}\n"])


def _definition(module: Any, name: str) -> str | None:
    """The text of a function or constant that a module holds; None for what it only declares."""
    for function in module.functions:
        if function.name == name:
            if function.is_declaration:
                return None
            head = str(function).split("{\n", 1)[0]
            head = re.sub(r"^;.*\n", "", head, flags=re.MULTILINE)
            return _function_text(function, re.sub(r" (#\d+|local_unnamed_addr)", "", head))
    for value in module.global_variables:
        if value.name == name and not value.is_declaration:
            return re.sub(r" (local_)?unnamed_addr", "", str(value)) + "\n"
    return None


class _Names:
    """Names for what a text speaks of that are free in every program, and our mathematical functions for others."""

    def __init__(self, module: Any) -> None:
        self.maths: dict[tuple[str, str, int], None] = {}
        self.foreign: dict[str, ForeignSymbol] = {}
        self._declared = {f.name: f for f in module.functions if f.is_declaration}
        self._own: dict[str, str] = {}

    def renamed(self, text: str) -> str:
        """The text with these names."""
        return _GLOBAL.sub(self._name, "\n".join(map(self._remainder, text.split("\n"))))

    def _name(self, match: re.Match[str]) -> str:
        own = match[0][1:].strip('"')
        if match[0][0] != "@" or match[0].startswith(KERNEL) or own.startswith("tapec."):
            return match[0]
        if own not in self._declared:
            return self._own.setdefault(own, f'{KERNEL}.{len(self._own)}"')
        found = _math(own)
        if found is not None:
            known = re.fullmatch(r"@tapec\.(\w+)\.(?:v(\d+))?(f32|f64)", found)
            if known is not None:
                self.maths[known[1], _KINDS[known[3]], int(known[2] or 0)] = None
            return found
        result, arguments = _signature(self._declared[own])
        # What is no instruction LLVM would make a call of the C library.
        library = re.fullmatch(r"llvm\.(\w+)\.(f32|f64)", own)
        if library is not None:
            own = library[1] + ("f" if library[2] == "f32" else "")
        self.foreign[own] = ForeignSymbol(own, result, arguments)
        return f'{KERNEL}.{own}"'

    def _remainder(self, line: str) -> str:
        """``frem`` as what it is on most machines: a call of the C library."""
        match = _REMAINDER.fullmatch(line)
        if match is None:
            return line
        start, kind, x, y = match.groups()
        name = "fmod" if kind == "double" else "fmodf"
        self.foreign[name] = ForeignSymbol(name, kind, (kind, kind))
        return f'{start}call {kind} {KERNEL}.{name}"({kind} {x}, {kind} {y})'


def _math(name: str) -> str | None:
    """What we call instead of a function of LLVM's or the C library's; None if we have nothing."""
    intrinsic = re.fullmatch(r"llvm\.([\w.]+?)\.((?:v\d+)?(?:f32|f64|i\d+))", name)
    if intrinsic is not None:
        stem, kind = intrinsic.groups()
        if stem in _MATHS:
            return f"@tapec.{stem}.{kind}"
        return f"@{name}" if stem in _INSTRUCTIONS else None
    if name.startswith(("llvm.vector.reduce.", "llvm.masked.")):
        return f"@{name}"
    for stem, kind in ((name, "f64"), (name.removesuffix("f"), "f32")):
        if stem in _MATHS:
            return f"@tapec.{stem}.{kind}"
        if stem in _AS_INSTRUCTIONS:
            return f"@llvm.{_AS_INSTRUCTIONS[stem]}.{kind}"
    return None


def _signature(function: Any) -> tuple[str, tuple[str, ...]]:
    """LLVM types of a function's result and arguments."""
    result, arguments = re.fullmatch(r"(.+?) \((.*)\)", str(function.global_value_type)).groups()  # type: ignore[union-attr]
    return result, tuple(arguments.split(", ")) if arguments else ()
