"""Which pixels decide: the gradient of a class score with respect to the image, drawn as text."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import tapec

images, labels = load_digits(return_X_y=True)
x, y = (images / 16.0).astype(np.float32), labels.astype(np.int32)
w = tapec.Variable(tapec.zeros([64, 10]))
optimizer = tapec.optimizers.Adam(0.05)


@tapec.compile
def train_step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Softmax regression on the whole data set."""
    with tapec.GradientTape() as tape:
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ w)
        loss = tapec.reduce_mean(losses)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss


for _ in range(100):
    loss = train_step(tapec.constant(x), tapec.constant(y))


@tapec.compile
def saliency(image: tapec.Tensor, digit: tapec.Tensor) -> tapec.Tensor:
    """|d log p(digit) / d pixel|; the image is no Variable, so it is watched."""
    with tapec.GradientTape() as tape:
        tape.watch(image)
        score = tapec.gather(tapec.nn.log_softmax(image @ w)[0], digit)
    return tapec.abs(tape.gradient(score, image))


example = 0
map_ = saliency(tapec.constant(x[example : example + 1]), tapec.constant(y[example])).numpy()
picture, heat = x[example].reshape(8, 8), (map_ / map_.max()).reshape(8, 8)
shades = " .:-=+*#%@"
print(f"digit {y[example]}, training loss {float(loss):.3f}: image, and where it matters")
for row, importance in zip(picture, heat, strict=True):
    left, right = ("".join(shades[int(9 * v)] for v in line) for line in (row, importance))
    print(f"  {left}   {right}")
brightest = int(map_.argmax())
print(f"most important pixel: row {brightest // 8}, column {brightest % 8}")
