"""What the primitives are on a device: instructions, by numba.cuda's means.

Importing this module imports numba.cuda; it needs no driver. `DEVICE` has every name of
`tapec.runtime.cuda.text.primitives.NAMES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba import cuda, types
from numba.core import cgutils
from numba.cuda import extending, libdevice, nvvmutils

from tapec.runtime.cuda.text.primitives import COPIES

#: Numba's types by the names that texts have.
TYPES: Mapping[str, Any] = {
    "f32": numba.float32,
    "f64": numba.float64,
    "i8": numba.int8,
    "i16": numba.int16,
    "i32": numba.int32,
    "i64": numba.int64,
    "u8": numba.uint8,
    "u16": numba.uint16,
    "u32": numba.uint32,
    "u64": numba.uint64,
}
_LLVM = {"f32": ir.FloatType(), "f64": ir.DoubleType()} | {
    f"{sign}{bits}": ir.IntType(bits) for sign in "iu" for bits in (8, 16, 32, 64)
}
_WORD = ir.IntType(32)
#: Address spaces.
_GLOBAL, _SHARED = 1, 3
_EVERY = 0xFFFFFFFF

_Emit = Callable[..., Any]


def _intrinsic(result: Any, given: Sequence[Any] | None, emit: _Emit, count: int = 0) -> Any:
    """A function that writes instructions; ``given`` are the types that operands are converted to, if they are."""
    arity = count if given is None else len(given)

    def signature(*operands: Any) -> Any:
        to = (
            result(*operands) if callable(result) and not isinstance(result, types.Type) else result
        )
        return to(*(operands if given is None else given))

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(context, builder, sig, *args)

    names = [f"a{n}" for n in range(arity)]
    scope: dict[str, Any] = {"signature": signature, "code": code}
    listed = ", ".join(names)
    exec(
        f"def primitive(typingctx, {listed}):\n    return signature({listed}), code\n"
        if names
        else "def primitive(typingctx):\n    return signature(), code\n",
        scope,
    )
    return extending.intrinsic(scope["primitive"])


def _asm(text: str, constraints: str, result: str, *operands: str) -> Any:
    """One instruction of PTX."""

    def emit(context: Any, builder: Any, sig: Any, *args: Any) -> Any:
        kind = ir.FunctionType(_LLVM[result], [_LLVM[o] for o in operands])
        return builder.asm(kind, text, constraints, args, False)

    return _intrinsic(TYPES[result], [TYPES[o] for o in operands], emit)


def _effect(builder: Any, text: str, constraints: str, *operands: Any) -> None:
    """An instruction of PTX that reads or writes memory behind the compiler's back."""
    kind = ir.FunctionType(ir.VoidType(), [o.type for o in operands])
    builder.asm(kind, text, ",".join(filter(None, [constraints, "~{memory}"])), operands, True)


def _bitcast(source: str, target: str) -> Any:
    def emit(context: Any, builder: Any, sig: Any, x: Any) -> Any:
        return builder.bitcast(x, _LLVM[target])

    return _intrinsic(TYPES[target], [TYPES[source]], emit)


def _sdiv(code: str) -> Any:
    def emit(context: Any, builder: Any, sig: Any, a: Any, b: Any) -> Any:
        return builder.sdiv(a, b)

    return _intrinsic(TYPES[code], [TYPES[code]] * 2, emit)


def _register(name: str) -> Any:
    """A number of this thread or block."""

    def emit(context: Any, builder: Any, sig: Any) -> Any:
        return nvvmutils.call_sreg(builder, name)

    return _intrinsic(numba.uint32, [], emit)


# ---- memory


def _address(builder: Any, place: Any, code: str, space: int = 0, lanes: int = 0) -> Any:
    """An address as a pointer to elements of a dtype, or to several of them."""
    element = ir.VectorType(_LLVM[code], lanes) if lanes else _LLVM[code]
    return builder.bitcast(place, ir.PointerType(element, space))


