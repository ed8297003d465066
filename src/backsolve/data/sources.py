"""Where examples come from: something with a length that gives the examples of given numbers, stacked.

    source.take(numbers)  ->  a container of arrays, one row per number

An array, or a container of arrays of one length, is a source as it is (`as_source`). Files are read when they
are asked for; a source that does so says it by `reads_files`, and batches of it are read ahead.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import tree
from ..errors import ShapeError

_READERS = 4  # threads that read the files of a batch


class Source(Protocol):
    def __len__(self) -> int: ...

    def take(self, numbers: Any) -> Any: ...


class Arrays:
    """Rows of arrays: `Arrays((images, labels))`, or any other container of them.

    >>> import numpy as np
    >>> Arrays({"x": np.arange(6).reshape(3, 2), "y": np.arange(3)}).take([2, 0])
    {'x': array([[4, 5], [0, 1]]), 'y': array([2, 0])}
    """

    def __init__(self, arrays: Any):
        leaves, self.form = tree.flatten(arrays)
        self.arrays = [np.asarray(a) for a in leaves]
        if leaves and all(isinstance(a, float | int) for a in leaves):
            raise ShapeError("examples are rows of arrays, got lists of numbers: take np.array(…)")
        lengths = {a.shape[0] if a.shape else None for a in self.arrays}
        if len(lengths) != 1 or None in lengths:
            shapes = ", ".join(str(a.shape) for a in self.arrays)
            raise ShapeError(f"all arrays must have one length, got shapes {shapes}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def take(self, numbers: Any) -> Any:
        """The rows with these numbers."""
        return self.form.unflatten([a[numbers] for a in self.arrays])

    def __repr__(self) -> str:
        columns = ", ".join(f"{a.dtype}{list(a.shape[1:]) or ''}" for a in self.arrays)
        return f"<{len(self)} examples in arrays: {columns}>"


class Examples:
    """Examples made one at a time: `make(k)` gives a container of arrays or numbers; they are stacked."""

    def __init__(self, make: Callable[[int], Any], length: int):
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    def take(self, numbers: Any) -> Any:
        """The examples with these numbers, stacked."""
        return stacked([self.make(int(k)) for k in numbers])


class Part:
    """Some examples of another source: `Part(source, numbers)`."""

    def __init__(self, source: Any, numbers: Any):
        self.source, self.numbers = as_source(source), np.asarray(numbers)
        self.reads_files = getattr(self.source, "reads_files", False)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, numbers: Any) -> Any:
        """The examples with these numbers, counted within the part."""
        return self.source.take(self.numbers[numbers])


class Images(Examples):
    """Images in folders, one folder a class: (image as (C, H, W) in [0, 1], number of the class). Needs Pillow.

    `size` is (height, width); `mode` is Pillow's, "RGB" or "L". `classes` are the names of the folders. The
    files of a batch are read by several threads.
    """

    reads_files = True

    def __init__(self, folder: Any, size: tuple[int, int] | None = None, mode: str = "RGB"):
        if importlib.util.find_spec("PIL") is None:
            raise ModuleNotFoundError("images are read by Pillow: pip install 'backsolve[train]'")
        root = Path(folder)
        self.classes = sorted(p.name for p in root.iterdir() if p.is_dir())
        ends = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
        self.files = [
            (file, k)
            for k, name in enumerate(self.classes)
            for file in sorted((root / name).iterdir())
            if file.suffix.lower() in ends
        ]
        if not self.files:
            raise FileNotFoundError(f"no images in folders of {root}")
        self.size, self.mode = size, mode
        super().__init__(self._read, len(self.files))

    def take(self, numbers: Any) -> Any:
        with ThreadPoolExecutor(_READERS) as readers:
            return stacked(readers.map(self._read, [int(k) for k in numbers]))

    def _read(self, k: int) -> Any:
        from PIL import Image

        file, label = self.files[k]
        try:
            with Image.open(file) as opened:
                image = opened.convert(self.mode)
                if self.size is not None:
                    image = image.resize(self.size[::-1])
                pixels = np.asarray(image, np.float32) / 255
        except OSError as error:  # of a file that breaks off Pillow does not tell the name
            raise OSError(f"{file} cannot be read as an image: {error}") from error
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0), label


def table(path: Any, target: str | None = None) -> Any:
    """A CSV or Parquet file as a source: (columns as float32, target), or only the columns.

    CSV needs nothing; Parquet needs pandas or pyarrow. Words are numbered in alphabetical order. The arrays
    themselves are `x, y = table(…).take(slice(None))`.
    """
    path = Path(path)
    columns = columns_of(path)
    numbers = {name: _as_numbers(values) for name, values in columns.items()}
    if target is None:
        return Arrays(np.stack(list(numbers.values()), 1).astype(np.float32))
    if target not in numbers:
        raise KeyError(f"{path} has no column {target!r}; it has {', '.join(numbers)}")
    y = numbers.pop(target)
    return Arrays((np.stack(list(numbers.values()), 1).astype(np.float32), y))


def columns_of(path: Any) -> dict[str, Any]:
    """The columns of a CSV or Parquet file by name, as they are: texts of CSV, values of Parquet."""
    path = Path(path)
    columns = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    for name, values in columns.items():
        _refuse_gaps(path, name, values)
    return columns


_GAPS = {
    "",
    "na",
    "n/a",
    "nan",
    "null",
    "none",
    "nat",
    "?",
    "-",
    ".",
}  # how files say that an entry is missing


def _refuse_gaps(path: Path, name: str, values: Any) -> None:
    """A number that is missing among numbers would make words of all, or NaN of the loss."""
    gaps = [k for k, value in enumerate(values) if str(value).strip().lower() in _GAPS]
    if gaps and len(gaps) < len(values):
        missing = set(gaps)
        try:
            np.array([v for k, v in enumerate(values) if k not in missing]).astype(np.float64)
        except ValueError:
            return  # words, of which one may be empty
        raise ValueError(
            f"{path}: row {gaps[0] + 1} of the column {name!r} has no number but "
            f"{str(values[gaps[0]])!r}; fill it in, or leave the row out"
        )


def _csv(path: Path) -> dict[str, Sequence[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if not rows:
        raise ValueError(f"{path} is empty")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{path}, line {number}: {len(row)} entries under {len(rows[0])} names of columns"
            )
    if len(rows) == 1:
        raise ValueError(f"{path} has names of columns, and no rows")
    if len(set(rows[0])) < len(rows[0]):
        twice = next(name for name in rows[0] if rows[0].count(name) > 1)
        raise ValueError(f"{path} has two columns {twice!r}")
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        import pandas

        frame = pandas.read_parquet(path)
        return {str(name): frame[name].to_numpy() for name in frame}
    read = pyarrow.parquet.read_table(path)
    return {name: read[name].to_numpy() for name in read.column_names}


def _as_numbers(values: Any) -> Any:
    a = np.asarray(values)
    if a.dtype.kind in "biuf":
        return a
    try:
        numbers = a.astype(np.float64)
    except ValueError:
        return np.unique(a.astype(str), return_inverse=True)[1]
    return numbers.astype(np.int64) if np.all(numbers == np.floor(numbers)) else numbers


def as_source(data: Any) -> Any:
    """A source as it is, anything else as arrays; scikit-learn's bundled sets as (data, target)."""
    if hasattr(data, "take") and hasattr(data, "__len__") and not isinstance(data, np.ndarray):
        return data
    if hasattr(data, "data") and hasattr(data, "target"):
        return Arrays((np.asarray(data.data, np.float32), np.asarray(data.target)))
    return Arrays(data)


def split(data: Any, share: float, seed: int = 0) -> tuple[Part, Part]:
    """Two parts of a source, the second with this share of the examples, drawn at random."""
    if not 0 < share < 1:
        raise ValueError(f"the share to set apart must lie between 0 and 1, got {share}")
    source = as_source(data)
    order = np.random.default_rng(seed).permutation(len(source))
    count = round(len(source) * share)
    return Part(source, np.sort(order[count:])), Part(source, np.sort(order[:count]))


def stacked(examples: Iterable[Any]) -> Any:
    """Containers of one form as one container of stacked arrays."""
    rows = list(examples)
    columns, forms = [], []
    for row in rows:
        leaves, form = tree.flatten(row)
        columns.append(leaves)
        forms.append(form)
    if any(form != forms[0] for form in forms):
        raise ShapeError("examples have different forms")
    return forms[0].unflatten([np.stack(column) for column in zip(*columns, strict=True)])
