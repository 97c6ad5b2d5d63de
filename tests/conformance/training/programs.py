"""Twelve small training programs as users of GradientTape write them; each gives the losses of 20 steps.

They take a module that has TensorFlow's interface, its optimizers, and what wraps a step: nothing, or ``tf.function``.
``losses.json`` has what TensorFlow gave: ``PYTHON_WITH_TENSORFLOW programs.py`` writes it.
"""

import json
from pathlib import Path

import numpy as np

LOSSES = Path(__file__).with_name("losses.json")

def rng(seed): return np.random.default_rng(seed)
def f32(a): return np.asarray(a, np.float32)

def vae(tf, optimizers, fn):
    r = rng(0); x = f32(r.uniform(size=(32, 12)))
    W = [tf.Variable(f32(r.normal(size=s) * .3)) for s in [(12, 16), (16, 3), (16, 3), (3, 16), (16, 12)]]
    B = [tf.Variable(tf.zeros([n])) for n in (16, 3, 3, 16, 12)]
    noise = f32(r.normal(size=(20, 32, 3)))
    opt = optimizers.Adam(0.02)
    def step(x, eps):
        with tf.GradientTape() as t:
            h = tf.nn.relu(x @ W[0] + B[0]); mu, lv = h @ W[1] + B[1], h @ W[2] + B[2]
            z = mu + tf.exp(0.5 * lv) * eps
            logits = tf.nn.tanh(z @ W[3] + B[3]) @ W[4] + B[4]
            rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=1)
            kl = -0.5 * tf.reduce_sum(1.0 + lv - tf.square(mu) - tf.exp(lv), axis=1)
            loss = tf.reduce_mean(rec + kl)
        g = t.gradient(loss, W + B); opt.apply_gradients(zip(g, W + B)); return loss
    step = fn(step)
    return [float(step(x, noise[i])) for i in range(20)]

def gan(tf, optimizers, fn):
    r = rng(1); real = f32(r.normal(size=(20, 64, 2)) * .5 + [1, -1]); z = f32(r.normal(size=(20, 64, 4)))
    G = [tf.Variable(f32(r.normal(size=s) * .5)) for s in [(4, 16), (16, 2)]]
    D = [tf.Variable(f32(r.normal(size=s) * .5)) for s in [(2, 16), (16, 1)]]
    og, od = optimizers.Adam(1e-2, beta_1=.5), optimizers.RMSprop(1e-2)
    bce = tf.nn.sigmoid_cross_entropy_with_logits
    gen = lambda z: tf.tanh(z @ G[0]) @ G[1]
    dis = lambda x: tf.nn.leaky_relu(x @ D[0], alpha=0.2) @ D[1]
    def step(x, z):
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = gen(z); a, b = dis(x), dis(fake)
            dl = tf.reduce_mean(bce(tf.ones_like(a), a)) + tf.reduce_mean(bce(tf.zeros_like(b), b))
            gl = tf.reduce_mean(bce(tf.ones_like(b), b))
        gg, dg = gt.gradient(gl, G), dt.gradient(dl, D)
        og.apply_gradients(zip(gg, G)); od.apply_gradients(zip(dg, D)); return gl + dl
    step = fn(step)
    return [float(step(real[i], z[i])) for i in range(20)]

def maml(tf, optimizers, fn):
    r = rng(2); x = f32(r.uniform(-2, 2, (20, 4, 10, 1))); a = f32(r.uniform(.5, 2, (20, 4, 1, 1))); y = a * np.sin(x)
    W = [tf.Variable(f32(r.normal(size=s) * .5)) for s in [(1, 20), (20,), (20, 1), (1,)]]
    opt = optimizers.SGD(0.05)
    net = lambda p, x: tf.tanh(x @ p[0] + p[1]) @ p[2] + p[3]
    def step(x, y):
        with tf.GradientTape() as outer:
            total = 0.0
            for k in range(4):
                with tf.GradientTape() as inner:
                    l = tf.reduce_mean((net(W, x[k, :5]) - y[k, :5]) ** 2)
                fast = [w - 0.1 * g for w, g in zip(W, inner.gradient(l, W))]
                total += tf.reduce_mean((net(fast, x[k, 5:]) - y[k, 5:]) ** 2)
            total /= 4.0
        opt.apply_gradients(zip(outer.gradient(total, W), W)); return total
    step = fn(step)
    return [float(step(x[i], y[i])) for i in range(20)]

