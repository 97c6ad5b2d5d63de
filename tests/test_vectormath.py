"""Our mathematical functions: errors in units in the last place, and values where formulas break down."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from tapec.ir.op import OPS
from tapec.ir.parser import parse_module
from tapec.runtime import Executable, compile_module
from tapec.runtime.cpu.mathematics.vectormath import (
    BOUNDS,
    EXPANSIONS,
    LEFT_BOUNDS,
    MathLibrary,
    expand,
)

Array = Any
COUNT = 40_000
FLOATS: list[type[Any]] = [np.float32, np.float64]
#: Wide enough to judge float64 by: 64 bits of mantissa on x86-64, 113 on aarch64.
WIDE = np.longdouble
INF, NAN = math.inf, math.nan


@functools.cache
def program(dtype: type[Any], lanes: int, count: int) -> Executable:
    """Every function of one or two operands, each as a loop over arrays of ``count``."""
    code = "f32" if dtype is np.float32 else "f64"
    suffix, attrs = (f"x{lanes}", f" {{lanes = {lanes}}}") if lanes else ("", "")
    launches, kernels = "", ""
    for name in BOUNDS:
        operands = "%a, %b" if name in TWO else "%a"
        launches += f'  launch %x, %y, %{name} {{kernel = "{name}"}}\n'
        kernels += f"""
