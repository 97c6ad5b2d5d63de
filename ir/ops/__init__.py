"""One class per operation; importing this package fills the registry `tapec.ir.op.OPS`."""

from tapec.ir.ops import (
    arith,
    compare,
    contraction,
    control,
    cumulative,
    custom,
    elementary,
    index,
    linalg,
    loop,
    movement,
    ordering,
    padding,
    random,
    reduction,
    source,
)

__all__ = [
    "arith",
    "compare",
    "contraction",
    "control",
    "cumulative",
    "custom",
    "elementary",
    "index",
    "linalg",
    "loop",
    "movement",
    "ordering",
    "padding",
    "random",
    "reduction",
    "source",
]
