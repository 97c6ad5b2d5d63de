"""Expansions of the error function and the gamma function's logarithm and its derivative.

Coefficients: see `tapec.runtime.cpu.mathematics.elementary`.
"""

from __future__ import annotations

from tapec.runtime.cpu.mathematics.circular import cos_of, sin_of
from tapec.runtime.cpu.mathematics.elementary import EXP_LOW, clamp, exp_normal, reduced_exp
from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg

PI = 3.141592653589793
# erf(x) / x - 1 in z = x^2, for |x| <= 1
_ERF = (
    (
        0.12837916612625122,
        -0.3761262893676758,
        0.11283618956804276,
        -0.02685517445206642,
        0.005190844647586346,
        -0.0008031835895963013,
        7.924130477476865e-05,
    ),
    (
        0.12837916709551256,
        -0.37612638903183476,
        0.11283791670943444,
        -0.02686617064306032,
        0.005223977605988795,
        -0.0008548325931383085,
        0.00012055293797344156,
        -1.4924718574983226e-05,
        1.6447226278204276e-06,
        -1.6207131872174487e-07,
        1.371480259364915e-08,
        -7.78697690435687e-10,
    ),
)
# log(erfc(1 + t)) for t in [0, 3] and [0, 5]; where erfc is small, so is its weight
_LOG_ERFC = (
    (
        -1.8496055603027344,
        -2.638965368270874,
        -0.843130350112915,
        -0.041461702436208725,
        0.00983390025794506,
        -0.0017887208377942443,
        0.00017665213090367615,
    ),
    (
        -1.8496055099332482,
        -2.6389675142347926,
        -0.8431072563584442,
        -0.04156109804703731,
        0.010033825436944073,
        -0.001977903020564821,
        0.0002373246279668508,
        2.6270848167355076e-05,
        -2.7142651321251045e-05,
        9.580614376996617e-06,
        -2.023519618089566e-06,
        1.0787327326822996e-07,
        1.231095224656454e-07,
        -6.613010044001064e-08,
        2.0723744656722553e-08,
        -4.625241876437352e-09,
        7.479119472379005e-10,
        -8.381800037892139e-11,
        5.831002565934836e-12,
        -1.8941628350221723e-13,
    ),
)
# (1 + 2 x) exp(x^2) erfc(x) in t = (x - K) / (x + K), for x >= 0 (Shepherd and Laframboise, "Chebyshev
# approximation of (1 + 2x) exp(x^2) erfc x", 1981)
_ERFCX_CENTRE = (2.0, 3.0)
_ERFCX = (
    (
        1.2769783735275269,
        -0.09276396781206131,
        -0.1660308986902237,
        0.1640552133321762,
        -0.05420803278684616,
        -0.008060241118073463,
        0.008641701191663742,
        0.001317531568929553,
        -0.00123913015704602,
        -0.00040650845039635897,
    ),
    (
        1.2530080582697296,
        -0.13562110612458061,
        -0.04756229435344529,
        0.12964515870269783,
        -0.11927366341550592,
        0.0683080273460623,
        -0.02377051491525481,
        0.0025293917841985704,
        0.0018886903246754104,
        -0.0007798320019666805,
        -0.00010515956759275622,
        0.0001250979587029768,
        4.948409482602619e-06,
        -2.009597970028622e-05,
        -7.280801133141668e-07,
        3.462610818557483e-06,
        3.494270047864639e-07,
        -6.031983119233796e-07,
        -1.310937555664751e-07,
        9.05494990585055e-08,
        3.25817420457912e-08,
        -8.092664597337688e-09,
        -4.032211631125116e-09,
    ),
)
# lgamma(2 + d) / d for |d| <= 1/2
_LGAMMA = (
    (
        0.42278432846069336,
        0.32246702909469604,
        -0.06735192239284515,
        0.020581360906362534,
        -0.007391447201371193,
        0.0028806792106479406,
        -0.0011573417577892542,
        0.0005665014032274485,
        -0.0003050475206691772,
    ),
    (
        0.42278433509846713,
        0.32246703342411326,
        -0.0673523010531954,
        0.02058080842777644,
        -0.0073855510289500504,
        0.0028905103312440155,
        -0.0011927539006154693,
        0.0005096695102911249,
        -0.00022315498276627817,
        9.945774053084451e-05,
        -4.492368618648871e-05,
        2.0505091000930134e-05,
        -9.456471415571786e-06,
        4.386835720095274e-06,
        -1.9738834189564845e-06,
        9.152187277843979e-07,
        -5.815374905257038e-07,
        2.8326264449242516e-07,
    ),
)
# Stirling's series: x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) in z = 1 / x^2, for x >= 8
_STIRLING = (
    (0.0833333358168602, -0.00277821347117424, 0.0008033611811697483),
    (
        0.08333333333333333,
        -0.002777777777767008,
        0.0007936507862336034,
        -0.0005952358196976545,
        0.0008413890389752355,
        -0.0018862534702360758,
        0.004984889549466235,
    ),
)
# x^2 (log(x) - 1 / (2 x) - digamma(x)) in z = 1 / x^2, for x >= 8
_DIGAMMA = (
    (0.0833333283662796, -0.008331850171089172, 0.0038304561749100685),
    (
        0.08333333333333333,
        -0.008333333333323234,
        0.003968253960837105,
        -0.004166664044399543,
        0.007575243811680639,
        -0.021033654754878495,
        0.07930292634024534,
        -0.2874230732835926,
    ),
)
_LARGE = 8.0


