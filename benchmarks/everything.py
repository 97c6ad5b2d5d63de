"""Run everything, and write it down: RESULTS.md with this machine's description, and the raw results beside it.

    python everything.py --python jax=JAX_VENV/bin/python --python torch=TORCH_VENV/bin/python \
        --python tensorflow=TF_VENV/bin/python --python pytensor=PYTENSOR_VENV/bin/python

Every peer of a framework that is named takes part, and tapec, under this interpreter. In turn: the machine's limits
(needs gcc); each workload with each number of threads (`run.py`); what the cost model says of each (`explain.py`).
It takes about a minute for each workload and number of threads; the machine should have nothing else to do. A
workload that fails is reported and does not end the others. ``--quick`` is for trying the command itself;
``--write-only`` writes the page from the results that are there.
"""
import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

import explain
import report
from worker import PEERS, ROOT

SIZES = (16, 64, 128, 512, 1024)
EAGER = ("eager_mlp", "eager_lstm")
VERSIONS = {"jax": "jax", "torch": "torch", "tensorflow": "tensorflow", "pytensor": "pytensor", "tinygrad": "tinygrad"}


def workloads():
    """All of them, products in several sizes."""
    names = [name for name in explain.workloads() if name != "matmul_relu"]
    return [*names, *(f"matmul_relu:{n}" for n in SIZES), *EAGER]


def peers_of(name, given):
    """Those that have an implementation of a workload."""
    frameworks = {item.partition("=")[0] for item in given}
    wanted = [p for p, (framework, _, _) in PEERS.items() if framework in frameworks or p in frameworks]
    is_eager = name.startswith(EAGER)
    return [*(p for p in wanted if (p == "tf-eager") == is_eager and p != "tapec"), "tapec"]


def run(args, folder):
    """Measure; what was measured before is forgotten."""
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    with open(folder / "limits.json", "w") as out:
        subprocess.run([sys.executable, os.path.join(ROOT, "limits.py")], stdout=out, check=True)
    for name in args.workload or workloads():
        command = [sys.executable, os.path.join(ROOT, "run.py"), "--workload", name, "--threads", args.threads]
        command += ["--peers", ",".join(peers_of(name, args.python)), "--keep-going", "--json", str(results)]
        command += ["--tapec-workloads", os.path.join(ROOT, "tapec_workloads")]
        command += ["--python", f"tapec={sys.executable}"]
        command += [part for item in args.python for part in ("--python", item)]
        command += ["--rounds", "2", "--seconds", "0.1"] if args.quick else ["--rounds", str(args.rounds)]
        subprocess.run(command, check=False)
    for threads in args.threads.split(","):
        compiled = [n for n in args.workload or explain.workloads() if not n.startswith(EAGER)]
        command = [sys.executable, os.path.join(ROOT, "explain.py"), "--threads", threads, "--kernels", "3"]
        command += ["--limits", str(folder / "limits.json"), "--workload", ",".join(compiled)]
        with open(folder / f"explain-{threads}.md", "w") as out:
            subprocess.run(command, stdout=out, check=False)


def machine(given):
    """What the numbers depend on, as a list."""
    model = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    yield f"{model}, {os.cpu_count()} logical processors ({threads_per_core()} a core)"
    with contextlib.suppress(OSError, ValueError):
        yield f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
    yield f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    for item in given:
        framework, _, python = item.partition("=")
        if framework in VERSIONS:
            # A module may come from a distribution of another name: tensorflow-cpu.
            named = f"m.packages_distributions()['{VERSIONS[framework]}'][0]"
            code = f"import importlib.metadata as m; print(m.version({named}))"
            found = subprocess.run([python, "-c", code], capture_output=True, text=True)
            yield f"{framework} {found.stdout.strip() or 'not found'}"


def threads_per_core():
    """How many logical processors share what computes."""
    with contextlib.suppress(OSError):
        path = pathlib.Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        text = path.read_text().strip()
        parts = [part.split("-") for part in text.split(",")]
        return sum(int(part[-1]) - int(part[0]) + 1 for part in parts)
    return "unknown"


def against_peers(rows, checks, limits):
    """One line for each workload and number of threads; then geometric means."""
    print("| workload | threads | tapec | best peer | ratio | floor | tapec / floor | first call, of JAX's | memory, of JAX's |")
    print("|---|---|---|---|---|---|---|---|---|")
    ratios = {}
    for workload, by_threads in rows.items():
        for threads, peers in sorted(by_threads.items()):
            own, others = peers.get("tapec"), {p: r for p, r in peers.items() if p != "tapec" and checks[workload, threads, p]}
            if own is None:
                continue
            best = min(others, key=lambda p: others[p]["median_s"], default=None)
            ratio = own["median_s"] / others[best]["median_s"] if best else math.nan
            if best and not workload.startswith(EAGER):
                ratios.setdefault(threads, []).append(ratio)
            floor = report.floor_seconds(workload, threads, limits)
            mark = "" if checks[workload, threads, "tapec"] else " **FAILED**"
            cells = [workload, str(threads), report.text(own["median_s"]) + mark]
            cells += [f"{best} {report.text(others[best]['median_s'])}", f"**{ratio:.2f}**"] if best else ["", ""]
            cells += [report.text(floor[3]), f"{own['median_s'] / floor[3]:.2f}"] if floor and floor[3] else ["", ""]
            cells += [of_jax(own, peers, "first_call_s"), of_jax(own, peers, "peak_rss_delta")]
            print(f"| {' | '.join(cells)} |")
    for threads, found in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"\nGeometric mean of the ratios with {threads} thread{'s' * (threads > 1)}: **{mean:.2f}** "
              f"({sum(r > 1 for r in found)} of {len(found)} above 1).")


def of_jax(own, peers, what):
    other = peers.get("jax")
    return f"{own[what] / other[what]:.2f}" if other and other[what] else ""


def page(args, folder):
    """The whole page as text."""
    with open(folder / "limits.json") as f:
        limits = json.load(f)
    rows, checks = report.read([folder / "results.jsonl"])
    order = {name: i for i, name in enumerate(workloads())}
    rows = dict(sorted(rows.items(), key=lambda item: order.get(item[0], len(order))))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("# Results\n\nWritten by `everything.py`; `README.md` says what is measured, and how.\n\n## The machine\n")
        print("\n".join(f"* {line}" for line in machine(args.python)))
        print("\n| measured by `limits.c` | " + " | ".join(k for k in limits if not k.startswith("vdp")) + " |")
        print("|---" * (1 + sum(not k.startswith("vdp") for k in limits)) + "|")
        print("| | " + " | ".join(str(v) for k, v in limits.items() if not k.startswith("vdp")) + " |")
        print("\n## tapec beside the best of its peers\n")
        against_peers(rows, checks, limits)
        for threads in args.threads.split(","):
            path = folder / f"explain-{threads}.md"
            if path.exists():
                print("\n" + path.read_text().replace("\n### ", "\n#### ").rstrip())
        print("\n## Every peer")
        for name, by_threads in rows.items():
            report.workload_table(name, by_threads, checks)
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workload", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(ROOT) / "results")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path(ROOT) / "RESULTS.md")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-only", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if not args.write_only:
        run(args, args.folder)
    args.page.write_text(page(args, args.folder))
    print(f"wrote {args.page}")


if __name__ == "__main__":
    main()
