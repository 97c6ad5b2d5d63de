"""The namespace ``tapec.nn.experimental``."""

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.functions.statistics import general_dropout as general_dropout
from tapec.functions.statistics import stateless_dropout as stateless_dropout

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("nn.experimental")