def neural_ode(tf, optimizers, fn):
    r = rng(3); A = f32([[-.1, 2.], [-2., -.1]]); x0 = f32(r.normal(size=(16, 2)))
    def flow(f, x):
        for _ in range(8):
            h = 0.1; k1 = f(x); k2 = f(x + h / 2 * k1); k3 = f(x + h / 2 * k2); k4 = f(x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x
    target = f32(flow(lambda x: x @ A.T, x0.astype(np.float64)))
    W = [tf.Variable(f32(r.normal(size=s) * .3)) for s in [(2, 16), (16,), (16, 2)]]
    opt = optimizers.Adam(0.02)
    def step(x, y):
        with tf.GradientTape() as t:
            loss = tf.reduce_mean(tf.square(flow(lambda v: tf.tanh(v @ W[0] + W[1]) @ W[2], x) - y))
        g, _ = tf.clip_by_global_norm(t.gradient(loss, W), 1.0)
        opt.apply_gradients(zip(g, W)); return loss
    step = fn(step)
    return [float(step(tf.constant(x0), target)) for _ in range(20)]

def pinn(tf, optimizers, fn):
    r = rng(4); x = f32(np.linspace(0, 1, 24)[:, None])
    W = [tf.Variable(f32(r.normal(size=s) * .6)) for s in [(1, 20), (20,), (20, 20), (20,), (20, 1)]]
    opt = optimizers.Adam(0.01)
    net = lambda x: tf.tanh(tf.tanh(x @ W[0] + W[1]) @ W[2] + W[3]) @ W[4]
    def step(x):
        with tf.GradientTape() as t:
            with tf.GradientTape() as t2:
                t2.watch(x)
                with tf.GradientTape() as t1:
                    t1.watch(x); u = net(x)
                ux = t1.gradient(u, x)
            uxx = t2.gradient(ux, x)
            res = uxx + np.float32(np.pi ** 2) * tf.sin(np.float32(np.pi) * x)
            bc = tf.reduce_mean(net(tf.constant([[0.], [1.]])) ** 2)
            loss = tf.reduce_mean(res ** 2) + bc
        opt.apply_gradients(zip(t.gradient(loss, W), W)); return loss
    step = fn(step)
    return [float(step(tf.constant(x))) for _ in range(20)]

def embedding(tf, optimizers, fn):
    r = rng(5); ids = np.stack([r.permutation(50)[:12].reshape(4, 3) for _ in range(20)]).astype(np.int32); y = f32(r.integers(0, 2, (20, 4)))
    E = tf.Variable(f32(r.normal(size=(50, 8)))); w = tf.Variable(f32(r.normal(size=(8,))))
    opt, sgd = optimizers.Adam(0.05), optimizers.SGD(0.5)
    def step(i, ids, y):
        with tf.GradientTape() as t:
            e = tf.reduce_mean(tf.nn.embedding_lookup(E, ids), axis=1)
            logits = tf.linalg.matvec(e, w)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        gE, gw = t.gradient(loss, [E, w])
        assert isinstance(gE, tf.IndexedSlices)
        (gE, gw), _ = tf.clip_by_global_norm([gE, gw], 0.5)
        sgd.apply_gradients([(gE, E)]); opt.apply_gradients([(gw, w)])
        E.scatter_sub(tf.IndexedSlices(gE.values * 0.1, gE.indices)); return loss
    step = fn(step)
    return [float(step(tf.constant(0), ids[i], y[i])) for i in range(20)]

def lstm(tf, optimizers, fn):
    r = rng(6); x = f32(r.normal(size=(16, 7, 3))); y = f32(np.cumsum(x[:, :, :1], 1)[:, -1])
    Wx, Wh, b, Wo = (tf.Variable(f32(r.normal(size=s) * .3)) for s in [(3, 32), (8, 32), (32,), (8, 1)])
    V = [Wx, Wh, b, Wo]; opt = optimizers.Adam(0.02)
    def step(x, y):
        with tf.GradientTape() as t:
            h = tf.zeros([16, 8]); c = tf.zeros([16, 8])
            for s in range(7):
                i, f, g, o = tf.split(x[:, s] @ Wx + h @ Wh + b, 4, axis=1)
                c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g); h = tf.sigmoid(o) * tf.tanh(c)
            loss = tf.reduce_mean(tf.square(h @ Wo - y))
        g = [tf.clip_by_norm(v, 1.0) for v in t.gradient(loss, V)]
        opt.apply_gradients(zip(g, V)); return loss
    step = fn(step)
    return [float(step(tf.constant(x), y)) for _ in range(20)]

