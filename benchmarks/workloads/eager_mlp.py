"""Classifier 16-64-64-10 relu, batch 32, in eager code: tape, gradient, the library's own Adam, or SGD
written out (case `sgd`).  One function of the library (`tensorflow` or `tapec`) runs it, so both run the
same lines."""
import numpy as np

from common import Program, dense_layers, mlp_flops, normal, update_norms

SIZES, BATCH, RATE = (16, 64, 64, 10), 32, 1e-3
COST = {"gemm_flops": mlp_flops(BATCH, SIZES), "transcendentals": 10 * BATCH}


def make_data(case=None):
    rng = np.random.default_rng(0)
    return {"case": case, "params": dense_layers(rng, SIZES),
            "batch": {"x": normal(rng, BATCH, SIZES[0]),
                      "y": rng.integers(0, SIZES[-1], BATCH, dtype=np.int32)}}


def eager_program(tf, adam, data):
    p = {name: tf.Variable(array) for name, array in data["params"].items()}
    x, y = (tf.constant(array) for array in data["batch"].values())
    variables = list(p.values())
    optimizer = None if data["case"] == "sgd" else adam(RATE)

    def step():
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ p["w1"] + p["b1"])
            h = tf.nn.relu(h @ p["w2"] + p["b2"])
            logits = h @ p["w3"] + p["b3"]
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        gradients = tape.gradient(loss, variables)
        if optimizer:
            optimizer.apply_gradients(zip(gradients, variables))
        else:
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(RATE * gradient)
        return loss.numpy()

    return Program(step, lambda: update_norms(data["params"], {k: v.numpy() for k, v in p.items()}))


def build_tensorflow_eager(data):
    import tensorflow as tf

    return eager_program(tf, tf.keras.optimizers.Adam, data)
