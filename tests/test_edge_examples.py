"""The examples of machines without Python do what they claim."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from toolchains import need

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "edge"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_a_classifier_learns_on_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    need("arm-none-eabi-gcc", "qemu-system-arm")
    out = printed("digits", capsys)
    assert "on the device" in out
    here, turned, after = (float(x) for x in re.findall(r"([\d.]+) %", out))
    assert here > 93
    assert turned < 60
    assert after > 80


def test_a_network_for_keywords_trains_in_256_kilobytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = printed("keywords", capsys)
    assert float(re.findall(r"heard right: ([\d.]+)", out)[0]) > 90
    taken = [int(x.replace(",", "")) for x in re.findall(r"RAM +([\d,]+)", out)]
    assert len(taken) == 3
    assert max(taken) < 256 * 1024


def test_a_recurrent_network_is_built_for_three_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = printed("recurrent", capsys)
    before, after = map(float, re.findall(r"(?:first|last) ([\d.]+)", out))
    assert after < before / 5
    assert all(name in out for name in ("cortex-m4f", "wasm32", "vibration.c"))
