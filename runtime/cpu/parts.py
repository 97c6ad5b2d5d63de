"""Parts of the runtime that are native code themselves: LLVM text, compiled once or found in the cache."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence

from tapec.runtime.cache import Cache, key_of
from tapec.runtime.cpu.host import Mapped
from tapec.runtime.cpu.image import Image

#: The parts that this process has.
LOADED: dict[str, Mapped] = {}


def load_part(name: str, text: str, wanted: Sequence[str], cache: Cache | None) -> Mapped:
    """Map a part, with the addresses of what it wants in its table; it is never unmapped.

    When the interpreter ends a thread may still be running its code, and arrays give their memory back to it.
    """
    mapped = LOADED[name] = Mapped(_image(text, cache), wanted)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(mapped))
    return mapped


def _image(text: str, cache: Cache | None) -> Image:
    """The code of a part, compiled or taken from the cache."""
    key = key_of(text, platform.machine())
    kept = cache.get(key) if cache is not None else None
    if kept is not None:
        return Image.from_bytes(kept)
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # slow; a warm start goes without
    from tapec.runtime.cpu.machine_code.linker import link  # the same

    # Little of a part's time is its own code's, and LLVM writes that in a fifth of the time without optimising it.
    image = link(host_compiler(0).compile(text))
    if cache is not None:
        cache.put(key, image.to_bytes())
    return image
