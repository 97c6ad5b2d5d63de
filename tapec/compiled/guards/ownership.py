"""Whose code is it: the user's, ours, or that of installed packages, which is followed in its own way (`library`)."""

from __future__ import annotations

import sys
from enum import Enum, auto
from functools import cache
from types import CodeType, ModuleType
from typing import Any

from tapec.autograph.conversion import original_code
from tapec.frames import installed_places, is_ours

#: Python's own modules that are about code and objects in general, not about settings of anybody's: followed only
#: where the user calls them.
_MACHINERY = set(
    "abc ast asyncio bdb codecs concurrent contextlib copy copyreg dis encodings functools genericpath importlib "
    "inspect io keyword linecache multiprocessing ntpath opcode operator pathlib pdb pprint posixpath re reprlib "
    "selectors shutil site subprocess sysconfig tempfile textwrap threading timeit token tokenize traceback types "
    "typing typing_extensions unittest warnings zipimport".split()
)
#: Of Python's modules that come with the interpreter itself, those of containers.
_HOLDING = {"collections", "os"}
#: What tapec itself is made with: followed where others call it.
_OWN = {"ml_dtypes", "networkx", "numpy", "optree", "scipy", "llvmlite", "numba", "rich"}


class Sort(Enum):
    """How far code is followed."""

    #: Tapec's, and what it has for packages that run on it: not at all, but for objects that the latter makes.
    CORE = auto()
    ENGINE = auto()
    #: Python's import, and who finds modules for it: what was imported is told by names.
    IMPORT = auto()
    #: The user's: in another way.
    USER = auto()
    #: A package's, whoever calls it; Python's and what tapec is made with, where code that is followed does.
    PACKAGE = auto()
    MACHINERY = auto()
    OWN = auto()


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


def sort_of(code: CodeType, space: dict[str, Any]) -> Sort:
    """How far code is followed; ``space`` are its globals."""
    module = space.get("__name__") or ""
    root = module.partition(".")[0]
    if root == "tapec":
        return Sort.ENGINE if module.startswith("tapec.keras") else Sort.CORE
    if is_users_code(original_code(code), space):
        return Sort.USER
    if code.co_filename.startswith("<frozen importlib"):
        return Sort.IMPORT
    is_frozen = code.co_filename.startswith("<frozen") and root not in _HOLDING
    if root in _MACHINERY or is_frozen or not root:
        return Sort.MACHINERY
    return Sort.OWN if root in _OWN or root in sys.stdlib_module_names else Sort.PACKAGE
