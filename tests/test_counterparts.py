"""Functions of other packages that ask tensors for their elements."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.special
import scipy.stats

import tapec
from tapec import errors
from tapec.absences.counterparts import COUNTERPARTS

S = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("tapec.nn.softmax", lambda x: scipy.special.softmax(x)),
        ("tapec.reduce_logsumexp", lambda x: scipy.special.logsumexp(x)),
        ("tapec.math.polygamma", lambda x: scipy.special.polygamma(1, x)),
        ("tapec.linalg.inv", lambda x: scipy.linalg.inv(x)),
        ("tapec.linalg.solve", lambda x: scipy.linalg.solve(S, x)),
        ("tapec.linalg.cholesky", lambda x: scipy.linalg.cholesky(x)),
        ("tapec.signal.fft", lambda x: scipy.fft.fft(x)),
        ("the formula", lambda x: scipy.stats.norm.logpdf(x)),
        ("the formula", lambda x: scipy.stats.norm(0, 1).pdf(x)),
    ],
)
def test_what_tapec_has_is_refused_by_name(name: str, lost: Callable[[Any], Any]) -> None:
    x = tapec.Variable(S)
    expected = lost(S)
    with tapec.GradientTape(), pytest.raises(errors.TypeError) as caught:
        lost(x)
    text = str(caught.value)
    assert f"hint: use {name}" in text
    assert re.search(rf"test_counterparts\.py:{lost.__code__.co_firstlineno}\b", text)
    with tapec.GradientTape():
        np.testing.assert_array_equal(lost(tapec.stop_gradient(x)), expected)
    np.testing.assert_array_equal(lost(x), expected)


def test_a_compiled_function_names_the_same() -> None:
    @tapec.function
    def step(x: Any) -> Any:
        return scipy.special.softmax(x)

    with pytest.raises(errors.TypeError, match=r"scipy\.special\.softmax(.|\n)*tapec\.nn\.soft"):
        step(S)


@pytest.mark.parametrize(
    ("how", "read"),
    [
        ("scipy.ndimage.gaussian_filter", lambda x: scipy.ndimage.gaussian_filter(x, 1.0)),
        ("scipy.stats.pearsonr", lambda x: scipy.stats.pearsonr(x[0], x[1])[0]),
        ("NumPy", lambda x: scipy.optimize.linear_sum_assignment(x)[0]),
        ("statistics.fmean", lambda x: statistics.fmean(x[0])),
    ],
)
def test_what_it_has_not_is_remembered_at_the_users_line(
    how: str, read: Callable[[Any], Any]
) -> None:
    """The line that called the library, not the library's own."""
    x = tapec.Variable(S)
    with tapec.GradientTape() as tape:
        y = tapec.reduce_sum(tapec.constant(read(x), tapec.float64))
    assert tape.gradient(y, x) is None
    why = tape.explain(y, x)
    assert f"left the tape by {how}" in why.message
    assert why.location is not None
    assert why.location.file == __file__
    assert why.location.line == read.__code__.co_firstlineno


def test_metrics_of_what_a_tape_follows() -> None:
    """Libraries that look at values get them."""
    from sklearn import metrics  # heavy

    truth, x = np.array([0, 1, 1, 0]), tapec.Variable([0.2, 0.7, 0.6, 0.1])
    with tapec.GradientTape() as tape:
        scores = x * 1.0
        assert metrics.roc_auc_score(truth, scores) == 1
        assert metrics.accuracy_score(truth, scores > 0.5) == 1
        np.testing.assert_allclose(metrics.mean_squared_error(truth, scores), 0.075, rtol=1e-6)
        loss = tapec.reduce_sum(scores)
    assert tape.gradient(loss, x) is not None
    assert "sklearn.metrics.roc_auc_score" in tape.explain(loss, x).message


def test_every_counterpart_is_there() -> None:
    for text in COUNTERPARTS.values():
        names = re.findall(r"\b(?:tapec|numpy)(?:\.\w+)+", text)
        assert names, text
        for name in names:
            found: Any = {"tapec": tapec, "numpy": np}[name.partition(".")[0]]
            for part in name.split(".")[1:]:
                found = getattr(found, part)
            assert callable(found)


def test_numpys_functions_are_named_as_they_are_written() -> None:
    x = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape():
        with pytest.raises(errors.TypeError, match=r"^np\.fft\.hfft of a tensor"):
            np.fft.hfft(x)
        with pytest.raises(errors.TypeError, match=r"^np\.nextafter of a tensor"):
            np.nextafter(x, 1)
