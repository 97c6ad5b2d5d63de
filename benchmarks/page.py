"""The page that `everything.py` writes: this machine, tapec beside its peers, the cost model, what failed."""

import contextlib
import io
import json
import math
import os
import pathlib
import platform
import subprocess

import explain
import report

EAGER = ("eager_mlp", "eager_mlp:sgd", "eager_lstm")
VERSIONS = {
    "jax": "jax",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "pytensor": "pytensor",
    "tinygrad": "tinygrad",
}
HEAD = (
    "workload",
    "threads",
    "tapec",
    "best peer",
    "ratio",
    "floor",
    "tapec / floor",
    "first call",
    "of JAX's",
    "with import",
    "memory",
    "of JAX's",
    "with import",
)


def machine(given):
    """What the numbers depend on, as a list."""
    model = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            model,
        )
    yield f"{model}, {os.cpu_count()} logical processors ({threads_per_core()} a core)"
    with contextlib.suppress(OSError, ValueError):
        yield f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
    yield f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    for item in given:
        framework, _, python = item.partition("=")
        if framework in VERSIONS:
            yield f"{framework} {version(VERSIONS[framework], python)}"


def version(module, python):
    """That of the distribution which a module comes from; it may have another name: tensorflow-cpu."""
    code = f"import importlib.metadata as m; print(m.version(m.packages_distributions()['{module}'][0]))"
    with contextlib.suppress(OSError):
        found = subprocess.run([python, "-c", code], capture_output=True, text=True)
        return found.stdout.strip() or "not found"
    return "not found"


def threads_per_core():
    """How many logical processors share what computes."""
    with contextlib.suppress(OSError):
        path = pathlib.Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        parts = [part.split("-") for part in path.read_text().strip().split(",")]
        return sum(int(part[-1]) - int(part[0]) + 1 for part in parts)
    return "unknown"


def line(cells):
    """A row of a table."""
    print(f"| {' | '.join(cells)} |")


def against_peers(rows, checks, limits):
    """One line for each workload and number of threads; then geometric means."""
    line(HEAD)
    line(["---"] * len(HEAD))
    ratios = {}
    for workload, by_threads in rows.items():
        for threads, peers in sorted(by_threads.items()):
            own = peers.get("tapec")
            others = {
                p: r for p, r in peers.items() if p != "tapec" and checks[workload, threads, p]
            }
            if own is None:
                continue
            best = min(others, key=lambda p: others[p]["median_s"], default=None)
            ratio = own["median_s"] / others[best]["median_s"] if best else math.nan
            if best and not workload.startswith(EAGER):
                ratios.setdefault(threads, []).append(ratio)
            floor = report.floor_seconds(workload, threads, limits)
            mark = "" if checks[workload, threads, "tapec"] else " **FAILED**"
            cells = [workload, str(threads), report.text(own["median_s"]) + mark]
            beside = (f"{best} {report.text(others[best]['median_s'])}", f"**{ratio:.2f}**")
            above = (
                (report.text(floor[3]), f"{own['median_s'] / floor[3]:.2f}")
                if floor and floor[3]
                else ("", "")
            )
            line(
                [
                    *cells,
                    *(beside if best else ("", "")),
                    *above,
                    *beside_jax(own, peers.get("jax")),
                ]
            )
    for threads, found in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(
            f"\nGeometric mean of the ratios with {threads} thread{'s' * (threads > 1)}: **{mean:.2f}** "
            f"({sum(r > 1 for r in found)} of {len(found)} above 1)."
        )


def beside_jax(own, jax):
    """First call and memory, and what part they are of JAX's, without the import and with it."""

    def shares(*amounts):
        return [
            f"{amount(own) / amount(jax):.2f}" if jax and amount(jax) else "" for amount in amounts
        ]

    calls = shares(lambda r: r["first_call_s"], lambda r: r["import_s"] + r["first_call_s"])
    memory = shares(lambda r: r["peak_rss_delta"], lambda r: r["peak_rss_whole"])
    return [
        f"{own['first_call_s']:.2f} s",
        *calls,
        f"{own['peak_rss_delta'] / 2**20:.0f} MB",
        *memory,
    ]


def limits_table(limits):
    """What `limits.c` measured."""
    names = [k for k in limits if not k.startswith("vdp")]
    line(["measured by `limits.py`", *names])
    line(["---"] * (len(names) + 1))
    line(["", *(str(limits[k]) for k in names)])


def failures(lost, failed):
    """A list of what did not come to its end, if there is any: pieces, and peers, each with where and why."""
    found = [f"{what}: {why}" for what, why in lost.items()]
    found += [f"{peer}: {why} ({', '.join(where)})" for (peer, why), where in failed.items()]
    if found:
        print("\n## What failed\n")
        print("\n".join(f"* {text}" for text in found))


def failed_peers(path):
    """{(peer, the last line of why): workloads with their threads}, of peers that have an implementation."""
    found = {}
    with open(path) as f:
        for record in map(json.loads, f):
            for peer, why in record["failed"].items():
                last = (why.strip().splitlines() or ["died"])[-1][:200]
                if " has no build_" not in last:
                    where = f"{record['workload']} with {record['threads']}"
                    found.setdefault((peer, last), []).append(where)
    return found


def write(path, folder, given, order):
    """Write the page from a folder: limits.json, results.jsonl, open_sizes.md, explain.jsonl, lost.json."""
    limits = json.loads((folder / "limits.json").read_text())
    rows, checks = report.read([folder / "results.jsonl"])
    rank = {name: i for i, name in enumerate(order)}
    rows = dict(sorted(rows.items(), key=lambda item: rank.get(item[0], len(rank))))
    lost, explained = folder / "lost.json", folder / "explain.jsonl"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print(
            "# Results\n\nWritten by `everything.py`; `README.md` says what is measured, and how.\n"
        )
        print("## The machine\n")
        print("\n".join(f"* {text}" for text in machine(given)) + "\n")
        limits_table(limits)
        print("\n## tapec beside the best of its peers\n")
        against_peers(rows, checks, limits)
        open_sizes = folder / "open_sizes.md"
        if open_sizes.exists():
            print("\n## Steps for batches of any size\n")
            print(open_sizes.read_text(), end="")
        if explained.exists():
            explain.tables([json.loads(text) for text in explained.read_text().splitlines()])
        print("\n## Every peer")
        for name, by_threads in rows.items():
            report.workload_table(name, by_threads, checks)
        failures(
            json.loads(lost.read_text()) if lost.exists() else {},
            failed_peers(folder / "results.jsonl"),
        )
    path.write_text(out.getvalue())