def _shared(code: str) -> Any:
    """The memory of the block from a byte on: a launch says how much there is."""
    memory = ir.ArrayType(ir.IntType(8), 0)

    def emit(context: Any, builder: Any, sig: Any, offset: Any) -> Any:
        name = "tapec_shared"
        pool = builder.module.globals.get(name)
        if pool is None:
            pool = ir.GlobalVariable(builder.module, memory, name, addrspace=_SHARED)
            pool.linkage, pool.align = "external", 16
        zero = ir.Constant(_WORD, 0)
        start = builder.gep(pool, [zero, builder.trunc(offset, _WORD)])
        generic = builder.addrspacecast(start, ir.PointerType(ir.IntType(8), 0))
        return _address(builder, generic, code)

    return _intrinsic(types.CPointer(TYPES[code]), [numba.int64], emit)


def _local(code: str) -> Any:
    """Memory of the thread: its size is a literal."""

    def primitive(typingctx: Any, count: Any) -> Any:
        if not isinstance(count, types.IntegerLiteral):
            return None
        number = count.literal_value

        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            array = ir.ArrayType(_LLVM[code], number)
            place = cgutils.alloca_once(builder, array)
            return _address(builder, place, code)

        return types.CPointer(TYPES[code])(count), emit

    return extending.intrinsic(primitive)


def _part(code: str) -> Any:
    def emit(context: Any, builder: Any, sig: Any, pointer: Any, offset: Any) -> Any:
        start = builder.bitcast(pointer, ir.PointerType(ir.IntType(8), 0))
        place = builder.gep(start, [_as_index(builder, sig.args[1], offset)])
        return _address(builder, place, code)

    return _intrinsic(lambda *_: types.CPointer(TYPES[code]), None, emit, 2)


def _as_index(builder: Any, kind: Any, index: Any) -> Any:
    """An index as 64 bits; LLVM would take the sign of fewer."""
    wide = ir.IntType(64)
    if kind.bitwidth >= 64:
        return index
    return (builder.sext if kind.signed else builder.zext)(index, wide)


def _load4(code: str) -> Any:
    def emit(context: Any, builder: Any, sig: Any, pointer: Any, index: Any) -> Any:
        place = builder.gep(pointer, [_as_index(builder, sig.args[1], index)])
        value = builder.load(_address(builder, place, code, lanes=4))
        value.align = 4 * TYPES[code].bitwidth // 8
        parts = [builder.extract_element(value, ir.Constant(_WORD, k)) for k in range(4)]
        return context.make_tuple(builder, sig.return_type, parts)

    return _intrinsic(lambda *_: types.UniTuple(TYPES[code], 4), None, emit, 2)


def _store4(code: str) -> Any:
    def emit(context: Any, builder: Any, sig: Any, pointer: Any, index: Any, *values: Any) -> Any:
        place = builder.gep(pointer, [_as_index(builder, sig.args[1], index)])
        vector = ir.Constant(ir.VectorType(_LLVM[code], 4), ir.Undefined)
        for k, value in enumerate(values):
            vector = builder.insert_element(vector, value, ir.Constant(_WORD, k))
        builder.store(
            vector, _address(builder, place, code, lanes=4), 4 * TYPES[code].bitwidth // 8
        )
        return context.get_dummy_value()

    return _intrinsic(lambda *_: types.void, None, emit, 6)


# ---- copies that go on in the background


def _in_space(builder: Any, place: Any, space: int, bits: int) -> Any:
    """The address of an element as a number, in the address space that it is known to be in."""
    known = builder.addrspacecast(place, ir.PointerType(place.type.pointee, space))
    return builder.ptrtoint(known, ir.IntType(bits))


