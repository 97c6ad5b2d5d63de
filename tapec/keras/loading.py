"""How Keras comes to run on tapec.

From 3.16 on, Keras takes backends from elsewhere: the package ``keras_NAME.src``, if NAME is in a list of its
configuration. The name is added to the list, and what is imported under the name of that package is
`tapec.keras.engine`. Before that, backends are folders of Keras' own: the engine takes the place of the folder
``numpy`` while Keras is imported, and is called tapec afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tapec.config import with_keras_backend
from tapec.errors import ImportError
from tapec.frames import count_as_installed, here

NAME = "tapec"
#: Keras as ``tf.keras`` shows it: with the older names that Keras itself leaves out.
PUBLIC = "keras._tf_keras.keras"
_CONFIG = "keras.src.backend.config"
#: Where Keras looks for a backend from elsewhere.
_PACKAGE = f"keras_{NAME}"
#: The built-in backend whose place is taken in Keras without such a list.
_BUILT_IN = "numpy"
#: The list of those from elsewhere, where there is one.
_LIST = "PLUGGABLE_BACKENDS"
_FOLDER = f"keras.src.backend.{_BUILT_IN}"
_ENGINE = "tapec.keras.engine"
#: Modules of the engine that lie elsewhere in it than in that folder.
_OPS = ("core", "image", "linalg", "math", "nn", "numpy")


def load() -> None:
    """Import Keras so that it runs on tapec, and let ``tapec.keras.layers`` and the like mean its modules.

    Raises:
        ImportError: Keras is not installed, or was imported with another backend.
    """
    config = sys.modules.get(_CONFIG)
    if config is not None:
        if config.backend() != NAME and not _is_loading:
            raise ImportError(
                f"keras was imported before tapec.keras, and runs on {config.backend()}",
                location=here(),
                hint="import tapec.keras before keras and what imports it, in a new process",
            )
    else:
        _import_keras()
    count_as_installed(str(_folder()))
    if _names not in sys.meta_path:
        sys.meta_path.insert(0, _names)


_is_loading: list[bool] = []


def _import_keras() -> None:
    try:
        found = find_spec("keras") is not None
    except ValueError:  # it is there, but something else than a package
        found = False
    if not found:
        raise ImportError(
            "tapec.keras needs Keras 3.15 or newer, which is not installed",
            location=here(),
            hint="pip install 'tapec[keras]'",
        )
    _is_loading.append(True)
    finders = [_Patched(), _Alias(_FOLDER, _home_in_engine), _Alias(_PACKAGE, _home_of_package)]
    sys.meta_path[:0] = finders
    try:
        with with_keras_backend(NAME if _takes_others() else _BUILT_IN):
            import_module("keras")
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        _is_loading.clear()
    config: Any = sys.modules[_CONFIG]
    if config.backend() != NAME:
        for name in [n for n in sys.modules if n == _FOLDER or n.startswith(f"{_FOLDER}.")]:
            del sys.modules[name]  # who asks for that backend now gets Keras' own
        config._BACKEND = NAME
        _follow_the_name()
    _show_the_device()
    _add_newer_names()


def _add_newer_names() -> None:
    """What Keras has, and ``tf.keras`` has under older names alone, stands under both."""
    import_module(PUBLIC)
    for name, module in list(sys.modules.items()):
        newer = sys.modules.get(name.replace(PUBLIC, "keras", 1))
        if name.startswith(PUBLIC) and newer is not None:
            for own in vars(newer).keys() - vars(module).keys():
                setattr(module, own, getattr(newer, own))


def _takes_others() -> bool:
    """Whether this Keras takes backends from elsewhere: it then has a list of them."""
    config = _folder() / "src" / "backend" / "config.py"
    return _LIST in config.read_text(encoding="utf-8")


def _folder() -> Path:
    """Where Keras is."""
    spec = find_spec("keras")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _follow_the_name() -> None:
    """Let what looks a backend up by its name know ours."""
    dynamic = import_module("keras.src.utils.backend_utils").DynamicBackend
    backend = import_module("keras.src.backend")
    usual_lookup, usual_choice = dynamic.__getattr__, dynamic.set_backend

    def __getattr__(self: object, name: str) -> object:
        if vars(self).get("_backend") == NAME:
            return getattr(backend, name)
        return usual_lookup(self, name)

    def set_backend(self: object, backend: str) -> None:
        if backend == NAME:
            vars(self)["_backend"] = NAME
        else:
            usual_choice(self, backend)

    dynamic.__getattr__ = __getattr__
    dynamic.set_backend = set_backend


def _show_the_device() -> None:
    """Let ``keras.distribution`` ask us: with the backend whose place we take, it would ask nobody."""
    ours = import_module(f"{_ENGINE}.distribution_lib")
    for name in ("keras.src.backend", "keras.src.distribution.distribution_lib"):
        vars(import_module(name))["distribution_lib"] = ours


def _home_in_engine(rest: str) -> str:
    """Where in the engine is what was the built-in folder's."""
    first = rest.partition(".")[0]
    return f"{_ENGINE}.ops.{rest}" if first in _OPS else f"{_ENGINE}.{rest or 'builtin'}"


def _home_of_package(rest: str) -> str:
    """Where in the engine is what Keras looks for in a package of our name."""
    if not rest:
        return "tapec.keras"
    place = rest.removeprefix("src").removeprefix(".")
    return f"{_ENGINE}.{place or 'plugin'}"


class _Patched(MetaPathFinder):
    """Adds our name to Keras' list of backends when its configuration has been read."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _CONFIG:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _enter(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _enter(config: ModuleType) -> None:
    """Let the configuration, and what has imported the list from it meanwhile, know our name."""
    known = getattr(config, _LIST, None)
    if known is not None:
        longer = frozenset([*known, NAME])
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(_LIST) is known:
                setattr(module, _LIST, longer)


class _Alias(MetaPathFinder, Loader):
    """Gives modules that are there already under other names: ``prefix.rest`` is ``home(rest)``."""

    def __init__(self, prefix: str, home: Callable[[str], str]) -> None:
        self._prefix, self._home = prefix, home
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._prefix and not fullname.startswith(f"{self._prefix}."):
            return None
        home = self._home(fullname[len(self._prefix) + 1 :])
        if home == fullname or not _exists(home):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._home(spec.name[len(self._prefix) + 1 :]))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran under its own name; that name it keeps."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = self._specs.pop(spec.name)


def _exists(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return find_spec(name) is not None
    except (AttributeError, ModuleNotFoundError, ValueError):
        return False


class _Names(_Alias):
    """``tapec.keras.layers`` is ``tf.keras.layers``; only what is ours stays."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.split(".")[2:3] in ([], ["engine"], ["loading"]):
            return None
        return super().find_spec(fullname, path, target)


_names = _Names("tapec.keras", lambda rest: f"{PUBLIC}.{rest}")
