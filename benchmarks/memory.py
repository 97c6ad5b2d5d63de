"""Print the planned memory of each workload's step: the arena, its lower bound, and their ratio.

The plan is read from the dump that tapec writes of its passes (``TAPEC_DUMP``), so what is printed is what runs.

    python benchmarks/memory.py [WORKLOAD ...]
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

from tapec.ir.parser import parse_module

HERE = Path(__file__).parent
WORKLOADS = ("dispatch", "mlp_small", "mlp_train", "wgan_gp", "pinn")


def plan_of(name: str) -> tuple[int, int]:
    """Bytes of the arena and its lower bound, of the largest program that a workload compiles."""
    data = importlib.import_module(f"workloads.{name}").make_data(None)
    workload = importlib.import_module(f"tapec_workloads.{name}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TAPEC_DUMP"] = folder
        workload.build_tapec(data, 1).step()
        dumps = sorted(Path(folder).rglob("*-plan.tir"))
        plans = [parse_module(path.read_text(encoding="utf-8")).entry.attrs for path in dumps]
    return max((plan["arena"], plan["lower_bound"]) for plan in plans)


def main() -> None:
    """Print a row for each workload."""
    sys.path.insert(0, str(HERE))
    print(f"{'workload':12} {'arena':>12} {'lower bound':>12}  ratio")
    for name in sys.argv[1:] or WORKLOADS:
        arena, bound = plan_of(name)
        ratio = arena / bound if bound else 1.0
        print(f"{name:12} {arena:10,} B {bound:10,} B  {ratio:.3f}")


if __name__ == "__main__":
    main()