def attention(tf, optimizers, fn):
    r = rng(7); x = f32(r.normal(size=(8, 6, 16))); lab = r.integers(0, 4, (8,)).astype(np.int32)
    P = [tf.Variable(f32(r.normal(size=s) * .25)) for s in [(16, 48), (16, 16), (16, 32), (32, 16), (16, 4)]]
    gain = [tf.Variable(tf.ones([16])) for _ in range(2)]; opt = optimizers.AdamW(0.01, weight_decay=0.01)
    def norm(x, g):
        m, v = tf.nn.moments(x, axes=[-1], keepdims=True); return (x - m) * tf.math.rsqrt(v + 1e-5) * g
    def step(x, lab):
        with tf.GradientTape() as t:
            q, k, v = tf.split(norm(x, gain[0]) @ P[0], 3, axis=-1)
            heads = lambda u: tf.transpose(tf.reshape(u, [8, 6, 4, 4]), [0, 2, 1, 3])
            q, k, v = heads(q), heads(k), heads(v)
            s = tf.matmul(q, k, transpose_b=True) / 2.0
            mask = tf.linalg.band_part(tf.ones([6, 6]), -1, 0)
            s = tf.where(mask > 0, s, -1e9)
            a = tf.reshape(tf.transpose(tf.nn.softmax(s) @ v, [0, 2, 1, 3]), [8, 6, 16])
            h = x + a @ P[1]; h = h + tf.nn.gelu(norm(h, gain[1]) @ P[2]) @ P[3]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=lab, logits=tf.reduce_mean(h, 1) @ P[4]))
        opt.apply_gradients(zip(t.gradient(loss, P + gain), P + gain)); return loss
    step = fn(step)
    return [float(step(tf.constant(x), lab)) for _ in range(20)]

def checkpointing(tf, optimizers, fn):
    r = rng(8); x = f32(r.normal(size=(16, 8))); y = f32(r.normal(size=(16, 1)))
    W = [tf.Variable(f32(r.normal(size=s) * .4)) for s in [(8, 24), (24, 24), (24, 1)]]; opt = optimizers.SGD(0.05, momentum=0.9, nesterov=True)
    block = tf.recompute_grad(lambda h: tf.nn.elu(tf.tanh(h @ W[0]) @ W[1]))
    def step(x, y):
        with tf.GradientTape() as t:
            loss = tf.reduce_mean((block(x) @ W[2] - y) ** 2)
        opt.apply_gradients(zip(t.gradient(loss, W), W)); return loss
    step = fn(step)
    return [float(step(tf.constant(x), y)) for _ in range(20)]

