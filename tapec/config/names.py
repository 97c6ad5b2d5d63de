"""The names in `tapec.config` mean functions: a value in the place of one would change nothing, so it is refused."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tapec.errors import AttributeError
from tapec.frames import here

#: What to do, by the name that was given a value; ``{}`` is that. Of other functions: call them.
_REMEDIES = {
    "threads": "call tapec.config.threading.set_intra_op_parallelism_threads({}), or set TAPEC_NUM_THREADS",
    "get_intra_op_parallelism_threads": "call set_intra_op_parallelism_threads({})",
    "get_inter_op_parallelism_threads": "none is needed: operations of a program run one behind the other",
    "functions_run_eagerly": "call tapec.config.run_functions_eagerly({})",
    "get_soft_device_placement": "call set_soft_device_placement({})",
    "get_visible_devices": "call set_visible_devices({})",
    "tensor_float_32_execution_enabled": "call enable_tensor_float_32_execution({})",
    "cache_folder": "set TAPEC_CACHE in the environment",
    "cache_bytes": "set TAPEC_CACHE_SIZE, in MiB, in the environment",
    "check_level": "set TAPEC_CHECK in the environment",
    "direct": "set TAPEC_DIRECT in the environment",
    "poison": "set TAPEC_POISON in the environment",
    "dump_folder": "set TAPEC_DUMP in the environment",
    "debug_folder": "set TAPEC_DEBUG in the environment",
    "native_turn": "set TAPEC_EAGER_NATIVE in the environment",
    "perf": "set TAPEC_PERF in the environment",
    "settings": "set the variable in the environment, os.environ[...] = ...; `tapec config` lists them",
}


class _Held(ModuleType):
    """A module of `tapec.config`; a test may put another function in the place of one."""

    def __setattr__(self, name: str, value: Any) -> None:
        held = vars(self).get(name)
        if (
            name.startswith("__")
            or isinstance(value, ModuleType)
            or (callable(held) and callable(value))
        ):
            super().__setattr__(name, value)
            return
        if held is None:
            what = f"{self.__name__} has no setting {name!r}"
            hint = "`tapec config` lists the settings; dir(tapec.config) has the functions"
        else:
            what = f"{self.__name__}.{name} is not to be assigned to"
            does = name.startswith(("set_", "enable_", "run_"))
            other = f"call it: {self.__name__}.{name}({{}})" if does else "it only tells"
            hint = _REMEDIES.get(name, other).format(repr(value))
        raise AttributeError(f"{what}, got {value!r}", location=here(), hint=hint)


def hold(module: str) -> None:
    """Let nobody give the names of a module other values by mistake."""
    sys.modules[module].__class__ = _Held
