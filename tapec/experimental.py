"""The namespace ``tapec.experimental``."""

from __future__ import annotations

from tapec.interchange import dlpack as dlpack
