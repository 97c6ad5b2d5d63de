"""Converted code on disk: a new process finds what a function became, and needs neither source nor converter."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from types import CodeType

from tapec.compiler import cache, version
from tapec.runtime.cache import key_of

#: What conversion gives: code, why there is none, or None if there is nothing to convert.
Made = CodeType | str | None
#: The format of `marshal` in which equal code has equal bytes, whoever else refers to its parts.
_PLAIN = 2


def found_or_made(code: CodeType, make: Callable[[], Made]) -> Made:
    """What ``make`` gives for code, from the cache if it is there; why code cannot be converted is not kept.

    The key is all that the code consists of, its lines and columns included, and the versions of Python and tapec. So
    equal keys had equal sources, apart from comments.
    """
    kept = cache()
    if kept is None:
        return make()
    parts = MAGIC_NUMBER.hex(), sys.version, version(), marshal.dumps(code, _PLAIN).hex()
    key = key_of("converted", *parts)
    data = kept.get(key)
    if data is not None:
        found: Made = marshal.loads(data)  # its checksum was right
        return found
    made = make()
    if not isinstance(made, str):
        kept.put(key, marshal.dumps(made))
    return made
