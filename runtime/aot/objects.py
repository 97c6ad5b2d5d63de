"""Objects from LLVM text: emitted in a process of their own, and looked at before anybody gets them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tapec.ir.errors import TargetError
from tapec.runtime.aot.targets import EdgeTarget

_EMISSION = Path(__file__).with_name("emission.py")
#: What LLVM says of the stack of a function that has the attribute ``warn-stack-size``.
_FRAME = re.compile(r"stack frame size \((\d+)\) exceeds limit \(\d+\) in function '([^']+)'")
#: The end of LLVM's process: the function, without its class, and what should have held.
_ASSERTION = re.compile(r"([\w~]+)\([^`]*: Assertion `(.*)' failed")
#: Seconds after which LLVM is taken to hang.
_PATIENCE = 300


@dataclass(frozen=True)
class Emitted:
    """What LLVM made of a text.

    Attributes:
        data: the object, or the assembly.
        text: the module as it was optimised.
        frames: bytes of stack that functions take for themselves, by name; those that take some.
    """

    data: bytes
    text: str
    frames: dict[str, int] = field(default_factory=dict)


def emit(
    text: str, target: EdgeTarget, *, name: str, optimize: str, form: str = "object"
) -> Emitted:
    """Compile a text for a target.

    Args:
        text: a module of LLVM's.
        target: for which machine.
        name: of the module, which objects of some formats mention.
        optimize: ``jit``, ``speed`` or ``size``: see `tapec.runtime.aot.emission`.
        form: ``object`` or ``assembly``.

    Raises:
        TargetError: LLVM cannot compile it, or ended its process.
    """
    request = {
        "text": text,
        "triple": target.triple,
        "cpu": target.cpu,
        "features": target.features,
        "abi": target.abi,
        "reloc": "pic" if target.hosted else "static",
        "name": name,
        "optimize": optimize,
        "form": form,
    }
    done = subprocess.run(
        [sys.executable, "-I", str(_EMISSION)],
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        raise TargetError(
            f"LLVM has no code for {name} on {target.name}: {_reason(said)}",
            hint="build it with emit='c' and let the machine's own C compiler do it",
        )
    length = int.from_bytes(done.stdout[:8], "little")
    head, data = done.stdout[8 : 8 + length], done.stdout[8 + length :]
    frames = {name: int(size) for size, name in _FRAME.findall(said)}
    return Emitted(data, head.decode(), frames)


def _reason(said: str) -> str:
    """The lines of what LLVM said that tell most: from the first that names an error on.

    Of an assertion, which tells of LLVM's own files, what it says in words.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for line in lines:
        if (found := _ASSERTION.search(line)) is not None:
            condition = found[2]
            words = re.findall(r'&& "([^"]*)"', condition)
            return f"its {found[1]} is not made for this ({words[-1] if words else condition})"
    telling = re.compile(r"refused|LLVM ERROR|fatal|.*error:")
    first = next((i for i, line in enumerate(lines) if telling.match(line)), len(lines) - 1)
    return " ".join(lines[first : first + 3]) or "it ended without a word"
