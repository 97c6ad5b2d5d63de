"""The namespace ``tapec.numpy``: NumPy's functions, as the array API standard 2024.12 has them.

They take Tensors, Variables, NumPy arrays and Python numbers, and give Tensors; they are operations like any others, so
gradients flow, and compiled functions take them. What they do is what NumPy does; where they differ:

- Defaults are tapec's: int32, float32 and complex64. Two dtypes meet in one that holds both (`result_type`).
- Tensors do not change: there is no ``out``, and ``copy`` has no effect.
- Results whose shape depends on values (`nonzero`, `unique_values`, masks) are refused in compiled functions.
- An integer that is divided by 0, and an index out of range, are errors.

``tensor.__array_namespace__()`` gives this module, so libraries that follow the standard run on Tensors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.dtypes import bfloat16 as bfloat16
from tapec.dtypes import bool as bool
from tapec.dtypes import complex64 as complex64
from tapec.dtypes import complex128 as complex128
from tapec.dtypes import float16 as float16
from tapec.dtypes import float32 as float32
from tapec.dtypes import float64 as float64
from tapec.dtypes import int8 as int8
from tapec.dtypes import int16 as int16
from tapec.dtypes import int32 as int32
from tapec.dtypes import int64 as int64
from tapec.dtypes import uint8 as uint8
from tapec.dtypes import uint16 as uint16
from tapec.dtypes import uint32 as uint32
from tapec.dtypes import uint64 as uint64
from tapec.numpy import fft as fft
from tapec.numpy import linalg as linalg
from tapec.numpy.analysis import acos as acos
from tapec.numpy.analysis import acosh as acosh
from tapec.numpy.analysis import asin as asin
from tapec.numpy.analysis import asinh as asinh
from tapec.numpy.analysis import atan as atan
from tapec.numpy.analysis import atan2 as atan2
from tapec.numpy.analysis import atanh as atanh
from tapec.numpy.analysis import cbrt as cbrt
from tapec.numpy.analysis import cos as cos
from tapec.numpy.analysis import cosh as cosh
from tapec.numpy.analysis import deg2rad as deg2rad
from tapec.numpy.analysis import exp as exp
from tapec.numpy.analysis import exp2 as exp2
from tapec.numpy.analysis import expm1 as expm1
from tapec.numpy.analysis import hypot as hypot
from tapec.numpy.analysis import i0 as i0
from tapec.numpy.analysis import log as log
from tapec.numpy.analysis import log1p as log1p
from tapec.numpy.analysis import log2 as log2
from tapec.numpy.analysis import log10 as log10
from tapec.numpy.analysis import logaddexp as logaddexp
from tapec.numpy.analysis import logaddexp2 as logaddexp2
from tapec.numpy.analysis import rad2deg as rad2deg
from tapec.numpy.analysis import sin as sin
from tapec.numpy.analysis import sinc as sinc
from tapec.numpy.analysis import sinh as sinh
from tapec.numpy.analysis import sqrt as sqrt
from tapec.numpy.analysis import tan as tan
from tapec.numpy.analysis import tanh as tanh
from tapec.numpy.behavior import (
    experimental_enable_numpy_behavior as experimental_enable_numpy_behavior,
)
from tapec.numpy.bits import bitwise_and as bitwise_and
from tapec.numpy.bits import bitwise_count as bitwise_count
from tapec.numpy.bits import bitwise_invert as bitwise_invert
from tapec.numpy.bits import bitwise_left_shift as bitwise_left_shift
from tapec.numpy.bits import bitwise_or as bitwise_or
from tapec.numpy.bits import bitwise_right_shift as bitwise_right_shift
from tapec.numpy.bits import bitwise_xor as bitwise_xor
from tapec.numpy.bits import gcd as gcd
from tapec.numpy.bits import lcm as lcm
from tapec.numpy.bits import nextafter as nextafter
from tapec.numpy.bits import view as view
from tapec.numpy.creation import arange as arange
from tapec.numpy.creation import array as array
from tapec.numpy.creation import asarray as asarray
from tapec.numpy.creation import copy as copy
from tapec.numpy.creation import diag as diag
from tapec.numpy.creation import diagflat as diagflat
from tapec.numpy.creation import empty as empty
from tapec.numpy.creation import empty_like as empty_like
from tapec.numpy.creation import eye as eye
from tapec.numpy.creation import from_dlpack as from_dlpack
from tapec.numpy.creation import full as full
from tapec.numpy.creation import full_like as full_like
from tapec.numpy.creation import geomspace as geomspace
from tapec.numpy.creation import identity as identity
from tapec.numpy.creation import linspace as linspace
from tapec.numpy.creation import logspace as logspace
from tapec.numpy.creation import meshgrid as meshgrid
from tapec.numpy.creation import ones as ones
from tapec.numpy.creation import ones_like as ones_like
from tapec.numpy.creation import tri as tri
from tapec.numpy.creation import tril as tril
from tapec.numpy.creation import triu as triu
from tapec.numpy.creation import vander as vander
from tapec.numpy.creation import zeros as zeros
from tapec.numpy.creation import zeros_like as zeros_like
from tapec.numpy.elementwise import abs as abs
from tapec.numpy.elementwise import add as add
from tapec.numpy.elementwise import angle as angle
from tapec.numpy.elementwise import ceil as ceil
from tapec.numpy.elementwise import clip as clip
from tapec.numpy.elementwise import conj as conj
from tapec.numpy.elementwise import copysign as copysign
from tapec.numpy.elementwise import divide as divide
from tapec.numpy.elementwise import divide_no_nan as divide_no_nan
from tapec.numpy.elementwise import divmod as divmod
from tapec.numpy.elementwise import equal as equal
from tapec.numpy.elementwise import fabs as fabs
from tapec.numpy.elementwise import float_power as float_power
from tapec.numpy.elementwise import floor as floor
from tapec.numpy.elementwise import floor_divide as floor_divide
from tapec.numpy.elementwise import fmax as fmax
from tapec.numpy.elementwise import fmin as fmin
from tapec.numpy.elementwise import fmod as fmod
from tapec.numpy.elementwise import greater as greater
from tapec.numpy.elementwise import greater_equal as greater_equal
from tapec.numpy.elementwise import heaviside as heaviside
from tapec.numpy.elementwise import imag as imag
from tapec.numpy.elementwise import isclose as isclose
from tapec.numpy.elementwise import iscomplex as iscomplex
from tapec.numpy.elementwise import isfinite as isfinite
from tapec.numpy.elementwise import isinf as isinf
from tapec.numpy.elementwise import isnan as isnan
from tapec.numpy.elementwise import isneginf as isneginf
from tapec.numpy.elementwise import isposinf as isposinf
from tapec.numpy.elementwise import isreal as isreal
from tapec.numpy.elementwise import ldexp as ldexp
from tapec.numpy.elementwise import less as less
from tapec.numpy.elementwise import less_equal as less_equal
from tapec.numpy.elementwise import logical_and as logical_and
from tapec.numpy.elementwise import logical_not as logical_not
from tapec.numpy.elementwise import logical_or as logical_or
from tapec.numpy.elementwise import logical_xor as logical_xor
from tapec.numpy.elementwise import maximum as maximum
from tapec.numpy.elementwise import minimum as minimum
from tapec.numpy.elementwise import multiply as multiply
from tapec.numpy.elementwise import nan_to_num as nan_to_num
from tapec.numpy.elementwise import negative as negative
from tapec.numpy.elementwise import not_equal as not_equal
from tapec.numpy.elementwise import positive as positive
from tapec.numpy.elementwise import pow as pow
from tapec.numpy.elementwise import real as real
from tapec.numpy.elementwise import reciprocal as reciprocal
from tapec.numpy.elementwise import remainder as remainder
from tapec.numpy.elementwise import round as round
from tapec.numpy.elementwise import sign as sign
from tapec.numpy.elementwise import signbit as signbit
from tapec.numpy.elementwise import square as square
from tapec.numpy.elementwise import subtract as subtract
from tapec.numpy.elementwise import trunc as trunc
from tapec.numpy.inquiry import __array_namespace_info__ as __array_namespace_info__
from tapec.numpy.inquiry import astype as astype
from tapec.numpy.inquiry import finfo as finfo
from tapec.numpy.inquiry import iinfo as iinfo
from tapec.numpy.inquiry import isdtype as isdtype
from tapec.numpy.inquiry import ndim as ndim
from tapec.numpy.inquiry import shape as shape
from tapec.numpy.inquiry import size as size
from tapec.numpy.joining import append as append
from tapec.numpy.joining import array_split as array_split
from tapec.numpy.joining import column_stack as column_stack
from tapec.numpy.joining import concat as concat
from tapec.numpy.joining import concatenate as concatenate
from tapec.numpy.joining import dsplit as dsplit
from tapec.numpy.joining import dstack as dstack
from tapec.numpy.joining import hsplit as hsplit
from tapec.numpy.joining import hstack as hstack
from tapec.numpy.joining import split as split
from tapec.numpy.joining import stack as stack
from tapec.numpy.joining import unstack as unstack
from tapec.numpy.joining import vsplit as vsplit
from tapec.numpy.joining import vstack as vstack
from tapec.numpy.ordering import argmax as argmax
from tapec.numpy.ordering import argmin as argmin
from tapec.numpy.ordering import argpartition as argpartition
from tapec.numpy.ordering import argsort as argsort
from tapec.numpy.ordering import argwhere as argwhere
from tapec.numpy.ordering import compress as compress
from tapec.numpy.ordering import count_nonzero as count_nonzero
from tapec.numpy.ordering import digitize as digitize
from tapec.numpy.ordering import extract as extract
from tapec.numpy.ordering import flatnonzero as flatnonzero
from tapec.numpy.ordering import isin as isin
from tapec.numpy.ordering import nanargmax as nanargmax
from tapec.numpy.ordering import nanargmin as nanargmin
from tapec.numpy.ordering import nonzero as nonzero
from tapec.numpy.ordering import partition as partition
from tapec.numpy.ordering import searchsorted as searchsorted
from tapec.numpy.ordering import select as select
from tapec.numpy.ordering import sort as sort
from tapec.numpy.ordering import take as take
from tapec.numpy.ordering import take_along_axis as take_along_axis
from tapec.numpy.ordering import unique_all as unique_all
from tapec.numpy.ordering import unique_counts as unique_counts
from tapec.numpy.ordering import unique_inverse as unique_inverse
from tapec.numpy.ordering import unique_values as unique_values
from tapec.numpy.ordering import unravel_index as unravel_index
from tapec.numpy.ordering import where as where
from tapec.numpy.products import convolve as convolve
from tapec.numpy.products import correlate as correlate
from tapec.numpy.products import cross as cross
from tapec.numpy.products import diagonal as diagonal
from tapec.numpy.products import dot as dot
from tapec.numpy.products import einsum as einsum
from tapec.numpy.products import inner as inner
from tapec.numpy.products import kron as kron
from tapec.numpy.products import matmul as matmul
from tapec.numpy.products import outer as outer
from tapec.numpy.products import polyval as polyval
from tapec.numpy.products import tensordot as tensordot
from tapec.numpy.products import trace as trace
from tapec.numpy.products import vdot as vdot
from tapec.numpy.products import vecdot as vecdot
from tapec.numpy.promotion import can_cast as can_cast
from tapec.numpy.promotion import result_type as result_type
from tapec.numpy.reductions import all as all
from tapec.numpy.reductions import allclose as allclose
from tapec.numpy.reductions import any as any
from tapec.numpy.reductions import array_equal as array_equal
from tapec.numpy.reductions import average as average
from tapec.numpy.reductions import cumprod as cumprod
from tapec.numpy.reductions import cumsum as cumsum
from tapec.numpy.reductions import cumulative_prod as cumulative_prod
from tapec.numpy.reductions import cumulative_sum as cumulative_sum
from tapec.numpy.reductions import max as max
from tapec.numpy.reductions import mean as mean
from tapec.numpy.reductions import min as min
from tapec.numpy.reductions import nancumprod as nancumprod
from tapec.numpy.reductions import nancumsum as nancumsum
from tapec.numpy.reductions import nanmax as nanmax
from tapec.numpy.reductions import nanmean as nanmean
from tapec.numpy.reductions import nanmin as nanmin
from tapec.numpy.reductions import nanprod as nanprod
from tapec.numpy.reductions import nanstd as nanstd
from tapec.numpy.reductions import nansum as nansum
from tapec.numpy.reductions import nanvar as nanvar
from tapec.numpy.reductions import prod as prod
from tapec.numpy.reductions import ptp as ptp
from tapec.numpy.reductions import std as std
from tapec.numpy.reductions import sum as sum
from tapec.numpy.reductions import var as var
from tapec.numpy.shaping import atleast_1d as atleast_1d
from tapec.numpy.shaping import atleast_2d as atleast_2d
from tapec.numpy.shaping import atleast_3d as atleast_3d
from tapec.numpy.shaping import broadcast_arrays as broadcast_arrays
from tapec.numpy.shaping import broadcast_shapes as broadcast_shapes
from tapec.numpy.shaping import broadcast_to as broadcast_to
from tapec.numpy.shaping import expand_dims as expand_dims
from tapec.numpy.shaping import flip as flip
from tapec.numpy.shaping import fliplr as fliplr
from tapec.numpy.shaping import flipud as flipud
from tapec.numpy.shaping import matrix_transpose as matrix_transpose
from tapec.numpy.shaping import moveaxis as moveaxis
from tapec.numpy.shaping import pad as pad
from tapec.numpy.shaping import permute_dims as permute_dims
from tapec.numpy.shaping import ravel as ravel
from tapec.numpy.shaping import repeat as repeat
from tapec.numpy.shaping import reshape as reshape
from tapec.numpy.shaping import roll as roll
from tapec.numpy.shaping import rot90 as rot90
from tapec.numpy.shaping import squeeze as squeeze
from tapec.numpy.shaping import swapaxes as swapaxes
from tapec.numpy.shaping import tile as tile
from tapec.numpy.shaping import transpose as transpose
from tapec.numpy.statistics import bincount as bincount
from tapec.numpy.statistics import corrcoef as corrcoef
from tapec.numpy.statistics import cov as cov
from tapec.numpy.statistics import diff as diff
from tapec.numpy.statistics import ediff1d as ediff1d
from tapec.numpy.statistics import histogram as histogram
from tapec.numpy.statistics import histogram_bin_edges as histogram_bin_edges
from tapec.numpy.statistics import interp as interp
from tapec.numpy.statistics import median as median
from tapec.numpy.statistics import nanmedian as nanmedian
from tapec.numpy.statistics import nanpercentile as nanpercentile
from tapec.numpy.statistics import nanquantile as nanquantile
from tapec.numpy.statistics import percentile as percentile
from tapec.numpy.statistics import quantile as quantile
from tapec.numpy.statistics import trapezoid as trapezoid
from tapec.numpy.windows import bartlett as bartlett
from tapec.numpy.windows import blackman as blackman
from tapec.numpy.windows import hamming as hamming
from tapec.numpy.windows import hanning as hanning
from tapec.numpy.windows import kaiser as kaiser
from tapec.tensor import Tensor

__array_api_version__ = "2024.12"

e = math.e
euler_gamma = 0.57721566490153286061
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi

# The same under other names.
ndarray = Tensor
absolute = abs
amax = max
amin = min
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
around = round
bitwise_not = bitwise_invert
conjugate = conj
degrees = rad2deg
fix = trunc
invert = bitwise_invert
left_shift = bitwise_left_shift
mod = remainder
power = pow
radians = deg2rad
right_shift = bitwise_right_shift
rint = round
true_divide = divide

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("numpy")
