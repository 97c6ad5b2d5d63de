"""Keras on tapec for tests; where the extra is not installed they are skipped, and fail where CI is set."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("keras") is None and not os.environ.get("CI"):
    pytest.skip("Keras is not installed: pip install 'tapec[keras]'", allow_module_level=True)

import tapec.keras

keras: Any = tapec.keras
