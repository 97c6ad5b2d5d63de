"""How well, and how fast, tapec places MiniMalloc's challenging instances.

    python benchmarks/planner.py --seconds 10 --capacity 1048576
    python benchmarks/planner.py --seconds 1

For each instance: the bytes taken, over the most that are alive at one time; whether that is proven to be the least;
and the seconds it took, in a process that has the search compiled already.
"""

import argparse
import csv
import math
import time
from pathlib import Path

from tapec.passes.memory.arena.buffers import Buffer, collisions, most_alive
from tapec.passes.memory.arena.first_fit import first_fit
from tapec.passes.memory.arena.planning import best_plan
from tapec.passes.memory.arena.search import load

INSTANCES = Path(__file__).parent / "minimalloc" / "challenging"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--capacity", type=int)
    args = parser.parse_args()
    load()
    print(
        "| instance | buffers | first fit | search | proven | seconds |\n|---|---|---|---|---|---|"
    )
    ratios = []
    for path in sorted(INSTANCES.glob("*.csv")):
        with path.open() as lines:
            rows = [
                Buffer(int(r["lower"]), int(r["upper"]), int(r["size"]))
                for r in csv.DictReader(lines)
            ]
        start = time.perf_counter()
        plan = best_plan(rows, seconds=args.seconds, capacity=args.capacity)
        seconds = time.perf_counter() - start
        assert not collisions(rows, plan.offsets)
        alive = most_alive(rows)
        ratios.append(plan.total / alive)
        enough = args.capacity is None or plan.total <= args.capacity
        print(
            f"| {path.name[0]} | {len(rows)} | {first_fit(rows).total / alive:.3f} | {plan.total / alive:.3f}"
            f"{'' if enough else ' (over)'} | {'yes' if plan.is_optimal else ''} | {seconds:.2f} |",
            flush=True,
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\ngeometric mean {mean:.4f}, worst {max(ratios):.4f} of the bytes alive at one time")


if __name__ == "__main__":
    main()
