"""A classifier that goes on learning on a microcontroller: trained here, fine-tuned on an emulated Cortex-M4F.

The device's camera is mounted the wrong way round, so what was learned here hardly helps. A training step of the
same network, built for the device, learns from what the camera sees; the state comes back and is tested here.
Without an emulator (Debian: gcc-arm-none-eabi qemu-system-arm) the same steps run here.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tapec
from tapec import aot

HERE = Path(__file__).parent
HIDDEN, SEEN, STEPS = 24, 200, 2000

pixels, classes = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(
    pixels.astype(np.uint8), classes.astype(np.int32), test_size=0.3, random_state=0
)
rng = np.random.default_rng(0)
w1 = tapec.Variable(0.2 * rng.normal(size=(64, HIDDEN)).astype(np.float32), name="w1")
b1 = tapec.Variable(np.zeros(HIDDEN, np.float32), name="b1")
w2 = tapec.Variable(0.2 * rng.normal(size=(HIDDEN, 10)).astype(np.float32), name="w2")
b2 = tapec.Variable(np.zeros(10, np.float32), name="b2")
weights = [w1, b1, w2, b2]


def logits(x: Any) -> Any:
    """A score for each digit."""
    return tapec.nn.relu(x @ w1 + b1) @ w2 + b2


def step_of(optimizer: Any) -> Any:
    """A training step with an optimizer of its own."""

    def learn(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits(x))
            loss = tapec.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return tapec.compile(learn)


def accuracy(images: Any) -> float:
    """Share of the test set that is told right, in percent."""
    guesses = np.argmax(logits(images / np.float32(16)).numpy(), axis=1)
    return 100.0 * float(np.mean(guesses == y_test))


def mirrored(images: Any) -> Any:
    """What a camera sees that is mounted the wrong way round."""
    return np.ascontiguousarray(images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64))


def emulated(built: aot.Built, images: Any, labels: Any) -> bytes:
    """The state after the device has learned."""
    rows = ",\n".join("{" + ",".join(map(str, image)) + "}" for image in images)
    seen = (
        f"enum {{ IMAGES = {len(images)}, STEPS = {STEPS} }};\n"
        f"static const uint8_t images[][64] = {{\n{rows}\n}};\n"
        f"static const uint8_t labels[] = {{{','.join(map(str, labels))}}};\n"
    )
    options = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O1 -ffreestanding"
    board = "-Wl,--defsym=FLASH=0,--defsym=RAM=0x20000000,--defsym=RAM_SIZE=0x10000"
    emulator = "qemu-system-arm -M mps2-an386 -display none -serial none -monitor none"
    output = "-chardev stdio,id=out -semihosting-config enable=on,target=native,chardev=out"
    with tempfile.TemporaryDirectory() as folder:
        built.write(folder)
        (Path(folder) / "seen.h").write_text(f"#include <stdint.h>\n{seen}")
        sources = [str(HERE / name) for name in ("cortex.c", "digits.c")]
        command = ["arm-none-eabi-gcc", *options.split(), board, f"-T{HERE / 'cortex.ld'}"]
        command += ["-nostdlib", f"-I{folder}", *sources, f"{folder}/digits.o"]
        subprocess.run([*command, "-o", f"{folder}/firmware"], check=True, capture_output=True)
        command = [*emulator.split(), *output.split(), "-kernel", f"{folder}/firmware"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return bytes.fromhex(done.stdout)


first = step_of(tapec.optimizers.Adam(5e-3))
for _ in range(20):
    for rows in np.array_split(rng.permutation(len(x_train)), len(x_train) // 32):
        first(x_train[rows] / np.float32(16), y_train[rows])
print(f"trained here         {accuracy(x_test):5.1f} %")
print(f"camera turned round  {accuracy(mirrored(x_test)):5.1f} %")

learn = step_of(tapec.optimizers.SGD(0.02))
built = aot.build(
    {"learn": learn}, {"learn": "f32[1,64] i32[1]"}, target="cortex-m4f", name="digits"
)
images, labels = mirrored(x_train[:SEEN]), y_train[:SEEN]
if shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc"):
    where = "on the device"
    built.restore(emulated(built, images, labels))
else:
    where = "here instead"
    for i in range(STEPS):
        row = slice(i % SEEN, i % SEEN + 1)
        learn(images[row] / np.float32(16), labels[row])
print(f"learned {where:13}{accuracy(mirrored(x_test)):5.1f} %")
print(
    f"state {built.state_bytes:,} bytes, arena {built.arena_bytes:,}, "
    f"stack at most {built.stack_bytes['learn']:,}"
)
