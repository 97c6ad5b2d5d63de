"""LSTM cell unrolled in Python over 16 steps, batch 16, 16 inputs, 32 hidden, in eager code: mean square
of the last state against a target, clip_by_global_norm(1.0), SGD written out.  One function of the
library (`tensorflow` or `tapec`) runs it, so both run the same lines.  Gates are ordered input, forget,
cell, output."""
import numpy as np

from common import Program, normal, update_norms

TIME, BATCH, INPUTS, HIDDEN, RATE = 16, 16, 16, 32, 0.1
COST = {"gemm_flops": 3 * TIME * 2 * BATCH * (INPUTS + HIDDEN) * 4 * HIDDEN,
        "transcendentals": TIME * BATCH * 5 * HIDDEN}


def make_data(case=None):
    rng = np.random.default_rng(0)
    return {"params": {"wx": normal(rng, INPUTS, 4 * HIDDEN, scale=INPUTS ** -0.5),
                       "wh": normal(rng, HIDDEN, 4 * HIDDEN, scale=HIDDEN ** -0.5),
                       "b": normal(rng, 4 * HIDDEN, scale=0.1)},
            "batch": {"x": normal(rng, TIME, BATCH, INPUTS), "y": normal(rng, BATCH, HIDDEN)}}


def eager_program(tf, data):
    p = {name: tf.Variable(array) for name, array in data["params"].items()}
    x, y = (tf.constant(array) for array in data["batch"].values())
    variables = list(p.values())

    def step():
        h = c = tf.zeros([BATCH, HIDDEN])
        with tf.GradientTape() as tape:
            for t in range(TIME):
                gates = x[t] @ p["wx"] + h @ p["wh"] + p["b"]
                i, f, g, o = tf.split(gates, 4, axis=1)
                c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
                h = tf.sigmoid(o) * tf.tanh(c)
            loss = tf.reduce_mean(tf.square(h - y))
        gradients = tape.gradient(loss, variables)
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        for variable, gradient in zip(variables, clipped):
            variable.assign_sub(RATE * gradient)
        return loss.numpy()

    return Program(step, lambda: update_norms(data["params"], {k: v.numpy() for k, v in p.items()}))


def build_tensorflow_eager(data):
    import tensorflow as tf

    return eager_program(tf, data)
