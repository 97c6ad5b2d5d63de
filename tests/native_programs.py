"""Programs run natively, with state as any other result."""

from __future__ import annotations

from typing import Any

from tapec.ir.core import Module
from tapec.runtime import compile_module


def run_native(module: Module, inputs: list[Any], threads: int = 1) -> list[Any]:
    """All results of the native program, those that replace arguments included."""
    entry = module.entry
    state = [array.copy() for array in inputs]
    fresh = iter(compile_module(module, threads=threads)(*state))
    updated = {entry.args[n]: array for n, array in enumerate(state)}
    count = entry.attrs["inputs"]
    return [updated[entry.args[n]] if n < count else next(fresh) for n in entry.result_args]
