"""Programs for a device ahead of time: PTX, machine code, and a C header for the driver's API.

The header tells, for each function, the buffers that it takes, every launch of a call with what its pointers point to,
and how much memory there has to be; with ``cuda.h`` in front of it, it also has a C function that launches them all.
Sizes are those that the functions were built for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tapec.ir.errors import TargetError
from tapec.runtime.aot.interface import EntryPoint, Model
from tapec.runtime.cuda.launches import Launch, Memory, recorded
from tapec.runtime.cuda.machine_code.assembly import Assembly, Compiler, joined
from tapec.runtime.cuda.text.module_text import Text, write_text

#: Where constants begin: as far apart as the driver's allocations are.
_ALIGNMENT = 256

_TYPES = """#ifndef TAPEC_CUDA
#define TAPEC_CUDA
/* A place on the device: a buffer of the function's, and bytes from there on. Buffers begin at multiples of 16 bytes,
   as those of cuMemAlloc do. */
typedef struct { unsigned buffer; unsigned long long offset; } tapec_cuda_pointer;
/* A launch: its first pointer among those of the function, and how many it has. */
typedef struct {
    const char *kernel;
    unsigned blocks, threads, shared_bytes, first, count;
} tapec_cuda_launch;
#endif
"""

_RUN = """#ifdef CUDA_VERSION
/* Launches a call; buffers are device addresses, in the order of the enum. */
static inline CUresult {name}(CUmodule module, CUstream stream, const CUdeviceptr *buffers) {{
    for (unsigned i = 0; i < {upper}_LAUNCHES; i++) {{
        const tapec_cuda_launch *launch = &{name}_launches[i];
        CUdeviceptr places[{most}];
        void *arguments[{most}];
        CUfunction kernel;
        CUresult status = cuModuleGetFunction(&kernel, module, launch->kernel);
        if (status != CUDA_SUCCESS) return status;
        for (unsigned n = 0; n < launch->count; n++) {{
            const tapec_cuda_pointer *pointer = &{name}_pointers[launch->first + n];
            places[n] = buffers[pointer->buffer] + pointer->offset;
            arguments[n] = &places[n];
        }}
        status = cuLaunchKernel(kernel, launch->blocks, 1, 1, launch->threads, 1, 1,
                                launch->shared_bytes, stream, arguments, 0);
        if (status != CUDA_SUCCESS) return status;
    }}
    return CUDA_SUCCESS;
}}
#endif
"""


@dataclass
class _Function:
    """One function of a model for a device."""

    name: str
    entry: EntryPoint
    text: Text
    launches: Sequence[Launch]
    #: Where its constants and tables begin in the model's.
    constants: dict[tuple[str, int], int]


def files(model: Model, architecture: str, forms: Collection[str]) -> dict[str, bytes]:
    """Contents by file name, with ``.state.bin`` and ``.constants.bin`` if there are any.

    Args:
        model: its programs dealt out by `tapec.passes.device.spread`.
        architecture: such as ``sm_90``.
        forms: of ``ptx``, ``obj`` (``.cubin`` for the device, and ``.ptx`` for later ones) and ``header``.

    Raises:
        TargetError: a function has sizes that are left open, or launches that depend on computed numbers.
    """
    constants = bytearray()
    functions = [_function(model, entry, constants) for entry in model.entries]
    parts: list[Assembly] = []
    for function in functions:
        compiler = Compiler(function.text, architecture, f"{function.name}_")
        parts += [compiler.kernel(name, lines=False) for name in function.text.kernels]
    whole = joined(parts)
    found = {}
    if "ptx" in forms or "obj" in forms:
        found[f"{model.name}.ptx"] = whole.ptx.encode()
    if "obj" in forms:
        found[f"{model.name}.cubin"] = whole.cubin()[0]
    if "header" in forms:
        header = _header(model, architecture, functions, len(constants))
        found[f"{model.name}.h"] = header.encode()
    if model.state:
        found[f"{model.name}.state.bin"] = model.initial_state()
    if constants:
        found[f"{model.name}.constants.bin"] = bytes(constants)
    return found


def _function(model: Model, entry: EntryPoint, constants: bytearray) -> _Function:
    text = write_text(entry.module)
    if entry.sizes:
        names = ", ".join(map(str, entry.sizes))
        raise TargetError(
            f"{entry.name} leaves sizes open ({names}), and the cuda target builds for given ones",
            hint="write a number for each in the signature",
        )
    launches = recorded(text)
    if launches is None:
        raise TargetError(
            f"what {entry.name} launches depends on numbers that it computes",
            hint="bound its loops, as by maximum_iterations of tapec.while_loop",
        )
    places: dict[tuple[str, int], int] = {}
    arrays = [
        (("arg", i), slot.array) for i, slot in enumerate(entry.slots) if slot.kind == "constant"
    ]
    arrays += [(("table", n), table) for n, table in enumerate(text.tables)]
    for key, array in arrays:
        assert array is not None
        constants.extend(bytes(-len(constants) % _ALIGNMENT))
        places[key] = len(constants)
        constants.extend(np.ascontiguousarray(array).tobytes())
    return _Function(f"{model.name}_{entry.name}", entry, text, launches, places)


def _header(model: Model, architecture: str, functions: Sequence[_Function], constants: int) -> str:
    upper = model.name.upper()
    parts = [
        f"/* {model.name} for CUDA devices from {architecture} on. Load {model.name}.cubin (or .ptx) as a module. */",
        f"#ifndef {upper}_CUDA_H\n#define {upper}_CUDA_H\n",
        _TYPES,
        f"#define {upper}_STATE_BYTES {model.state_bytes}u",
        f"#define {upper}_CONSTANTS_BYTES {constants}u\n",
    ]
    if model.state:
        parts += [f"/* The state begins as {model.name}.state.bin; its parts, in bytes: */"]
        parts += [f"/*   {m.name}: {m.type} at {m.offset} */" for m in model.state]
    parts += [_declared(function, model) for function in functions]
    return "\n".join([*parts, "#endif", ""])


def _declared(function: _Function, model: Model) -> str:
    entry, name = function.entry, function.name
    upper = name.upper()
    buffers = [*(p.name for p in entry.inputs), *(p.name for p in entry.outputs)]
    buffers += ["status"] * any(slot.kind == "status" for slot in entry.slots)
    buffers += ["state", "arena", "constants"]
    listed = "".join(f"    {upper}_{b.upper()},\n" for b in buffers)
    types = [f"{p.name}: {p.type}" for p in (*entry.inputs, *entry.outputs)]
    pointers, launches = _tables(function, buffers, model)
    most = max((len(one.memory) for one in function.launches), default=1)
    shown = "".join(f"    {line},\n" for line in pointers) or "    {0, 0},\n"
    return "\n".join(
        [
            f"\n/* {entry.name} ({entry.where}): {'; '.join(types)} */",
            f"#define {upper}_ARENA_BYTES {entry.arena_bytes}u",
            f"#define {upper}_LAUNCHES {len(function.launches)}u",
            f"enum {{\n{listed}    {upper}_BUFFERS\n}};",
            f"static const tapec_cuda_pointer {name}_pointers[] = {{\n{shown}}};",
            f"static const tapec_cuda_launch {name}_launches[] = {{",
            *(f"    {line}," for line in launches or ['{"", 0, 0, 0, 0, 0}']),
            "};",
            _RUN.format(name=name, upper=upper, most=most),
        ]
    )


def _tables(
    function: _Function, buffers: Sequence[str], model: Model
) -> tuple[list[str], list[str]]:
    """The rows of the two tables."""
    pointers: list[str] = []
    launches: list[str] = []
    for one in function.launches:
        name = f"{function.name}_{one.kernel.name}"
        launches.append(
            f'{{"{name}", {one.blocks}, {one.threads}, {one.kernel.shared}, '
            f"{len(pointers)}, {len(one.memory)}}}"
        )
        for place in one.memory:
            buffer, offset = _place(function, place, model)
            pointers.append(f"{{{buffers.index(buffer)}, {offset}}}")
    return pointers, launches


def _place(function: _Function, place: Memory, model: Model) -> tuple[str, int]:
    """The buffer that C passes, and where in it a place of a launch is."""
    entry = function.entry
    inputs = entry.module.entry.attrs["inputs"]
    if place.kind == "arena":
        return "arena", place.offset
    if place.kind == "table":
        return "constants", function.constants["table", place.number] + place.offset
    number = place.number + (inputs if place.kind == "result" else 0)
    slot = entry.slots[number]
    if slot.kind == "constant":
        return "constants", function.constants["arg", number] + place.offset
    if slot.kind == "state":
        return "state", model.state[slot.number].offset + place.offset
    names = {"input": entry.inputs, "output": entry.outputs}.get(slot.kind)
    return ("status" if names is None else names[slot.number].name), place.offset
