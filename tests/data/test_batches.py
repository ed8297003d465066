"""Sources and batches: orders, exact resumption, threads, files."""

from __future__ import annotations

import functools
import gc
import operator
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import data
from backsolve.errors import ShapeError

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10)


def rows(batches: Any) -> list[list[int]]:
    return [y.tolist() for _, y in batches]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_every_example_once_an_epoch(prefetch: int) -> None:
    batches = data.Batches((X, Y), 4, shuffle=True, seed=5, prefetch=prefetch)
    assert len(batches) == 3
    first, second = rows(batches), rows(batches)
    assert [len(b) for b in first] == [4, 4, 2]
    assert sorted(functools.reduce(operator.iadd, first, [])) == list(range(10))
    assert first != second
    again = data.Batches((X, Y), 4, shuffle=True, seed=5)
    assert [rows(again), rows(again)] == [first, second]
    for x, y in batches:
        np.testing.assert_array_equal(x, X[y])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_resumed_at_any_batch_nothing_changes(prefetch: int) -> None:
    def fresh() -> Any:
        return data.Batches((X, Y), 3, shuffle=True, seed=1, drop_last=True, prefetch=prefetch)

    whole = fresh()
    expected = [*rows(whole), *rows(whole)]
    assert len(expected) == 6
    for stop in range(1, 6):
        running, seen = fresh(), []
        while len(seen) < stop:
            for _, y in running:
                seen.append(y.tolist())
                if len(seen) == stop:
                    break
        state = running.state_dict()
        resumed = fresh()
        resumed.load_state_dict(state)
        while len(seen) < 6:
            seen += rows(resumed)
        assert seen[:6] == expected


def test_a_thread_ends_with_its_loop_and_hands_on_errors() -> None:
    before = set(threading.enumerate())
    running = iter(data.Batches((X, Y), 1, prefetch=2))
    next(running)
    (thread,) = set(threading.enumerate()) - before
    del running
    gc.collect()
    assert not thread.is_alive()

    def fails(k: int) -> Any:
        if k == 3:
            raise RuntimeError("example 3 is broken")
        return X[k]

    with pytest.raises(RuntimeError, match="example 3"):
        list(data.Batches(data.Examples(fails, 5), 2, prefetch=2))


def test_examples_and_parts() -> None:
    made = data.Examples(lambda k: {"x": X[k], "y": k}, 10)
    (batch,) = data.Batches(data.Part(made, [7, 1]), 5)
    np.testing.assert_array_equal(batch["x"], X[[7, 1]])
    train, test = data.split((X, Y), 0.3, seed=2)
    assert (len(train), len(test)) == (7, 3)
    found = np.concatenate([train.take(np.arange(7))[1], test.take(np.arange(3))[1]])
    assert sorted(found) == list(range(10))
    doubled = data.Batches((X, Y), 5, transform=lambda b: (2 * b[0], b[1]))
    np.testing.assert_array_equal(next(iter(doubled))[0], 2 * X[:5])


def test_tables(tmp_path: Path) -> None:
    file = tmp_path / "plants.csv"
    file.write_text("length,kind,count\n1.5,oak,3\n2,fir,4\n0.25,oak,5\n", encoding="utf-8")
    x, y = data.table(file, "kind").take(slice(None))
    np.testing.assert_array_equal(x, [[1.5, 3], [2, 4], [0.25, 5]])
    assert x.dtype == np.float32
    assert y.tolist() == [1, 0, 1]
    assert data.table(file, "count").take(slice(None))[1].dtype == np.int64
    with pytest.raises(KeyError, match="length, kind, count"):
        data.table(file, "colour")
    file.write_text("a,b\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        data.table(file)


def test_images_in_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, value in (("cats", 255), ("dogs", 51)):
        (tmp_path / name).mkdir()
        image.new("RGB", (4, 6), (value, 0, 0)).save(tmp_path / name / "one.png")
    source = data.Images(tmp_path, size=(3, 2))
    assert source.classes == ["cats", "dogs"]
    x, y = source.take([0, 1])
    assert x.shape == (2, 3, 3, 2)
    np.testing.assert_allclose(x[:, 0, 0, 0], [1.0, 0.2])
    assert y.tolist() == [0, 1]


def test_lengths_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"\(10, 2\), \(3,\)"):
        data.Arrays((X, np.zeros(3)))
    with pytest.raises(ValueError, match="batch_size"):
        bs.data.Batches(X, 0)
    with pytest.raises(ValueError, match="batch_size=None must be a whole number"):
        bs.data.Batches(X, None)


def test_what_a_transform_draws_depends_on_seed_epoch_and_batch_alone() -> None:
    def noisy(batch: Any, rng: np.random.Generator) -> Any:
        return batch + rng.normal(size=batch.shape)

    def made(seed: int, prefetch: int = 0) -> data.Batches:
        return data.Batches(np.zeros(6), 2, seed=seed, transform=noisy, prefetch=prefetch)

    first = made(1)
    epochs = [[b.tolist() for b in first] for _ in range(2)]
    assert len({tuple(b) for epoch in epochs for b in epoch}) == 6  # no two are alike
    again = made(1, prefetch=2)
    again.load_state_dict({"epoch": 1, "done": 2, "seed": 1})
    assert [b.tolist() for b in again] == epochs[1][2:]
    assert [b.tolist() for b in made(2)] != epochs[0]


def test_parts_of_processes_are_the_whole_in_the_same_order() -> None:
    given = np.arange(24)
    one = data.Batches(given, 8, shuffle=True, seed=3)
    parts = [data.Batches(given, 8, shuffle=True, seed=3, part=(k, 4)) for k in range(4)]
    for _ in range(2):
        for batch, *pieces in zip(one, *parts, strict=True):
            assert [len(p) for p in pieces] == [2, 2, 2, 2]
            np.testing.assert_array_equal(batch, np.concatenate(pieces))


def test_a_batch_that_does_not_divide_among_processes() -> None:
    with pytest.raises(ShapeError, match="6 examples does not divide among 4 processes"):
        data.Batches(np.arange(24), 6, part=(0, 4))
    last = list(data.Batches(np.arange(10), 4, part=(1, 4)))[-1]
    assert last.tolist() == [8, 9]  # what does not divide is read by all
    with pytest.raises(ValueError, match="index below the count"):
        data.Batches(np.arange(24), 8, part=(4, 4))
