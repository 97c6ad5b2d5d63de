"""Parts of the runtime that are native code themselves: LLVM text, compiled once or found in the cache."""

from __future__ import annotations

import platform

from tapec.runtime.cache import Cache, key_of
from tapec.runtime.cpu.image import Image


def part(text: str, cache: Cache | None) -> Image:
    """The code of a part, compiled or taken from the cache."""
    key = key_of(text, platform.machine())
    kept = cache.get(key) if cache is not None else None
    if kept is not None:
        return Image.from_bytes(kept)
    from tapec.runtime.cpu.jit import host_compiler  # slow to import; a warm start goes without
    from tapec.runtime.cpu.linker import link  # the same

    # Little of a part's time is its own code's, and LLVM writes that in a fifth of the time without optimising it.
    image = link(host_compiler(0).compile(text))
    if cache is not None:
        cache.put(key, image.to_bytes())
    return image
