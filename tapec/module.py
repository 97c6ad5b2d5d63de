"""Module: an object that finds the Variables it is made of."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tapec import arguments
from tapec.autograph.conversion import converted
from tapec.compiled.shelves import ENTRY
from tapec.cyclic import Finite
from tapec.errors import ValueError
from tapec.frames import here
from tapec.scopes import current_name_scope, name_scope
from tapec.variable import Variable

F = TypeVar("F", bound=Callable[..., Any])


class Module:
    """Base class of layers and models: it collects the Variables and Modules among its attributes.

    They are found in attributes, in the order of their names, also inside of lists, tuples and dicts; those of Modules
    below come last. Methods may be compiled: the object is one of the Python values of a signature, and its Variables
    are taken by reference.

    ::

        class Dense(tapec.Module):
            def __init__(self, inputs, outputs, name=None):
                super().__init__(name=name)
                self.w = tapec.Variable(tapec.random.normal([inputs, outputs]), name="w")
                self.b = tapec.Variable(tapec.zeros([outputs]), name="b")

            def __call__(self, x):
                return x @ self.w + self.b

    Args:
        name: a Python identifier; the class's name in lower case by default.

    Raises:
        ValueError: the name is no identifier.
    """

    #: Attributes that are not looked into.
    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        given = _snake(type(self).__name__) if name is None else name
        if not arguments.text(given, "the name of a Module").isidentifier():
            raise ValueError(
                f"{given!r} is not a valid module name. Module names must be valid Python identifiers "
                "(e.g. a valid class name).",
                location=here(),
            )
        self._name = given
        self._name_scope = name_scope(f"{current_name_scope()}{given}/")

    @property
    def name(self) -> str:
        """The name given, or the class's in lower case."""
        return self._name

    @property
    def name_scope(self) -> name_scope:
        """The scope in which names of its Variables begin with its own; see `with_name_scope`."""
        return self._name_scope

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All Variables, its own first."""
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The Variables that tapes watch by themselves, its own first."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """The other Variables."""
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All Modules below."""
        return tuple(self._flatten(predicate=_is_module))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] = lambda leaf: True,
        attribute_traversal_key: Callable[[str], Any] | None = None,
        with_path: bool = False,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """Everything among the attributes for which ``predicate`` holds, each object once.

        Args:
            recursive: whether Modules below are looked into, once all of one level is done.
            predicate: what is wanted.
            attribute_traversal_key: the key by which attributes' names are sorted.
            with_path: whether to give pairs of the way there and the object.
            expand_composites: without effect: tensors are no structure.
        """
        key = attribute_traversal_key
        for path, leaf in _walk(self, (), recursive, predicate, key, {id(self)}):
            yield (path, leaf) if with_path else leaf

    @classmethod
    def with_name_scope(cls, method: F) -> F:
        """Decorate a method, so that the names of Variables it makes begin with the module's name."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return converted(method)(self, *args, **kwargs)

        return scoped  # type: ignore[return-value]


def _snake(name: str) -> str:
    """``my_layer`` from ``MyLayer``."""
    return re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"_\1", name).lower()


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Variable)


def _is_module(leaf: Any) -> bool:
    return isinstance(leaf, Module)


Path = tuple[Any, ...]


def _walk(
    module: Module,
    path: Path,
    recursive: bool,
    predicate: Callable[[Any], bool],
    key: Callable[[str], Any] | None,
    seen: set[int],
) -> Iterator[tuple[Path, Any]]:
    below: list[tuple[Path, Module]] = []
    attributes = vars(module)
    for name in sorted(attributes, key=key):
        if name == ENTRY or name in module._TF_MODULE_IGNORED_PROPERTIES:
            continue
        with Finite(attributes[name]):
            leaves = list(_leaves(attributes[name], (*path, name)))
        for place, leaf in leaves:
            if id(leaf) in seen:
                continue
            seen.add(id(leaf))
            if predicate(leaf):
                yield place, leaf
            if recursive and isinstance(leaf, Module):
                below.append((place, leaf))
    for place, submodule in below:
        yield from _walk(submodule, place, recursive, predicate, key, seen)


def _leaves(structure: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """What lists, tuples and mappings hold, with the way there."""
    if isinstance(structure, Mapping):
        items: Any = structure.items()
        try:
            items = sorted(items, key=lambda item: item[0])
        except Exception:  # keys without an order come as they are
            items = list(items)
        for key, child in items:
            yield from _leaves(child, (*path, key))
    elif isinstance(structure, list | tuple):
        for i, child in enumerate(structure):
            yield from _leaves(child, (*path, i))
    else:
        yield path, structure
