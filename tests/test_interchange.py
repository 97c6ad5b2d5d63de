"""Tensors in the hands of NumPy and SciPy."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_cases import CASES, FLAT

import tapec
from tapec import errors


@pytest.mark.parametrize("name", CASES)
def test_functions_stay_on_the_tape(name: str) -> None:
    """The value is NumPy's, the gradient is that of differences along one direction."""
    function, arrays = CASES[name]
    expected = np.asarray(function(*arrays))
    tensors = [tapec.constant(a) for a in arrays]
    with tapec.GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
        assert isinstance(result, tapec.Tensor)
        weights = np.random.default_rng(0).uniform(0.5, 1, expected.shape)
        total = tapec.reduce_sum(result * weights)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10)
    gradients = tape.gradient(total, tensors, unconnected_gradients="zero")
    if name in FLAT:
        assert not np.any(gradients[0])
        return
    step = 1e-6
    rng = np.random.default_rng(1)
    ways = [rng.uniform(0.5, 1, a.shape) for a in arrays]
    ends = [
        np.sum(function(*[a + s * step * w for a, w in zip(arrays, ways, strict=True)]) * weights)
        for s in (-1, 1)
    ]
    slope = sum(np.nansum(g.numpy() * w) for g, w in zip(gradients, ways, strict=True))
    np.testing.assert_allclose(slope, (ends[1] - ends[0]) / (2 * step), rtol=1e-6, atol=1e-8)


def test_functions_are_compiled() -> None:
    @tapec.function
    def loss(x: Any) -> Any:
        return np.sum(np.exp(x) * np.array([1.0, 3.0], np.float32)) + np.linalg.norm(x)

    x = np.array([3.0, 4.0], np.float32)
    np.testing.assert_allclose(loss(x), np.sum(np.exp(x) * [1, 3]) + 5, rtol=1e-6)


def test_functions_without_a_tape() -> None:
    x = tapec.constant([1.0, 2.0])
    assert isinstance(np.add(x, 1), tapec.Tensor)
    assert isinstance(np.sum(x), np.float32)
    assert np.add.reduce(x) == 3.0
    assert np.median(tapec.Variable([1.0, 3.0])) == 2.0


def test_nothing_is_refused_that_no_tape_follows() -> None:
    x, v = tapec.constant([1.0, 2.0]), tapec.Variable([1.0], trainable=False)
    with tapec.GradientTape():
        assert np.histogram(x)[0].sum() == 2
        assert np.interp(1.5, x, x) == 1.5
        assert np.unique(v).tolist() == [1.0]


def test_what_carries_no_gradient_is_numpys() -> None:
    x = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape():
        assert np.allclose(x, [1, 2])
        assert np.shape(x) == (2,)
        assert np.argmax(x) == 1
        assert np.argsort(x).dtype == np.int64
        assert np.all(x)
        assert not np.any(x - x)


@pytest.mark.parametrize(
    "lost",
    [
        lambda x: np.interp(1.5, x, x),
        lambda x: np.unique(x),
        lambda x: np.sum(x, dtype=float, where=[True, False], out=np.zeros(())),
        lambda x: np.quantile(x, 0.5, method="nearest"),
        lambda x: np.exp(x, dtype="f8"),
        lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.nextafter(x, 1),
        lambda x: np.apply_along_axis(np.sum, 0, x),
    ],
)
def test_what_cannot_be_followed_is_refused(lost: Callable[[Any], Any]) -> None:
    x = tapec.Variable([1.0, 2.0])
    lost(np.array([1.0, 2.0]))  # NumPy can
    with (
        tapec.GradientTape(),
        pytest.raises(errors.TypeError, match=r"cannot be followed by a tape(.|\n)*hint"),
    ):
        lost(x)


def test_adding_to_an_array_in_place() -> None:
    total, x = np.zeros(2), tapec.Variable([1.0, 2.0])
    total += x
    assert total.tolist() == [1, 2]
    with tapec.GradientTape(), pytest.raises(errors.TypeError, match=r"a = a \+ t"):
        total += x


