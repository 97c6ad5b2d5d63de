"""Public functions against NumPy, eager and traced; gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import slope
from function_cases import SMOOTH
from traced import traced_results

import tapec
from tapec import errors, nn
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def _evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of eager tapes by the evaluator: these tests are about functions, not native code."""
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")


@pytest.mark.parametrize("name", SMOOTH)
def test_equals_numpy_eagerly(name: str) -> None:
    ours, theirs, arrays = SMOOTH[name]
    result = ours(*map(tapec.constant, arrays))
    assert result.dtype == tapec.float64
    np.testing.assert_allclose(result.numpy(), theirs(*arrays), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_equals_numpy_traced(name: str) -> None:
    ours, theirs, arrays = SMOOTH[name]
    (result,) = traced_results(ours, arrays)
    np.testing.assert_allclose(result, theirs(*arrays), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str) -> None:
    ours, _, arrays = SMOOTH[name]
    check_gradients(ours, arrays, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_gradients(name: str) -> None:
    ours, _, arrays = SMOOTH[name]
    check_gradients(slope(ours), arrays, rtol=1e-5, atol=1e-6)


SYMBOLIC = [
    "add broadcasts",
    "matmul",
    "einsum of a batch",
    "reshape",
    "reshape by shape",
    "concat",
    "tile",
    "repeat",
    "pad",
    "reverse",
    "roll",
    "getitem",
    "getitem from the end",
    "gather",
    "reduce_mean keeps",
    "reduce_std",
    "reduce_logsumexp",
    "sort",
    "softmax",
    "softmax down an axis",
    "moments",
    "unsorted_segment_sum",
    "bias_add",
]


@pytest.mark.parametrize("name", SYMBOLIC)
def test_equals_numpy_with_a_symbolic_size(name: str) -> None:
    ours, theirs, arrays = SMOOTH[name]
    (result,) = traced_results(ours, arrays, symbolic=True)
    np.testing.assert_allclose(result, theirs(*arrays), rtol=1e-12, atol=1e-14)


# -- values that need no derivative

EXACT: dict[str, tuple[Callable[[], Any], Any]] = {
    "floordiv": (lambda: tapec.constant(-7) // 2, -4),
    "truncatediv": (lambda: tapec.truncatediv([-7, 7], 2), [-3, 3]),
    "divide_no_nan": (lambda: tapec.math.divide_no_nan([1.0, 4.0], [0.0, 2.0]), [0.0, 2.0]),
    "round to even": (lambda: tapec.round([0.5, 1.5, 2.5]), [0.0, 2.0, 2.0]),
    "range": (lambda: tapec.range(3, 0, -1), [3, 2, 1]),
    "range of floats": (lambda: tapec.range(0.0, 1.0, 0.25), [0.0, 0.25, 0.5, 0.75]),
    "eye": (lambda: tapec.eye(2, 3), np.eye(2, 3)),
    "eye of a batch": (lambda: tapec.eye(2, batch_shape=[2]), np.stack([np.eye(2)] * 2)),
    "fill": (lambda: tapec.fill([2], 3), [3, 3]),
    "one_hot outside": (lambda: tapec.one_hot([1, 5, -1], 2), [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
    "one_hot values": (lambda: tapec.one_hot([1], 2, 5, 2, axis=0), [[2], [5]]),
    "sequence_mask": (lambda: tapec.sequence_mask([1, 2], 2), [[True, False], [True, True]]),
    "where": (lambda: tapec.where([True, False, True]), [[0], [2]]),
    "boolean mask": (lambda: tapec.range(3)[tapec.constant([True, False, True])], [0, 2]),
    "boolean_mask of an axis": (
        lambda: tapec.boolean_mask([[1, 2], [3, 4]], [False, True], axis=1),
        [[2], [4]],
    ),
    "index tensor": (lambda: tapec.constant([10, 20, 30])[tapec.constant(-1)], 30),
    "slice past the end": (lambda: tapec.constant([10, 20, 30])[1:9], [20, 30]),
    "repeat each": (lambda: tapec.repeat([1, 2], [0, 3]), [2, 2, 2]),
    "meshgrid": (lambda: tapec.meshgrid([1, 2], [3, 4, 5])[1], [[3, 3], [4, 4], [5, 5]]),
    "argmax": (lambda: tapec.argmax([[3.0, 3.0], [1.0, 4.0]], axis=1), [0, 1]),
    "argsort": (lambda: tapec.argsort([3, 1, 2, 1]), [1, 3, 2, 0]),
    "argsort down": (lambda: tapec.argsort([3, 1, 2, 1], direction="DESCENDING"), [0, 2, 1, 3]),
    "argsort of NaN": (lambda: tapec.argsort([float("nan"), 1.0]), [1, 0]),
    "top_k": (lambda: tapec.math.top_k([3.0, 1.0, 2.0], 2).indices, [0, 2]),
    "searchsorted": (lambda: tapec.searchsorted([1, 3, 3, 5], [3, 6], "right"), [3, 4]),
    "count_nonzero": (lambda: tapec.math.count_nonzero([[1, 0], [2, 3]], axis=0), [2, 1]),
    "count_nonzero of bools": (lambda: tapec.math.count_nonzero([True, False, True]), 2),
    "count_nonzero of strings": (
        lambda: tapec.math.count_nonzero([["", "a"], ["b", " "]], 1),
        [1, 2],
    ),
    "mean of integers": (lambda: tapec.reduce_mean([1, 2]), 1),
    "cumsum exclusive reverse": (
        lambda: tapec.cumsum([1, 2, 3], exclusive=True, reverse=True),
        [5, 3, 0],
    ),
    "confusion_matrix": (
        lambda: tapec.math.confusion_matrix([0, 1, 1], [1, 1, 1]),
        [[0, 1], [0, 2]],
    ),
    "segment_max": (lambda: tapec.math.segment_max([1, 5, 2], [0, 0, 2]), [5, 0, 2]),
    "unsorted_segment_prod": (lambda: tapec.math.unsorted_segment_prod([2, 5], [1, 1], 2), [1, 10]),
    "saturate_cast": (lambda: tapec.saturate_cast([-1, 300], tapec.uint8), [0, 255]),
    "complex abs": (lambda: tapec.abs(tapec.complex(3.0, 4.0)), 5.0),
    "is_inf": (lambda: tapec.math.is_inf([1.0, float("inf"), float("nan")]), [False, True, False]),
    "erfinv": (lambda: tapec.math.erf(tapec.math.erfinv([-0.9, 0.0, 0.5])), [-0.9, 0.0, 0.5]),
    "crelu": (lambda: nn.crelu([1.0, -2.0]), [1.0, 0.0, 0.0, 2.0]),
    "embedding_lookup": (
        lambda: nn.embedding_lookup(tapec.constant([[3.0, 4.0], [0.0, 1.0]]), [0], 1.0),
        [[0.6, 0.8]],
    ),
    "embedding_lookup in parts": (
        lambda: nn.embedding_lookup([[[1.0], [2.0]], [[3.0]]], [2, 0]),
        [[3.0], [1.0]],
    ),
    "trace": (lambda: tapec.linalg.trace([[1, 2], [3, 4]]), 5),
    "reduce_all": (lambda: tapec.reduce_all([[True, False], [True, True]], 1), [False, True]),
    "add_n": (lambda: tapec.add_n([[1.0], [2.0], [3.0]]), [6.0]),
    "reshape of nothing": (lambda: tapec.reshape(tapec.zeros([0, 3]), [3, 0]), np.zeros((3, 0))),
}


@pytest.mark.parametrize("name", EXACT)
def test_value(name: str) -> None:
    result, expected = EXACT[name][0]().numpy(), np.asarray(EXACT[name][1])
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_sorting_in_a_program_equals_sorting_eagerly() -> None:
    x = np.array([[3.0, np.nan, 1.0, 3.0], [0.0, -1.0, np.inf, 2.0]])
    (order,) = traced_results(tapec.argsort, [x])
    assert order.tolist() == tapec.argsort(x).numpy().tolist()


def test_three_derivatives_of_erfinv() -> None:
    def third(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = tapec.math.erfinv(x)
            first = inner.gradient(y, x)
        second: tapec.Tensor = outer.gradient(first, x)
        return second

    check_gradients(third, [np.array([-0.7, 0.2, 0.9])], delta=1e-5, rtol=1e-5)


def test_half_precision_means_of_many() -> None:
    assert tapec.reduce_mean(tapec.ones([70000], tapec.float16)).numpy() == 1.0


def test_label_out_of_range() -> None:
    with pytest.raises(InvalidArgumentError, match=r"label value of 5 .* \[0, 2\)"):
        nn.sparse_softmax_cross_entropy_with_logits([5], [[1.0, 2.0]])
    (loss,) = traced_results(
        lambda y: nn.sparse_softmax_cross_entropy_with_logits(y, tapec.ones([2, 3])),
        [np.array([3, 0], np.int32)],
    )
    assert np.isnan(loss[0])
    assert loss[1] == pytest.approx(np.log(3))


def test_labels_of_another_batch() -> None:
    logits = tapec.ones([2, 3])
    for call in (lambda y: y, tapec.compile):  # eagerly and compiled
        for labels in ([0], [0, 1, 2], 0):
            with pytest.raises(ValueError, match=r"must equal `logits\.shape` except"):
                call(lambda y: nn.sparse_softmax_cross_entropy_with_logits(y, logits))(labels)


def test_no_overflow() -> None:
    huge = tapec.constant([1000.0, -1000.0])
    assert np.isfinite(nn.log_softmax(huge).numpy()).all()
    assert tapec.math.softplus(huge).numpy().tolist() == [1000.0, 0.0]
    losses = nn.sigmoid_cross_entropy_with_logits([1.0, 1.0], huge)
    assert losses.numpy().tolist() == [0.0, 1000.0]


# -- dtypes and errors

MISTAKES: dict[str, tuple[Callable[[tapec.Tensor], Any], str]] = {
    "shapes": (lambda x: x + tapec.ones([3]), r"Incompatible shapes: \[2,2\] vs. \[3\]"),
    "axis": (lambda x: tapec.reduce_sum(x, 5), r"reduction dimension \(5"),
    "axis twice": (lambda x: tapec.reduce_sum(x, [0, -2]), "duplicate"),
    "reshape": (lambda x: tapec.reshape(x, [3, -1]), "multiple of 3"),
    "matmul": (lambda x: x @ tapec.ones([3, 2]), "Matrix size-incompatible"),
    "matmul of a vector": (lambda x: x @ x[0], "ndims must be >= 2"),
    "index": (lambda x: x[2], "index 2 of dimension 0 out of bounds"),
    "too many indices": (lambda x: x[0, 0, 0], "only 2 dims"),
    "list": (lambda x: x[[0, 1]], "tapec.gather"),
    "squeeze": (lambda x: tapec.squeeze(x, 0), r"Can not squeeze dim\[0\]"),
    "transpose": (lambda x: tapec.transpose(x, [0, 0]), "no permutation"),
    "stack": (lambda x: tapec.stack([x, x[0]]), "Shapes of all inputs must match"),
    "concat": (lambda x: tapec.concat([x, tapec.ones([2, 3])], 0), "must agree"),
    "broadcast_to": (lambda x: tapec.broadcast_to(x, [2, 3]), "Incompatible shapes"),
    "split": (lambda x: tapec.split(x, 3), "does not divide"),
    "histogram": (lambda x: tapec.histogram_fixed_width([1.0], x), "vector of 2 elements"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    """TensorFlow's classes: InvalidArgumentError eagerly, ValueError in a function."""
    mistake, message = MISTAKES[name]
    with pytest.raises(InvalidArgumentError, match=message):
        mistake(tapec.ones([2, 2]))
    with pytest.raises(errors.ValueError, match=message):
        traced_results(mistake, [np.ones((2, 2), np.float32)])


def test_numbers_take_the_dtype_of_the_tensor() -> None:
    half, integer = tapec.ones([2], tapec.float16), tapec.constant([1, 2])
    assert (1 - half * 2.5).dtype == tapec.float16
    assert (integer + np.array([1, 2])).dtype == tapec.int32
    assert (np.array([1.0, 2.0]) * half).dtype == tapec.float16
    assert (integer / 2).dtype == tapec.float64


@pytest.mark.parametrize("other", [1.5, tapec.constant(1.0), np.array([1.5])], ids=str)
def test_dtypes_do_not_mix(other: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="dtypes differ"):
        tapec.constant([1]) + other
    with pytest.raises(errors.TypeError, match="dtypes differ"):
        traced_results(lambda x: x + other, [np.array([1], np.int32)])


def test_equality_of_shapes_that_do_not_fit() -> None:
    assert not (tapec.ones([2]) == tapec.ones([3])).numpy()
    assert (tapec.ones([2]) == None) is False  # noqa: E711 (the operator is what is tested)
    assert (tapec.ones([2]) != tapec.ones([3])).numpy()


def test_integer_division_by_zero() -> None:
    with pytest.raises(InvalidArgumentError, match="Integer division by zero"):
        tapec.constant(1) // 0
    with pytest.raises(InvalidArgumentError, match="negative integer powers"):
        tapec.constant(2) ** tapec.constant(-1)


REFUSED_VALUES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "power": (lambda x: tapec.constant([2, 3]) ** x, [2, -1]),
    "permutation": (tapec.math.invert_permutation, [0, 0, 2]),
    "random": (lambda x: tapec.random.uniform([2], 5, x[1], tapec.int32), [6, 5]),
    "histogram": (lambda x: tapec.histogram_fixed_width([1.0], tapec.cast(x, "float32")), [5, 5]),
}


@pytest.mark.parametrize("name", REFUSED_VALUES)
def test_values_that_are_refused_are_refused_in_native_loops_too(name: str) -> None:
    """Where only the run knows them; what is a literal is looked at once."""
    function, wrong = REFUSED_VALUES[name]

    def run(x: Any, n: Any) -> Any:
        for _ in tapec.range(n):
            function(x)
        return x

    compiled = tapec.compile(run)
    for f in (run, compiled):
        with pytest.raises(InvalidArgumentError) as caught:
            f(tapec.constant(wrong), tapec.constant(1))
        assert caught.value.location is not None
        assert caught.value.location.file == __file__
    assert compiled(tapec.constant(wrong), tapec.constant(0)).numpy().tolist() == wrong


def test_a_literal_that_is_no_zero_needs_no_check() -> None:
    @tapec.compile(dims={"x": ("N",)})
    def run(x: Any) -> Any:
        return x // 2 + x**3

    assert run(tapec.constant([4, 5])).numpy().tolist() == [66, 127]
    assert run.programs[0].executable.checks == 0


def test_gather_checks_its_indices() -> None:
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 5 is not in \[0, 2\)"):
        tapec.gather([1.0, 2.0], [0, 5])


def test_what_depends_on_values_is_refused_in_a_function() -> None:
    for refused in (tapec.where, lambda x: tapec.boolean_mask(x, x > 0)):
        with pytest.raises(errors.NotImplementedError, match="depends on values"):
            traced_results(refused, [np.ones(2, np.float32)])
    with pytest.raises(errors.TypeError, match="must be known"):
        traced_results(lambda n: tapec.zeros([n]), [np.array(3, np.int32)])


def test_shapes_are_known_in_a_function() -> None:
    def table(x: tapec.Tensor) -> tapec.Tensor:
        rows = tapec.shape(x)[0]
        return tapec.zeros([rows // 2 + 1, tapec.size(x)])

    (result,) = traced_results(table, [np.ones((4, 3))])
    assert result.shape == (3, 12)


# -- the package


def test_every_public_name_exists() -> None:
    for name in dir(tapec):
        assert getattr(tapec, name) is not None or name == "newaxis"


def test_absent_names_say_what_to_do() -> None:
    with pytest.raises(AttributeError, match="iterate over NumPy arrays"):
        _ = tapec.data
    with pytest.raises(AttributeError, match=r"did you mean tapec\.nn\.relu"):
        _ = tapec.relu
    assert not hasattr(tapec, "no_such_name")


def test_a_tensor_shares_no_memory_that_somebody_may_write_to() -> None:
    array = np.arange(3, dtype=np.float32)
    frozen = array.view()
    frozen.flags.writeable = False
    buffer = bytearray(array.tobytes())
    tensors = [
        tapec.constant(v)
        for v in (array, frozen, np.broadcast_to(array, (1, 3)), memoryview(buffer).cast("f"))
    ]
    array[:] = 7
    buffer[:] = array.tobytes()
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.numpy().reshape(-1), [0, 1, 2])


def test_arrays_of_dtypes_that_tapec_has_not() -> None:
    with pytest.raises(tapec.errors.TypeError, match="is not a dtype of tapec"):
        tapec.constant(np.zeros(2, "m8[s]"))


@pytest.mark.parametrize("divided", [tapec.math.floordiv, tapec.math.floormod, tapec.truncatediv])
def test_compiled_integers_are_not_divided_by_zero(divided: Callable[..., Any]) -> None:
    """As eagerly, with the line; also in a loop, where the division may be in a branch that is not taken."""
    x, zero = tapec.constant([5, 3]), tapec.constant([2, 0])
    f = tapec.compile(lambda x, y: divided(x, y))
    np.testing.assert_array_equal(f(x, x), divided(x, x))
    with pytest.raises(InvalidArgumentError, match=r"Integer division by zero \[Floor"):
        f(x, zero)

    def summed(x: Any, n: Any) -> Any:
        for i in tapec.range(3):
            x = x + divided(i, n) if n > 0 else x - 1
        return x

    g = tapec.compile(summed)
    assert [int(g(x[0], n)) for n in x - 3] == [int(summed(x[0], n)) for n in x - 3]


def test_a_divisor_that_cannot_be_zero_is_not_looked_at() -> None:
    f = tapec.compile(lambda x: tapec.reduce_sum(x) // tapec.shape(x)[0] // 2, dims={"x": ("N",)})
    assert int(f(np.arange(5, dtype=np.int32))) == 1
    assert "assert" not in {op.name for op in f.ir().entry.walk()}
