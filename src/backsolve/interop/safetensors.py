"""Arrays by name in a file, in the safetensors format: a head of JSON, then bytes. Never pickle.

A file is written beside its place and moved there at once: whoever reads it sees the old one or the new one.

>>> import numpy as np, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
>>> save({"w": np.arange(3.0)}, path, {"made by": "hand"})
>>> load(path)
{'w': array([0., 1., 2.])}
>>> metadata(path)
{'made by': 'hand'}
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = {
    "bool": "BOOL",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    "complex64": "C64",
}
_TYPES = {v: np.dtype(k) for k, v in _NAMES.items()}
_LONGEST_HEAD = 100_000_000  # bytes: what the format allows


def save(arrays: Mapping[str, Any], path: Any, about: Mapping[str, str] | None = None) -> None:
    """Write arrays, and texts about them, to a file; all of it or nothing."""
    head: dict[str, Any] = {} if not about else {"__metadata__": dict(about)}
    parts, end = [], 0
    # Larger entries first, as the format's own writer has it, so that each is aligned.
    order = sorted(arrays, key=lambda n: (-np.asarray(arrays[n]).dtype.itemsize, n))
    for name in order:
        a = np.asarray(arrays[name])
        if a.dtype.name not in _NAMES:
            raise TypeError(f"{name!r} is of {a.dtype}, which the format does not know")
        data = np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes()
        start, end = end, end + len(data)
        head[name] = {
            "dtype": _NAMES[a.dtype.name],
            "shape": list(a.shape),
            "data_offsets": [start, end],
        }
        parts.append(data)
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_whole(path, [struct.pack("<Q", len(text)), text, *parts])


def write_whole(path: Any, parts: list[bytes]) -> None:
    """Write beside the file and move it there, so that no half-written one is ever seen."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Any) -> dict[str, Any]:
    """The arrays of a file by name, in the order of the file."""
    head, start, file = _head(path)
    size = len(file) - start
    found = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        dtype, shape = _TYPES.get(entry["dtype"]), tuple(entry["shape"])
        first, end = entry["data_offsets"]
        if dtype is None:
            raise ValueError(f"{path}: {name!r} is of {entry['dtype']}, which NumPy does not have")
        wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if not 0 <= first <= end <= size or end - first != wanted:
            raise ValueError(f"{path} is damaged: {name!r} lies outside of it")
        data = np.frombuffer(file, dtype.newbyteorder("<"), wanted // dtype.itemsize, start + first)
        found[name] = data.reshape(shape).astype(dtype)
    return found


def metadata(path: Any) -> dict[str, str]:
    """The texts of a file."""
    return dict(_head(path)[0].get("__metadata__", {}))


def _head(path: Any) -> tuple[dict[str, Any], int, bytes]:
    file = Path(path).read_bytes()
    if len(file) < 8:
        raise ValueError(f"{path} is no safetensors file: it has {len(file)} bytes")
    (length,) = struct.unpack("<Q", file[:8])
    if length > min(_LONGEST_HEAD, len(file) - 8):
        raise ValueError(
            f"{path} is no safetensors file, or was cut off: its head is {length} bytes"
        )
    try:
        head = json.loads(file[8 : 8 + length])
    except ValueError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from None
    if not isinstance(head, dict):
        raise ValueError(f"{path} is no safetensors file: its head is no table")
    return head, 8 + length, file
