"""Checkpoints: all that a run needs to go on, in one safetensors file that is moved into place whole.

Arrays stand under dotted names; everything else is JSON in the file's header, with a checksum of both. What
cannot be read is passed over for the checkpoint before it. Runs on a mesh write a folder instead, to which each
process adds the pieces it has (distributed/pieces.py); either is read by runs of both kinds.
"""

from __future__ import annotations

import json
import platform
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import containers, tree
from ..backends.native.threads import get_threads
from ..declared import Point
from ..distributed import pieces, place
from ..distributed.together import largest, wait
from ..errors import StructureError
from ..interop import safetensors
from .history import History
from .run import Run

_FORMAT = "1"
_COUNTS = ("epoch", "step", "examples", "batches_done", "sums", "rate_factor", "seconds")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often: after every epoch, and within one every so many seconds or steps.

    The last `keep` stay.
    """

    folder: Any
    every_seconds: float = 30.0
    every_steps: int | None = None
    keep: int = 2

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError(f"keep={self.keep} must be at least 1")
        object.__setattr__(self, "folder", Path(self.folder))

    def files(self) -> list[Path]:
        """Whole files, and folders of whole pieces, the newest first."""
        found = [*self.folder.glob("step-*.safetensors")]
        found += [index.parent for index in self.folder.glob(f"step-*/{pieces.INDEX}")]
        return sorted(found, key=lambda path: path.stem, reverse=True)

    def save(self, run: Run) -> Path:
        """Write where the run stands, and take away what is older than those to keep."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"step-{run.step:09d}"
        arrays = dict(_named(_arrays_of(run)))
        if run.steps.devices is not None:
            path = pieces.save(self.folder / name, arrays, _rest_of(run))
        else:
            path = self.folder / f"{name}.safetensors"
            about = json.dumps(_rest_of(run))
            texts = {"format": _FORMAT, "run": about, "checksum": _checksum(arrays, about)}
            safetensors.save(arrays, path, texts)
        if place().is_first:
            for old in self.files()[self.keep :]:
                _remove(old)
        return path

    def save_model(self, arrays: Mapping[str, Any], name: str) -> None:
        """The arrays of a model alone, for use without the run."""
        if not place().is_first:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        safetensors.save(arrays, self.folder / f"{name}.safetensors")

    def load(self, run: Run) -> Path | None:
        """Bring a run to where its newest readable checkpoint stands; None if there is none."""
        if place().is_first:
            self._sweep()
        wait("checkpoints swept")
        for path in self.files():
            wrong = ""
            try:
                arrays, about = read(path, run)
            except (ValueError, KeyError, OSError) as error:
                wrong = str(error)
            if largest(bool(wrong)) == (0,):
                _restore(run, arrays, about, path)
                return path
            warnings.warn(
                f"{path} is damaged and passed over for the checkpoint before it "
                f"({wrong or 'as another process found'})",
                RuntimeWarning,
                stacklevel=3,
            )
        return None

    def _sweep(self) -> None:
        """Remove what is left of writes that were cut off."""
        for rest in self.folder.glob(".step-*.safetensors.*"):
            rest.unlink(missing_ok=True)
        for folder in self.folder.glob("step-*/"):
            if not (folder / pieces.INDEX).exists():
                pieces.remove(folder)

    def clear(self) -> None:
        """Remove all checkpoints: a run that shall not go on from them begins."""
        if place().is_first:
            for path in self.files():
                _remove(path)
        wait("checkpoints cleared")


def _remove(path: Path) -> None:
    if path.is_dir():
        pieces.remove(path)
    else:
        path.unlink(missing_ok=True)


