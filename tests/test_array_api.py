"""The array API standard 2024.12: every name with its signature, its promotions, the array object, clients of it.

``python tests/test_array_api.py PATH`` runs the consortium's own suite (github.com/data-apis/array-api-tests, with the
repository array-api beside its tests) on tapec; what is given behind the path goes to pytest.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec
import tapec.numpy as xp

#: The standard's functions, one signature in a line; of its extensions with their prefix.
SIGNATURES = (Path(__file__).parent / "array_api.txt").read_text("utf-8").splitlines()
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def signature(text: str) -> tuple[str, inspect.Signature]:
    name, _, parameters = text.partition("(")
    space: dict[str, Any] = {}
    exec(f"def f({parameters}: pass", space)
    return name, inspect.signature(space["f"])


@pytest.mark.parametrize("text", SIGNATURES)
def test_signature(text: str) -> None:
    """Ours may take more by keyword, and by position what the standard has by keyword, as NumPy's functions do."""
    name, wanted = signature(text)
    ours = inspect.signature(reduce(getattr, name.split("."), xp))  # type: ignore[arg-type]
    for place, (key, parameter) in enumerate(wanted.parameters.items()):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            own = ours.parameters[key]
            assert own.kind in NAMED
        else:
            own = list(ours.parameters.values())[place]
            assert own.kind is parameter.kind or (own.kind in POSITIONAL and name == "isdtype")
            if own.kind is not inspect.Parameter.POSITIONAL_ONLY:
                assert own.name == key
        assert own.default == parameter.default or name in ("where", "linspace", "squeeze")
    for key, own in ours.parameters.items():
        variadic = own.kind is inspect.Parameter.VAR_POSITIONAL
        assert key in wanted.parameters or own.default is not own.empty or variadic or place >= 0


def test_every_name_has_a_docstring() -> None:
    for space in (xp, xp.linalg, xp.fft):
        for name in dir(space):
            found = getattr(space, name)
            if callable(found) and not isinstance(found, type):
                assert found.__doc__, name


ATTRIBUTES = """T device dtype mT ndim shape size __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__
    __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__
    __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __sub__
    __truediv__ __xor__ to_device""".split()


def test_the_array_object() -> None:
    x = tapec.constant([[1.0, 2.0, 3.0]])
    assert [name for name in ATTRIBUTES if not hasattr(x, name)] == []
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    assert x.to_device(x.device) is x
    assert (x.size, x.ndim, tuple(x.shape)) == (3, 2, (1, 3))
    assert x.T.shape == x.mT.shape == (3, 1)
    assert tapec.Variable([[1.0, 2.0]]).T.shape == (2, 1)
    with pytest.raises(tapec.errors.ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="2030.12")
    with pytest.raises(tapec.errors.ValueError, match="CPU"):
        x.to_device("gpu")
    with pytest.raises(tapec.errors.ValueError, match="mT"):
        tapec.ones([2, 2, 2]).T.shape  # noqa: B018


def test_the_namespace_tells_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {
        "real floating": xp.asarray(1.0).dtype,
        "complex floating": xp.asarray(1j).dtype,
        "integral": xp.asarray(1).dtype,
        "indexing": xp.argmax(xp.ones(2)).dtype,
    }
    assert info.devices() == [info.default_device()] == [xp.ones(1).device]
    assert set(info.dtypes(kind="integral")) == {
        f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)
    }
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert len(info.dtypes()) == 13
    assert xp.finfo(xp.complex64).dtype == xp.float32
    assert xp.finfo(xp.bfloat16).eps == 2**-7
    assert xp.iinfo(xp.uint8).max == 255


# -- promotion