# ---- error function


def erf(f: Expansion, x: Reg) -> Reg:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; from 1 on, 1 - exp(log(erfc(x)))."""
    a = abs(x)
    z = x * x
    near = f.fma(a, f.poly(z, _ERF[f.is_double]), a)
    top = f.choose(4.0, 6.0)
    t = f.select(a > top, top, a) - 1.0
    far = 1.0 - exp_normal(f, f.poly(t, _LOG_ERFC[f.is_double]))
    return f.copysign(f.select(a < 1.0, near, far), x)


def erfc(f: Expansion, x: Reg) -> Reg:
    """1 - erf(x), to relative precision in the tail."""
    top = f.choose(11.0, 28.0)
    a = abs(x)
    a = f.select(a > top, top, a)
    centre = _ERFCX_CENTRE[f.is_double]
    t = (a - centre) / (a + centre)
    factor = f.poly(t, _ERFCX[f.is_double]) / f.fma(2.0, a, 1.0)
    square, lost = f.two_product(a, a)
    low = EXP_LOW[f.is_double]
    whole, p = reduced_exp(f, clamp(f, -square, low, 0.0), -lost)
    tail = f.scaled(f.fma(factor, p, factor), whole)
    far = f.select(x < 0.0, 2.0 - tail, tail)
    near = (1.0 - x) - x * f.poly(x * x, _ERF[f.is_double])
    return f.select(a < 0.5, near, far)


# ---- gamma function


def _sin_pi(f: Expansion, a: Reg) -> tuple[Reg, Reg, Reg]:
    """sin(pi a) without its sign, cos(pi a) without its sign, and the distance to the nearest integer."""
    r = a - f.intrinsic("roundeven", a)
    t = abs(r)
    flip = t > 0.25
    angle = f.select(flip, 0.5 - t, t) * PI
    zero = f.real(0.0)
    s, c = sin_of(f, angle, zero), cos_of(f, angle, zero)
    return f.select(flip, c, s), f.select(flip, s, c), r


def _lgamma_right(f: Expansion, x: Reg) -> Reg:
    """Log |gamma(x)| for x > -1/2.

    From 8 on by Stirling's series; below, x is moved into [3/2, 5/2] by gamma(x + 1) = x gamma(x).
    """
    small = f.select(x < _LARGE, x, 2.0)
    whole, _ = f.round_int(small)
    d = small - whole
    # The factors between x and whole number 2: above it they are multiplied, below they divide.
    product = f.real(1.0)
    for j in range(1, 7):
        product = f.select(whole > j + 1.5, product * (small - float(j)), product)
    below = f.select(whole < 0.5, small * (small + 1.0), small)
    below = f.select(whole < 1.5, abs(below), product)
    is_large = x >= _LARGE
    log = f.call("log", f.select(is_large, x, below))
    log_factor = f.select(whole < 1.5, -log, log)
    near = f.fma(d, f.poly(d, _LGAMMA[f.is_double]), log_factor)
    inverse = 1.0 / x
    series = inverse * f.poly(inverse * inverse, _STIRLING[f.is_double])
    far = f.fma(x - 0.5, log - 1.0, series + 0.4189385332046727)
    return f.select(is_large, far, f.select(x.is_nan(), x, near))


def lgamma(f: Expansion, x: Reg) -> Reg:
    """Log |gamma(x)|; left of -1/2 by reflection, gamma(x) gamma(-x) = -pi / (x sin(pi x))."""

    def reflected() -> Reg:
        a = abs(x)
        s, _, _ = _sin_pi(f, a)
        value = f.call("log", PI / (s * a)) - _lgamma_right(f, a)
        value = f.select(s.equals(0.0), float("inf"), value)
        return f.select(a.equals(float("inf")), -a, value)

    usual = _lgamma_right(f, f.select(x < -0.5, 1.0, x))
    return f.rarely(x < -0.5, usual, reflected)


def _digamma_right(f: Expansion, x: Reg) -> Reg:
    """digamma(x) for x >= 0: below 8, digamma(x) = digamma(x + 1) - 1 / x; the largest terms are added last."""
    total, y, steps = f.real(0.0), x, [x]
    for _ in range(8):
        y = f.select(y < _LARGE, y + 1.0, y)
        steps.append(y)
    for step in reversed(steps[1:-1]):
        total = f.select(step < _LARGE, total + 1.0 / step, total)
    inverse = 1.0 / y
    z = inverse * inverse
    series = f.fma(z, f.poly(z, _DIGAMMA[f.is_double]), inverse * 0.5)
    first = f.select(x < _LARGE, 1.0 / x, 0.0)
    return ((f.call("log", y) - series) - total) - first


def digamma(f: Expansion, x: Reg) -> Reg:
    """The derivative of lgamma; left of 0 by reflection."""

    def reflected() -> Reg:
        s, c, r = _sin_pi(f, x)
        # digamma(1 - x) - digamma(x) = pi / tan(pi x)
        turn = f.copysign(c * PI / s, r)
        value = _digamma_right(f, 1.0 - x) - turn
        return f.select(s.equals(0.0), float("nan"), value)

    usual = _digamma_right(f, f.select(x < 0.0, 1.0, x))
    value = f.rarely(x < 0.0, usual, reflected)
    return f.select(x.equals(0.0), f.copysign(float("inf"), -x), value)
