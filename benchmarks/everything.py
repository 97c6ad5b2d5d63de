"""Run everything, and write it down: RESULTS.md with this machine's description, and the raw results beside it.

    python everything.py --python jax=JAX_VENV/bin/python --python torch=TORCH_VENV/bin/python \
        --python tensorflow=TF_VENV/bin/python --python pytensor=PYTENSOR_VENV/bin/python

tapec takes part under this interpreter, and of each framework that is named those peers which `contenders.json` has for
a workload: JAX, with whose first call and memory tapec's are compared, and who took no more than twice the time of the
fastest peer in a run with all of them (``--survey`` is that run, and writes the file; ``--all-peers`` lets all take part).

In turn: the machine's limits (needs gcc); each workload with each number of threads (`run.py`); steps for batches of any
size (`open_sizes.py`); what the cost model says of each workload (`explain.py`). Each piece is a process of its own with
a time limit. What fails is a line of the page and not the end; ``--resume`` does what a run that was broken off has left,
and what failed. With ``--minutes`` no piece starts later, and what is left is named. Nothing else should run meanwhile:
with five rounds it takes a quarter of an hour.
``--quick`` is for trying the command itself; ``--write-only`` writes the page from the results that are there.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import explain
import page
import report
from worker import PEERS, ROOT

SIZES = (16, 64, 128, 512, 1024)
CONTENDERS = pathlib.Path(ROOT) / "contenders.json"
WITHIN = 2.0

# label: tells pieces apart; command: argument list; seconds: its time limit; out: the file that its output goes to
Piece = collections.namedtuple("Piece", "label command seconds out", defaults=[None])


def workloads():
    """All of them, products in several sizes."""
    names = [name for name in explain.workloads() if name != "matmul_relu"]
    return [*names, *(f"matmul_relu:{n}" for n in SIZES), *page.EAGER]


def peers_of(name, args):
    """Those that are timed for a workload, tapec last."""
    frameworks = {item.partition("=")[0] for item in args.python}
    wanted = [p for p, (framework, _, _) in PEERS.items() if framework in frameworks or p in frameworks]
    wanted = [p for p in wanted if (p == "tf-eager") == name.startswith(page.EAGER) and p != "tapec"]
    if not (args.all_peers or args.survey or name.startswith(page.EAGER)) and CONTENDERS.exists():
        contenders = json.loads(CONTENDERS.read_text()).get(name, wanted)
        wanted = [p for p in wanted if p in contenders]
    return [*wanted, *([] if args.survey else ["tapec"])]


def pieces(args, folder):
    """What there is to do, in order."""
    limits, results, explained = (str(folder / name) for name in ("limits.json", "results.jsonl", "explain.jsonl"))
    yield Piece("limits", script("limits.py"), 300, limits)
    threads = [int(n) for n in args.threads.split(",")]
    rounds = ["--rounds", "2", "--seconds", "0.1"] if args.quick or args.survey else ["--rounds", str(args.rounds)]
    for name in args.workload or workloads():
        for n in [1] if name.startswith(page.EAGER) else threads:
            command = script("run.py", "--workload", name, "--threads", str(n), "--keep-going", "--json", results)
            command += ["--peers", ",".join(peers_of(name, args)), "--limit", str(args.limit), *rounds]
            command += ["--tapec-workloads", os.path.join(ROOT, "tapec_workloads"), "--python", f"tapec={sys.executable}"]
            command += [part for item in args.python for part in ("--python", item)]
            yield Piece(f"{name}, {n} thread{'s' * (n > 1)}", command, 4 * args.limit)
    if not (args.survey or args.workload):
        seconds = "0.1" if args.quick else "4"
        yield Piece("open sizes", script("open_sizes.py", "--seconds", seconds), 300, str(folder / "open_sizes.md"))
    for n in [] if args.survey else threads:
        for name in [w for w in args.workload or explain.workloads() if not w.startswith(page.EAGER)]:
            command = script("explain.py", "--threads", str(n), "--kernels", "3", "--limits", limits)
            command += ["--workload", name, "--json", explained]
            yield Piece(f"cost model of {name}, {n} thread{'s' * (n > 1)}", command, args.limit)


def script(name, *arguments):
    """A command that runs a script beside this one."""
    return [sys.executable, os.path.join(ROOT, name), *arguments]


def perform(piece):
    """Run a piece in a session of its own; why it failed, or None."""
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(piece.out, "w")) if piece.out else None
        process = subprocess.Popen(piece.command, stdout=out, start_new_session=True)
        try:
            code = process.wait(piece.seconds)
        except BaseException as error:  # an interrupt ends it, too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"longer than {piece.seconds:.0f} seconds"
    # run.py ends with 1 where a check failed: the tables show that.
    return None if code == 0 or (code == 1 and "run.py" in piece.command[1]) else f"ended with {code}"


def run(args, folder):
    """Do what there is to do; what was measured before is forgotten, unless it is to be resumed."""
    done, lost = folder / "done.json", folder / "lost.json"
    if not args.resume:
        for name in ("results.jsonl", "open_sizes.md", "explain.jsonl", "done.json", "lost.json"):
            (folder / name).unlink(missing_ok=True)
    (folder / "results.jsonl").touch()
    finished = json.loads(done.read_text()) if done.exists() else []
    failed = {}
    start = time.monotonic()
    for piece in pieces(args, folder):
        if piece.label in finished:
            continue
        spent = time.monotonic() - start
        if args.minutes and spent > 60 * args.minutes:
            failed[piece.label] = "not begun: the time was over"
        else:
            print(f"[{spent:5.0f} s] {piece.label}", file=sys.stderr, flush=True)
            why = perform(piece)
            if why is None:
                finished.append(piece.label)
            else:
                failed[piece.label] = why
                print(f"  FAILED: {why}", file=sys.stderr)
        done.write_text(json.dumps(finished))
        lost.write_text(json.dumps(failed))
    print(f"[{time.monotonic() - start:5.0f} s] the end", file=sys.stderr)


def write_contenders(folder):
    """Keep who may be the fastest, by the least time of each with one thread or more."""
    rows, checks = report.read([folder / "results.jsonl"])
    found = json.loads(CONTENDERS.read_text()) if CONTENDERS.exists() else {}
    for name, by_threads in rows.items():
        peers = {"jax"}
        for threads, row in by_threads.items():
            good = {p: r["min_s"] for p, r in row.items() if checks[name, threads, p]}
            peers |= {p for p, least in good.items() if least <= WITHIN * min(good.values())}
        found[name] = sorted(peers)
    CONTENDERS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {CONTENDERS}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workload", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(ROOT) / "results")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path(ROOT) / "RESULTS.md")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a peer may take for its first steps")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier run measured")
    parser.add_argument("--all-peers", action="store_true", help="not only those that may be the fastest")
    parser.add_argument("--survey", action="store_true", help="find those that may be the fastest")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-only", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if not args.write_only:
        run(args, args.folder)
    if args.survey:
        return write_contenders(args.folder)
    page.write(args.page, args.folder, args.python, workloads())
    print(f"wrote {args.page}")


if __name__ == "__main__":
    main()
