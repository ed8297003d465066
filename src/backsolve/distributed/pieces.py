"""Arrays over many devices in files: each process writes the pieces it has, and an index says what lies where.

    folder/index.json     of each array shape, dtype and axes on a mesh; of each piece slices, file and key
    folder/<save>-00002-of-00004.safetensors        the pieces that process 2 wrote

The index is written last, when all files are there: without it there is no checkpoint, and one that it replaces
stays whole until then. Any mesh, or a single process, reads it: each process the slices that it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ..backends.xla.library import jax, wide
from ..errors import StructureError
from ..interop import safetensors
from .start import place
from .together import numbers_of_first, wait

INDEX = "index.json"
_FORMAT = 1
Slices = tuple[tuple[int, int], ...]  # (low, high) of each axis


def save(folder: Any, arrays: Mapping[str, Any], about: Any = None) -> Path:
    """Write arrays by name, and JSON about them, to a folder. All processes call it, with the same names."""
    folder = Path(folder)
    (number,) = numbers_of_first(int.from_bytes(os.urandom(6)))
    folder.mkdir(parents=True, exist_ok=True)
    own: dict[str, Any] = {}
    index: dict[str, Any] = {}
    names = [
        f"{number:012x}-{k:05d}-of-{place().count:05d}.safetensors" for k in range(place().count)
    ]
    for turn, (name, a) in enumerate(arrays.items()):
        if not hasattr(a, "dtype"):
            a = _numbers(name, a)
        pieces = []
        for k, (slices, process, read) in enumerate(_pieces(a, turn)):
            key = f"{name}@{k}"
            pieces.append({"slices": slices, "file": names[process], "key": key})
            if process == place().index:
                own[key] = _storable(read())
        about_it = {"shape": list(np.shape(a)), "dtype": str(a.dtype), **_axes_of(a)}
        index[name] = {**about_it, "pieces": pieces}
    if own:
        sums = {key: _checksum(a) for key, a in own.items()}
        safetensors.save(own, folder / names[place().index], {"checksums": json.dumps(sums)})
    wait("pieces written")
    if place().is_first:
        whole = {"format": _FORMAT, "processes": place().count, "about": about, "arrays": index}
        safetensors.write_whole(folder / INDEX, json.dumps(whole).encode())
        for old in folder.glob("*.safetensors"):
            if old.name not in names:
                old.unlink(missing_ok=True)
    wait("index written")
    return folder


def load(folder: Any, shardings: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
    """Arrays by name, and the JSON about them: those with a sharding as global arrays, others as NumPy's."""
    read = Pieces(Path(folder))
    found = {name: read.array(name, (shardings or {}).get(name)) for name in read.arrays}
    return found, read.about


def newest(folder: Any) -> Path | None:
    """The last, by name, of the whole checkpoints in a folder."""
    return next(whole(folder), None)


def whole(folder: Any) -> Iterator[Path]:
    """Folders of checkpoints whose index and files are all there, the last by name first."""
    for index in sorted(Path(folder).glob(f"*/{INDEX}"), reverse=True):
        try:
            Pieces(index.parent)
        except (ValueError, OSError):
            continue
        yield index.parent