@pytest.mark.parametrize(
    "write",
    [
        lambda x: np.put(x, [0], [9.0]),
        lambda x: np.copyto(x, 9.0),
        lambda x: np.fill_diagonal(x, 9.0),
        lambda x: np.add.at(x, [0], 9.0),
        lambda x: np.add(1.0, 1.0, out=x),
        lambda x: np.sum(np.ones((2, 2)), axis=0, out=x),
    ],
)
def test_tensors_are_not_written_to(write: Callable[[Any], Any]) -> None:
    x = tapec.constant([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(errors.TypeError, match="immutable"):
        write(x)
    assert x.numpy().tolist() == [[1, 2], [3, 4]]


def test_what_numpy_returns_is_not_the_tensors_memory() -> None:
    x = tapec.constant([1.0, 2.0])
    for view in (np.reshape(x, (2, 1)), np.split(x, 2)[0], np.asarray(x), x.numpy()):
        view[...] = 9
    assert x.numpy().tolist() == [1, 2]


def test_no_copy_is_a_view_to_read() -> None:
    x = tapec.constant([1.0, 2.0])
    view = np.array(x, copy=False)
    assert np.may_share_memory(view, x.array)
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)


def test_special_functions_need_no_gradient() -> None:
    from scipy import special  # heavy

    x = tapec.constant([0.5])
    np.testing.assert_allclose(special.ellipk(x), special.ellipk(np.array([0.5], np.float32)))
    with tapec.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(errors.TypeError, match=r"scipy\.special\.ellipk"):
            special.ellipk(x)


def test_estimators_take_tensors() -> None:
    from sklearn.decomposition import PCA  # heavy
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import StandardScaler

    x = tapec.constant(np.random.default_rng(0).normal(size=(20, 3)))
    y = tapec.reduce_sum(x, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LinearRegression().fit(x, y)
        np.testing.assert_allclose(fitted.coef_, [1, 1, 1])
        assert fitted.score(x, tapec.Variable(y)) == pytest.approx(1)
        assert StandardScaler().fit_transform(x).shape == (20, 3)
        assert PCA(2).fit_transform(tapec.Variable(x)).shape == (20, 2)


# ---- DLPack


def test_dlpack_shares_memory() -> None:
    x = tapec.constant([1.0, 2.0])
    view = np.from_dlpack(x)
    assert np.may_share_memory(view, x.array)
    assert not view.flags.writeable
    array = np.arange(3.0)
    shared = tapec.experimental.dlpack.from_dlpack(array)
    assert np.may_share_memory(shared.array, array)
    assert shared.dtype == tapec.float64
    capsule = tapec.experimental.dlpack.to_dlpack(x)
    again = tapec.experimental.dlpack.from_dlpack(capsule)
    assert np.may_share_memory(again.array, x.array)
    with pytest.raises(ValueError, match="from_dlpack"):
        tapec.experimental.dlpack.from_dlpack(capsule)  # used up


def test_dlpack_of_a_variable_is_what_it_held() -> None:
    v = tapec.Variable([1.0, 2.0])
    held = np.from_dlpack(v)
    v.scatter_nd_add([[0]], [5.0])
    assert (held.tolist(), v.numpy().tolist()) == ([1, 2], [6, 2])


def test_dlpack_for_a_library_that_knows_no_memory_to_read_only() -> None:
    x = tapec.constant([1.0, 2.0])

    class Old:
        """Asks as one did before DLPack 1.0."""

        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

    assert not np.may_share_memory(np.from_dlpack(Old()), x.array)
    with pytest.raises(ValueError, match="without a copy"):
        x.__dlpack__(copy=False)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tapec.experimental.dlpack.from_dlpack(3),
        lambda: tapec.experimental.dlpack.from_dlpack(np.array(["a"])),
        lambda: np.from_dlpack(tapec.constant([1.0], tapec.bfloat16)),
        lambda: tapec.constant([1.0]).__dlpack__(dl_device=(2, 0)),
    ],
)
def test_dlpack_refuses(wrong: Callable[[], Any]) -> None:
    with pytest.raises((errors.TypeError, errors.ValueError)):
        wrong()


def test_a_tape_remembers_that_a_tensor_left_by_dlpack() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        y = tapec.reduce_sum(tapec.constant(np.from_dlpack(v) * 2))
    assert tape.gradient(y, v) is None
    assert "DLPack" in str(tape.explain(y, v))


# ---- copies


def test_copies_and_pickles() -> None:
    v = tapec.Variable([1.0, 2.0], name="w")
    adam = tapec.optimizers.Adam(0.1)
    adam.apply_gradients([(tapec.constant([1.0, 1.0]), v)])
    generator = tapec.random.Generator.from_seed(3)
    generator.normal([2])
    slices = tapec.IndexedSlices([[1.0]], [1], [2, 1])
    things: dict[str, Any] = {
        "tensor": tapec.constant([[1, 2]]),
        "half": tapec.constant([1.5], tapec.bfloat16),
        "variable": v,
        "optimizer": adam,
        "generator": generator,
        "slices": slices,
        "dtype": tapec.float32,
        "shape": v.shape,
    }
    for copied in (pickle.loads(pickle.dumps(things)), copy.deepcopy(things)):
        assert np.array_equal(copied["tensor"], [[1, 2]])
        assert copied["half"].dtype == tapec.bfloat16
        w = copied["variable"]
        assert (w.name, w.numpy().tolist()) == (v.name, v.numpy().tolist())
        assert copied["dtype"] is tapec.float32
        assert copied["shape"] == (2,)
        assert copied["slices"].dense_shape.numpy().tolist() == [2, 1]
        np.testing.assert_array_equal(
            copied["generator"].normal([2]), copy.deepcopy(generator).normal([2])
        )
        copied["optimizer"].apply_gradients([(tapec.constant([1.0, 1.0]), w)])
        assert int(copied["optimizer"].iterations) == 2
        moved = tapec.Variable(v)
        other: dict[str, Any] = copy.deepcopy({"o": adam, "v": v})
        other["o"].apply_gradients([(tapec.constant([1.0, 1.0]), other["v"])])
        np.testing.assert_array_equal(w, other["v"])
        assert v.numpy().tolist() == moved.numpy().tolist()


def test_reprs_are_short() -> None:
    for thing in (
        tapec.zeros([300, 300]),
        tapec.Variable(tapec.zeros([300, 300])),
        tapec.IndexedSlices(tapec.zeros([300, 300]), np.arange(300), [300, 300]),
    ):
        assert len(repr(thing)) < 2000