def _copy() -> Any:
    """16 bytes."""

    def emit(context: Any, builder: Any, sig: Any, to: Any, i: Any, source: Any, j: Any) -> Any:
        target = builder.gep(to, [_as_index(builder, sig.args[1], i)])
        place = builder.gep(source, [_as_index(builder, sig.args[3], j)])
        _effect(
            builder,
            "cp.async.cg.shared.global [$0], [$1], 16;",
            "r,l",
            _in_space(builder, target, _SHARED, 32),
            _in_space(builder, place, _GLOBAL, 64),
        )
        return context.get_dummy_value()

    return _intrinsic(lambda *_: types.void, None, emit, 4)


def _commit_copies() -> Any:
    def emit(context: Any, builder: Any, sig: Any) -> Any:
        _effect(builder, "cp.async.commit_group;", "")
        return context.get_dummy_value()

    return _intrinsic(types.void, [], emit)


def _wait_copies() -> Any:
    """Wait for all groups but the last ones: their number is a literal."""

    def primitive(typingctx: Any, groups: Any) -> Any:
        if not isinstance(groups, types.IntegerLiteral):
            return None
        text = f"cp.async.wait_group {groups.literal_value};"

        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            _effect(builder, text, "")
            return context.get_dummy_value()

        return types.void(groups), emit

    return extending.intrinsic(primitive)


# ---- tensor cores


def _tf32() -> Any:
    def emit(context: Any, builder: Any, sig: Any, x: Any) -> Any:
        kind = ir.FunctionType(_WORD, [x.type])
        word = builder.asm(kind, "cvt.rna.tf32.f32 $0, $1;", "=r,f", [x], False)
        return builder.bitcast(word, ir.FloatType())

    return _intrinsic(numba.float32, [numba.float32], emit)


def _matrices(suffix: str) -> Any:
    """Four matrices: each thread gives the address of a row."""
    text = f"ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    result = ir.LiteralStructType([_WORD] * 4)

    def emit(context: Any, builder: Any, sig: Any, pointer: Any, index: Any) -> Any:
        row = builder.gep(pointer, [_as_index(builder, sig.args[1], index)])
        kind = ir.FunctionType(result, [_WORD])
        place = [_in_space(builder, row, _SHARED, 32)]
        # Of effect: it reads memory, and all threads of a warp have to come by it together.
        found = builder.asm(kind, text, "=r,=r,=r,=r,r,~{memory}", place, True)
        words = [builder.extract_value(found, n) for n in range(4)]
        return context.make_tuple(builder, sig.return_type, words)

    return _intrinsic(lambda *_: types.UniTuple(numba.uint32, 4), None, emit, 2)


#: The instruction for each form, and what a word of an operand is.
_MMA = {
    "tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", numba.float32),
    "f16": ("m16n8k16.row.col.f32.f16.f16.f32", numba.uint32),
    "bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", numba.uint32),
}


def _mma(form: str) -> Any:
    name, word = _MMA[form]
    sums = types.UniTuple(numba.float32, 4)
    places = [", ".join(f"${n}" for n in some) for some in (range(4), range(4, 8), (8, 9))]
    text = f"mma.sync.aligned.{name} {{{'}, {'.join(places)}}}, {{$10, $11, $12, $13}};"
    constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)

    def emit(context: Any, builder: Any, sig: Any, *operands: Any) -> Any:
        words = [builder.bitcast(o, _WORD) for o in operands[:6]]
        result = ir.LiteralStructType([ir.FloatType()] * 4)
        kind = ir.FunctionType(result, [_WORD] * 6 + [ir.FloatType()] * 4)
        # Of effect: all threads of a warp have to come by it together.
        found = builder.asm(kind, text, constraints, [*words, *operands[6:]], True)
        parts = [builder.extract_value(found, n) for n in range(4)]
        return context.make_tuple(builder, sums, parts)

    return _intrinsic(sums, [word] * 6 + [numba.float32] * 4, emit)


# ---- threads together


