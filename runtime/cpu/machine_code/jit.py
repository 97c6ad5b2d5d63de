"""LLVM text to native code: the only place of the JIT that knows llvmlite.

What comes out is a relocatable ELF object for the host, which `tapec.runtime.cpu.machine_code.linker` turns into bytes
that can be mapped. Vectors are in the text already and address arithmetic was hoisted when it was written, so three
passes are enough: compiled training steps run as fast as after LLVM's own pipelines, which take several times as long.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from tapec.ir.errors import TargetError
from tapec.runtime import forking
from tapec.runtime.cpu.machine_code.emission import emit_all, on_deep_stack
from tapec.runtime.cpu.machine_code.resident import pages_of
from tapec.runtime.processors import processors
from tapec.runtime.shortage import has_room

#: Addresses that LLVM takes, in bytes: at any rate, for each byte of text (heaps were seen to grow by 16), and with
#: each thread more, whose stack and heap they are.
_ROOM, _ROOM_FOR_TEXT, _ROOM_FOR_THREAD = 8 << 20, 32, 160 << 20

#: Held while LLVM compiles; llvmlite's own lock, where it has one, is held while it does anything.
_in_llvm = RLock()


def _take_llvm() -> None:
    _in_llvm.acquire()
    if lock := getattr(ffi.lib, "_lock", None):
        lock.__enter__()


def _give_back_llvm() -> None:
    if lock := getattr(ffi.lib, "_lock", None):
        lock.__exit__()
    _in_llvm.release()


forking.hold(forking.Order.LLVM, _take_llvm, _give_back_llvm)


class JitCompiler:
    """Compiles modules for one target machine; calls may come from any thread."""

    def __init__(self, cpu: str, features: str, opt: int) -> None:
        """``opt`` 0 and 1: the short list of passes, with LLVM's fastest or its usual code generation.

        2 and 3 are LLVM's pipelines of that level, less vectorisation. Level 0 may round otherwise: there LLVM fuses
        no multiplication with an addition.
        """
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        # ELF everywhere: one loader serves every system.
        architecture = llvm.get_default_triple().split("-")[0]
        self.triple = f"{architecture}-unknown-linux-gnu"
        target = llvm.Target.from_triple(self.triple)
        self._make_machine: Callable[[], Any] = functools.partial(
            target.create_target_machine,
            cpu=cpu,
            features=features,
            opt=2 if opt else 0,
            reloc="pic",
            codemodel="small",
        )
        self.machine = self._make_machine()
        self.opt = opt
        self._pages = pages_of("libllvmlite")
        self._pages.let_go()

    def compile(self, text: str) -> bytes:
        """Return the object for a module's text.

        Raises:
            TargetError: LLVM refuses the text, which is a fault of whoever wrote it.
            MemoryError: as `optimised`.
        """
        (found,) = self.compile_all([text], 1)
        return found

    def compile_all(self, texts: Iterable[str], threads: int) -> list[bytes]:
        """Return the objects of modules; up to ``threads`` threads write code, while this one asks for texts.

        Reading and optimising stay with this thread: a thread that comes back from LLVM waits for the interpreter,
        and they are many short calls. Writing code is most of the time, and one.

        Raises:
            TargetError: as `compile`.
        """
        threads = max(min(threads, processors()), 1)
        with _in_llvm:
            _require_room(0)
            if threads > 1 and not has_room(_ROOM + _ROOM_FOR_THREAD * (threads - 1)):
                threads = 1  # Python waits for ever for a thread that has no memory to begin
            machines = [self.machine, *(self._make_machine() for _ in range(threads - 1))]
            found = on_deep_stack(lambda: emit_all(machines, map(self._prepared, texts)))
            self._pages.let_go()
        return found

    def _prepared(self, text: str) -> Any:
        module = self.optimised(text)
        # What reads and optimises is not what writes code, so there is less at once.
        self._pages.let_go()
        return module

    def assembly(self, text: str) -> str:
        """The object for a module's text, as assembly."""
        return str(self.machine.emit_assembly(self.optimised(text)))

    def optimised(self, text: str) -> Any:
        """Parse, check and optimise.

        Raises:
            TargetError: as `compile`.
            MemoryError: there is too little room; LLVM would end the process.
        """
        _require_room(_ROOM_FOR_TEXT * len(text))
        try:
            # Of its own, so that no other thread uses what it does.
            module = llvm.parse_assembly(text, llvm.create_context())
            module.triple = self.triple
            module.data_layout = str(self.machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise TargetError(f"LLVM does not take the text it was given: {error}") from error
        self._run_passes(module)
        return module

    def _run_passes(self, module: Any) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=max(self.opt, 1))
        options.loop_vectorization = False
        options.slp_vectorization = False
        options.loop_unrolling = False
        options.loop_interleaving = False
        builder = llvm.create_pass_builder(self.machine, options)
        if self.opt >= 2:
            builder.getModulePassManager().run(module, builder)
            return
        manager = llvm.create_new_module_pass_manager()
        manager.add_always_inliner_pass()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
        manager.run(module, builder)


def _require_room(size: int) -> None:
    if not has_room(_ROOM + size):
        raise MemoryError(f"LLVM may need {_ROOM + size} bytes of addresses more than are left")


@functools.cache
def host_compiler(opt: int) -> JitCompiler:
    """The compiler for this machine."""
    features = llvm.get_host_cpu_features()
    if platform.machine() in ("x86_64", "AMD64") and not features.get("fma"):
        raise TargetError("the cpu target needs a processor with fused multiply-add (x86-64-v3)")
    return JitCompiler(llvm.get_host_cpu_name(), features.flatten(), opt)
