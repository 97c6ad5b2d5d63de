"""Classifier 16-64-64-10 in eager code: tape, gradient, update, all operation by operation."""

from __future__ import annotations

import os
from typing import Any

from common import Program
from workloads.eager_mlp import eager_program

import tapec

os.environ["TAPEC_CACHE"] = "0"  # the first call is timed: nothing may be left from another run


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Run the same lines as TensorFlow does."""
    program: Program = eager_program(tapec, tapec.optimizers.Adam, data)
    return program