kernel @{name}(%x: &{code}[{count}], %y: &{code}[{count}], %r: &{code}[{count}]) {{
  %low = constant {{value = 0}} : index
  %high = constant {{value = {count}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
    %a = load %x, %i{attrs} : {code}{suffix}
    %b = load %y, %i{attrs} : {code}{suffix}
    %v = {name} {operands} : {code}{suffix}
    store %v, %r, %i
    yield
  }}
  return
}}
"""
    results = ", ".join(f"%{name}: &{code}[{count}]" for name in BOUNDS)
    head = f"func @f(%x: &{code}[{count}], %y: &{code}[{count}], {results}) {{\n"
    module = parse_module(f"{head}{launches}  return\n}}\n{kernels}")
    module.entry.attrs["inputs"] = 2
    return compile_module(module)


def run(name: str, x: Array, y: Array | None = None, lanes: int = 16) -> Array:
    """One of our functions."""
    other = x if y is None else y
    results = program(x.dtype.type, lanes, len(x))(x, other)
    return results[list(BOUNDS).index(name)]


def ulps(got: Array, want: Array, dtype: type[Any], *, from_one: bool = False) -> Array:
    """Errors in units in the last place of the exact value (of 1 at least, if ``from_one``)."""
    info = np.finfo(dtype)
    _, exponent = np.frexp(np.abs(want))
    exponent = np.maximum(exponent - 1, 0 if from_one else info.minexp)
    unit = np.ldexp(WIDE(1), exponent - info.nmant)
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        error = np.abs(got.astype(WIDE) - want) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(error), INF, error))


TWO = {"atan2", "pow"}
#: Where arguments are drawn from, and the reference in a wider float.
CASES: dict[str, tuple[float, float, Callable[..., Array]]] = {
    "exp": (-104, 89, np.exp),
    "expm1": (-104, 89, np.expm1),
    "log": (0, 1e4, np.log),
    "log1p": (-1, 1e4, np.log1p),
    "tanh": (-20, 20, np.tanh),
    "sigmoid": (-100, 100, lambda x: 1 / (1 + np.exp(-x))),
    "sinh": (-90, 90, np.sinh),
    "cosh": (-90, 90, np.cosh),
    "asinh": (-1e3, 1e3, np.arcsinh),
    "acosh": (1, 1e3, np.arccosh),
    "atanh": (-1, 1, np.arctanh),
    "rsqrt": (0, 1e5, lambda x: 1 / np.sqrt(x)),
    "sin": (-1e5, 1e5, np.sin),
    "cos": (-1e5, 1e5, np.cos),
    "tan": (-1e5, 1e5, np.tan),
    "asin": (-1, 1, np.arcsin),
    "acos": (-1, 1, np.arccos),
    "atan": (-100, 100, np.arctan),
    "atan2": (-50, 50, np.arctan2),
    "pow": (0, 50, np.power),
}


def arguments(low: float, high: float, dtype: type[Any], seed: int) -> Array:
    """Half evenly spread over an interval, half over its orders of magnitude."""
    rng = np.random.default_rng(seed)
    even = rng.uniform(low, high, COUNT // 2)
    most = max(abs(low), abs(high))
    least = 1e-30 if dtype is np.float32 else 1e-280
    size = np.exp(rng.uniform(math.log(least), math.log(most), COUNT // 2))
    signed = size * rng.choice([-1, 1], COUNT // 2)
    scaled = np.where((signed >= low) & (signed <= high), signed, size)
    return np.concatenate([even, np.clip(scaled, low, high)]).astype(dtype)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_error(name: str, dtype: type[Any]) -> None:
    low, high, reference = CASES[name]
    if dtype is np.float64 and name in ("exp", "expm1", "sinh", "cosh", "sigmoid"):
        low, high = 7.1 * low, 7.9 * high
    operands = [arguments(low, high, dtype, 1)]
    if name in TWO:
        operands.append(arguments(-50, 50, dtype, 2))
    got = run(name, *operands)
    with np.errstate(all="ignore"):
        want = reference(*(x.astype(WIDE) for x in operands))
    hold(name, got, want, operands)


#: Where errors are largest: each float32 of an interval was tried, and a million float64 around what that found.
WORST: dict[str, list[float]] = {
    "exp": [5.1997986, -4.488686204641482],
    "expm1": [0.3890592, 0.35779615065847326],
    "log": [0.7046762, 0.7026951541394449],
    "log1p": [0.40627518, 0.4012735026727425],
    "tanh": [0.50102878, 0.49723676, 0.5124506090929699, 0.519719669960734],
    "sigmoid": [-1.0993261, -1.1488141464103228],
    "sinh": [0.12427336, 0.030779852613052494],
    "cosh": [5.200064, 3.8500638654437926],
    "asinh": [0.5181351, 0.5175821078185896],
    "acosh": [1.0077292, 1.0253991, 1.0004769578945434],
    "atanh": [0.12414077, 0.12433311818065146],
    "rsqrt": [1.0061859, 1.0018705887474382],
    "sin": [3.9033318, 2.3018433162282794],
    "tan": [3.9209394, 3.9227548598928603],
    "asin": [0.52544624],
    "acos": [0.57830125],
    "atan": [0.42690197, 0.41759836019011104],
}


@pytest.mark.parametrize("name", WORST)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_error_where_it_is_largest(name: str, dtype: type[Any]) -> None:
    _, _, reference = CASES[name]
    x = np.resize(np.array(WORST[name], dtype), 32)
    hold(name, run(name, x), reference(x.astype(WIDE)), [x])


def hold(name: str, got: Array, want: Array, operands: list[Array]) -> None:
    """The bound of a function."""
    dtype = got.dtype.type
    error = ulps(got, want, dtype, from_one=name in ("lgamma", "digamma"))
    right, left = (
        bounds[name][dtype is np.float64] for bounds in (BOUNDS, {**BOUNDS, **LEFT_BOUNDS})
    )
    bound = np.where(operands[0] < 0, left, right)
    worst = int((error / bound).argmax())
    at = [x[worst] for x in operands]
    assert error[worst] <= bound[worst], (
        f"{name}{at} is {got[worst]}, not {want[worst]}: {error[worst]}"
    )


#: What training programs call most: these are held to two units in the last place.
COMMON = "exp expm1 log log1p tanh sigmoid erf sin cos pow rsqrt".split()


@pytest.mark.parametrize("name", COMMON)
def test_common_functions_are_within_two_units(name: str) -> None:
    assert max(BOUNDS[name]) <= 2


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_sigmoid_where_the_power_meets_one(dtype: type[Any]) -> None:
    """From about 1 + e^11 to beyond 1 + e^37 the smaller of both loses its last bits."""
    _, _, reference = CASES["sigmoid"]
    for low, high in ((-3, 3), (-12, -10), (-20, -14), (-40, -34)):
        x = np.linspace(low, high, COUNT).astype(dtype)
        hold("sigmoid", run("sigmoid", x), reference(x.astype(WIDE)), [x])


SPECIAL = {
    "erf": (-6, 6, special.erf),
    "erfc": (-6, 10.5, special.erfc),
    "lgamma": (-8, 60, special.gammaln),
    "digamma": (-8, 60, special.digamma),
}
#: Arguments of theirs whose errors are large.
WORST_SPECIAL = {
    "lgamma": [-7.9999604, -8.9999886, -5.9959803, 11.345914],
    "digamma": [0.4997781, 0.49851927, 0.9596675, -3.745474, -54.809937, -15192.913],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_error_of_special_functions_in_single_precision(name: str) -> None:
    low, high, reference = SPECIAL[name]
    x = arguments(low, high, np.float32, 3)
    known = WORST_SPECIAL.get(name, [])
    x[: len(known)] = known
    hold(name, run(name, x), reference(x.astype(np.float64)).astype(WIDE), [x])


#: Argument, value, and what is left of the value, by mpmath with 60 digits.
EXACT: dict[str, tuple[tuple[float, float, float], ...]] = {
    "erf": (
        (1.4162885384246071, 0.9548156762140577, 5.224514188237804e-17),
        (0.6189962053842948, 0.6186397995886248, -1.5059388237175686e-17),
        (2.3763494556640863, 0.9992224510522433, -4.079286740290499e-17),
        (0.9298336248144616, 0.8114844926314834, 2.1277201153853426e-17),
        (0.39909057407753945, 0.42751758652882366, -7.17769583859276e-18),
        (2.4095460869104492, 0.9993446617371274, 3.291160610692193e-17),
        (5.507730258526314, 0.9999999999999932, 2.390729767887956e-17),
        (4.802714108974851, 0.999999999988946, -4.584553639424239e-17),
        (2.295487807516315, 0.9988308853822351, 1.9092113560063012e-17),
        (0.6657845270709529, 0.6535828153052181, 5.336811779955389e-17),
        (1.6100400245244406, 0.9772102173752069, -4.1607815760551694e-17),
        (0.8300479303243506, 0.7595509127427623, -6.297208733703838e-18),
        (0.5179935878561067, 0.5361692339251113, -1.1272212027493341e-17),
        (0.3185498772945904, 0.3476482845048141, -2.3539083497665128e-17),
        (0.9428800865157834, 0.8176105154137311, -3.587758834850915e-17),
        (2.085495126285612, 0.9968154193488632, -3.3367966264820364e-17),
        (1e-300, 1.1283791670955126e-300, -1.495728e-317),
        (-0.3, -0.3286267594591274, -2.2908254446982777e-17),
    ),
    "erfc": (
        (21.209761365795742, 1.1358159203857624e-197, 4.7407170436754745e-214),
        (20.586265707665056, 2.4310568231024587e-186, -8.45368573042152e-203),
        (20.412539479203055, 3.0391968488971855e-183, -4.392895202643552e-201),
        (3.416197304538721, 1.3569039591361008e-06, -8.483270310955595e-23),
        (6.6757988043869965, 3.692200986586459e-21, 1.1587464363021466e-37),
        (15.555316867567644, 2.973973191798101e-107, -2.2610933395096847e-124),
        (18.493051848604104, 9.0808302481901e-151, 1.6625873790801524e-167),
        (21.930154023757723, 3.499200895671018e-211, -1.4344063016319148e-227),
        (2.640152254083598, 0.00018865790635836575, 3.454432965661405e-21),
        (0.2601547579047655, 0.7129370722894206, 5.477309333997154e-17),
        (1.8175556511596396, 0.010157767355256067, -4.813302794386455e-19),
        (2.01510436954942, 0.004374838819723423, 3.5958400461056055e-19),
        (1.517861327131246, 0.03182672760692972, -2.6449193675141006e-18),
        (0.5333705227223534, 0.45066920619120754, 2.7634098044392705e-17),
        (0.994717577517029, 0.15950358372339185, -9.226555498518757e-18),
        (1.917869241453078, 0.00668227884675923, -1.3948813473087928e-19),
        (1e-300, 1.0, 0.0),
        (27.0, 5.23705e-319, 0.0),
    ),
    "lgamma": (
        (36.991064739395775, 95.68755243390697, 2.5249720663198165e-15),
        (33.81227182851383, 84.3957709884481, 1.1704935654112115e-15),
        (19.19138800100448, 36.95488115237275, 3.522269753690543e-16),
        (7.811304020372935, 8.147208239407872, 6.51070490715333e-16),
        (35.808033313075576, 91.45145782681763, -4.1421522073228775e-15),
        (20.32887287755101, 40.31956616862333, 3.8312205655230834e-16),
        (34.58659303442434, 87.11944248923885, -4.3996156257651875e-15),
        (33.01002805828719, 81.59287147698713, 6.322273780799851e-15),
        (1.5251171259982548, -0.11957301074121733, 1.6179706409288177e-18),
        (1.2418381293951959, -0.0963753885603764, 5.461358006592072e-19),
        (1.7967374165699683, -0.07200975586433808, -6.702385184889479e-18),
        (1.2931290518799212, -0.1069854686603948, -4.249319066087393e-18),
        (0.48396181836482544, 0.604502592794653, 3.002150856983654e-17),
        (0.915334789298217, 0.055023740031382364, 3.3689995349127663e-18),
        (1.0625184637269243, -0.03296594145688093, -1.2535897052772757e-18),
        (1.9086476938144497, -0.035878429443587025, 2.19630159016602e-18),
        (1e-300, 690.7755278982137, 2.3670096176709832e-14),
        (1e300, 6.897755278982137e302, -1.4755313624857933e285),
    ),
    "digamma": (
        (-3.8691880458384187, -5.73254216086478, 1.7267311601958814e-16),
        (22.81213429483556, 3.1052143362196003, 4.256421674750413e-17),
        (6.899927734346061, 1.8572996825398906, -4.581316272321701e-18),
        (18.592602564453422, 2.895630376463732, -1.0586827246423284e-16),
        (15.67704396128968, 2.7199647733540857, 4.035048637257308e-18),
        (9.770790209419179, 2.2273524303475103, -4.847074027922466e-17),
        (39.87482821191717, 3.673153606413824, 1.6465689542574344e-16),
        (2.9963807393325084, 0.9213539554512423, -5.361746168665408e-17),
        (1.2383839692219751, -0.24145205629186273, -1.1088847741086252e-17),
        (0.608011848517189, -1.511802197823229, -9.794912516136224e-17),
        (1.8979949453730571, 0.35480381754190965, -2.58344799582701e-17),
        (0.8289145048790495, -0.9003124778817384, 1.9447947570127374e-17),
        (1.067492263822056, -0.47135838733562463, -1.988464170768467e-17),
        (2.240828042971388, 0.5674218496506619, -3.686641832231805e-17),
        (0.9641337806499485, -0.6378112542644095, -5.6732684149206005e-19),
        (2.0117057967166785, 0.4303062465532168, 2.6398976200761047e-17),
        (1e-300, -9.999999999999999e299, -7.113783875736513e283),
        (1.4616321449683622, -9.241265521729427e-17, -2.5907356508198256e-33),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_error_of_special_functions_in_double_precision(name: str) -> None:
    """SciPy's own are off by more than ours, so exact values judge."""
    x, value, rest = (np.resize(np.array(c), 32) for c in zip(*EXACT[name], strict=True))
    hold(name, run(name, x), value.astype(WIDE) + rest.astype(WIDE), [x])


