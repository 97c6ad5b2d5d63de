"""The namespace ``tapec.debugging``: checks of values, shapes and gradients, and what tapes explain and report."""

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.alarms.numerics import disable_check_numerics as disable_check_numerics
from tapec.alarms.numerics import enable_check_numerics as enable_check_numerics
from tapec.derivatives.differences import check_gradients as check_gradients
from tapec.derivatives.differences import compute_gradient as compute_gradient
from tapec.devices import get_log_device_placement as get_log_device_placement
from tapec.devices import set_log_device_placement as set_log_device_placement
from tapec.explanations.explanation import Cause as Cause
from tapec.explanations.explanation import Explanation as Explanation
from tapec.explanations.explanation import Explanations as Explanations
from tapec.explanations.report import Report as Report
from tapec.functions.assertions import Assert as Assert
from tapec.functions.assertions import assert_all_finite as assert_all_finite
from tapec.functions.assertions import assert_equal as assert_equal
from tapec.functions.assertions import assert_greater as assert_greater
from tapec.functions.assertions import assert_greater_equal as assert_greater_equal
from tapec.functions.assertions import assert_integer as assert_integer
from tapec.functions.assertions import assert_less as assert_less
from tapec.functions.assertions import assert_less_equal as assert_less_equal
from tapec.functions.assertions import assert_near as assert_near
from tapec.functions.assertions import assert_negative as assert_negative
from tapec.functions.assertions import assert_non_negative as assert_non_negative
from tapec.functions.assertions import assert_non_positive as assert_non_positive
from tapec.functions.assertions import assert_none_equal as assert_none_equal
from tapec.functions.assertions import assert_positive as assert_positive
from tapec.functions.assertions import assert_proper_iterable as assert_proper_iterable
from tapec.functions.assertions import assert_rank as assert_rank
from tapec.functions.assertions import assert_rank_at_least as assert_rank_at_least
from tapec.functions.assertions import assert_rank_in as assert_rank_in
from tapec.functions.assertions import assert_same_float_dtype as assert_same_float_dtype
from tapec.functions.assertions import assert_scalar as assert_scalar
from tapec.functions.assertions import assert_shapes as assert_shapes
from tapec.functions.assertions import assert_type as assert_type
from tapec.functions.assertions import check_numerics as check_numerics
from tapec.functions.assertions import is_numeric_tensor as is_numeric_tensor

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("debugging")
