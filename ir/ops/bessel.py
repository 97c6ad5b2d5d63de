"""Bessel functions of orders 0 and 1: the four kinds, and those of `I` and `K` scaled by an exponential.

Coefficients: Chebyshev interpolation of the functions named, computed with 40 digits; the shapes of the
intervals follow Moshier, "Methods and programs for mathematical functions", 1989.
"""

from __future__ import annotations

from math import inf, nan, pi, sqrt
from typing import TYPE_CHECKING, Any

from tapec.ir.ops.formula import Number, SmoothSpecial, chebyshev

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value

# exp(-x) I0(x) in x / 4 - 1, for 0 <= x <= 8
_I0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17,
)  # fmt: skip
# sqrt(x) exp(-x) I0(x) in 16 / x - 1, for x >= 8
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15,
    1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
# exp(-x) I1(x) / x in x / 4 - 1, for 0 <= x <= 8
_I1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
# sqrt(x) exp(-x) I1(x) in 16 / x - 1, for x >= 8
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
    4.414348323071708e-18, 7.517296310842105e-18,
)  # fmt: skip
# K0(x) + log(x / 2) I0(x) in x^2 / 2 - 1, for 0 < x <= 2
_K0_NEAR = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)  # fmt: skip
# x (K1(x) - log(x / 2) I1(x)) in x^2 / 2 - 1, for 0 < x <= 2
_K1_NEAR = (
    0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864,
    -0.0001730288957513052, -2.4334061415659684e-06, -2.213387630734726e-08,
    -1.4114883926335278e-10, -6.666901694199329e-13, -2.427449850519366e-15,
)  # fmt: skip
# sqrt(x) exp(x) K0(x) in 4 / x - 1, for x >= 2
_K0_FAR = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10,
    -7.957489244477396e-11, 1.8559491149549264e-11, -4.514597883374519e-12,
    1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15,
    5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17,
)  # fmt: skip
# sqrt(x) exp(x) K1(x) in 4 / x - 1, for x >= 2
_K1_FAR = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07,
    5.7410841254500495e-08, -1.0345762465678097e-08, 2.0150497551970347e-09,
    -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11, 5.139639673482343e-12,
    -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17,
)  # fmt: skip
# J0(x) in x^2 / 32 - 1, for 0 <= x <= 8
_J0_NEAR = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)  # fmt: skip
# J1(x) / x in x^2 / 32 - 1, for 0 <= x <= 8
_J1_NEAR = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15,
    -2.4441972916190464e-17,
)  # fmt: skip
# Y0(x) - 2 / pi log(x / 2) J0(x) in x^2 / 32 - 1, for 0 < x <= 8
_Y0_NEAR = (
    0.03645469809116044, -0.2783237094075825, 0.2960499990207148, 0.09825508408187864,
    -0.10755155280627783, 0.031799074084414514, -0.005161397105810715, 0.0005498525320039012,
    -4.1996983149420134e-05, 2.4290361107923793e-06, -1.1049969793472957e-07,
    4.06651736597911e-09, -1.2374148898289854e-10, 3.1685725528945945e-12, -6.926956032431002e-14,
    1.3086308625876684e-15, -2.1586201986914482e-17,
)  # fmt: skip
# (Y1(x) - 2 / pi (log(x / 2) J1(x) - 1 / x)) / x in x^2 / 32 - 1, for 0 < x <= 8
_Y1_NEAR = (
    0.038300769852423776, -0.08182561412732826, -0.0248677076121964, 0.047967452752746984,
    -0.01852588451089802, 0.003680607687823511, -0.0004627254060293369, 4.06940026958087e-05,
    -2.6617695125295625e-06, 1.350602691325434e-07, -5.483524110336276e-09,
    1.8245086841229007e-10, -5.070666636591129e-12, 1.1956162517587948e-13,
    -2.423162442712473e-15, 4.268126513072962e-17,
)  # fmt: skip
# P0(x) in 128 / x^2 - 1, for x >= 8
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16,
    -1.0011513723467786e-16, 1.6305919233744186e-17,
)  # fmt: skip
# x Q0(x) in 128 / x^2 - 1, for x >= 8
_Q0 = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18,
)  # fmt: skip
# P1(x) in 128 / x^2 - 1, for x >= 8
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16,
    1.0667689114335412e-16, -1.7312313216116335e-17,
)  # fmt: skip
# x Q1(x) in 128 / x^2 - 1, for x >= 8
_Q1 = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18,
)  # fmt: skip


