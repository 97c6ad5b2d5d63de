"""Moving averages of Variables."""

from __future__ import annotations

import pytest
from both_ways import Wrap

import tapec


def test_averages_follow_their_variables(wrap: Wrap) -> None:
    v = tapec.Variable(1.0, name="v")
    ema = tapec.train.ExponentialMovingAverage(0.9)
    ema.apply([v])

    def move() -> tapec.Tensor:
        v.assign_add(2.0)
        ema.apply([v])
        return v.read_value()

    step = wrap(move)
    step()
    average = ema.average(v)
    assert average is not None
    assert average.numpy() == pytest.approx(0.9 * 1.0 + 0.1 * 3.0)
    step()
    assert average.numpy() == pytest.approx(0.9 * 1.2 + 0.1 * 5.0)
    assert not average.trainable
    assert ema.average_name(v) == "v/ExponentialMovingAverage"
    assert list(ema.variables_to_restore()) == [ema.average_name(v)]
    assert ema.average(tapec.Variable(0.0)) is None


def test_without_bias() -> None:
    v = tapec.Variable(3.0)
    ema = tapec.train.ExponentialMovingAverage(0.9, zero_debias=True)
    ema.apply([v])
    average = ema.average(v)
    assert average is not None
    assert average.numpy() == pytest.approx(3.0)
    v.assign(5.0)
    ema.apply([v])
    assert average.numpy() == pytest.approx((0.9 * 0.1 * 3 + 0.1 * 5) / (1 - 0.9**2), rel=1e-5)


def test_a_smaller_decay_at_the_beginning() -> None:
    v = tapec.Variable(3.0)
    ema = tapec.train.ExponentialMovingAverage(0.999, num_updates=3)
    ema.apply([v])
    v.assign(5.0)
    ema.apply([v])
    average = ema.average(v)
    assert average is not None
    assert average.numpy() == pytest.approx(4.384615421295166)  # TensorFlow's


def test_mistakes() -> None:
    ema = tapec.train.ExponentialMovingAverage(0.9)
    with pytest.raises(TypeError, match=r"takes tapec\.Variables, got EagerTensor"):
        ema.apply([tapec.constant(1.0)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="int32"):
        ema.apply([tapec.Variable(1)])
    with pytest.raises(ValueError, match="needs the Variables"):
        ema.apply()