def remove(folder: Path) -> None:
    """First the index, so that nobody takes what is left for whole."""
    (folder / INDEX).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Pieces:
    """A checkpoint to read from, by arrays and by slices."""

    folder: Path

    def __post_init__(self) -> None:
        try:
            index = json.loads((self.folder / INDEX).read_text())
            if index["format"] != _FORMAT:
                raise ValueError(f"format {index['format']} is not known here")
            self.arrays: dict[str, Any] = index["arrays"]
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{self.folder / INDEX} is no index of a checkpoint: {error!r}"
            ) from None
        self.about: Any = index["about"]
        files = {p["file"] for a in self.arrays.values() for p in a["pieces"]}
        missing = sorted(f for f in files if not (self.folder / f).is_file())
        if missing:
            raise ValueError(f"{self.folder} lacks the file {missing[0]}")
        self._opened: dict[str, Any] = {}

    def array(self, name: str, sharding: Any = None) -> Any:
        """One array: whole, or, with a sharding, over its devices, of which each gets its slices."""
        shape = tuple(self.arrays[name]["shape"])
        if sharding is None:
            return self.part(name, tuple((0, n) for n in shape))
        part = lambda index: self.part(name, normal(index, shape))
        with wide():
            return jax().make_array_from_callback(shape, sharding, part)

    def sharding(self, name: str, mesh: Any) -> Any:
        """How an array lay when it was saved, on a mesh of JAX's; None if it was another mesh, or none."""
        about = self.arrays[name]
        if about.get("mesh") != [[axis, size] for axis, size in mesh.shape.items()]:
            return None
        axes = [tuple(a) if isinstance(a, list) else a for a in about["axes"]]
        return jax().sharding.NamedSharding(mesh, jax().sharding.PartitionSpec(*axes))

    def part(self, name: str, wanted: Slices) -> Any:
        """Some slices of an array, read from where they lie."""
        about = self.arrays[name]
        out: Any = np.empty([high - low for low, high in wanted], _dtype(about["dtype"]))
        filled = 0
        for piece in about["pieces"]:
            has = tuple((low, high) for low, high in piece["slices"])
            both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, has, strict=True))
            if any(low >= high for low, high in both):
                continue
            there = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, has, strict=True))
            here = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, wanted, strict=True))
            out[here] = self._read(piece, None if both == has else there).view(out.dtype)
            filled += out[here].size
        if filled != out.size:
            raise ValueError(f"{self.folder}: pieces of {name} are missing, or overlap")
        return out

    def _read(self, piece: Mapping[str, str], index: tuple[slice, ...] | None) -> Any:
        path = self.folder / piece["file"]
        try:
            if piece["file"] not in self._opened:
                file = safe_open(path, "np")
                sums = json.loads((file.metadata() or {})["checksums"])
                self._opened[piece["file"]] = file, sums
            file, sums = self._opened[piece["file"]]
            if index is not None:
                return np.ascontiguousarray(file.get_slice(piece["key"])[index])
            a = file.get_tensor(piece["key"])
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if _checksum(a) != sums.get(piece["key"]):
            raise ValueError(f"{path} is damaged: the checksum of {piece['key']} does not fit")
        return a


def _pieces(a: Any, turn: int) -> Iterator[tuple[Slices, int, Callable[[], Any]]]:
    """Of each piece of an array: its slices, which process writes it, and how that one gets it.

    Of several devices that hold the same piece one is chosen by turns, so that all processes write alike.
    """
    if not hasattr(a, "sharding"):
        yield tuple((0, n) for n in np.shape(a)), 0, lambda: a
        return
    holders: dict[Slices, list[Any]] = {}
    for device, index in a.sharding.devices_indices_map(a.shape).items():
        holders.setdefault(normal(index, a.shape), []).append(device)
    shards = {shard.device: shard for shard in a.addressable_shards}
    for slices, devices in sorted(holders.items(), key=lambda item: item[0]):
        device = sorted(devices, key=lambda d: (d.process_index, d.id))[turn % len(devices)]
        yield slices, device.process_index, partial(_data, shards, device)


def _data(shards: Mapping[Any, Any], device: Any) -> Any:
    return shards[device].data


def _axes_of(a: Any) -> dict[str, Any]:
    """The axes of a mesh that an array is split along."""
    sharding: Any = getattr(a, "sharding", None)
    if not hasattr(sharding, "spec"):
        return {}
    sizes = [[axis, size] for axis, size in sharding.mesh.shape.items()]
    return {"mesh": sizes, "axes": [list(x) if isinstance(x, tuple) else x for x in sharding.spec]}


def normal(index: tuple[slice, ...], shape: tuple[int, ...]) -> Slices:
    """Slices with both ends as numbers."""
    return tuple((s.indices(n)[0], s.indices(n)[1]) for s, n in zip(index, shape, strict=True))


def _numbers(name: str, a: Any) -> Any:
    if isinstance(a, Mapping | list | tuple) or np.asarray(a).dtype.kind not in "biufc":
        raise StructureError(
            f"arrays are saved by name, and {name!r} is a {type(a).__name__}: give what is inside names of "
            "its own, and all that is no array as the JSON about them"
        )
    return np.asarray(a)


def _storable(a: Any) -> Any:
    """Numbers that NumPy has no name for (bfloat16) as unsigned integers of their bits."""
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    return a if a.dtype.kind in "biufc" else a.view(f"u{a.dtype.itemsize}")


def _dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # JAX's own, which knows bfloat16 and smaller ones

        return np.dtype(getattr(ml_dtypes, name))


def _checksum(a: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(a).reshape(-1).view(np.uint8).data)
