"""Whole training programs, as users of GradientTape write them, give TensorFlow's losses for 20 steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec as tf

FOLDER = Path(__file__).parent / "conformance" / "training"
sys.path.insert(0, str(FOLDER))
import programs  # type: ignore[import-not-found]  # noqa: E402  found by the line above

LOSSES: dict[str, list[float]] = json.loads(programs.LOSSES.read_text("utf-8"))


@pytest.mark.parametrize("wrap", [lambda step: step, tf.function], ids=["eager", "compiled"])
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_losses_are_tensorflows(program: Callable[..., Any], wrap: Callable[..., Any]) -> None:
    losses = program(tf, tf.optimizers, wrap)
    assert len(losses) == 20
    np.testing.assert_allclose(losses, LOSSES[program.__name__], rtol=1e-4)
