"""Compilers and emulators of other machines. One that is missing skips a test and says so; under CI it fails it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

#: Where Debian has what tests use.
PACKAGES = {
    "gcc": "gcc",
    "g++": "g++",
    "nm": "binutils",
    "gdb": "gdb",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf",
    "qemu-arm-static": "qemu-user-static",
    "riscv64-linux-gnu-gcc": "gcc-riscv64-linux-gnu",
    "qemu-riscv64-static": "qemu-user-static",
    "qemu-riscv32-static": "qemu-user-static",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "qemu-x86_64-static": "qemu-user-static",
    "avr-gcc": "gcc-avr avr-libc",
    "simavr": "simavr",
    "wasm-ld": "lld",
    "node": "nodejs",
}


def need(*tools: str) -> None:
    """Hold a test to run only where these programs are."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[tool] for tool in missing}))
        said = f"{', '.join(missing)} not found: apt-get install {packages}"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)


def run(
    *command: object,
    cwd: Path | None = None,
    input: str | None = None,
    merged: bool = False,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program, fail with all it said if it fails, and return its standard output, or both.

    ``env`` is added to the environment.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=input,
        env=None if env is None else os.environ | dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        pytest.fail(
            f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr or ''}"
        )
    return done.stdout