def own_optimizer(tf, optimizers, fn):
    r = rng(9); x = f32(r.normal(size=(32, 5))); y = f32(np.sin(x @ r.normal(size=(5, 1))))
    W = [tf.Variable(f32(r.normal(size=s) * .5)) for s in [(5, 16), (16,), (16, 1)]]
    M = [tf.Variable(tf.zeros_like(w), trainable=False) for w in W]; V = [tf.Variable(tf.zeros_like(w), trainable=False) for w in W]; k = tf.Variable(0, trainable=False)
    def step(x, y):
        with tf.GradientTape() as t:
            loss = tf.reduce_mean(tf.abs(tf.nn.swish(x @ W[0] + W[1]) @ W[2] - y)) + 1e-3 * tf.add_n([tf.nn.l2_loss(w) for w in W])
        k.assign_add(1); n = tf.cast(k, tf.float32); lr = 0.05 / tf.sqrt(n)
        for w, g, m, v in zip(W, t.gradient(loss, W), M, V):
            m.assign(0.9 * m + 0.1 * g); v.assign(tf.maximum(0.99 * v, tf.abs(g)))
            w.assign_sub(lr * m / (v + 1e-6))
        return loss
    step = fn(step)
    return [float(step(tf.constant(x), y)) for _ in range(20)]

def hessian_vector(tf, optimizers, fn):
    r = rng(10); A = f32(r.normal(size=(6, 6))); w = tf.Variable(f32(r.normal(size=(6,))))
    def loss_of(): return tf.reduce_sum(tf.math.log1p(tf.square(tf.linalg.matvec(tf.constant(A), w)))) + 0.1 * tf.reduce_sum(w ** 4)
    def step():
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner: loss = loss_of()
            g = inner.gradient(loss, w)
            gg = tf.reduce_sum(g * tf.stop_gradient(g))
        hg = outer.gradient(gg, w)
        with tf.GradientTape() as o:
            with tf.GradientTape() as i: l = loss_of()
            d = i.gradient(l, w)
        H = o.jacobian(d, w)
        rate = tf.reduce_sum(g * g) / (tf.abs(tf.reduce_sum(g * hg)) + 1e-3)
        w.assign_sub(tf.minimum(rate, 0.05) * g); return loss + 1e-3 * tf.linalg.trace(H)
    step = fn(step)
    return [float(step()) for _ in range(20)]

def gradient_reversal(tf, optimizers, fn):
    r = rng(11); xs, xt = f32(r.normal(size=(16, 6))), f32(r.normal(size=(16, 6)) + 1); y = r.integers(0, 3, 16).astype(np.int32)
    F, C, D = (tf.Variable(f32(r.normal(size=s) * .4)) for s in [(6, 10), (10, 3), (10, 1)]); opt = optimizers.Adagrad(0.1)
    @tf.custom_gradient
    def reverse(x): return tf.identity(x), lambda dy: -0.3 * dy
    def step(xs, xt, y):
        with tf.GradientTape() as t:
            fs, ft = tf.nn.relu(xs @ F), tf.nn.relu(xt @ F)
            cls = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=fs @ C))
            dom = tf.concat([reverse(fs), reverse(ft)], 0) @ D
            lab = tf.concat([tf.ones([16, 1]), tf.zeros([16, 1])], 0)
            loss = cls + tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=lab, logits=dom))
        opt.apply_gradients(zip(t.gradient(loss, [F, C, D]), [F, C, D])); return loss
    step = fn(step)
    return [float(step(tf.constant(xs), xt, y)) for _ in range(20)]

PROGRAMS = [vae, gan, maml, neural_ode, pinn, embedding, lstm, attention, checkpointing, own_optimizer, hessian_vector, gradient_reversal]


def record():
    """Write down what TensorFlow gives, step by step, eagerly."""
    import tensorflow as tf

    losses = {p.__name__: p(tf, tf.keras.optimizers, lambda step: step) for p in PROGRAMS}
    LOSSES.write_text(json.dumps(losses, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    record()
