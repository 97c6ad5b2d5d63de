"""Everything there is to know about the cuda target on a machine that has a GPU, in one command.

    python gpu.py                                      # all of it
    python gpu.py operations workloads                 # what it computes, and nothing of time
    python gpu.py counts                               # launches and arena of each step: this needs no GPU
    python gpu.py steps --python jax=JAX_VENV/bin/python --python torch=TORCH_VENV/bin/python

Sections: ``counts`` lists what a step launches; ``operations`` and ``workloads`` compare with the processor's numbers;
``products`` times matrix products beside cuBLAS (by PyTorch), ``elementwise`` the memory's bandwidth beside a copy,
``launches`` what a call and a launch cost, ``steps`` the train steps of the benchmarks beside JAX and torch.compile,
all of them in single precision with no TF32; ``racecheck`` runs small steps in NVIDIA's compute-sanitizer.
The exit status is 0 if all is right, 1 if something is wrong or failed, 2 if there is no GPU.

It needs tapec with its extra ``cuda``, and pytest with the extra ``dev`` for what the tests know of operations.
``cuda.py`` is this command by the name of the target.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from gpu_peer import seconds_of  # noqa: E402

import tapec  # noqa: E402  behind the path, for a checkout that is not installed
from tapec.compiler import lowered_for  # noqa: E402
from tapec.errors import TargetError  # noqa: E402
from tapec.runtime.cuda.device.driver import OPENED, Driver, device  # noqa: E402
from tapec.runtime.cuda.launches import listing  # noqa: E402
from tapec.runtime.cuda.program import compile_program  # noqa: E402
from tapec.runtime.cuda.text.module_text import Text  # noqa: E402
from tapec.runtime.residence import on_host  # noqa: E402

NO_DEVICE = 2
#: Whole train steps, and what has no step but is compiled whole.
WORKLOADS = (
    *("mlp_small", "mlp_train", "cnn_train", "transformer_train", "lstm_train", "pinn", "gmm"),
    *("wgan_gp", "batchnorm_dropout_mlp", "elementwise", "matmul_relu", "dispatch", "vdp_scan"),
)
#: For the sanitizer, which is slow: sizes in place of a workload's own.
SMALL: dict[str, dict[str, Any]] = {
    "mlp_train": {"SIZES": (48, 64, 64, 10), "BATCH": 40},
    "transformer_train": {"BLOCKS": 1, "WIDTH": 32, "HEADS": 2, "TIME": 16, "BATCH": 4},
    "lstm_train": {"TIME": 6, "BATCH": 8, "INPUTS": 12, "HIDDEN": 16},
}
Row = tuple[str, str, bool]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; print a table for each section."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], help="all if none is named")
    parser.add_argument("--device", type=int, default=0, help="the number of the GPU")
    parser.add_argument("--python", action="append", default=[], help="jax=… or torch=…")
    chosen = parser.parse_args(arguments)
    if chosen.sections == ["counts"]:
        return report(["counts"], None, {})
    try:
        driver = device(chosen.device)
    except TargetError as error:
        print(f"There is no GPU to use here, so nothing was run.\n{error}")
        return NO_DEVICE
    pythons = dict(entry.split("=", 1) for entry in chosen.python)
    return report(chosen.sections or list(SECTIONS), driver, pythons)


def report(sections: Sequence[str], driver: Any, pythons: dict[str, str]) -> int:
    """Print the rows of each section as they come; a section that fails is one that is wrong."""
    wrong = 0
    for name in sections:
        print(f"\n{name}\n{'-' * len(name)}", flush=True)
        for what, found, right in rows_of(name, driver, pythons):
            wrong += not right
            print(f"{what:40} {found}{'' if right else '   WRONG'}", flush=True)
    print(f"\n{wrong} wrong")
    return int(wrong > 0)


def rows_of(name: str, driver: Any, pythons: dict[str, str]) -> Iterator[Row]:
    """The rows of a section; the last one tells why there are no more."""
    try:
        yield from SECTIONS[name](driver, pythons)
    except Exception as error:  # whatever it is, other sections are to be tried too
        yield name, f"ends: {' '.join(str(error).split())[:200]}", False


# ---- what is launched


class Listed(Exception):
    """A program is about to be loaded, and nothing more is wanted of it than its text."""


class NoDevice:
    """What stands for a device that is told programs and runs none."""

    number = stream = 0

    def load(self, text: Text) -> Any:
        """Hand the text on."""
        raise Listed(text)


def text_of(name: str) -> Any:
    """The kernels of a workload's step, and their launches; this needs no GPU."""
    usual = OPENED.get(0)
    OPENED[0] = NoDevice()  # type: ignore[assignment]
    try:
        built(name, "cuda:0").step()
    except Listed as listed:
        return listed.args[0]
    finally:
        del OPENED[0]
        if usual is not None:
            OPENED[0] = usual
    raise RuntimeError(f"{name} compiles nothing")


