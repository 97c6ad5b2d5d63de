"""How long a new process takes until its first train step is done, beyond `import numpy`.

    PYTHON benchmarks/startup.py [ROUNDS]

Fresh interpreters, in turn: `import numpy`; `import tapec`; a script that makes the step of `mlp_train` and runs it
once, with its program in the cache on disk. Each prints something when that is done. Printed are the median and the
least time until then, what it is beyond numpy in the same rounds, and the same until the process has ended. Bytecode
is kept, as it is for users, in a folder of this run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

_STEP = """
import sys
import numpy as np
import tapec

rng = np.random.default_rng(0)


def weights(*shape):
    return tapec.Variable(0.05 * rng.standard_normal(shape, np.float32))


parameters = [weights(*s) for s in [(784, 512), (512,), (512, 512), (512,), (512, 10), (10,)]]
optimizer = tapec.optimizers.Adam(1e-3)


@tapec.compile
def train_step(x, y):
    w1, b1, w2, b2, w3, b3 = parameters
    with tapec.GradientTape() as tape:
        h = tapec.nn.relu(x @ w1 + b1)
        h = tapec.nn.relu(h @ w2 + b2)
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h @ w3 + b3)
        loss = tapec.reduce_mean(losses)
    optimizer.apply_gradients(zip(tape.gradient(loss, parameters), parameters))
    return loss


x = rng.standard_normal((128, 784), np.float32)
y = rng.integers(0, 10, 128, np.int32)
print(float(train_step(x, y)), "llvmlite" in sys.modules)
"""
_SCRIPTS = {
    "import numpy": "import numpy\nprint()",
    "import tapec": "import tapec\nprint()",
    "first step": _STEP,
}


class Run(NamedTuple):
    """Seconds until a process printed its line, seconds until it had ended, and the line."""

    done: float
    ended: float
    line: str


def run(script: str, environment: dict[str, str]) -> Run:
    """Run a script in a process of its own."""
    file = Path(environment["PYTHONPYCACHEPREFIX"]) / "script.py"
    file.write_text(script)
    command = [sys.executable, "-u", str(file)]
    start = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        done = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"a script failed: {process.returncode}")
    return Run(done, time.perf_counter() - start, line)


def main() -> None:
    """Print a line for each script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", nargs="?", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"TAPEC_CACHE": f"{folder}/programs", "PYTHONPYCACHEPREFIX": folder}
        cold = run(_STEP, environment)
        for script in _SCRIPTS.values():
            run(script, environment)  # writes bytecode
        runs: dict[str, list[Run]] = {name: [] for name in _SCRIPTS}
        for _ in range(rounds):
            for name, script in _SCRIPTS.items():
                runs[name].append(run(script, environment))
                if "llvmlite" in script and runs[name][-1].line != cold.line.replace(
                    "True", "False"
                ):
                    sys.exit(
                        f"the second process printed {runs[name][-1].line!r}, the first {cold.line!r}"
                    )
    print(f"first step of the first process, which compiles: {cold.done:.3f} s")
    for what, seconds in (("done", attrgetter("done")), ("ended", attrgetter("ended"))):
        print(f"until {what:8} median s  least s  beyond numpy: median s  least s")
        base = [seconds(one) for one in runs["import numpy"]]
        for name, found in runs.items():
            spent = [seconds(one) for one in found]
            beyond = statistics.median(spent) - statistics.median(base), min(spent) - min(base)
            print(
                f"{name:14} {statistics.median(spent):8.3f} {min(spent):8.3f}"
                f"  {beyond[0]:21.3f} {beyond[1]:8.3f}"
            )


if __name__ == "__main__":
    main()
