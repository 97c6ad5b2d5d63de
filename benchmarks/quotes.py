"""Copy the figures of RESULTS.md into the tables that quote them, in ../README.md and in this folder's README.md.

    python benchmarks/quotes.py

What a table says in words stays. A table is known by its head (`TABLES`); a test tells when one was forgotten.
"""

import collections
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
QUOTING = (FOLDER.parent / "README.md", FOLDER / "README.md")

BESIDE = "tapec beside the best of its peers"
COSTS = {1: "Cost model, 1 thread", 2: "Cost model, 2 threads"}
MEANS = re.compile(r"(included, is )\S+( with one thread and )\S+( with two)")
MEAN = re.compile(r"ratios with (\d) threads?: \*\*(\S+)\*\*")


def cells(line):
    """What stands between the bars of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


class Results:
    """The tables of RESULTS.md: of each section, its rows by their first cell and, if there is one, by threads."""

    def __init__(self, text):
        self.rows = collections.defaultdict(dict)
        self.means = dict(MEAN.findall(text))
        section = ""
        for line in text.splitlines():
            if line.startswith("#"):
                section = line.strip("# ")
            elif line.startswith("|"):
                first, *rest = cells(line)
                # The second column of the largest table tells the threads.
                key = (
                    (first, int(rest.pop(0))) if section == BESIDE and rest[0].isdigit() else first
                )
                self.rows[section].setdefault(key, [cell.strip("*") for cell in rest])

    def beside(self, workload, threads):
        """What stands in the columns of `page.HEAD` from "tapec" on."""
        return self.rows[BESIDE][workload, threads]

    def cost(self, workload, threads):
        """Its step, program, kernels, what was expected of the program, and how much longer it took."""
        return self.rows[COSTS[threads]][workload.partition(":")[0]]

    def memory_of(self, peer, workload):
        """Its growth with one thread, in megabytes."""
        return self.rows[workload][peer][-2].removesuffix(" MB")


def whole_steps(results, workload, _):
    one, two = results.beside(workload, 1), results.beside(workload, 2)
    return [one[0], one[1], f"{one[2]} / {two[2]}", one[6]]


def eager_loops(results, workload, _):
    own, peer, ratio = results.beside(workload, 1)[:3]
    return [own, peer.partition(" ")[2], ratio]


def explained(results, workload, old):
    step, program, _, expected, share = results.cost(workload, 1)
    return [results.beside(workload, 1)[3] or "-", step, program, expected, share, old[-1]]


def explained_by_two(results, workload, _):
    _, program, _, expected, share = results.cost(workload, 2)
    return [program, expected, share]


def memory(results, workload, _):
    *_, own, ratio, with_import = results.beside(workload, 1)
    return [own.removesuffix(" MB"), results.memory_of("jax", workload), ratio, with_import]


def first_calls(results, workload, _):
    return [cell for threads in (1, 2) for cell in results.beside(workload, threads)[5:7]]


# The head of a table: (results, workload, old cells) -> new cells, those of the first column apart.
TABLES = {
    "workload | tapec, 1 thread | best peer, 1 thread | tapec : best peer, 1 / 2 threads | "
    "first call, of JAX's": whole_steps,
    "workload | tapec | TensorFlow | tapec : TensorFlow": eager_loops,
    "workload | floor | step | program | expected | program / expected | where the rest goes": explained,
    "workload | program | expected | program / expected": explained_by_two,
    "workload | tapec | JAX | ratio | ratio with import": memory,
    "workload | first call, 1 thread | of JAX's | first call, 2 threads | of JAX's": first_calls,
}


def workload_of(cell):
    """Its name in RESULTS.md: `matmul_relu` (512), of which the results say matmul_relu:512."""
    name, size = re.match(r"`([\w:]+)`(?: \((\d+)\))?", cell).groups()
    return f"{name}:{size}" if size else name


def quoted(text, results):
    """The text with the figures of these results."""
    lines, figures = [], None
    for line in text.splitlines():
        if not line.startswith("|"):
            figures = None
        elif " | ".join(cells(line)) in TABLES:
            figures = TABLES[" | ".join(cells(line))]
        elif figures is not None and not line.startswith("|---"):
            name, *old = cells(line)
            new = (cell.replace(" us", " µs") for cell in figures(results, workload_of(name), old))
            line = f"| {' | '.join([name, *new])} |"
        lines.append(line)
    means = r"\g<1>{}\g<2>{}\g<3>".format(results.means["1"], results.means["2"])
    return MEANS.sub(means, "\n".join(lines) + "\n")


def main():
    results = Results((FOLDER / "RESULTS.md").read_text())
    for path in QUOTING:
        path.write_text(quoted(path.read_text(), results))
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
