"""Long kernels shared out among threads: which ones, and that the number of threads does not show."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import share_out

rng = np.random.default_rng(0)
n = 30_000  # rounds: long enough for several threads
x, w = rng.normal(size=n), rng.normal(size=n)
at, few = rng.integers(0, n, n), rng.integers(0, 100, n)
table = rng.normal(size=(50, 8))


@pytest.fixture(autouse=True)
def _long_enough(monkeypatch):
    monkeypatch.setattr("backsolve.backends.native.sweep.LONG", 10e-6)
    before = bs.get_threads()
    yield
    bs.set_threads(before)


def on_threads(f, *args):
    """What f gives on 1, 2 and 4 threads, and how many of its kernels they share."""
    compiled = bs.jit(f)
    found = []
    for number in (1, 2, 4):
        bs.set_threads(number)
        found.append([np.asarray(y) for y in bs.tree.flatten(compiled(*args))[0]])
    (made,) = compiled.stats()["specialisations"]
    assert made["native"]
    return found, made["shared"]


def same_on_any_number(f, *args):
    """That all threads give bit for bit the same, and that it is right; how many kernels are shared."""
    (one, two, four), shared = on_threads(f, *args)
    for y, y2, y4 in zip(one, two, four, strict=True):
        np.testing.assert_array_equal(y, y2)
        np.testing.assert_array_equal(y, y4)
    expected = bs.tree.flatten(f(*args))[0]
    for y, y0 in zip(one, expected, strict=True):
        np.testing.assert_allclose(y, y0, rtol=1e-12, atol=1e-12)
    return shared


def written(shape, value, *indices):
    y = np.zeros(shape)
    y[indices] = value
    return y


FREE = {
    "gather": lambda x, at: np.exp(-x[at]) * x,
    "gather of rows": lambda x, at: table[at % 50] * x[:, None],
    "gather twice": lambda x, at: x[at[at]] + x[at],
    "counting": lambda x, at: x * np.arange(n) + x[at],
    "counting down": lambda x, at: x[::-1] * np.arange(n)[::-1],
    "search": lambda x, at: np.searchsorted(np.sort(x), x + 0.1) * 2,
    "narrow forms": lambda x, at: np.sin(x[at]) * np.cos(x * 1e12),
    "pieces of one array": lambda x, at: np.concatenate([x[at] * 2, np.tanh(x), x[at] + 1]),
    "woven pieces": lambda x, at: np.stack([x[at], np.tanh(x[at]), x], axis=1).reshape(-1),
    "sums of rows": lambda x, at: np.sum(table[at % 50] * x[:, None], axis=1),
    "integers that may fail": lambda x, at: at // (at % 7 + 1),
    "every other entry": lambda x, at: written(2 * n, np.exp(x[at]), 2 * np.arange(n)),
    "one entry in each row": lambda x, at: written((n, 8), np.exp(x), np.arange(n), at % 8),
    "transposed": lambda x, at: np.exp(x[at].reshape(100, -1).T) * 2.0,
}


@pytest.mark.parametrize("name", FREE)
def test_rounds_that_keep_to_their_own_entries_are_shared(name):
    assert same_on_any_number(FREE[name], x, at) >= 1


def histogram(w, few):
    h = np.zeros(100)
    for i in range(n):
        h[few[i]] += w[i]
    return h


GATHERED = {
    "histogram": histogram,
    "on top of others": lambda w, few: np.ones(100) * w[0] + histogram(w, few),
    "into rows": lambda w, few: bs.grad(lambda t: np.sum(np.tanh(t[few] * w[:, None])))(
        np.ones((100, 3))
    ),
    "sum": lambda w, few: np.sum(np.tanh(w[few])),
    "largest": lambda w, few: np.max(w[few] * w),
    "columns": lambda w, few: np.sum(table[few % 50] * w[:, None], axis=0),
}


@pytest.mark.parametrize("name", GATHERED)
def test_sums_are_gathered_by_each_thread(name):
    found, shared = on_threads(GATHERED[name], w, few)
    again, _ = on_threads(GATHERED[name], w, few)
    assert shared >= 1
    expected = GATHERED[name](w, few)
    for (y,), (z,) in zip(found, again, strict=True):
        np.testing.assert_array_equal(y, z)  # partial sums depend on the number of threads alone
        np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)


def chain(x):
    for _ in range(3):
        x[1:] = x[:-1] * 0.5 + np.tanh(x[1:])
    return x


def meeting(x, at):
    y = np.zeros(n)
    y[at] = x
    return y


def adding(x, at):
    y = np.zeros(n)
    for i in range(n):
        y[at[i]] += x[i]
    return y


def test_rounds_that_meet_are_not_shared():
    for f in (
        meeting,
        adding,
    ):  # of two writes the last one counts; as many sums as rounds are no gain
        same_on_any_number(f, x, at)
        (line,) = [
            k for k in bs.jit(f).lower(x, at).stages["steps"].split("\n") if "at indices" in k
        ]
        assert "shared" not in line


def test_what_a_neighbour_writes_is_read_before():
    assert same_on_any_number(lambda x: chain(x.copy()), x) >= 0
    step = bs.jit(lambda x, at: x * 0.5 + x[at], donate=0)
    expected = x * 0.5 + x[at]
    for number in (1, 2, 4):
        bs.set_threads(number)
        np.testing.assert_array_equal(step(x.copy(), at), expected)


class TestFailures:
    @pytest.mark.parametrize("place", [0, n // 3, n - 1])
    def test_an_index_out_of_range_in_any_part(self, place):
        wrong = at.copy()
        wrong[place] = n
        compiled = bs.jit(lambda x, at: np.exp(x[at]))
        for number in (1, 2, 4):
            bs.set_threads(number)
            np.testing.assert_array_equal(
                compiled(x, at), bs.jit(lambda x, at: np.exp(x[at]))(x, at)
            )
            with pytest.raises(
                IndexError, match=rf"axis 0 with size {n}, at .*test_share_out\.py:\d+"
            ):
                compiled(x, wrong)

    def test_of_two_the_same_on_any_number_of_threads(self):
        """The first of the program, wherever it happens."""
        first, second = at.copy(), at.copy()
        first[-1], second[0] = n, n
        short = x[: n // 2]
        compiled = bs.jit(lambda x, y, i, j: x[i] * y[j // 2])
        assert compiled(x, short, at, at).shape == (n,)
        for number in (1, 2, 4):
            bs.set_threads(number)
            with pytest.raises(IndexError, match=f"size {n},"):
                compiled(x, short, first, second)
            with pytest.raises(IndexError, match=f"size {n // 2},"):
                compiled(x, short, at, second)

    def test_a_histogram(self):
        wrong = few.copy()
        wrong[-1] = 100
        compiled = bs.jit(histogram)
        for number in (1, 2, 4):
            bs.set_threads(number)
            with pytest.raises(IndexError, match=r"size 100, at .*test_share_out\.py:\d+"):
                compiled(w, wrong)


def test_loops_of_the_same_form_are_one_function():
    f = bs.jit(lambda x, y: (np.exp(x), np.exp(y)))
    text = f.lower(x, rng.normal(size=2 * n)).stages["llvm"]
    defined = [line for line in text.splitlines() if line.startswith("define") and "@part_" in line]
    assert sum("_rounds" not in line for line in defined) == 1
    assert sum("_rounds" in line for line in defined) == 1  # what threads call for both
    assert text.count("_rounds") >= 3


def test_short_kernels_are_left_alone(monkeypatch):
    monkeypatch.setattr("backsolve.backends.native.sweep.LONG", 200e-6)
    assert on_threads(lambda x, at: x[at] * 2, x[:1000], at[:1000] % 1000)[1] == 0
    assert share_out.most_workers() <= share_out.MOST
