"""Arrays by name in a file, in the safetensors format. Never pickle.

A file is written beside its place and moved there at once: whoever reads it sees the old one or the new one.

>>> import numpy as np, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
>>> save({"w": np.arange(3.0)}, path, {"made by": "hand"})
>>> load(path)
{'w': array([0., 1., 2.])}
>>> metadata(path)
{'made by': 'hand'}

Any tree of arrays goes in, a module or the state of an optimiser, and comes back into one of its form:

>>> state = {"mean": [np.ones(2), np.zeros(2)], "steps": 3}
>>> save(state, path)
>>> load(path, like=state)
{'mean': [array([1., 1.]), array([0., 0.])], 'steps': 3}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors import numpy as files

from .. import tree
from ..errors import StructureError
from ..nn.module import Module
from ..tensor import Tensor

_DTYPES = {
    "BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4",
    "I64": "<i8", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip


_INDEX = ".index.json"
_ABOUT = "__metadata__"


def save(
    arrays: Any,
    path: Any,
    about: Mapping[str, str] | None = None,
    *,
    dtype: str | None = None,
    largest: int | None = None,
) -> None:
    """Write arrays by name, a module or any tree, and texts about them, to a file; all of it or nothing.

    With `dtype="bfloat16"` (or another name) floats are rounded to it. With `largest`, the most bytes of one
    file, there may be several, m-00001-of-00003.safetensors and so on, and m.safetensors.index.json, which says
    what is where.
    """
    plain = {name: _plain(a, dtype) for name, a in _by_name(arrays).items()}
    strange = [f"{name} ({a.dtype})" for name, (a, _) in plain.items() if not _is_held(a.dtype)]
    if strange:
        raise TypeError(
            f"the format holds numbers of up to 64 bits only, complex64 among them, not {', '.join(strange)}"
        )
    if _ABOUT in plain:
        raise ValueError(f"the format has texts under the name {_ABOUT}: call the array another")
    path = Path(path)
    if largest is None:
        write_whole(path, _written(plain, about))
        return
    parts = _divided(plain, largest)
    names = [
        f"{path.stem}-{k:05}-of-{len(parts):05}{path.suffix}" for k in range(1, len(parts) + 1)
    ]
    for name, part in zip(names, parts, strict=True):
        write_whole(path.with_name(name), _written(part, about))
    total = sum(a.nbytes for a, _ in plain.values())
    places = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    index = {"metadata": {"total_size": total, **(about or {})}, "weight_map": places}
    write_whole(path.with_name(path.name + _INDEX), json.dumps(index, indent=2).encode())


def _is_held(dtype: Any) -> bool:
    return dtype.newbyteorder("<") in map(np.dtype, _DTYPES.values())


def _by_name(arrays: Any) -> Mapping[str, Any]:
    if isinstance(arrays, Module):
        return arrays.state_dict()
    is_flat = isinstance(arrays, Mapping) and all(type(k) is str for k in arrays)
    if is_flat and not any(isinstance(a, Mapping | list | tuple | Module) for a in arrays.values()):
        return arrays
    leaves, structure = tree.flatten(arrays)
    named: dict[str, Any] = {}
    for name, leaf in zip(_names(structure), leaves, strict=True):
        if name in named:
            raise StructureError(f"two arrays would be called {name}: name the keys without dots")
        named[name] = leaf
    return named


def _names(structure: tree.Structure) -> list[str]:
    """Of the leaves of a tree, with dots: mean.0.weight"""
    from .named import plain_name

    return [plain_name(name) or "0" for name in tree.leaf_names(structure, "")]


def _plain(a: Any, dtype: str | None) -> tuple[Any, bool]:
    """An array as it is written, and whether it is the upper halves of float32."""
    a = np.asarray(a.value if isinstance(a, Tensor) else a)
    if a.dtype.name == "bfloat16":  # of JAX, which brings it to NumPy
        return np.array(a, order="C").view(np.uint16), True
    if dtype is None or a.dtype.kind != "f":
        return np.array(a, order="C"), False
    if dtype != "bfloat16":
        return np.array(a, np.dtype(dtype), order="C"), False
    return _upper_halves(a.astype(np.float32)), True


def _upper_halves(a: Any) -> Any:
    """Rounded to the nearest, to even ones between two; NaN stays one."""
    bits = np.array(a, order="C").view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    return np.where(np.isnan(a), np.uint16(0x7FC0), rounded.astype(np.uint16))


def _written(plain: Mapping[str, tuple[Any, bool]], about: Mapping[str, str] | None) -> bytes:
    content = files.save(
        {name: a for name, (a, _) in plain.items()}, dict(about) if about else None
    )
    halves = [name for name, (_, is_half) in plain.items() if is_half]
    if not halves:
        return content
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    for name in halves:
        header[name]["dtype"] = "BF16"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def _divided(plain: Mapping[str, Any], largest: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{}]
    size = 0
    for name, entry in plain.items():
        if parts[-1] and size + entry[0].nbytes > largest:
            parts.append({})
            size = 0
        parts[-1][name] = entry
        size += entry[0].nbytes
    return parts


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


def load(path: Any, like: Any = None) -> Any:
    """The arrays of a file by name; bfloat16, which NumPy does not have, as float32.

    Of several files, name the index (m.safetensors.index.json), the path they were saved under, or the folder.
    With `like`, a tree of the same form with what the file holds.
    """
    index, files = _files(Path(path))
    found = {name: a for part in files for name, a in _read(part).items()}
    lost = [name for name in index if name not in found]
    if lost:
        raise ValueError(f"the index of {path} names arrays that no file holds: {', '.join(lost)}")
    return found if like is None else _into(found, like, path)


def _files(path: Path) -> tuple[Mapping[str, str], list[Path]]:
    """The files that hold what is asked for, the path alone or those of an index, and what that says."""
    if path.is_dir():
        path = _only_one(path)
    index = path if path.name.endswith(_INDEX) else path.with_name(path.name + _INDEX)
    if index is not path and (path.exists() or not index.exists()):
        return {}, [path]
    try:
        places = json.loads(index.read_text())["weight_map"]
        files = [index.with_name(name) for name in sorted(set(places.values()))]
    except (ValueError, KeyError, AttributeError, TypeError):
        files = []
    if not files:
        raise ValueError(
            f"{index} is no index of safetensors files: it has no weight_map, which names files beside it"
        )
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise FileNotFoundError(f"{index} names files that are not beside it: {', '.join(missing)}")
    return places, files


def _only_one(folder: Path) -> Path:
    """The index in a folder, or its only file."""
    known = [*folder.glob(f"*.safetensors{_INDEX}")] or [*folder.glob("*.safetensors")]
    if not known:
        raise FileNotFoundError(f"there is no .safetensors file in {folder}")
    if len(known) > 1:
        names = ", ".join(sorted(file.name for file in known))
        raise ValueError(f"{folder} holds several, {names}: name one of them")
    return known[0]


def _into(found: Mapping[str, Any], like: Any, path: Any) -> Any:
    if isinstance(like, Module):
        made = tree.map(lambda a: np.array(a) if isinstance(a, np.ndarray) else a, like)
        made.load_state_dict(found)
        return made
    leaves, structure = tree.flatten(like)
    names = _names(structure)
    if isinstance(like, Mapping) and set(like) == set(found):
        names = list(like)
    odd = [f"- {name}" for name in names if name not in found]
    odd += [f"+ {name}" for name in found if name not in names]
    for name, leaf in zip(names, leaves, strict=True):
        if name in found and found[name].shape != np.shape(leaf):
            odd.append(f"≠ {name}: {np.shape(leaf)} here, {found[name].shape} there")
    if odd:
        raise StructureError(
            f"{path} holds another tree (- missing, + unexpected, ≠ of another form):\n  "
            + "\n  ".join(odd)
        )
    values = [
        type(leaf)(found[name][()]) if type(leaf) in (int, float, bool) else found[name]
        for name, leaf in zip(names, leaves, strict=True)
    ]
    return structure.unflatten(values)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = deserialize(path.read_bytes())
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
    """The texts of a file, or of the first of several."""
    first, *_ = _files(Path(path))[1]
    try:
        with safe_open(first, "np") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"{first} is no whole safetensors file: {error}") from None
