"""The examples of machines without Python do what they claim, and their training runs on three machines each."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import in_webassembly, trained
from test_aot_nets import losses
from toolchains import need, run

from tapec import aot

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "edge"
STEPS = 6
#: A squared error that comes near zero is the square of a difference of numbers about 1.
NEAR = 1e-9


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    """What an example says, and what it defines."""
    names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out, names


def test_a_classifier_learns_on_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    need("arm-none-eabi-gcc", "qemu-system-arm")
    out, _ = printed("digits", capsys)
    assert "on the device" in out
    here, turned, after = (float(x) for x in re.findall(r"([\d.]+) %", out))
    assert here > 93
    assert turned < 60
    assert after > 80


def test_a_network_for_keywords_trains_in_256_kilobytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """State, arena and stack, all told; the losses on each machine are those here."""
    out, names = printed("keywords", capsys)
    assert float(re.findall(r"heard right: ([\d.]+)", out)[0]) > 90
    taken = [int(x.replace(",", "")) for x in re.findall(r"RAM +([\d,]+)", out)]
    assert len(taken) == 3
    assert max(taken) < 256 * 1024
    functions = {"infer": names["hear"], "train": names["learn"]}
    types = {"infer": names["shape"], "train": f"{names['shape']} i32[1]"}
    given = [names["spoken"](1) for _ in range(STEPS)]
    built = {
        target: aot.build(functions, types, target=target, name="net", selftest=True)
        for target in names["TARGETS"]
    }
    wanted = [names["learn"](x, y).numpy() for x, y in given]
    for target, model in built.items():
        found = trained(target, model, given, STEPS, tmp_path / target)
        np.testing.assert_allclose(found.losses, wanted, rtol=1e-5)
        assert found.stack <= model.stack_bytes["train"] <= 1.5 * found.stack
        ram = model.state_bytes + model.arena_bytes + model.stack_bytes["train"]
        assert ram < 256 * 1024


def test_a_recurrent_network_trains_on_three_machines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need("gcc")
    out, names = printed("recurrent", capsys)
    before, after = map(float, re.findall(r"(?:first|last) ([\d.]+)", out))
    assert after < before / 5
    assert all(name in out for name in ("cortex-m4f", "wasm32", "vibration.c"))
    functions = {"infer": names["foretell"], "train": names["learn"]}
    types = {"infer": names["types"]["foretell"], "train": names["types"]["learn"]}
    given = [names["vibration"](5 * i) for i in range(STEPS)]

    def built(target: str, emit: str) -> aot.Built:
        return aot.build(
            functions, types, target=target, name="net", emit=emit, selftest=target != "wasm32"
        )

    chip, browser = built("cortex-m4f", "obj,header"), built("wasm32", "obj,header")
    source = built("c", "c")
    wanted = [names["learn"](x, y).numpy() for x, y in given]
    found = trained("cortex-m4f", chip, given, STEPS, tmp_path / "chip").losses
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=NEAR)
    found, _ = in_webassembly(browser, given, tmp_path / "browser")
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=NEAR)
    source.write(tmp_path)
    options = "-std=c99 -O1 -ffp-contract=off -fPIC -shared net.c -o c.so".split()
    run("gcc", *options, cwd=tmp_path)
    np.testing.assert_allclose(
        losses(tmp_path / "c.so", source, given), wanted, rtol=1e-5, atol=NEAR
    )


def test_the_commands_of_the_manual_make_firmware_that_runs(tmp_path: Path) -> None:
    """Taken from the page as they stand there: the program, the build, the C program, compiler and emulator."""
    need("arm-none-eabi-gcc", "qemu-system-arm")
    page = (EXAMPLES.parents[1] / "docs" / "edge.md").read_text()
    program, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    example, *_ = re.findall(r"```text\n(#include.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "main.c").write_text(example)
    (tmp_path / "examples").symlink_to(EXAMPLES.parent)
    commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert [text.split()[0] for text in commands] == ["tapec", "arm-none-eabi-gcc"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "set -e\n" + "\n".join(commands).replace("qemu", "timeout 60 qemu")
    run("bash", "-c", script, cwd=tmp_path, env={"PATH": path})
    assert (tmp_path / "firmware").exists()
