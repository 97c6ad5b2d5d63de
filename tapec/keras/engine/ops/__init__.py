"""Keras' operations, in the modules that it expects."""

from tapec.keras.engine.ops import core as core
from tapec.keras.engine.ops import image as image
from tapec.keras.engine.ops import linalg as linalg
from tapec.keras.engine.ops import math as math
from tapec.keras.engine.ops import nn as nn
from tapec.keras.engine.ops import numpy as numpy
from tapec.keras.engine.ops.core import *