def read(path: Any, run: Run | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays by name, and all else, of a checkpoint; ValueError if the file is not as it was written.

    For a run on a mesh arrays of its state come where they shall lie, each process reading what it has of them.
    """
    if Path(path).is_dir():
        found = pieces.Pieces(Path(path))
        where = {} if run is None or run.steps.devices is None else _places(found, run)
        return {name: found.array(name, where.get(name)) for name in found.arrays}, found.about
    arrays = safetensors.load(path)
    texts = safetensors.metadata(path)
    if texts.get("format") != _FORMAT:
        raise ValueError("it is no checkpoint of this format")
    if texts["checksum"] != _checksum(arrays, texts["run"]):
        raise ValueError("its checksum does not fit")
    return arrays, json.loads(texts["run"])


def _places(found: pieces.Pieces, run: Run) -> dict[str, Any]:
    """Where arrays of a state lie: as they did, for the same last bits; on another mesh as its rule says."""
    devices = run.steps.devices
    assert devices is not None
    shapes = {name: np.shape(a) for name, a in _named(run.state) if name in found.arrays}
    as_ruled = devices.shardings({f"state.{name}": shape for name, shape in shapes.items()})
    return {
        name: found.sharding(name, devices.mesh.of_jax) or there
        for name, there in zip(shapes, as_ruled, strict=True)
    }


def _arrays_of(run: Run) -> dict[str, Any]:
    best = {} if run.best_arrays is None else {"best": run.best_arrays}
    return {**run.state, **best}


def _rest_of(run: Run) -> dict[str, Any]:
    counts = (*_COUNTS, "epochs", "stopped")
    return {
        **{name: getattr(run, name) for name in counts},
        "best_value": run.best_value,
        "batches": run.batches.state_dict(),
        "history": run.history.rows,
        "manifolds": _manifolds_of(run),
        "callbacks": [c.state_dict() if hasattr(c, "state_dict") else None for c in run.callbacks],
        "made_with": made_with(run),
    }


def _manifolds_of(run: Run) -> dict[str, str]:
    """What parameters are declared on, by name."""
    return {
        name: repr(p.manifold)
        for name, p in run.state["parameters"].items()
        if isinstance(p, Point)
    }


def made_with(run: Run) -> dict[str, Any]:
    """What decides about the last bits of a result beside the program."""
    from .. import __version__

    devices = run.steps.devices
    return {
        **({} if devices is None else {"mesh": repr(devices.mesh)}),
        "threads": get_threads(),
        "backsolve": __version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def _restore(run: Run, arrays: dict[str, Any], about: dict[str, Any], path: Path) -> None:
    best = {k[len("best.") :]: a for k, a in arrays.items() if k.startswith("best.")}
    given = {k: a for k, a in arrays.items() if not k.startswith("best.")}
    leaves, form = tree.flatten(run.state)
    names = [name for name, _ in _named(run.state)]
    wrong = [f"{name} is missing" for name in names if name not in given]
    wrong += [f"{name} is not part of this run" for name in given if name not in names]
    wrong += [
        f"{name} is {given[name].dtype}{list(given[name].shape)} there, {a.dtype}{list(a.shape)} here"
        for name, a in zip(names, leaves, strict=True)
        if name in given and (given[name].shape, given[name].dtype) != (a.shape, a.dtype)
    ]
    theirs, ours = about.get("manifolds", {}), _manifolds_of(run)
    wrong += [
        f"{name} is declared on {theirs.get(name, 'none')} there, on {ours.get(name, 'none')} here"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    ]
    if wrong:
        more = f"\n  and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise StructureError(
            f"{path} belongs to another model or optimiser; take another folder, or resume=False:\n  "
            + "\n  ".join(wrong[:6])
            + more
        )
    now, then = made_with(run), about["made_with"]
    other = [
        f"{k} {then.get(k, 'none')} there, {now.get(k, 'none')} here"
        for k in sorted({*now, *then})
        if now.get(k) != then.get(k)
    ]
    if other:
        warnings.warn(
            f"{path} was made with {'; '.join(other)}: the run goes on, but not to the same last bits",
            RuntimeWarning,
            stacklevel=4,
        )
    run.state = form.unflatten([given[name] for name in names])
    run.best_arrays = best or None
    run.best_value = about["best_value"]
    for name in _COUNTS:
        setattr(run, name, about[name])
    # More epochs than before are a wish to go on.
    run.stopped = about["stopped"] if run.epochs <= about["epochs"] else None
    run.history = History(about["history"])
    run.batches.load_state_dict(about["batches"])
    for callback, state in zip(run.callbacks, about["callbacks"], strict=False):
        if state is not None and hasattr(callback, "load_state_dict"):
            callback.load_state_dict(state)


def _named(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by dotted names, in the order of tree.flatten."""
    if value is None:
        return
    if isinstance(value, Point):
        value = value.x
    handlers = containers.handlers(type(value))
    if handlers is None:
        yield path, value
        return
    meta, parts = handlers[0](value)
    listed = list(parts)
    names = meta if isinstance(meta, tuple) and len(meta) == len(listed) else range(len(listed))
    for name, part in zip(names, listed, strict=True):
        yield from _named(part, f"{path}.{name}" if path else str(name))


def _checksum(arrays: Mapping[str, Any], about: str) -> str:
    total = zlib.crc32(about.encode())
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        total = zlib.crc32(f"{name} {a.dtype} {a.shape}".encode(), total)
        total = zlib.crc32(a.reshape(-1).view(np.uint8).data, total)
    return f"{total:08x}"