def counts(driver: Any, pythons: Any) -> Iterator[Row]:
    """Launches and arena of each workload's step."""
    for name in WORKLOADS:
        yield name, listing(text_of(name)).partition("\n")[0][2:], True


# ---- what is computed


def operations(driver: Driver, pythons: Any, names: Sequence[str] = ()) -> Iterator[Row]:
    """Every operation at its samples, in every dtype that it takes, against the evaluator."""
    from programs_of_ops import assert_close, sample_program  # of the tests
    from sampling import tensor_ops

    def on_device(module: Any) -> Callable[..., Any]:
        program = compile_program(lowered_for(module, "cuda"), driver)
        return lambda *arrays: [on_host(result) for result in program(*arrays)]

    right = 0
    for defn in tensor_ops():
        if names and defn.name not in names:
            continue
        try:
            pairs = list(sample_program(defn).run(on_device))
            for found, expected in pairs:
                assert_close(found, expected, ulps=16)
            right += 1
        except Exception as error:  # whatever it is, others are to be tried too
            yield defn.name, " ".join(str(error).split())[:200], False
    yield "operations that are right", str(right), True


def workloads(driver: Driver, pythons: Any, sizes: Any = None) -> Iterator[Row]:
    """Three steps of each, against the processor's."""
    sizes = sizes if sizes is not None else {name: {} for name in WORKLOADS}
    for name, own in sizes.items():
        try:
            usual, found = (after_steps(name, target, own) for target in ("cpu", target_of(driver)))
            worst = max(map(difference, found, usual), default=0.0)
            yield name, f"differs by {worst:.1e} of the largest number", worst < 2e-3
        except Exception as error:  # as above
            yield name, " ".join(str(error).split())[:200], False


def target_of(driver: Driver) -> str:
    return f"cuda:{driver.number}"


def difference(found: Any, expected: Any) -> float:
    """The largest one, as a part of the largest number."""
    scale = float(np.max(np.abs(expected), initial=1e-30))
    return float(np.max(np.abs(np.subtract(found, expected)), initial=0.0)) / scale


def after_steps(name: str, target: str, sizes: dict[str, Any], steps: int = 3) -> list[Any]:
    """Losses, and what a workload compares after them."""
    with sized(name, sizes):
        program = built(name, target)
        losses = [program.step() for _ in range(steps)]
    outputs = program.outputs()
    return [*(float(x) for x in losses if x is not None), *(outputs[k] for k in sorted(outputs))]


@contextlib.contextmanager
def sized(name: str, sizes: dict[str, Any]) -> Iterator[None]:
    """Sizes in place of a workload's own."""
    workload = importlib.import_module(f"workloads.{name}")
    before = {key: getattr(workload, key) for key in sizes}
    vars(workload).update(sizes)
    try:
        yield
    finally:
        vars(workload).update(before)


def built(name: str, target: str) -> Any:
    """A workload's program for a target."""
    path = HERE / "tapec_workloads" / f"{name}.py"
    spec: Any = importlib.util.spec_from_file_location(f"gpu_{name}", path)
    module = importlib.util.module_from_spec(spec)
    plain = tapec.compile
    tapec.compile = partial(plain, target=target)
    try:
        spec.loader.exec_module(module)
        return module.build_tapec(importlib.import_module(f"workloads.{name}").make_data(), 1)
    finally:
        tapec.compile = plain


# ---- how long it takes


def products(
    driver: Driver, pythons: Any, sizes: Sequence[int] = (512, 1024, 2048, 4096, 8192)
) -> Iterator[Row]:
    """Square ones of single precision, and narrow ones; cuBLAS without TF32."""
    shapes = [(n, n, n) for n in sizes] + [(64, 8192, 64), (16, 4096, 4096)]
    for m, k, n in shapes if len(sizes) > 1 else shapes[:1]:
        multiply = tapec.compile(lambda a, b: a @ b, target=target_of(driver))
        a, b = (placed(driver, np.ones(s, np.float32)) for s in ((m, k), (k, n)))
        took = seconds_of(lambda f=multiply, a=a, b=b: f(a, b), lambda: waited(driver))
        rate = f"{2e-12 * m * k * n / took:8.2f} TFLOP/s"
        right = bool((multiply(a, b).numpy() == k).all())
        yield f"[{m},{k}] @ [{k},{n}]", f"{rate}, cuBLAS {cublas(m, k, n)}", right


