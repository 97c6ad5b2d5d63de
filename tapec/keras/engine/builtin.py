"""The names that Keras expects of a backend before 3.16: the operations that it uses itself, and the modules."""

from keras.src.backend.common.name_scope import name_scope as name_scope

from tapec.keras.engine import random as random
from tapec.keras.engine.ops import core as core
from tapec.keras.engine.ops import image as image
from tapec.keras.engine.ops import linalg as linalg
from tapec.keras.engine.ops import math as math
from tapec.keras.engine.ops import nn as nn
from tapec.keras.engine.ops import numpy as numpy
from tapec.keras.engine.ops.core import *
from tapec.keras.engine.rnn import bidirectional_gru as bidirectional_gru
from tapec.keras.engine.rnn import bidirectional_lstm as bidirectional_lstm
from tapec.keras.engine.rnn import cudnn_ok as cudnn_ok
from tapec.keras.engine.rnn import gru as gru
from tapec.keras.engine.rnn import lstm as lstm
from tapec.keras.engine.rnn import rnn as rnn
