"""The namespace ``tapec.experimental``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.compiled.preloading import load_compiler as load_compiler
from tapec.functions.keeping import keep as keep
from tapec.interchange import cuda as cuda
from tapec.interchange import dlpack as dlpack

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("experimental")
