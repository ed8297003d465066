"""Logs: lines of JSON, and TensorBoard's events, parsed back here by their format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, training
from backsolve.training import EventFile, Log, read_log
from backsolve.training.events import crc32c, field, record, records
from backsolve.training.histograms import histogram

X = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]


def message(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message: varints, doubles, floats as numbers, all else as bytes."""
    at, found = 0, []

    def varint() -> int:
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n

    while at < len(data):
        tag = varint()
        value: Any
        if tag & 7 == 0:
            value = varint()
        elif tag & 7 == 1:
            value = struct.unpack("<d", data[at : at + 8])[0]
            at += 8
        elif tag & 7 == 5:
            value = struct.unpack("<f", data[at : at + 4])[0]
            at += 4
        else:
            size = varint()
            value = data[at : at + size]
            at += size
        found.append((tag >> 3, value))
    return found


def scalars(path: Path) -> list[tuple[int, str, float]]:
    found = []
    for data in records(path.read_bytes()):
        event = dict(message(data))
        for _, value in message(event.get(5, b"")):
            parts = dict(message(value))
            if 2 in parts:
                found.append((event[2], parts[1].decode(), parts[2]))
    return found


def test_checksums_of_castagnoli() -> None:
    # RFC 3720, B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


def test_records_notice_damage_and_bear_a_cut() -> None:
    content = record(b"one") + record(b"two" * 50)
    assert list(records(content)) == [b"one", b"two" * 50]
    assert list(records(content[:-3])) == [b"one"]
    for at in (3, 9, 13, 16, 60):
        broken = bytearray(content)
        broken[at] ^= 4
        with pytest.raises(ValueError, match="damaged"):
            list(records(bytes(broken)))


def test_protobuf_fields() -> None:
    data = field(1, 300) + field(2, 0.5) + field(3, np.float32(1.5)) + field(16, b"ab")
    assert message(data) == [(1, 300), (2, 0.5), (3, 1.5), (16, b"ab")]


def test_histograms(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.histogram("w", histogram([0.0, 1.0, 1.0, 4.0, np.nan], bins=4), 7)
    file.histogram("none", histogram(np.full(3, np.nan)), 7)
    file.close()
    version, event = [dict(message(data)) for data in records(file.path.read_bytes())]
    assert version[3] == b"brain.Event:2"
    assert event[2] == 7
    value = dict(message(dict(message(event[5]))[1]))
    found = dict(message(value[5]))
    assert [found[k] for k in (1, 2, 3, 4, 5)] == [0.0, 4.0, 4.0, 6.0, 18.0]
    np.testing.assert_array_equal(np.frombuffer(found[6]), [1, 2, 3, 4])
    np.testing.assert_array_equal(np.frombuffer(found[7]), [1, 2, 0, 1])


def test_a_run_is_logged_twice_over(tmp_path: Path) -> None:
    done = bs.fit(
        nn.Linear(1, 1), nn.functional.mse_loss, (X, X), batch_size=8, epochs=2, progress=False,
        log=Log(tmp_path, every_steps=2), validation=(X, X),
    )  # fmt: skip
    first, *rows, last = read_log(tmp_path)
    assert (first["kind"], first["step"], first["epochs"]) == ("start", 0, 2)
    assert last == {"kind": "end", "step": 10, "epoch": 2, "stopped": None}
    assert [(r["kind"], r["step"]) for r in rows] == [
        *[("step", 2), ("step", 4), ("epoch", 5), ("step", 6), ("step", 8), ("step", 10)],
        ("epoch", 10),
    ]
    assert rows[-1]["val_loss"] == done.metrics["val_loss"]
    (events,) = tmp_path.glob("events.out.tfevents.*")
    logged = {(step, tag): value for step, tag, value in scalars(events)}
    assert logged[10, "epoch/val_loss"] == np.float32(done.metrics["val_loss"])
    assert logged[4, "step/loss"] == np.float32(rows[1]["loss"])


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"kind": "step", "step": 1}\n{"kind": "st')
    assert read_log(tmp_path) == [{"kind": "step", "step": 1}]


def test_a_run_that_goes_on_tells_tensorboard_what_to_forget(tmp_path: Path) -> None:
    file = EventFile(tmp_path, start_step=12)
    file.close()
    _, event = [dict(message(data)) for data in records(file.path.read_bytes())]
    assert event[2] == 13
    assert message(event[6]) == [(1, 1)]


def test_history_is_a_table() -> None:
    history = training.History([{"epoch": 1, "accuracy": 0.5}, {"epoch": 2, "accuracy": 0.75}])
    assert history.best("accuracy")["epoch"] == 2
    assert len(history) == 2
    assert history.last["epoch"] == 2
    with pytest.raises(KeyError, match="measured were epoch, accuracy"):
        history["loss"]