def test_angles_of_any_size() -> None:
    """Values by mpmath; the second argument is the double nearest to a multiple of pi/2."""
    x = np.resize([1e22, 6381956970095103.0 * 2.0**797, np.finfo(np.float64).max], 32)
    sines = [-0.8522008497671888, 1.0, 0.004961954789184062]
    cosines = [0.5232147853951389, -4.6871659242546277e-19, -0.9999876894265599]
    np.testing.assert_allclose(run("sin", x), np.resize(sines, 32), rtol=3e-16)
    np.testing.assert_allclose(run("cos", x), np.resize(cosines, 32), rtol=3e-16)
    single = np.exp2(np.linspace(15, 127, COUNT)).astype(np.float32)
    for name in ("sin", "cos", "tan"):
        _, _, reference = CASES[name]
        hold(name, run(name, single), reference(single.astype(np.float64)).astype(WIDE), [single])


def test_values_at_the_edges() -> None:
    """Infinity, NaN, signed zeros, poles and the ends of domains, in both precisions, to the sign."""
    for dtype in FLOATS:
        info: Any = np.finfo(dtype)
        edges = [0.0, -0.0, 1, -1, INF, -INF, NAN, info.smallest_subnormal, -info.tiny, info.max]
        edges += [2, -2, 0.5, -0.5, 100, -100]
        x = np.array(edges * 2, dtype)
        for name in BOUNDS:
            if name in TWO or name == "digamma":
                continue
            got = run(name, x)
            np.testing.assert_array_equal(got, run(name, x, lanes=0), err_msg=name)
            with np.errstate(all="ignore"):
                want = np.asarray(OPS[name].evaluate(x.astype(np.float64))).astype(dtype)
            if name == "lgamma" and dtype is np.float64:
                want[[7, 23]] = 744.4400719213812  # SciPy gives up at subnormals
            np.testing.assert_allclose(got, want, rtol=16 * info.eps, err_msg=name)
            zero = want == 0
            np.testing.assert_array_equal(
                np.signbit(got[zero]), np.signbit(want[zero]), err_msg=name
            )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_bits_are_the_same_for_any_number_of_lanes(dtype: type[Any]) -> None:
    """Registers of 64 bytes scale by powers of two with an instruction; others multiply, huge or subnormal results."""
    most = 110.0 if dtype is np.float32 else 760.0
    x = np.linspace(-most, most, COUNT).astype(dtype)
    for name in ("exp", "expm1", "tanh", "sigmoid", "sinh", "cosh", "erfc", "log", "log1p", "pow"):
        one, *others = (run(name, abs(x) if name == "pow" else x, x, lanes) for lanes in (0, 8, 16))
        for other in others:
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("name", ["atan2", "pow", "mod", "floordiv"])
def test_pairs_of_edges(name: str) -> None:
    for dtype in FLOATS:
        info: Any = np.finfo(dtype)
        edges = [0.0, -0.0, 1, -1, INF, -INF, NAN, info.smallest_subnormal, -info.tiny, info.max]
        edges += [2, -2, 0.5, -3, 1e3, -7]
        x, y = (a.ravel().astype(dtype) for a in np.meshgrid(edges, edges))
        with np.errstate(all="ignore"):
            want = np.asarray(OPS[name].evaluate(x, y)).astype(dtype)
        for lanes in (0, 16):
            got = pair(name, x, y, lanes)
            np.testing.assert_allclose(got, want, rtol=8 * info.eps, err_msg=name)
            zero = want == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_larger_and_the_smaller_are_the_same_for_any_number_of_lanes(name: str) -> None:
    """NaN comes of NaN, and -0 is less than 0, whatever instructions a register of that width has."""
    for dtype in FLOATS:
        info: Any = np.finfo(dtype)
        edges = [0.0, -0.0, 1, -1, INF, -INF, NAN, info.smallest_subnormal, -info.tiny, info.max]
        edges += [2, -2, 0.5, -3, 1e3, -7]
        x, y = (a.ravel().astype(dtype) for a in np.meshgrid(edges, edges))
        want = np.asarray(OPS[name].evaluate(x, y))
        zeros = (x == 0) & (y == 0)
        both, one = np.signbit(x) & np.signbit(y), np.signbit(x) | np.signbit(y)
        signs = np.where(zeros, both if name == "max" else one, np.signbit(want))
        for lanes in (0, 2, 4, 8, 16, 32):
            got = pair(name, x, y, lanes)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got)[want == want], signs[want == want])


