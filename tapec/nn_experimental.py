"""The namespace ``tapec.nn.experimental``."""

from tapec.functions.statistics import general_dropout as general_dropout
from tapec.functions.statistics import stateless_dropout as stateless_dropout
