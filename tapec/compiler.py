"""The joint between programs, passes and the runtime: a module in, an executable out.

The only place that knows all three, besides the command line.
"""

from __future__ import annotations

from tapec import config
from tapec.ir.core import Module, clone_module
from tapec.ir.errors import PassError
from tapec.passes import PIPELINES
from tapec.passes.pipeline import Stage, parse_pipeline, run_pipeline
from tapec.runtime import Executable
from tapec.runtime import compile_module as compile_loops

__all__ = ["Executable", "compile_module", "lowered"]


def compile_module(module: Module) -> Executable:
    """Compile a tensor-level module for this machine; the module is left as it is.

    Raises:
        TargetError: an operation has no native code here.
    """
    folder = config.cache_folder()
    return compile_loops(lowered(module), threads=config.threads(), cache=folder)


def lowered(module: Module, after: str | None = None) -> Module:
    """A copy of the module after the default pipeline, or after the last run of the pass named ``after``."""
    copy = clone_module(module)
    run_pipeline(copy, _stages(after))
    return copy


def _stages(after: str | None) -> tuple[Stage, ...]:
    stages = parse_pipeline(PIPELINES["default"])
    if after is None:
        return stages
    names = [stage.name for stage in stages]
    if after not in names:
        raise PassError(f"the default pipeline has no pass {after!r}", hint=", ".join(names))
    return stages[: len(names) - names[::-1].index(after)]
