"""The names that Keras expects of a backend from 3.16 on, where operations stand in ``ops``."""

from keras.src.backend.common.name_scope import name_scope as name_scope

from tapec.keras.engine import distribution_lib as distribution_lib
from tapec.keras.engine import ops as ops
from tapec.keras.engine import random as random
from tapec.keras.engine import rnn as rnn
from tapec.keras.engine.ops.core import IS_THREAD_SAFE as IS_THREAD_SAFE
from tapec.keras.engine.ops.core import SUPPORTS_COMPLEX_DTYPES as SUPPORTS_COMPLEX_DTYPES
from tapec.keras.engine.ops.core import SUPPORTS_GRADIENT as SUPPORTS_GRADIENT
from tapec.keras.engine.ops.core import SUPPORTS_RAGGED_TENSORS as SUPPORTS_RAGGED_TENSORS
from tapec.keras.engine.ops.core import SUPPORTS_SPARSE_TENSORS as SUPPORTS_SPARSE_TENSORS
from tapec.keras.engine.ops.core import Variable as Variable
from tapec.keras.engine.ops.core import compute_output_spec as compute_output_spec
from tapec.keras.engine.ops.core import device_scope as device_scope
