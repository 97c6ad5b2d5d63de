"""What the cost model expects of every workload's kernels, beside what they take.

    python limits.py > limits.json
    python explain.py --limits limits.json --threads 1 [--workload mlp_train,pinn] [--kernels 5] > explain.md

The model is `tapec.compiled.expectation`; its constants are the measured limits alone. `program / expected` far from 1
says where the next bottleneck is: with ``--kernels N``, each workload's N kernels that lose most are listed, with
their lines. A call is longer than its kernels by `outside`: checks of the arguments, memory for results.
"""

import argparse
import importlib
import json
import os
import pathlib
import statistics
import sys

from worker import ROOT, load_tapec_workload, timed_calls

HERE = os.path.join(ROOT, "tapec_workloads")


def workloads():
    """The names of all that are compiled."""
    names = sorted(p.stem for p in pathlib.Path(HERE).glob("[a-z]*.py"))
    return [name for name in names if not name.startswith("eager")]


def profiled(name, threads):
    """The profile of a workload's train step, and the seconds of a step as a user takes it."""
    from tapec.compiled.profile import profile_of
    from tapec.recording import program_listeners

    found = []
    program_listeners.append(lambda function, call, program: found.append((call, program)))
    try:
        name, _, case = name.partition(":")
        module = importlib.import_module("workloads." + name)
        data = module.make_data(case) if case else module.make_data()
        step = load_tapec_workload(HERE, name).build_tapec(data, threads).step
        step()
    finally:
        program_listeners.pop()
    call, program = max(found, key=lambda pair: pair[1].executable.kernels)
    profile = profile_of(program, call.tensors, program.first_numbers())
    return profile, statistics.median(timed_calls(step, 0.4, 5))


def text(seconds):
    """A time for people."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def record(name, threads, limits, kernels):
    """What is kept of one workload: times in seconds, and the cells of the kernels that lose most."""
    from tapec.compiled.expectation import Limits

    plain, step = profiled(name, threads)
    profile = plain.against(Limits.of(limits))
    return {
        "workload": name,
        "threads": threads,
        "step": step,
        "program": profile.seconds,
        "kernels": sum(k.seconds for k in profile.kernels),
        "expected": profile.expected,
        "losers": losers(profile, kernels),
    }


def losers(profile, count):
    """The cells of the kernels that take longest beyond what is expected."""
    found = []
    for k in sorted(profile.kernels, key=lambda k: k.expected - k.seconds)[:count]:
        line = "" if k.location is None else f"`{k.location.text.replace('|', chr(92) + '|')}`"
        rates = (f"{k.flops_per_second / 1e9:.1f}", f"{k.bytes_per_second / 1e9:.1f}")
        found.append(
            [str(k.number), text(k.seconds), text(k.expected), *rates, k.cost.work, line]
        )
    return found


def table(head, rows):
    """Print a table."""
    for cells in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(cells)} |", flush=True)


def tables(records):
    """Print what was found, by the number of threads."""
    for threads in sorted({r["threads"] for r in records}):
        own = [r for r in records if r["threads"] == threads]
        print(f"\n## Cost model, {threads} thread{'s' * (threads > 1)}\n")
        head = ("workload", "step", "program", "kernels", "expected", "program / expected")
        table(head, [row(r) for r in own])
        for r in own:
            if r["losers"]:
                print(f"\n#### {r['workload']}\n")
                head = ("kernel", "takes", "expected", "Gflop/s", "GB/s", "operations", "line")
                table(head, r["losers"])


def row(r):
    """A row of the summary."""
    ratio = r["program"] / r["expected"] if r["expected"] else float("nan")
    seconds = (r["step"], r["program"], r["kernels"], r["expected"] or 0)
    return [r["workload"], *map(text, seconds), f"{ratio:.2f}"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limits", required=True)
    parser.add_argument("--workload", help="names, separated by commas; all if none are given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=0, help="list so many kernels of each")
    parser.add_argument("--json", metavar="FILE", help="append a line for each; print nothing")
    args = parser.parse_args()
    os.environ["TAPEC_NUM_THREADS"] = str(args.threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    with open(args.limits) as f:
        limits = json.load(f)
    found = []
    for name in args.workload.split(",") if args.workload else workloads():
        found.append(record(name, args.threads, limits, args.kernels))
        if args.json:
            with open(args.json, "a") as f:
                f.write(json.dumps(found[-1]) + "\n")
    if not args.json:
        tables(found)


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    main()
