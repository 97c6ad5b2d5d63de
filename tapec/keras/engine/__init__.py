"""What Keras takes for a backend, made of tapec's functions.

Keras knows two ways to lay a backend out. Before 3.16 functions stand in the backend itself, later in ``ops``; both
are here. See `tapec.keras.loading` for how it is found.
"""

from keras.src.backend.common.name_scope import name_scope as name_scope

from tapec.keras.engine import ops as ops
from tapec.keras.engine import random as random
from tapec.keras.engine.ops import core as core
from tapec.keras.engine.ops import image as image
from tapec.keras.engine.ops import linalg as linalg
from tapec.keras.engine.ops import math as math
from tapec.keras.engine.ops import nn as nn
from tapec.keras.engine.ops import numpy as numpy
from tapec.keras.engine.ops.core import *  # noqa: F403
from tapec.keras.engine.rnn import bidirectional_gru as bidirectional_gru
from tapec.keras.engine.rnn import bidirectional_lstm as bidirectional_lstm
from tapec.keras.engine.rnn import cudnn_ok as cudnn_ok
from tapec.keras.engine.rnn import gru as gru
from tapec.keras.engine.rnn import lstm as lstm
from tapec.keras.engine.rnn import rnn as rnn