def _shuffle(code: str) -> Any:
    """What another thread of the warp has: 32 bits at a time."""
    bits = TYPES[code].bitwidth
    result = ir.LiteralStructType([_WORD, ir.IntType(1)])
    name = "llvm.nvvm.shfl.sync.i32"

    def one(builder: Any, word: Any, other: Any) -> Any:
        kind = ir.FunctionType(result, [_WORD] * 5)
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        mode, clamp = ir.Constant(_WORD, 3), ir.Constant(_WORD, 0x1F)
        pair = builder.call(function, [ir.Constant(_WORD, _EVERY), mode, word, other, clamp])
        return builder.extract_value(pair, 0)

    def emit(context: Any, builder: Any, sig: Any, x: Any, other: Any) -> Any:
        whole = builder.bitcast(x, ir.IntType(bits))
        if bits <= 32:
            found = one(builder, builder.zext(whole, _WORD) if bits < 32 else whole, other)
            narrow = builder.trunc(found, ir.IntType(bits)) if bits < 32 else found
            return builder.bitcast(narrow, _LLVM[code])
        shift = ir.Constant(whole.type, 32)
        low, high = (
            builder.zext(one(builder, builder.trunc(part, _WORD), other), whole.type)
            for part in (whole, builder.lshr(whole, shift))
        )
        return builder.bitcast(builder.or_(low, builder.shl(high, shift)), _LLVM[code])

    return _intrinsic(TYPES[code], [TYPES[code], numba.int32], emit)


# ---- 16-bit floats


def _instruction(builder: Any, text: str, constraints: str, result: str, x: Any) -> Any:
    kind = ir.FunctionType(_LLVM[result], [x.type])
    return builder.asm(kind, text, constraints, [x], False)


def _value_of(builder: Any, form: str, bits: Any) -> Any:
    """The number that 16 bits are."""
    if form == "f16":
        return _instruction(builder, "cvt.f32.f16 $0, $1;", "=f,h", "f32", bits)
    high = builder.shl(builder.zext(bits, _WORD), ir.Constant(_WORD, 16))
    return builder.bitcast(high, ir.FloatType())


def _bits_of(builder: Any, form: str, x: Any) -> Any:
    """The bits of the nearest number."""
    if x.type == ir.DoubleType():
        if form == "f16":
            return _instruction(builder, "cvt.rn.f16.f64 $0, $1;", "=h,d", "u16", x)
        x = _round_to_odd(builder, x)
    return _instruction(builder, f"cvt.rn.{form}.f32 $0, $1;", "=h,f", "u16", x)


def _round_to_odd(builder: Any, x: Any) -> Any:
    """``double`` as ``float``: towards zero, with the last bit set if that was inexact; see the CPU's conversions."""
    low = _instruction(builder, "cvt.rz.f32.f64 $0, $1;", "=f,d", "f32", x)
    inexact = builder.fcmp_ordered("!=", builder.fpext(low, ir.DoubleType()), x)
    bits = builder.or_(builder.bitcast(low, _WORD), builder.zext(inexact, _WORD))
    return builder.bitcast(bits, ir.FloatType())


def _as_float(builder: Any, form: str, kind: Any, x: Any) -> Any:
    """A number as one that a single rounding takes to the nearest of 16 bits."""
    if isinstance(kind, types.Float):
        return x
    is_signed, bits = getattr(kind, "signed", False), x.type.width
    if form == "bf16" and bits >= 32:
        x = _jammed(builder, x, is_signed, 53 if bits == 64 else 24)
    convert = builder.sitofp if is_signed else builder.uitofp
    if form == "bf16" and bits == 64:
        return convert(x, ir.DoubleType())
    return convert(x, ir.FloatType())


