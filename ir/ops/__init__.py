"""One class per operation; importing this package fills the registry `tapec.ir.op.OPS`."""

from tapec.ir.ops import arith, compare, control, elementary, loop, random, source

__all__ = ["arith", "compare", "control", "elementary", "loop", "random", "source"]
