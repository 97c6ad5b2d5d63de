"""How long a new process takes until its first train step is done, beyond `import numpy`.

    PYTHON benchmarks/startup.py [ROUNDS]

Fresh interpreters, in turn: `import numpy`; `import tapec`; a script that makes the step of `mlp_train` and runs it
once, with its program in the cache on disk. Printed are the median and the least of each, and what they take beyond
numpy in the same round. Bytecode is kept, as it is for users, in a folder of this run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
_SCRIPTS = {"import numpy": "import numpy", "import tapec": "import tapec", "first step": _STEP}


def run(script: str, environment: dict[str, str]) -> tuple[float, str]:
    """Seconds of a process, and what it prints."""
    file = Path(environment["PYTHONPYCACHEPREFIX"]) / "script.py"
    file.write_text(script)
    start = time.perf_counter()
    command = [sys.executable, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def main() -> None:
    """Print a line for each script."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"TAPEC_CACHE": f"{folder}/programs", "PYTHONPYCACHEPREFIX": folder}
        cold, printed = run(_STEP, environment)
        for script in _SCRIPTS.values():
            run(script, environment)  # writes bytecode
        seconds: dict[str, list[float]] = {name: [] for name in _SCRIPTS}
        for _ in range(rounds):
            for name, script in _SCRIPTS.items():
                spent, text = run(script, environment)
                seconds[name].append(spent)
                if "llvmlite" in script and text != printed.replace("True", "False"):
                    sys.exit(f"the second process printed {text!r}, the first {printed!r}")
    base = seconds["import numpy"]
    print(f"first step of the first process, which compiles: {cold:.3f} s")
    print(f"{'':14} median s  least s  beyond numpy: median s  least s")
    for name, spent in seconds.items():
        beyond = statistics.median(spent) - statistics.median(base), min(spent) - min(base)
        print(
            f"{name:14} {statistics.median(spent):8.3f} {min(spent):8.3f}"
            f"  {beyond[0]:21.3f} {beyond[1]:8.3f}"
        )


if __name__ == "__main__":
    main()