def _jammed(builder: Any, x: Any, is_signed: bool, digits: int) -> Any:
    """An integer that a float of so many binary digits holds: rounded to odd if it takes more."""

    def number(value: int) -> Any:
        return ir.Constant(x.type, value)

    left = x.type.width - digits
    rest = builder.and_(x, number((1 << left) - 1))
    last = builder.zext(builder.icmp_unsigned("!=", rest, number(0)), x.type)
    odd = builder.or_(builder.and_(x, number(-(1 << left))), builder.shl(last, number(left)))
    # Of a number that is short enough, what is above is all sign.
    above = (builder.ashr if is_signed else builder.lshr)(x, number(digits))
    sign = builder.add(above, number(int(is_signed)))
    short = builder.icmp_unsigned("<", sign, number(1 + is_signed))
    return builder.select(short, x, odd)


def _of_16_bits(form: str) -> dict[str, Any]:
    def value(context: Any, builder: Any, sig: Any, x: Any) -> Any:
        return _value_of(builder, form, x)

    def bits(context: Any, builder: Any, sig: Any, x: Any) -> Any:
        return _bits_of(builder, form, x)

    def rounded(context: Any, builder: Any, sig: Any, x: Any) -> Any:
        return _value_of(
            builder, form, _bits_of(builder, form, _as_float(builder, form, sig.args[0], x))
        )

    return {
        f"{form}_value": _intrinsic(numba.float32, [numba.uint16], value),
        f"{form}_bits": _intrinsic(numba.uint16, [numba.float32], bits),
        form: _intrinsic(lambda *_: numba.float32, None, rounded, 1),
    }


# ---- the table


def _of_floats() -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = {"sqrt": "sqrt_rn", "mul": "mul_rn"}
    for code, prefix, suffix in (("f32", "f", "f"), ("f64", "d", "")):
        for name in ("rint", "floor", "ceil", "copysign"):
            found[f"{name}_{code}"] = getattr(libdevice, name + suffix)
        found[f"abs_{code}"] = getattr(libdevice, f"fabs{suffix}")
        found |= {f"{n}_{code}": getattr(libdevice, prefix + own) for n, own in names.items()}
        found[f"bits_{code}"] = _bitcast(code, f"i{code[1:]}")
        found[f"real_i{code[1:]}"] = _bitcast(f"i{code[1:]}", code)
    found |= {"fma_f32": libdevice.fmaf, "fma_f64": libdevice.fma}
    for name in ("max", "min"):
        found[f"{name}_f32"] = _asm(f"{name}.NaN.f32 $0, $1, $2;", "=f,f,f", "f32", "f32", "f32")
    return found


def _table() -> dict[str, Any]:
    found: dict[str, Any] = {**TYPES, **_of_floats()}
    found |= {f"sdiv_i{n}": _sdiv(f"i{n}") for n in (8, 16, 32, 64)}
    found["mulhi_u64"] = _asm("mul.hi.u64 $0, $1, $2;", "=l,l,l", "u64", "u64", "u64")
    found |= _of_16_bits("f16") | _of_16_bits("bf16")
    found |= {
        "thread": _register("tid.x"),
        "block_index": _register("ctaid.x"),
        "block_count": _register("nctaid.x"),
        "barrier": cuda.syncthreads,
    }
    found |= {f"mma_{form}": _mma(form) for form in _MMA}
    found |= {"matrices4": _matrices(""), "matrices4_turned": _matrices(".trans")}
    found["tf32"] = _tf32()
    found |= {"commit_copies": _commit_copies(), "wait_copies": _wait_copies()}
    found |= {name: _copy() for name in COPIES}
    for code in TYPES:
        found[f"shuffle_xor_{code}"] = _shuffle(code)
        for stem, make in _MEMORY.items():
            found[f"{stem}_{code}"] = make(code)
    return found | {"nan": math.nan, "inf": math.inf, "range": range}


_MEMORY = {
    "shared": _shared,
    "local": _local,
    "part": _part,
    "load4": _load4,
    "store4": _store4,
}
#: What each primitive is, for code that numba.cuda compiles.
DEVICE: Mapping[str, Any] = _table()