# ---- values


def _scaled_i(x: Number, order: int) -> Number:
    """``exp(-|x|) I(x)``."""
    near, far = ((_I0_NEAR, _I0_FAR), (_I1_NEAR, _I1_FAR))[order]
    a = x.abs()
    is_near = a < 8.0
    inside = chebyshev(x.choose(is_near, a, 8.0) / 4.0 - 1.0, near)
    outer = x.choose(is_near, 8.0, a)
    outside = chebyshev(16.0 / outer - 1.0, far) / outer.sqrt()
    if order == 0:
        return x.choose(is_near, inside, outside)
    return x.choose(is_near, inside * x, x.choose(x < 0.0, -outside, outside))


def _plain_i(x: Number, order: int) -> Number:
    """``I(x)``; the exponential is multiplied in halves, for its square may overflow alone."""
    half = (x.abs() * 0.5).exp()
    return half * _scaled_i(x, order) * half


def _k(x: Number, order: int, *, scaled: bool) -> Number:
    """``K(x)``, or ``exp(x) K(x)``: infinite at 0, NaN below."""
    near, far = ((_K0_NEAR, _K0_FAR), (_K1_NEAR, _K1_FAR))[order]
    is_near = x < 2.0
    inner = x.choose(is_near, x, 2.0)
    smooth = chebyshev(inner * inner * 0.5 - 1.0, near)
    logarithm = (inner * 0.5).log() * _plain_i(inner, order)
    inside = smooth / inner + logarithm if order else smooth - logarithm
    outer = x.choose(is_near, 2.0, x)
    outside = chebyshev(4.0 / outer - 1.0, far) / outer.sqrt()
    if scaled:
        inside = inside * inner.exp()
    else:
        outside = outside * (-outer).exp()
    return x.choose(x.equals(0.0), inf, x.choose(is_near, inside, outside))


def _wave(a: Number, order: int) -> tuple[Number, Number]:
    """``J`` and ``Y`` from 8 on: a wave whose height and phase change slowly (Hankel)."""
    p, q = ((_P0, _Q0), (_P1, _Q1))[order]
    outer = a.choose(a < 8.0, 8.0, a)
    t = 128.0 / (outer * outer) - 1.0
    height, shift = chebyshev(t, p), chebyshev(t, q) / outer
    s, c = outer.sin(), outer.cos()
    # sqrt(2) times cosine and sine of x - pi / 4, or of x - 3 pi / 4
    cosine, sine = (s - c, -(s + c)) if order else (s + c, s - c)
    size = (1 / sqrt(pi)) / outer.sqrt()
    return size * (height * cosine - shift * sine), size * (height * sine + shift * cosine)


def _near(a: Number) -> tuple[Number, Number]:
    """What is looked at up to 8, and its place in the series."""
    inner = a.choose(a < 8.0, a, 8.0)
    return inner, inner * inner / 32.0 - 1.0


def _j(x: Number, order: int) -> Number:
    """``J(x)``; 0 at infinity."""
    a = x.abs()
    inner, t = _near(a)
    inside = chebyshev(t, _J1_NEAR) * inner if order else chebyshev(t, _J0_NEAR)
    outside = x.choose(a.equals(inf), 0.0, _wave(a, order)[0])
    value = x.choose(a < 8.0, inside, outside)
    return x.choose(x < 0.0, -value, value) if order else value


def _y(x: Number, order: int) -> Number:
    """``Y(x)``: minus infinity at 0, NaN below; 0 at infinity."""
    inner, t = _near(x)
    logarithm = (inner * 0.5).log()
    if order:
        bessel = chebyshev(t, _J1_NEAR) * inner
        smooth = chebyshev(t, _Y1_NEAR) * inner
        inside = smooth + (2 / pi) * (logarithm * bessel - 1.0 / inner)
    else:
        inside = chebyshev(t, _Y0_NEAR) + (2 / pi) * (logarithm * chebyshev(t, _J0_NEAR))
    outside = x.choose(x.equals(inf), 0.0, _wave(x, order)[1])
    value = x.choose(x < 8.0, inside, outside)
    return x.choose(x.equals(0.0), -inf, x.choose(x < 0.0, nan, value))


# ---- operations


