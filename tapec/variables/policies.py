"""How copies of a Variable on several devices are kept alike: there is one, so that nothing follows from these."""

from __future__ import annotations

from enum import Enum


class VariableSynchronization(Enum):
    """When copies of a Variable are made equal."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """How updates of copies of a Variable become one."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
