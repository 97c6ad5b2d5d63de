"""Functions that are integrals: of Dawson, of Fresnel, of the exponential, and the dilogarithm.

Coefficients: Chebyshev interpolation of the functions named, computed with 40 digits.
"""

from __future__ import annotations

from math import inf, log, nan, pi
from typing import TYPE_CHECKING, Any

from tapec.ir.ops.formula import Number, SmoothSpecial, chebyshev

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value

#: Euler's constant.
_EULER = 0.5772156649015329
# D(x) / x in x^2 / 3.125 - 1, for |x| <= 2.5
_DAWSON_NEAR = (
    0.3543465094470124, -0.3893107642176176, 0.17089534039047505, -0.061191892588124804,
    0.018301985244742625, -0.00467192989156846, 0.0010365819653278773, -0.0002029513125205603,
    3.550690195841706e-05, -5.609419849387663e-06, 8.073119603643203e-07, -1.0664581659684513e-07,
    1.3014413690935905e-08, -1.4753953109525916e-09, 1.5613944490987474e-10,
    -1.5491747535635642e-11, 1.446513125857662e-12, -1.2754109661612633e-13,
    1.0651315628761883e-14, -8.448334457079042e-16, 6.380150570258236e-17,
)  # fmt: skip
# x D(x) in (x - 3.75) / 1.25, for 2.5 <= x <= 5
_DAWSON_BETWEEN = (
    0.5265659000533424, -0.021231128120307557, 0.00700560435678961, -0.002155498988335425,
    0.0006050501487979647, -0.0001384784086239006, 1.730709992124936e-05, 4.2264954896073465e-06,
    -3.715345151510379e-06, 1.3865128888618238e-06, -3.1738079118657305e-07,
    3.0760381733030245e-08, 8.796664449641378e-09, -4.836855911930978e-09, 1.0727580138502935e-09,
    -7.488475975746581e-11, -3.0760079162982174e-11, 1.1738410353441887e-11,
    -1.6682724581316833e-12, -7.82181911960084e-14, 8.361660994033136e-14, -1.557914918561187e-14,
    3.066768123976438e-16, 4.715003402764151e-16, -1.0189238319103898e-16,
)  # fmt: skip
# x D(x) in 50 / x^2 - 1, for x >= 5
_DAWSON_FAR = (
    0.5052465199077777, 0.005332594427422036, 8.85533671420732e-05, 2.584841984005503e-06,
    1.1223753891246858e-07, 6.732468572166737e-09, 5.400107833909702e-10, 5.744649131410629e-11,
    7.99993281296062e-12, 1.3515027900472426e-12, 2.2959364018456163e-13, 2.4013996605627538e-14,
    -5.597657640645069e-15, -4.4255869885007335e-15, -1.3828461658020002e-15,
    -1.4514205760330854e-16, 7.772884740793366e-17, 4.0971046792634656e-17,
)  # fmt: skip
# (Ei(x) - log(x) - 0.5772…) / x in x / 3 - 1, for 0 < x <= 6
_EI_NEAR = (
    4.9111058843464575, 5.666113598608016, 2.3492626676137034, 0.7563543093844007,
    0.19920229382356897, 0.04442875265306707, 0.008598716638276844, 0.0014705025963922846,
    0.00022533301939463562, 3.1284662784803325e-05, 3.9711039220839795e-06, 4.643268488593228e-07,
    5.032918336954619e-08, 5.084550545442788e-09, 4.810144028835289e-10, 4.278742020424449e-11,
    3.5916634036991113e-12, 2.8542399260415613e-13, 2.1535115484481425e-14,
    1.5466334313866187e-15, 1.0598041657122702e-16,
)  # fmt: skip
# x exp(-x) Ei(x) in 15 / x - 1.5, for 6 <= x <= 30
_EI_BETWEEN = (
    1.1452310794773821, 0.12188490691636371, 0.012878644183411418, -0.0002614037272070845,
    -0.0008153726739528969, -9.495542803115577e-05, 6.0058191321066825e-05, 6.396562576000798e-06,
    -6.2105415823590365e-06, 3.080183277749352e-07, 5.802663122606353e-07,
    -1.7281109948604732e-07, -1.6316609559945434e-08, 2.4709650158000585e-08,
    -6.462873814492829e-09, -5.800253682333731e-10, 1.0046201157640793e-09,
    -3.384614541495077e-10, 1.9593683935497995e-11, 3.382013881545568e-11,
    -1.8006415736006632e-11, 4.187593833926951e-12, 2.894063624537925e-13, -6.8890455126252e-13,
    3.128631366030067e-13, -7.172822057240484e-14, -3.5165667270249973e-15,
    1.1442869854061522e-14, -5.776726042883363e-15, 1.6607169419548029e-15,
    -1.5215906184379334e-16, -1.384587516361765e-16, 1.0012481558770646e-16,
    -3.918975319735125e-17,
)  # fmt: skip
# x exp(-x) Ei(x) in 60 / x - 1, for x >= 30
_EI_FAR = (
    1.0175790498616661, 0.01789743005584381, 0.00032740026360694784, 9.376901840706762e-06,
    3.7541342900498743e-07, 1.981311431175871e-08, 1.3344445861877673e-09, 1.1297251504069625e-10,
    1.2009318387824719e-11, 1.6077301518658999e-12, 2.640582605952079e-13, 4.8262765255433806e-14,
    7.994850498960783e-15, 5.629265067582264e-16, -3.4792151686618804e-16,
    -2.0596940931255631e-16, -5.946298440349431e-17,
)  # fmt: skip
# C(x) / x in 2 (x / 1.6)^4 - 1, for |x| <= 1.6
_C_NEAR = (
    0.5282931311708557, -0.37676220250161824, 0.08537377549656906, -0.009010259972062552,
    0.0005393127720408215, -2.075044934605623e-05, 5.564687021283882e-07, -1.0999812843114444e-08,
    1.6696510396208076e-10, -2.00773053966069e-12, 1.9601599749420958e-14,
    -1.5849094421108914e-16,
)  # fmt: skip
# S(x) / x^3 in 2 (x / 1.6)^4 - 1, for |x| <= 1.6
_S_NEAR = (
    0.3142743195347836, -0.18188587850106117, 0.025424557742876257, -0.0019214582098450639,
    8.966525954745101e-05, -2.830802868181572e-06, 6.442546962604405e-08, -1.1068235106036057e-09,
    1.4862338485609142e-11, -1.6028109554824476e-13, 1.4188008517448966e-15,
    -1.0494270345038239e-17,
)  # fmt: skip
# pi x f(x) in 2 (1.6 / x)^2 - 1, for x >= 1.6; C, S = 1/2 + f (sin, -cos) - g (cos, sin)
_F_FAR = (
    0.9863363201440892, -0.017434711935667774, -0.0032843323295990833, 0.00047917600017883833,
    -1.8619619802379467e-05, -8.150918540032402e-06, 2.587726789013415e-06,
    -3.9252934992232015e-07, -2.1512431919364245e-09, 2.2836876754584742e-08,
    -8.499726763291014e-09, 1.842151876873228e-09, -1.409508168172263e-10, -8.882961905190672e-11,
    5.4765892555348864e-11, -1.8743019440517345e-11, 4.1638179593038524e-12,
    -2.414655884484344e-13, -3.278027409579456e-13, 2.1341331333863226e-13,
    -8.459062549380565e-14, 2.372763092932497e-14, -3.5165353565159447e-15,
    -9.832591170808696e-16, 1.109818366941122e-15, -5.789936116299722e-16, 2.1963730743766773e-16,
    -6.04797000483546e-17,
)  # fmt: skip
# pi^2 x^3 g(x) in 2 (1.6 / x)^2 - 1, for x >= 1.6
_G_FAR = (
    0.9409999566964287, -0.07323801495965342, -0.011080882163852846, 0.0029448994832483783,
    -0.00027899517938683355, -3.806033430512676e-05, 2.31347749560821e-05, -5.402791752102135e-06,
    5.174171446117134e-07, 1.6576137404669198e-07, -1.0664447578788885e-07, 3.316459682688467e-08,
    -5.963027554403364e-09, -2.1851665767503924e-10, 7.012039577320227e-10,
    -3.434593625980914e-10, 1.0849588331952686e-10, -2.094174491870192e-11,
    -1.0173533894786215e-12, 3.215055432435972e-12, -1.8090293935122656e-12,
    6.863533836314422e-13, -1.8272372599934587e-13, 1.9767025312510778e-14,
    1.3818740569078911e-14, -1.2191672441167435e-14, 6.1354990726400924e-15,
    -2.2998541189935035e-15, 6.161617601820468e-16, -5.70326611521397e-17, -6.290220430565658e-17,
    5.55920848375344e-17, -2.993893252252748e-17,
)  # fmt: skip
# Li2(1 - exp(-u)) / u in u / log(2), for |u| <= log(2)
_DILOGARITHM = (
    1.0066490756053457, -0.17328679513998632, 0.006641141566624101, 2.9147008057956195e-42,
    -7.917930219734077e-06, 3.5514508279848165e-42, 1.607110343619158e-08, 3.5128870942465973e-41,
    -3.730616128496609e-11, -3.2285916618043785e-41, 9.202567470276804e-14,
    1.3066827920136053e-41, -2.3531730122526595e-16,
)  # fmt: skip


