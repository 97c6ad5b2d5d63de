"""Turn LLVM text into an object, in a process of its own: run as a program, it reads a request and writes the object.

LLVM ends the process where it meets something that it cannot do, so it runs in one that nobody misses. What it finds of
the stack it says on the standard error, as warnings. This file imports nothing of ours: it has to start fast.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import llvmlite.binding as llvm


def emit(request: dict[str, Any]) -> tuple[str, bytes]:
    """The text as it was optimised, and the object or the assembly: see `tapec.runtime.aot.objects`."""
    is_avr = request["triple"].startswith("avr")
    if is_avr:
        # Moves reads of a product, which is in r0, behind stores to the stack, which keep the flags there.
        llvm.set_option("", "-disable-machine-sink")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(request["triple"])
    machine = target.create_target_machine(
        cpu=request["cpu"],
        features=request["features"],
        opt=2,
        reloc=request["reloc"],
        codemodel="small",
        abiname=request["abi"],
    )
    module = llvm.parse_assembly(request["text"])
    module.name = request["name"]
    module.triple = request["triple"]
    module.data_layout = str(machine.target_data)
    module.verify()
    optimise(module, machine, request["optimize"])
    text = str(module)  # before the code generator, which changes it
    if is_avr and loses_a_product(machine.emit_assembly(llvm.parse_assembly(text))):
        raise RuntimeError("it keeps the flags where a product is that is still to be read")
    if request["form"] == "assembly":
        return text, str(machine.emit_assembly(module)).encode()
    return text, bytes(machine.emit_object(module))


def loses_a_product(assembly: str) -> bool:
    """Whether AVR's assembly reads r0, where ``mul`` leaves a product, after the flags were put there."""
    flags = False
    for name, first, others in re.findall(r"^\t([a-z]+)\t?(\w*)(.*)$", assembly, re.MULTILINE):
        reads = re.search(r"\br0\b", others) or (first == "r0" and name not in ("mov", "in", "eor"))
        if name.startswith(("mul", "fmul")):
            flags = False
        elif name == "in" and first == "r0":
            flags = True
        elif flags and reads and name != "out":
            return True
        elif first == "r0":
            flags = False
    return False


def optimise(module: Any, machine: Any, goal: str) -> None:
    """Run passes: ``jit`` those of the JIT, for the same bits; else LLVM's own, less vectorisation."""
    options = llvm.create_pipeline_tuning_options(speed_level=1 if goal == "jit" else 2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = goal == "speed"
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    if goal != "jit":
        builder.getModulePassManager().run(module, builder)
        return
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.run(module, builder)


if __name__ == "__main__":
    try:
        optimised, made = emit(json.load(sys.stdin))
    except RuntimeError as error:
        sys.exit(f"refused: {error}")
    head = optimised.encode()
    sys.stdout.buffer.write(len(head).to_bytes(8, "little") + head + made)
