"""Writes ``values.json``: what TensorFlow gives for each expression of ``cases.py``.

    PYTHON_WITH_TENSORFLOW tests/conformance/api/record.py
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from cases import KINDS, OPERANDS, leaves


def recorded(expression):
    result = eval(expression, {"tf": tf, "np": np, **{k: tf.constant(v) for k, v in OPERANDS.items()}})
    return [{"dtype": a.dtype.name, "shape": list(a.shape), "values": numbers(a)} for a in leaves(result)]


def numbers(array):
    """Flat, to 9 digits; complex numbers as pairs."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return [float(f"{v:.9g}") if flat.dtype.kind == "f" else v for v in flat.tolist()]


if __name__ == "__main__":
    values = {e: recorded(e) for kind in KINDS.values() for e in kind}
    lines = ",\n".join(f"{json.dumps(e)}: {json.dumps(v)}" for e, v in values.items())
    Path(__file__).with_name("values.json").write_text("{\n" + lines + "\n}\n", "utf-8")
