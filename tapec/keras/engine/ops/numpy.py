"""Keras' operations of NumPy's names; each stands in the module of its kind."""

from tapec.keras.engine.arrangement import *
from tapec.keras.engine.creation import *
from tapec.keras.engine.elementwise import *
from tapec.keras.engine.products import *
from tapec.keras.engine.reductions import *
from tapec.keras.engine.selection import *
