"""`tapec.save` and `tapec.load`: every dtype to the bit, whole files or none, nothing half-loaded."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapec
from tapec import errors
from tapec.errors import DataLossError, NotFoundError
from tapec.ir.types import DTYPES

FORMATS = (".safetensors", ".npz")


class Net(tapec.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tapec.Variable([[1.0, 2.0], [3.0, 4.0]])
        self.rows = [tapec.Variable(0.5), {"b": tapec.Variable([1], trainable=False)}]


def state(net: Net) -> list[Any]:
    return [v.numpy().tolist() for v in net.variables]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_dtypes_are_kept_to_the_bit(tmp_path: Path, suffix: str, dtype: str) -> None:
    path = tmp_path / f"x{suffix}"
    bits = np.random.default_rng(0).integers(0, 256, 48, np.uint8)
    array = bits.view(tapec.as_dtype(dtype).numpy) if dtype != "bool" else bits > 99
    values = {"a": array, "scalar": array[0], "none": array[:0].reshape(0, 3)}
    if (suffix, dtype) == (".safetensors", "complex128"):
        with pytest.raises(errors.TypeError, match="no dtype complex128"):
            tapec.save(path, values)
        assert not path.exists()
        return
    tapec.save(path, values)
    found = tapec.load(path)
    assert {n: x.shape for n, x in found.items()} == {
        "a": array.shape,
        "scalar": (),
        "none": (0, 3),
    }
    assert found["a"].dtype == dtype
    assert found["a"].numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_model_and_its_optimizer_go_on_where_they_were(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"step{suffix}"

    def step(net: Net, optimizer: Any) -> None:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(net.w**2) * net.rows[0]
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    first, adam = Net(), tapec.optimizers.Adam(0.1)
    step(first, adam)
    tapec.save(path, {"net": first, "adam": adam, "epoch": 3})
    step(first, adam)

    second, other = Net(), tapec.optimizers.Adam(0.1)
    other.build(second.trainable_variables)
    epoch = tapec.Variable(0)
    everything = {"net": second, "adam": other, "epoch": epoch}
    assert tapec.load(path, into=everything) is everything
    assert epoch.numpy() == 3
    step(second, other)
    assert state(second) == state(first)
    assert {"net/w", "net/rows/0", "net/rows/1/b", "adam/0", "epoch"} <= set(tapec.load(path))


@pytest.mark.parametrize("suffix", FORMATS)
def test_damage_is_noticed_and_nothing_half_loaded(tmp_path: Path, suffix: str) -> None:
    """Every cut, and every byte changed: an error, or what was saved (in a date, say, nothing is lost)."""
    path = tmp_path / f"net{suffix}"
    values = {"w": tapec.constant([1.5, -2.0]), "h": tapec.constant([3.0], "bfloat16")}
    tapec.save(path, values)
    whole = path.read_bytes()
    target = {"w": tapec.Variable([0.0, 0.0]), "h": tapec.Variable([0.0], dtype="bfloat16")}

    def read(contents: bytes) -> bool:
        path.write_bytes(contents)
        try:
            tapec.load(path, into=target)
        except DataLossError:
            assert not target["w"].numpy().any()
            assert not target["h"].numpy().any()
            return False
        assert [v.numpy().tolist() for v in target.values()] == [[1.5, -2.0], [3.0]]
        for variable in target.values():
            variable.assign(variable * 0)
        return True

    assert not any(read(whole[:n]) for n in range(len(whole)))
    survived = sum(
        read(whole[:n] + bytes([whole[n] ^ 255]) + whole[n + 1 :]) for n in range(len(whole))
    )
    assert survived < len(whole) // 2 if suffix == ".npz" else survived == 0
    assert read(whole)


def test_files_of_others_are_read(tmp_path: Path) -> None:
    """A header as other writers make it: no checksum, notes of their own."""
    head = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]},
    }
    text = json.dumps(head).encode()
    data = np.array([1, 2], np.float32).tobytes() + np.array(3, ml_dtypes.bfloat16).tobytes()
    path = tmp_path / "theirs.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    found = tapec.load(path)
    assert found["a"].numpy().tolist() == [1, 2]
    assert found["b"].dtype == tapec.bfloat16
    np.savez(tmp_path / "theirs.npz", a=np.arange(3))
    assert tapec.load(tmp_path / "theirs.npz")["a"].numpy().tolist() == [0, 1, 2]
    tapec.save(tmp_path / "ours.npz", {"a": np.arange(3), "b": found["b"]})
    assert np.load(tmp_path / "ours.npz")["a"].tolist() == [0, 1, 2]


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{"no": 1}], object))
    with pytest.raises(DataLossError, match="pickle"):
        tapec.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"w": [1.0, 2.0]}, "b is in the file alone"),
        ({"w": [1.0, 2.0], "b": [1], "c": [1.0]}, "c is not in the file"),
        ({"w": [1.0], "b": [1]}, r"w has shape \(2,\) in the file, \(1,\) here"),
        ({"w": [1, 2], "b": [1]}, "w is float32 in the file, int32 here"),
    ],
)
def test_what_does_not_fit_is_not_loaded(tmp_path: Path, target: Any, message: str) -> None:
    path = tmp_path / "x.safetensors"
    tapec.save(path, {"b": tapec.constant([7]), "w": tapec.constant([5.0, 6.0])})
    variables = {name: tapec.Variable(value) for name, value in target.items()}
    with pytest.raises(errors.ValueError, match=message):
        tapec.load(path, into=variables)
    assert {n: v.numpy().tolist() for n, v in variables.items()} == target


def test_an_interrupted_save_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npz"
    tapec.save(path, {"a": tapec.constant(1.0)})

    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        tapec.save(path, {"a": tapec.constant(2.0)})
    monkeypatch.undo()
    assert tapec.load(path)["a"].numpy() == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_wrong_arguments_say_so(tmp_path: Path) -> None:
    v = tapec.Variable(1.0)
    with pytest.raises(errors.ValueError, match=r"\.safetensors, \.npz"):
        tapec.save(tmp_path / "x.h5", v)
    with pytest.raises(NotFoundError, match="folder"):
        tapec.save(tmp_path / "none" / "x.npz", v)
    with pytest.raises(NotFoundError, match="no file"):
        tapec.load(tmp_path / "x.npz")
    with pytest.raises(errors.TypeError, match="which has no value"):
        tapec.save(tmp_path / "x.npz", {"a": "text"})
    with pytest.raises(errors.ValueError, match="'a/b'"):
        tapec.save(tmp_path / "x.npz", {"a/b": v, "a": {"b": v}})
    tapec.save(tmp_path / "x.npz", v)
    with pytest.raises(errors.TypeError, match="no Variable"):
        tapec.load(tmp_path / "x.npz", into=tapec.constant(1.0))
    with pytest.raises(errors.TypeError, match="being compiled"):
        tapec.compile(lambda: tapec.save(tmp_path / "x.npz", v))()
    assert tapec.load(tmp_path / "x.npz")["value"].numpy() == 1
