"""The namespace ``tapec.experimental``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.absent import names_of
from tapec.interchange import dlpack as dlpack

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__ = names_of("experimental")
