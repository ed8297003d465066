"""Arrays by name in a file, in the safetensors format. Never pickle.

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

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors import numpy as files

_DTYPES = {
    "BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4",
    "I64": "<i8", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip


def save(arrays: Mapping[str, Any], path: Any, about: Mapping[str, str] | None = None) -> None:
    """Write arrays, and texts about them, to a file; all of it or nothing."""
    plain = {name: np.array(a, order="C") for name, a in arrays.items()}
    strange = [f"{name} ({a.dtype})" for name, a in plain.items() if a.dtype.kind not in "biufc"]
    if strange:
        raise TypeError(f"the format holds numbers only, not {', '.join(strange)}")
    write_whole(path, files.save(plain, dict(about) if about else None))


def write_whole(path: Any, content: bytes) -> None:
    """Write beside the file and move it there, so that no half-written one is ever seen."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _settle(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Let a new name in a folder outlast a loss of power, where folders can be opened (not on Windows)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(path: Any) -> dict[str, Any]:
    """The arrays of a file by name; bfloat16, which NumPy does not have, as float32."""
    try:
        found = deserialize(Path(path).read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{path} is no whole safetensors file: {error}") from None
    strange = [
        f"{name} ({x['dtype']})" for name, x in found if x["dtype"] not in (*_DTYPES, "BF16")
    ]
    if strange:
        raise ValueError(f"{path} holds numbers that NumPy has no dtype for: {', '.join(strange)}")
    return {name: _array(x).reshape(x["shape"]) for name, x in found}


def _array(x: Mapping[str, Any]) -> Any:
    if x["dtype"] != "BF16":
        read = np.frombuffer(x["data"], _DTYPES[x["dtype"]])
        return read.astype(read.dtype.newbyteorder("="))
    upper = np.frombuffer(x["data"], "<u2").astype(np.uint32)  # the first half of a float32
    return (upper << 16).view(np.float32)


def metadata(path: Any) -> dict[str, str]:
    """The texts of a file."""
    with safe_open(path, "np") as file:
        return dict(file.metadata() or {})
