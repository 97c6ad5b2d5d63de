"""Keras' embedding and GRU on a text that Python brings along: the next letter of its reference manual.

Prints how many bits a letter costs by the model, beside what it costs when only the letter before is known, and a
sentence that the model writes. Needs the extra ``tapec[keras]``.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from math import log2
from pydoc_data.topics import topics

import numpy as np

import tapec.keras as keras
from tapec.keras import layers

LENGTH, BATCH, EPOCHS = 48, 32, 5

text = " ".join("\n".join(topics[name] for name in sorted(topics)).split())[:80_000]
letters = sorted(set(text))
codes = np.array([letters.index(letter) for letter in text], np.int32)
train, test = codes[:-8_000], codes[-8_000:]


def rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of the text and, for each letter in them, the next one: ``i32[n, 48]`` twice."""
    count = (len(values) - 1) // LENGTH * LENGTH
    return values[:count].reshape(-1, LENGTH), values[1 : count + 1].reshape(-1, LENGTH)


def bits_by_pairs() -> float:
    """Bits for a letter of the test text, by how often it followed the letter before in the other."""
    pairs = Counter(itertools.pairwise(train))
    before = Counter(train[:-1])
    chances = (
        (pairs[a, b] + 0.1) / (before[a] + 0.1 * len(letters)) for a, b in itertools.pairwise(test)
    )
    return -sum(map(log2, chances)) / (len(test) - 1)


def written(model: keras.Model, begin: str, count: int) -> str:
    """What the model makes of a beginning: the likeliest letter each time."""
    found = [letters.index(letter) for letter in begin]
    for _ in range(count):
        recent = np.array(found[-LENGTH:], np.int32)
        row = np.pad(recent, (0, LENGTH - len(recent)))[None]
        found.append(int(model.predict_on_batch(row)[0, len(recent) - 1].argmax()))
    return "".join(letters[code] for code in found)


def main() -> None:
    """Train, and print what the model costs and writes."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(len(letters), 24),
            layers.GRU(96, return_sequences=True),
            layers.Dense(len(letters)),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-3), loss)
    start = time.perf_counter()
    model.fit(*rows(train), batch_size=BATCH, epochs=EPOCHS, verbose=0)
    seconds = time.perf_counter() - start
    bits = model.evaluate(*rows(test), verbose=0) / np.log(2)
    print(f"trained on {len(train):,} letters, {len(letters)} different ones, in {seconds:.1f} s")
    print(f"bits per letter: {bits:.2f}, by pairs of letters {bits_by_pairs():.2f}")
    print(written(model, "The statement ", 60))


if __name__ == "__main__":
    main()