class BesselI0(SmoothSpecial):
    """The modified Bessel function of the first kind, of order 0."""

    name = "bessel_i0"
    domain = (-3.0, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_plain_i`."""
        return _plain_i(operands[0], 0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``I1(x)``."""
        return b.bessel_i1(x)


class BesselI1(SmoothSpecial):
    """The modified Bessel function of the first kind, of order 1."""

    name = "bessel_i1"
    domain = (0.5, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_plain_i`."""
        return _plain_i(operands[0], 1)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``I0(x) - I1(x) / x``."""
        return b.sub(b.bessel_i0(x), _slope(b, x, y))


class BesselI0e(SmoothSpecial):
    """``exp(-|x|) I0(x)``."""

    name = "bessel_i0e"
    domain = (0.5, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_scaled_i`."""
        return _scaled_i(operands[0], 0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``I1e(x) - sign(x) I0e(x)``."""
        return b.sub(b.bessel_i1e(x), b.mul(b.sign(x), y))


class BesselI1e(SmoothSpecial):
    """``exp(-|x|) I1(x)``."""

    name = "bessel_i1e"
    domain = (0.5, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_scaled_i`."""
        return _scaled_i(operands[0], 1)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``I0e(x) - I1e(x) / x - sign(x) I1e(x)``."""
        rest = b.add(_slope(b, x, y), b.mul(b.sign(x), y))
        return b.sub(b.bessel_i0e(x), rest)


class BesselK0(SmoothSpecial):
    """The modified Bessel function of the second kind, of order 0."""

    name = "bessel_k0"
    domain = (0.5, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_k`."""
        return _k(operands[0], 0, scaled=False)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-K1(x)``."""
        return b.neg(b.bessel_k1(x))


class BesselK1(SmoothSpecial):
    """The modified Bessel function of the second kind, of order 1."""

    name = "bessel_k1"
    domain = (0.5, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_k`."""
        return _k(operands[0], 1, scaled=False)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-K0(x) - K1(x) / x``."""
        return b.neg(b.add(b.bessel_k0(x), b.div(y, x)))


class BesselK0e(SmoothSpecial):
    """``exp(x) K0(x)``."""

    name = "bessel_k0e"
    domain = (0.5, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_k`."""
        return _k(operands[0], 0, scaled=True)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``K0e(x) - K1e(x)``."""
        return b.sub(y, b.bessel_k1e(x))


class BesselK1e(SmoothSpecial):
    """``exp(x) K1(x)``."""

    name = "bessel_k1e"
    domain = (0.5, 3.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_k`."""
        return _k(operands[0], 1, scaled=True)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``K1e(x) - K0e(x) - K1e(x) / x``."""
        return b.sub(b.sub(y, b.bessel_k0e(x)), b.div(y, x))


class BesselJ0(SmoothSpecial):
    """The Bessel function of the first kind, of order 0."""

    name = "bessel_j0"
    domain = (-9.0, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_j`."""
        return _j(operands[0], 0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-J1(x)``."""
        return b.neg(b.bessel_j1(x))


class BesselJ1(SmoothSpecial):
    """The Bessel function of the first kind, of order 1."""

    name = "bessel_j1"
    domain = (0.5, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_j`."""
        return _j(operands[0], 1)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``J0(x) - J1(x) / x``."""
        return b.sub(b.bessel_j0(x), _slope(b, x, y))


class BesselY0(SmoothSpecial):
    """The Bessel function of the second kind, of order 0."""

    name = "bessel_y0"
    domain = (0.5, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_y`."""
        return _y(operands[0], 0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-Y1(x)``."""
        return b.neg(b.bessel_y1(x))


class BesselY1(SmoothSpecial):
    """The Bessel function of the second kind, of order 1."""

    name = "bessel_y1"
    domain = (0.5, 9.0)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """See `_y`."""
        return _y(operands[0], 1)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``Y0(x) - Y1(x) / x``."""
        return b.sub(b.bessel_y0(x), b.div(y, x))


def _slope(b: Builder, x: Value, y: Value) -> Any:
    """``y / x`` for a function of order 1 of the first kind: 1/2 at 0, as an even function there."""
    zero, one = b.full_like(0, x), b.full_like(1, x)
    origin = b.eq(x, zero)
    return b.where(origin, b.full_like(0.5, x), b.div(y, b.where(origin, one, x)))