def cublas(m: int, k: int, n: int) -> str:
    """The same by PyTorch, if that is here."""
    try:
        import torch
    except ImportError:
        return "not compared: PyTorch is not installed"
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.ones(s, device="cuda") for s in ((m, k), (k, n)))
    took = seconds_of(lambda: torch.mm(a, b), torch.cuda.synchronize)
    return f"{2e-12 * m * k * n / took:8.2f} TFLOP/s"


def elementwise(driver: Driver, pythons: Any, count: int = 1 << 26) -> Iterator[Row]:
    """Bytes that are read and written in a second."""
    x = placed(driver, np.ones(count, np.float32))
    to = driver.allocate(4 * count, driver.stream)
    address = x.__cuda_array_interface__["data"][0]
    copied = seconds_of(
        lambda: driver.copy(to, address, 4 * count, driver.stream), lambda: waited(driver)
    )
    driver.free(to, driver.stream)
    yield "a copy by the driver", f"{8e-9 * count / copied:8.1f} GB/s", True
    for name, function in (
        ("2 x + 1", lambda x: 2.0 * x + 1.0),
        ("tanh(x) exp(-x)", lambda x: tapec.tanh(x) * tapec.exp(-x)),
        ("sum(x)", tapec.reduce_sum),
    ):
        program = tapec.compile(function, target=target_of(driver))
        took = seconds_of(lambda f=program: f(x), lambda: waited(driver))
        moved = (4 if name == "sum(x)" else 8) * count
        yield name, f"{1e-9 * moved / took:8.1f} GB/s", True


def launches(driver: Driver, pythons: Any) -> Iterator[Row]:
    """A call that does next to nothing, and one of many launches, each of which waits for the one before."""
    x = placed(driver, np.ones(4, np.float32))
    one = tapec.compile(lambda x: x + 1.0, target=target_of(driver))
    took = seconds_of(lambda: one(x), lambda: waited(driver))
    yield "a call of one launch", f"{1e6 * took:8.2f} µs", True
    took = seconds_of(lambda: one(x).numpy(), lambda: None)
    yield "the same, and its result read", f"{1e6 * took:8.2f} µs", True

    @tapec.compile(target=target_of(driver))
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = tapec.sort(x) * 0.5
        return x

    took = seconds_of(lambda: chain(x), lambda: waited(driver))
    first = chain.lower(x).text("cuda").partition("\n")[0]
    yield f"a chain ({first[2:]})", f"{1e6 * took:8.2f} µs", True


def steps(driver: Driver, pythons: dict[str, str]) -> Iterator[Row]:
    """Train steps, in a process of its own for each library."""
    for name in WORKLOADS:
        found = []
        for peer in ("tapec", "jax", "torch"):
            took = in_process(pythons.get(peer, sys.executable), peer, name, driver.number)
            found.append(f"{peer} {took}")
        yield name, ", ".join(found), "failed" not in found[0]


def in_process(python: str, peer: str, name: str, number: int) -> str:
    command = [python, str(HERE / "gpu_peer.py"), peer, name, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return f"failed ({last[:80]})"
    return f"{1e3 * json.loads(lines[-1])['seconds']:.3f} ms"


def placed(driver: Driver, array: Any) -> Any:
    return tapec.experimental.cuda.to_device(array, driver.number)


def waited(driver: Driver) -> None:
    tapec.experimental.cuda.synchronize(driver.number)


# ---- what is wrong though the numbers are right


def racecheck(driver: Driver, pythons: Any) -> Iterator[Row]:
    """Small steps in compute-sanitizer, which sees races of shared memory, bad addresses and bad barriers."""
    tool = shutil.which("compute-sanitizer") or next(
        (
            str(p)
            for p in Path(sys.prefix).glob("lib/*/site-packages/nvidia/*/bin/compute-sanitizer")
        ),
        None,
    )
    if tool is None:
        yield "compute-sanitizer", "is not installed, so nothing was checked", True
        return
    code = f"import gpu; raise SystemExit(gpu.run_small({driver.number}))"
    for check in ("racecheck", "memcheck", "synccheck", "initcheck"):
        command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, "-c", code]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
        said = [
            line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line or "hazard" in line
        ]
        yield check, (said or [f"exit status {done.returncode}"])[-1], done.returncode == 0


def run_small(number: int) -> int:
    """What the sanitizer watches."""
    rows = list(workloads(device(number), {}, SMALL))
    return int(not all(right for _, _, right in rows))


SECTIONS: dict[str, Callable[[Driver, Any], Iterator[Row]]] = {
    "counts": counts,
    "operations": operations,
    "workloads": workloads,
    "products": products,
    "elementwise": elementwise,
    "launches": launches,
    "steps": steps,
    "racecheck": racecheck,
}

if __name__ == "__main__":
    sys.exit(main())
