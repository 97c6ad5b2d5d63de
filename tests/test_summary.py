"""`tapec.summary`: what is in the files of events, eagerly and from compiled functions."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

import tapec
from tapec import errors, summary


def events(folder: Path) -> Iterator[tuple[str, int, Any]]:
    """Name, step and value of all that is in the files of a folder."""
    for file in sorted(folder.iterdir()):
        contents, at = file.read_bytes(), 0
        while at < len(contents):
            (size,) = struct.unpack_from("<Q", contents, at)
            event = Event.FromString(contents[at + 12 : at + 12 + size])
            at += 16 + size
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                yield value.tag, event.step, getattr(value, kind)


def test_scalars_have_name_step_and_value(tmp_path: Path) -> None:
    writer = summary.create_file_writer(tmp_path)
    step = tapec.Variable(7)
    with writer.as_default():
        assert summary.should_record_summaries()
        assert summary.scalar("loss", tapec.constant(0.5), step=1)
        assert summary.scalar("loss", 2, step=step)
        with tapec.name_scope("train"):
            summary.scalar("rate", 0.25, step=3)
        with summary.record_if(lambda: step == 0):
            assert not summary.scalar("never", 1.0, step=4)
    with writer.as_default(step=9):
        summary.scalar("loss", 4.0)
    assert not summary.scalar("nobody", 1.0, step=1)
    assert not summary.should_record_summaries()
    writer.close()
    assert list(events(tmp_path)) == [
        ("loss", 1, 0.5),
        ("loss", 7, 2.0),
        ("train/rate", 3, 0.25),
        ("loss", 9, 4.0),
    ]
    with pytest.raises(errors.RuntimeError, match="closed"):
        writer.set_as_default()


def test_compiled_functions_write_when_they_run(tmp_path: Path) -> None:
    inner = summary.create_file_writer(tmp_path / "inner")
    outer = summary.create_file_writer(tmp_path / "outer")
    step = tapec.Variable(0, dtype="int64")

    @tapec.compile
    def train(x: Any) -> Any:
        step.assign_add(1)
        summary.scalar("sum", tapec.reduce_sum(x), step=step)
        with inner.as_default():
            summary.scalar("first", x[0], step=step)
        return x

    with outer.as_default():
        train(tapec.constant([1.0, 2.0]))
        train(tapec.constant([3.0, 4.0]))
    train(tapec.constant([5.0, 6.0]))
    inner.close()
    outer.close()
    assert list(events(tmp_path / "outer")) == [("sum", 1, 3.0), ("sum", 2, 7.0)]
    assert list(events(tmp_path / "inner")) == [
        ("first", 1, 1.0),
        ("first", 2, 3.0),
        ("first", 3, 5.0),
    ]


def test_histograms_and_texts(tmp_path: Path) -> None:
    with summary.create_file_writer(tmp_path) as writer, writer.as_default():
        summary.histogram("w", tapec.constant([[1.0, 2.0], [3.0, 3.0]]), step=1, buckets=2)
        summary.text("note", "**bold**", step=2)
    found = {name.split("/")[0]: value for name, _, value in events(tmp_path)}
    assert (found["w"].num, found["w"].sum, found["w"].max) == (4, 9, 3)
    assert found["note"].string_val == [b"**bold**"]


def test_a_step_may_be_set_beforehand(tmp_path: Path) -> None:
    with summary.create_file_writer(tmp_path) as writer, writer.as_default():
        with pytest.raises(errors.ValueError, match="No step set"):
            summary.scalar("loss", 1.0)
        with pytest.raises(errors.InvalidArgumentError, match="one number"):
            summary.scalar("loss", [1.0, 2.0], step=0)
    with summary.create_noop_writer().as_default(step=3):
        assert summary.experimental.get_step() == 3
        assert summary.scalar("loss", 1.0)
    assert summary.experimental.get_step() is None


def test_without_tensorboardx_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(errors.ImportError, match=r"tapec\[tensorboard\]"):
        summary.create_file_writer(tmp_path)
