"""The namespace ``tapec.math.special``: functions of Bessel, and functions that are integrals."""

from tapec.functions.special import bessel_i0 as bessel_i0
from tapec.functions.special import bessel_i0e as bessel_i0e
from tapec.functions.special import bessel_i1 as bessel_i1
from tapec.functions.special import bessel_i1e as bessel_i1e
from tapec.functions.special import bessel_j0 as bessel_j0
from tapec.functions.special import bessel_j1 as bessel_j1
from tapec.functions.special import bessel_k0 as bessel_k0
from tapec.functions.special import bessel_k0e as bessel_k0e
from tapec.functions.special import bessel_k1 as bessel_k1
from tapec.functions.special import bessel_k1e as bessel_k1e
from tapec.functions.special import bessel_y0 as bessel_y0
from tapec.functions.special import bessel_y1 as bessel_y1
from tapec.functions.special import dawsn as dawsn
from tapec.functions.special import expint as expint
from tapec.functions.special import fresnel_cos as fresnel_cos
from tapec.functions.special import fresnel_sin as fresnel_sin
from tapec.functions.special import spence as spence