INTEGERS = [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)]
FLOATS = ["float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize(("a", "b"), [*product(INTEGERS, INTEGERS), *product(FLOATS, FLOATS)])
def test_the_tables_of_promotion(a: str, b: str) -> None:
    """Those of the standard are NumPy's, but for uint64 with signed integers, which it leaves open."""
    wanted = np.result_type(a, b).name
    if {a, b} & set(INTEGERS) and wanted == "float64":
        wanted = "float32"
    assert xp.result_type(a, b).name == wanted
    both = xp.multiply(tapec.ones([2], a), tapec.ones([2], b))
    assert both.dtype.name == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (("int8", 1), "int8"),
        (("int8", 1.5), "float32"),
        (("bool", 1), "int32"),
        (("bfloat16", 1.5), "bfloat16"),
        (("bfloat16", "float16"), "float32"),
        (("int64", "float16"), "float16"),
        (("float64", 1j), "complex128"),
        (("float32", 1j), "complex64"),
        (("bool", "uint8"), "uint8"),
        ((1, 2.0), "float32"),
        ((True, 2), "int32"),
    ],
)
def test_numbers_of_python_are_weak(values: Any, wanted: str) -> None:
    assert xp.result_type(*values).name == wanted
    tensors = [xp.ones(1, dtype=v) if isinstance(v, str) else v for v in values]
    assert xp.add(*tensors).dtype.name == wanted


def test_casts_that_keep_values() -> None:
    assert xp.can_cast("int8", "int16")
    assert not xp.can_cast("int16", "int8")
    assert xp.can_cast(xp.ones(1), "complex64")
    assert not xp.can_cast("int32", "float32")
    assert xp.isdtype(xp.int8, ("bool", "signed integer"))
    assert not xp.isdtype(xp.bfloat16, "integral")
    with pytest.raises(tapec.errors.ValueError, match="unknown kind"):
        xp.isdtype(xp.int8, "whole")


def test_what_becomes_a_tensor() -> None:
    assert xp.asarray([1, 2.5]).dtype == "float32"
    assert xp.asarray([[xp.ones((), dtype="float64"), 1.0]]).dtype == "float64"
    assert xp.asarray(2.5, dtype="int8").numpy() == 2
    assert xp.asarray(np.arange(3, dtype=np.int16)).dtype == "int16"
    x = xp.asarray([1.0])
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True) is not x
    with pytest.raises(tapec.errors.ValueError, match="copy"):
        xp.asarray([1.0], copy=False)
    assert xp.from_dlpack(np.arange(3.0)).numpy().tolist() == [0, 1, 2]
    assert xp.full((2,), 3).dtype == "int32"
    with pytest.raises(tapec.errors.ValueError, match="CPU"):
        xp.zeros(2, device="cuda:0")


# -- in a process of its own: NumPy's behaviour is for good, and clients of the standard need it

BEHAVIOR = """
import numpy as np, tapec, tapec.numpy as xp
xp.experimental_enable_numpy_behavior()
a, b = tapec.constant([1, 2]), tapec.constant([0.5, 0.5])
assert (a + b).dtype == tapec.float32 and (1 - a).dtype == tapec.int32 and (a == b).dtype == tapec.bool
n = np.arange(24.0).reshape(2, 3, 4)
x = tapec.constant(n)
i, j, m = np.array([[0, 2], [1, -1]]), np.array([1, 0]), n[:, :, 0] > 3
for key in [i[:, 0] % 2, (0, i), (slice(None), i), (slice(None), i, j), (j, slice(None), j), m, (m, 1), n > 5,
            (Ellipsis, i), (None, [0, 1]), ([0, 1], slice(1, None), 0), (1, 2, 3), np.array(True), (m[:, 0],)]:
    np.testing.assert_array_equal(x[key].numpy(), n[key], str(key))
with tapec.GradientTape() as tape:
    tape.watch(x)
    y = (x[:, i] ** 2).sum()
np.testing.assert_array_equal(tape.gradient(y, x).numpy()[0, :, 1], 2 * n[0, :, 1] * [1, 1, 2])
assert x.reshape(6, 4).T.shape == (4, 6) and x.mean(axis=0).shape == (3, 4) and x.astype("int8").dtype == "int8"
z = xp.zeros((2, 2))
same = z
z[0] = 1.5
z[z == 0] = xp.asarray([3, 4])
z[1][0] = 9
assert same.numpy().tolist() == [[1.5, 1.5], [9, 4]]
for wrong in (lambda: x.__setitem__(0, 1), lambda: tapec.compile(lambda v: v.__setitem__(0, 1))(z)):
    try:
        wrong()
    except tapec.errors.TypeError as error:
        assert "cannot be assigned to" in str(error)
    else:
        raise AssertionError("a tensor was assigned to that a tape or a program knows")
f = tapec.compile(lambda v, w: (v[w] * v.sum(axis=0), v + w[0]))
np.testing.assert_allclose(f(b, tapec.constant([1, 0]))[0].numpy(), [0.5, 0.5])
"""