def pair(name: str, x: Array, y: Array, lanes: int) -> Array:
    """An operation of two operands on arrays."""
    code = "f32" if x.dtype == np.float32 else "f64"
    suffix, attrs = (f"x{lanes}", f" {{lanes = {lanes}}}") if lanes else ("", "")
    kind = f"&{code}[{len(x)}]"
    module = parse_module(f"""
func @f(%x: {kind}, %y: {kind}, %r: {kind}) {{
  launch %x, %y, %r {{kernel = "k"}}
  return
}}
kernel @k(%x: {kind}, %y: {kind}, %r: {kind}) {{
  %low = constant {{value = 0}} : index
  %high = constant {{value = {len(x)}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
    %a = load %x, %i{attrs} : {code}{suffix}
    %b = load %y, %i{attrs} : {code}{suffix}
    %v = {name} %a, %b : {code}{suffix}
    store %v, %r, %i
    yield
  }}
  return
}}""")
    module.entry.attrs["inputs"] = 2
    return compile_module(module)(x, y)[0]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_remainders_are_exact(dtype: type[Any]) -> None:
    """Quotients from small to far beyond what a float can hold."""
    rng = np.random.default_rng(11)
    top = 120 if dtype is np.float32 else 1000
    x = (np.exp2(rng.uniform(-top, top, 4096)) * rng.choice([-1, 1], 4096)).astype(dtype)
    y = (np.exp2(rng.uniform(-top, top, 4096)) * rng.choice([-1, 1], 4096)).astype(dtype)
    near = (x * rng.uniform(-3, 3, 4096)).astype(dtype)
    y = np.where(np.arange(4096) % 2 == 0, near, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(pair("mod", x, y, 16), np.mod(x, y))
        np.testing.assert_array_equal(pair("floordiv", x, y, 16), np.floor_divide(x, y))


def test_expansions_call_only_each_other_and_llvm() -> None:
    """No library is needed: what is called is ours, or an instruction."""
    for name in EXPANSIONS:
        floats = name in BOUNDS or name in ("is_finite", "sign", "mod", "floordiv")
        for kind in ("float", "double") if floats else ("i32", "i64"):
            text, called = expand(name, kind, 8)
            assert all(other in EXPANSIONS or not kind for other, kind in called)
            for line in text.splitlines():
                if " call " in line:
                    assert "@tapec." in line or "@llvm." in line


def test_a_function_that_is_called_often_is_not_copied() -> None:
    """LLVM takes seconds for a thousand copies; the numbers are the same."""
    library = MathLibrary()
    for copies in (64, 65):
        while library._calls["sin", "float", 16] < copies:
            library.need("sin", "float", 16)
        (header,) = [
            line
            for line in library.text().splitlines()
            if line.startswith("define") and ".sin." in line
        ]
        assert header.endswith(" #1 {" if copies == 64 else " #0 {")