class Dawsn(SmoothSpecial):
    """Dawson's integral: ``exp(-x²)`` times the integral of ``exp(t²)`` from 0 to ``x``."""

    name = "dawsn"
    domain = (-3.0, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """Series in three intervals."""
        (x,) = operands
        a = x.abs()
        is_near, is_far = a < 2.5, a > 5.0
        inner = x.choose(is_near, x, 2.5)
        near = chebyshev(inner * inner / 3.125 - 1.0, _DAWSON_NEAR) * inner
        outer = x.choose(is_far, a, 5.0)
        between = x.choose(is_far, 5.0, x.choose(is_near, 2.5, a))
        far = x.choose(
            is_far,
            chebyshev(50.0 / outer / outer - 1.0, _DAWSON_FAR),
            chebyshev((between - 3.75) / 1.25, _DAWSON_BETWEEN),
        )
        return x.choose(is_near, near, far / x.choose(is_near, 1.0, x))

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 - 2 x y``."""
        product = b.mul(x, y)
        return b.sub(b.full_like(1, x), b.add(product, product))


class Expint(SmoothSpecial):
    """The exponential integral ``Ei(x)``: of ``exp(t) / t`` up to ``x``; NaN below 0."""

    name = "expint"
    domain = (0.5, 8.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """Series in three intervals."""
        (x,) = operands
        is_near, is_far = x < 6.0, x > 30.0
        inner = x.choose(is_near, x, 6.0)
        near = chebyshev(inner / 3.0 - 1.0, _EI_NEAR) * inner + (inner.log() + _EULER)
        outer = x.choose(is_far, x, 30.0)
        between = x.choose(is_far, 30.0, x.choose(is_near, 6.0, x))
        far = x.choose(
            is_far,
            chebyshev(60.0 / outer - 1.0, _EI_FAR),
            chebyshev(15.0 / between - 1.5, _EI_BETWEEN),
        )
        half = (x * 0.5).exp()  # squared, the exponential may overflow alone
        value = x.choose(is_near, near, half * (far / x) * half)
        return x.choose(x.equals(inf), inf, x.choose(x < 0.0, nan, value))

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``exp(x) / x``."""
        return b.div(b.exp(x), x)


def _fresnel(x: Number) -> tuple[Number, Number, Number, Number]:
    """``x`` held to 1.6, its place in the series, and from 1.6 on both integrals of ``|x|``: C and S.

    The phase ``pi x² / 2`` has the rounding error of the square, as the height ``1 / (pi x)`` shrinks.
    """
    a = x.abs()
    is_near = a < 1.6
    inner = x.choose(is_near, x, 1.6)
    square = inner * inner
    outer = x.choose(is_near, 1.6, a)
    inverse = 1.6 / outer
    t = 2.0 * (inverse * inverse) - 1.0
    turned = 1.0 / (pi * outer)
    f = chebyshev(t, _F_FAR) * turned
    g = chebyshev(t, _G_FAR) * (turned * turned) / outer
    angle = (outer * outer).mod(4.0) * (pi / 2)
    s, c = angle.sin(), angle.cos()
    endless = a.equals(inf)
    cosine = x.choose(endless, 0.5, f * s - g * c + 0.5)
    sine = x.choose(endless, 0.5, 0.5 - (f * c + g * s))
    return inner, square * square * (2 / 1.6**4) - 1.0, cosine, sine


class FresnelCos(SmoothSpecial):
    """The integral of ``cos(pi t² / 2)`` from 0 to ``x``."""

    name = "fresnel_cos"
    domain = (-2.5, 2.5)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_fresnel`."""
        (x,) = operands
        inner, t, far, _ = _fresnel(x)
        near = chebyshev(t, _C_NEAR) * inner
        return x.choose(x.abs() < 1.6, near, x.choose(x < 0.0, -far, far))

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``cos(pi x² / 2)``."""
        return b.cos(b.mul(b.mul(x, x), b.full_like(pi / 2, x)))


class FresnelSin(SmoothSpecial):
    """The integral of ``sin(pi t² / 2)`` from 0 to ``x``."""

    name = "fresnel_sin"
    domain = (-2.5, 2.5)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_fresnel`."""
        (x,) = operands
        inner, t, _, far = _fresnel(x)
        near = chebyshev(t, _S_NEAR) * (inner * inner * inner)
        return x.choose(x.abs() < 1.6, near, x.choose(x < 0.0, -far, far))

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``sin(pi x² / 2)``."""
        return b.sin(b.mul(b.mul(x, x), b.full_like(pi / 2, x)))


class Spence(SmoothSpecial):
    """The integral of ``-log(t) / (t - 1)`` from 1 to ``x``, the dilogarithm of ``1 - x``; NaN below 0."""

    name = "spence"
    domain = (0.2, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """The series for ``1/2 <= x <= 2``; elsewhere by the reflections of ``x`` to ``1 - x`` and ``1 / x``.

        Source: Zagier, "The dilogarithm function", 2007, section I.2.
        """
        (x,) = operands
        is_large = x > 2.0
        y = x.choose(is_large, 1.0 / x.choose(is_large, x, 1.0), x)
        is_small = y < 0.5
        inner = x.choose(is_small, y, 0.5)
        logarithm, other = inner.log(), (-inner).log1p()
        u = x.choose(is_small, -other, -x.choose(is_small, 1.0, y).log())
        series = u * chebyshev(u / log(2), _DILOGARITHM)
        crossed = x.choose(inner.equals(0.0), 0.0, logarithm * other)
        value = x.choose(is_small, pi**2 / 6 - crossed - series, series)
        far = x.choose(is_large, x, 1.0).log()
        value = x.choose(is_large, -value - far * far * 0.5, value)
        return x.choose(x < 0.0, nan, value)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``log(x) / (1 - x)``; near 1 the first terms of its series, so that its own derivatives are right."""
        one = b.full_like(1, x)
        d = b.sub(x, one)
        is_near = b.lt(b.abs(d), b.full_like(2.0**-6, x))
        series = b.full_like(1 / 9, x)
        for n in range(8, 0, -1):
            series = b.sub(b.full_like(1 / n, x), b.mul(d, series))
        away = b.where(is_near, one, d)
        return b.neg(b.where(is_near, series, b.div(b.log(b.add(away, one)), away)))
