"""Data of the command line: a bundled set of scikit-learn by name, a table in a file, or images in folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Images
from ..data.sources import columns_of
from .targets import near

BUNDLED = ("digits", "iris", "wine", "breast_cancer", "diabetes")
_MOST_CLASSES = 20  # distinct whole numbers in a target that are taken as classes
MOST_BYTES = 256 << 20  # of images that are held in memory; more are read batch by batch


@dataclass(frozen=True)
class Dataset:
    """Inputs (N, features) or (N, C, H, W), in memory or in Files; targets, if known; their meaning."""

    name: str
    x: Any
    y: Any
    classes: tuple[str, ...] = ()  # none: targets are numbers
    target: str | None = None  # the column of a table that was the target
    words: dict[str, list[str]] = field(default_factory=dict)  # columns of words, numbered so

    @property
    def is_image(self) -> bool:
        return bool(self.x.ndim == 4)


class Files:
    """Images in files that look like an array of them: rows are read when they are asked for."""

    def __init__(self, source: Images, channels: int):
        assert source.size is not None
        self.source, self.shape = source, (len(source), channels, *source.size)
        self.ndim = 4

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: Any) -> Any:
        return self.source.take(np.arange(len(self))[numbers])[0]


class Pairs:
    """(inputs, targets) as a source, whether inputs are in memory or in files."""

    def __init__(self, data: Dataset):
        self.x, self.y = data.x, data.y
        self.reads_files = isinstance(data.x, Files)

    def __len__(self) -> int:
        return len(self.x)

    def take(self, numbers: Any) -> Any:
        return self.x[numbers], self.y[numbers]


def load(
    name: str,
    target: str | None = None,
    task: str = "auto",
    size: int = 32,
    like: dict[str, Any] | None = None,
) -> Dataset:
    """`like` is the description of an earlier run, whose columns, words and classes new data must fit."""
    path = Path(name)
    if name in BUNDLED:
        return _bundled(name)
    if path.is_dir():
        return _images(path, size, like)
    if path.is_file() and path.suffix.lower() in (".csv", ".parquet"):
        return _table(path, target, task, like)
    if path.exists():
        raise ValueError(f"{name} is neither a .csv or .parquet file nor a folder of images")
    raise FileNotFoundError(
        f"no data {name!r}{near(name, BUNDLED)}: give a .csv or .parquet file, a folder with one folder of "
        f"images for each class, or one of {', '.join(BUNDLED)}"
    )


def _bundled(name: str) -> Dataset:
    try:
        from sklearn import datasets
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"the set {name!r} comes with scikit-learn: pip install 'backsolve[train]'"
        ) from None
    found = getattr(datasets, f"load_{name}")()
    x: Any = np.asarray(found.data, np.float32)
    if name == "digits":
        x = x.reshape(-1, 1, 8, 8) / np.float32(16)
    if name == "diabetes":
        return Dataset(name, x, np.asarray(found.target, np.float32))
    classes = tuple(str(c) for c in found.target_names)
    return Dataset(name, x, np.asarray(found.target, np.int64), classes)


def _images(folder: Path, size: int, like: dict[str, Any] | None) -> Dataset:
    if like is not None:
        size = like["shape"][-1]
    source = Images(folder, size=(size, size))
    x: Any = Files(source, channels=3)
    if np.prod(x.shape) * 4 <= MOST_BYTES:
        x = x[:]
    y: Any = [label for _, label in source.files]
    classes = tuple(source.classes)
    if like is not None and set(classes) <= set(like["classes"]):
        y = np.array([like["classes"].index(classes[k]) for k in y])
    return Dataset(folder.name, x, np.asarray(y, np.int64), classes)


def _table(path: Path, target: str | None, task: str, like: dict[str, Any] | None) -> Dataset:
    columns = columns_of(path)
    if like is not None:
        target = like["target"]
        missing = [name for name in like["columns"] if name not in columns]
        if missing:
            raise ValueError(
                f"{path} lacks the column {missing[0]!r}, which the model was trained on"
            )
    elif target is None:
        target = list(columns)[-1]
    elif target not in columns:
        raise ValueError(f"{path} has no column {target!r}; it has {', '.join(columns)}")
    known = None if like is None else like["words"]
    names = [n for n in columns if n != target] if like is None else like["columns"]
    words: dict[str, list[str]] = {}
    inputs = [_numbers(path, name, columns[name], words, known) for name in names]
    x = np.stack(inputs, 1).astype(np.float32)
    if target not in columns:
        return Dataset(path.stem, x, None, target=target, words=words)
    y, classes = _targets(path, target, columns[target], task, like)
    return Dataset(path.stem, x, y, classes, target, words)


def _targets(
    path: Path, name: str, values: Any, task: str, like: dict[str, Any] | None
) -> tuple[Any, tuple[str, ...]]:
    numbers = _as_floats(values)
    if like is not None:
        task = "classes" if like["classes"] else "numbers"
    if task == "auto":
        whole = numbers is None or np.all(numbers == np.floor(numbers))
        task = "classes" if whole and len(set(map(str, values))) <= _MOST_CLASSES else "numbers"
    if task == "numbers":
        if numbers is None:
            raise ValueError(f"{path}: the target {name!r} holds words, no numbers to predict")
        return numbers.astype(np.float32), ()
    labels = [_label(v) for v in values]
    classes = tuple(like["classes"]) if like is not None else tuple(sorted(set(labels), key=_by))
    unknown = set(labels) - set(classes)
    if unknown:
        raise ValueError(f"{path}: {min(unknown)!r} in {name!r} is no class that was trained on")
    place = {c: k for k, c in enumerate(classes)}
    return np.array([place[label] for label in labels]), classes


def _numbers(path: Path, name: str, values: Any, words: dict[str, list[str]], known: Any) -> Any:
    """A column as numbers; words are numbered in alphabetical order, or as they were `known`."""
    numbers = _as_floats(values)
    if numbers is not None and (known is None or name not in known):
        return numbers
    listed = [str(v) for v in values]
    if known is not None and name not in known:
        raise ValueError(f"{path}: the column {name!r} holds words, but was trained on as numbers")
    words[name] = known[name] if known is not None else sorted(set(listed))
    place = {w: k for k, w in enumerate(words[name])}
    unknown = [w for w in listed if w not in place]
    if unknown:
        raise ValueError(f"{path}: the word {unknown[0]!r} in {name!r} was not trained on")
    return np.array([place[w] for w in listed], np.float64)


def _as_floats(values: Any) -> Any:
    try:
        return np.asarray(values).astype(np.float64)
    except ValueError:
        return None


def _label(value: Any) -> str:
    """3, 3.0 and "3" are one class."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number == int(number) else str(value)


def _by(label: str) -> Any:
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


def divided(data: Dataset, share: float, seed: int) -> tuple[Any, Any]:
    """Numbers of the examples to train on and of those to test on, each class in its share."""
    if not 0 <= share < 1:
        raise ValueError(f"the share of the test must be in [0, 1), got {share}")
    rng = np.random.default_rng(seed)
    n = len(data.x)
    count = int(np.ceil(n * share))
    if not data.classes:
        order = rng.permutation(n)
        return np.sort(order[count:]), np.sort(order[:count])
    members = [rng.permutation(np.flatnonzero(data.y == k)) for k in range(len(data.classes))]
    exact = [len(m) * count / n for m in members]
    taken = [int(e) for e in exact]
    by_rest = sorted(range(len(exact)), key=lambda k: taken[k] - exact[k])
    for k in by_rest[: count - sum(taken)]:
        taken[k] += 1
    test = np.concatenate([m[:t] for m, t in zip(members, taken, strict=True)])
    train = np.concatenate([m[t:] for m, t in zip(members, taken, strict=True)])
    return np.sort(train), np.sort(test)
