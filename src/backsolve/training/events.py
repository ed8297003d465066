"""TensorBoard's event files, written by hand: records of TFRecord, each an Event of protobuf.

record   length (uint64), masked crc32c of it, data, masked crc32c of them
Event    1: wall_time (double)  2: step (int64)  3: file_version  5: summary  6: session_log
Summary  1: value {1: tag  2: simple_value (float)  5: histo}
Histo    1: min 2: max 3: num 4: sum 5: sum_squares (doubles)  6: bucket_limit 7: bucket (packed doubles)
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_numbers = itertools.count()


class EventFile:
    """One file of events; what came after `start_step` in earlier files of the folder is to be forgotten."""

    def __init__(self, folder: Any, start_step: int = 0):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        host = socket.gethostname()
        name = f"events.out.tfevents.{int(now):010d}.{host}.{os.getpid()}.{next(_numbers)}"
        self.path = folder / name
        self._file = open(self.path, "ab")  # noqa: SIM115 - open as long as the run
        self._write(field(3, b"brain.Event:2"))
        if start_step:
            start = field(6, field(1, 1))  # SessionLog.START: TensorBoard drops what is newer
            self._write(field(2, start_step + 1) + start)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers under their names, at a step."""
        parts = [
            field(1, field(1, tag.encode()) + field(2, np.float32(value)))
            for tag, value in values.items()
        ]
        self._write(field(2, step) + field(5, b"".join(parts)))

    def histogram(self, tag: str, found: Mapping[str, Any], step: int) -> None:
        """One that `histograms.histogram` made."""
        counts = np.asarray(found.get("counts", ()), "<f8")
        if not counts.size:
            return
        low, high, mean, n = found["low"], found["high"], found["mean"], float(counts.sum())
        numbers = [low, high, n, n * mean, n * (found["std"] ** 2 + mean**2)]
        histogram = b"".join(field(k, float(x)) for k, x in enumerate(numbers, 1))
        limits = np.linspace(low, high, counts.size + 1)[1:].astype("<f8")
        histogram += field(6, limits.tobytes()) + field(7, counts.tobytes())
        value = field(1, tag.encode()) + field(5, histogram)
        self._write(field(2, step) + field(5, field(1, value)))

    def _write(self, event: bytes) -> None:
        self._file.write(record(field(1, time.time()) + event))

    def flush(self) -> None:
        """Hand all that was written to the disk."""
        self._file.flush()

    def close(self) -> None:
        """The end of the file."""
        self._file.close()


# ---- protobuf


def field(number: int, value: Any) -> bytes:
    """A field by its number: int as varint, float as double, float32 as float, bytes with their length."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, np.float32):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    return _varint(number << 3) + _varint(value)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


# ---- TFRecord


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def records(content: bytes) -> Iterator[bytes]:
    """The data of whole records; ValueError where a checksum does not fit."""
    at = 0
    while at + 12 <= len(content):
        length = content[at : at + 8]
        size = struct.unpack("<Q", length)[0]
        data = content[at + 12 : at + 12 + size]
        if content[at + 8 : at + 12] != _masked(length):
            raise ValueError(f"the length of the record at byte {at} is damaged")
        if len(data) < size or at + 16 + size > len(content):
            return  # the write was cut off
        if content[at + 12 + size : at + 16 + size] != _masked(data):
            raise ValueError(f"the record at byte {at} is damaged")
        yield data
        at += 16 + size


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(n: int) -> int:
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    return n


_TABLE = [_entry(n) for n in range(256)]
