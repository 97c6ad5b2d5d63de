"""Pages of LLVM's library: not held longer than they are needed, and never lost."""

from __future__ import annotations

import subprocess
import sys

from tapec.runtime.cpu.machine_code.resident import LibraryPages, unwritten

MAPS = """\
1000-2000 r--p 00000000 fe:00 25 /lib/libone.so
2000-5000 r-xp 00001000 fe:00 25 /lib/libone.so
5000-7000 r--p 00004000 fe:00 25 /lib/libone.so
7000-8000 r--p 00006000 fe:00 25 /lib/libone.so
8000-9000 rw-p 00007000 fe:00 25 /lib/libone.so
9000-a000 r-xp 00000000 fe:00 26 /lib/libtwo.so
b000-c000 rw-p 00000000 00:00 0
c000-d000 r--p 00000000 fe:00 27 /lib/libone.so.data
d000-e000 r--p 00000000 00:00 0 [vvar]
"""

COMPILE = """
import re
from pathlib import Path

from tapec.runtime.cpu.machine_code import resident
from tapec.runtime.cpu.machine_code.jit import host_compiler

def held():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

compiler = host_compiler(1)
text = "define i32 @f(i32 %x) {\\n  %y = add i32 %x, 1\\n  ret i32 %y\\n}"
resident.APART = 1e9
first = compiler.compile(text)
before = held()
resident.APART = 0
second = compiler.compile(text)
print(before - held(), first == second)
"""


def test_only_what_nobody_writes_to_is_let_go() -> None:
    found = [(hex(start), hex(end)) for start, end in unwritten(MAPS.splitlines(), "libone")]
    assert found == [("0x1000", "0x2000"), ("0x2000", "0x5000"), ("0x5000", "0x7000")]


def test_a_library_that_is_not_there_has_no_pages() -> None:
    pages = LibraryPages("no such library")
    assert not pages.ranges
    pages.let_go()


def test_the_compiler_holds_little_between_compilations() -> None:
    told = subprocess.run(
        [sys.executable, "-c", COMPILE], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(told[0]) > 20_000, "kilobytes of the library stay"
    assert told[1] == "True"
