"""Whose code is it: the user's, ours, or that of installed packages, which is followed in its own way (`library`)."""

from __future__ import annotations

import sys
from functools import cache
from types import CodeType, ModuleType
from typing import Any

from tapec.frames import installed_places, is_ours


def is_users_code(code: CodeType, space: dict[str, Any]) -> bool:
    """Whether code is the user's, by its file; ``space`` are its globals."""
    module = space.get("__name__") or ""
    if is_ours(module) or module.startswith("namedtuple_"):  # which Python writes
        return False
    file = code.co_filename
    if file.startswith("<") and isinstance(space.get("__file__"), str) and module != "__main__":
        # Made from text by a module; in the main one, whoever started it, by the user.
        file = space["__file__"]
    return is_users_file(file)


@cache
def is_users_file(file: str) -> bool:
    """Whether a file is neither Python's nor installed; text without a file is the user's."""
    if file.startswith("<frozen"):
        return False
    return not file.startswith(installed_places()) and "-packages" not in file


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is the user's."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if is_ours(name) or name in sys.builtin_module_names:
        return False
    return (file is not None and is_users_file(file)) or name == "__main__"


def is_users_class(kind: type) -> bool:
    """Whether a class is the user's: one of a module that is not there any more is, too."""
    name = kind.__module__
    if is_ours(name) or name in sys.builtin_module_names:
        return False
    module = sys.modules.get(name)
    return module is None or name == "__main__" or is_users_module(module)


def is_our_class(kind: type) -> bool:
    """Whether a class is one of tapec's."""
    return is_ours(kind.__module__)