SKLEARN = """
import warnings
warnings.simplefilter("ignore")
import numpy as np, tapec, tapec.numpy as xp
from sklearn import metrics, set_config
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
X, y = load_iris(return_X_y=True)
models = [
    *[(scaler, "transform") for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer)],
    (lambda: PolynomialFeatures(2), "transform"),
    *[(lambda s=s: PCA(2, svd_solver=s, random_state=0), "transform")
      for s in ("full", "covariance_eigh", "randomized")],
    (lambda: Ridge(solver="svd"), "predict"),
    (lambda: LogisticRegression(max_iter=500), "predict_proba"),
    (LinearDiscriminantAnalysis, "predict"),
    *[(lambda c=c: GaussianMixture(3, covariance_type=c, random_state=0, init_params="random_from_data"),
       "predict_proba") for c in ("full", "tied", "diag", "spherical")],
]
def results(X, y):
    yield from (getattr(make().fit(X, y), method)(X) for make, method in models)
    yield metrics.r2_score(X[:, 0], X[:, 1])
    yield metrics.accuracy_score(y, y)
    yield metrics.pairwise.rbf_kernel(X[:20])
wanted = list(results(X, y))
set_config(array_api_dispatch=True)
xp.experimental_enable_numpy_behavior()
for n, (found, right) in enumerate(zip(results(tapec.constant(X), tapec.constant(y)), wanted, strict=True)):
    assert isinstance(found, (tapec.Tensor, float)), (n, type(found))
    np.testing.assert_allclose(np.asarray(found), right, rtol=1e-3, atol=1e-3, err_msg=str(n))
"""


@pytest.mark.parametrize("script", [BEHAVIOR, SKLEARN], ids=["behavior", "sklearn"])
def test_in_a_process_of_its_own(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


STANDIN = """
import os
from array_api_tests.chosen import xp

def test_runs_on_what_was_chosen(pytestconfig):
    assert xp.__name__ == "tapec.numpy"
    assert os.environ["ARRAY_API_TESTS_VERSION"] == xp.__array_api_version__
    assert pytestconfig.getoption("max_examples") == 3
    assert (xp.asarray([1.0, 2.0]) * xp.asarray([1, 2])).dtype == xp.float32

def test_that_fails():
    assert False
"""
#: How the consortium's suite finds what it tests.
CHOICE = """
import os

found = {}
exec(os.environ["ARRAY_API_TESTS_MODULE"][len("exec('"):-len("')")], found)
xp = found["xp"]
"""


def test_the_command_for_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder laid out as the consortium's; the command's status, and what was given behind the path."""
    # None of the plugins is needed, and some are slow.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = tmp_path / "array_api_tests"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "chosen.py").write_text(CHOICE, "utf-8")
    (folder / "test_it.py").write_text(STANDIN, "utf-8")
    option = "def pytest_addoption(parser): parser.addoption('--max-examples', type=int)"
    (tmp_path / "conftest.py").write_text(option, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-k"]
    command = [sys.executable, __file__, str(tmp_path), *options, "chosen"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_suite(str(tmp_path), *options, "fails") == 1


def run_suite(path: str, *options: str) -> int:
    """Run the consortium's suite on tapec; the status of pytest."""
    module = "exec('import tapec.numpy as xp; xp.experimental_enable_numpy_behavior()')"
    environment = {"ARRAY_API_TESTS_MODULE": module, "ARRAY_API_TESTS_VERSION": "2024.12"}
    command = [sys.executable, "-m", "pytest", "array_api_tests", "--max-examples", "3", *options]
    return subprocess.run(
        command, cwd=path, env={**os.environ, **environment}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(run_suite(*sys.argv[1:]))
