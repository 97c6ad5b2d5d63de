"""A loop-level module compiled by Numba: kernels one by one, called by the entry, which Python runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numba.core import types

from tapec.ir.core import Function, Module
from tapec.ir.errors import TargetError, underline
from tapec.ir.types import BufferType
from tapec.runtime.executable import Executable
from tapec.runtime.numba.overloads import register
from tapec.runtime.python_text import spelling
from tapec.runtime.python_text.program import executable
from tapec.runtime.python_text.writer import identifier, write_python
from tapec.runtime.symbols import symbols_of

_HEAD = '''"""@{name} as Python, from its loops: kernels for Numba, and the entry that calls them."""

import numpy as np
from numba import njit

{imports}


'''


def compile_program(module: Module) -> Executable:
    """Compile a module without vectors for this process.

    Raises:
        TargetError: it has what Python text cannot say, or Numba does not take a kernel.
    """
    register()
    return executable(module, functools.partial(_compiled, module))


def python_text(module: Module) -> str:
    """What is compiled, as a file of Python's."""
    text = write_python(module)
    imports = []
    if text.interpreted:
        imports.append("from tapec.runtime.python_text.calling import invoke")
    if text.imports:
        names = ", ".join(text.imports)
        imports.append(f"from tapec.runtime.python_text.primitives import {names}")
    head = _HEAD.format(name=module.entry.name, imports="\n".join(imports))
    return head + text.source('@njit(error_model="numpy")')


def _compiled(module: Module, kernels: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for function in module.functions.values():
        name = identifier(function.name)
        if name in kernels:
            found[name] = numba.njit(kernels[name], nogil=True, error_model="numpy")
            _compile(found[name], function)
    return found


def _compile(dispatcher: Any, function: Function) -> None:
    """Compile for the types that the kernel has, so that what Numba refuses is known before anything ran."""
    buffers = [_array(arg.type) for arg in function.args]
    try:
        dispatcher.compile((*buffers, *[types.int64] * len(symbols_of(function))))
    except numba.core.errors.NumbaError as error:
        first = function.block.ops[0]
        lines = [line for line in map(str.strip, str(error).splitlines()) if line]
        reason = " ".join(lines[1:3])  # the first names the step
        raise TargetError(
            underline(first, f"Numba does not take @{function.name}: {reason}")
        ) from error


def _array(kind: Any) -> Any:
    assert isinstance(kind, BufferType)
    element = numba.from_dtype(np.dtype(spelling.memory(kind.dtype)))
    return types.Array(element, max(len(kind.shape), 1), "C")
