"""Failures that are looked at when a device has them (backends/xla/pending.py); the CPU plays the device."""

import contextlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import backsolve as bs

jax = pytest.importorskip("jax")
X = np.arange(4.0)
INSIDE, OUTSIDE = np.array([1, 3]), np.array([1, 4])


@pytest.fixture
def hurried(monkeypatch):
    """A function that compiles for what it takes for a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield lambda f, **options: bs.jit(f, backend="xla", **options)
    bs.settle()


def picked(x, i):
    return np.sum(x) * 2.0, x[i] * (1 + 2j)


def failing_call(f):
    results = f(X, OUTSIDE)
    assert all(np.isnan(np.asarray(y)).all() for y in results)


def repeated(f, times, *args):
    for _ in range(times):
        jax.block_until_ready(f(*args))


def test_results_of_a_failed_run_are_nan_and_settling_raises(hurried):
    f = hurried(picked)
    np.testing.assert_array_equal(np.asarray(f(X, INSIDE)[1]), picked(X, INSIDE)[1])
    bs.settle()
    failing_call(f)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 4") as caught:
        bs.settle()
    assert "earlier call" in caught.value.__notes__[0]
    bs.settle()
    np.testing.assert_array_equal(np.asarray(f(X, INSIDE)[0]), 12.0)


def test_the_next_call_of_any_function_raises(hurried):
    f, g = hurried(picked), bs.jit(np.sin, backend="xla", device="cpu")
    failing_call(f)
    with pytest.raises(IndexError, match="size 4"):
        g(X)
    np.testing.assert_allclose(np.asarray(g(X)), np.sin(X))


@pytest.fixture
def pending(monkeypatch):
    """The module, at one moment: numbers of one device are asked for when that is long ago."""
    from backsolve.backends.xla import pending

    bs.settle()
    monkeypatch.setattr(pending, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
    return pending


def test_one_number_tells_of_many_runs(hurried, pending):
    f = hurried(picked)
    for i in (INSIDE, OUTSIDE, INSIDE, np.array([-7, 0]), INSIDE):
        total, entries = f(X, i)
        assert np.isnan(np.asarray(entries)).all() == (i is not INSIDE)
        assert np.isnan(float(total)) == (i is not INSIDE)
    assert not pending._coming  # the first was asked for, and has come
    with pytest.raises(IndexError, match="size 4"):
        bs.settle()
    bs.settle()
    f(X, INSIDE)
    bs.settle()


def test_numbers_are_asked_for_when_time_has_passed(hurried, pending, monkeypatch):
    f, g = hurried(picked), bs.jit(np.sin, backend="xla", device="cpu")
    f(X, INSIDE)
    failing_call(f)
    g(X)
    monkeypatch.setattr(pending, "monotonic", lambda: 1000.0 + 2 * pending._BETWEEN)
    with pytest.raises(IndexError, match="size 4"):
        repeated(g, 2, X)


def test_numbers_are_asked_for_after_many_runs(hurried, pending):
    f = hurried(picked)
    f(X, INSIDE)
    failing_call(f)
    with pytest.raises(IndexError, match="size 4"):
        repeated(f, pending._LONGEST + 1, X, INSIDE)


def test_many_numbers_wait_for_the_oldest(hurried, pending, monkeypatch):
    monkeypatch.setattr("backsolve.backends.xla.compile.look", lambda: None)
    monkeypatch.setattr(pending, "_LONGEST", 1)
    f = hurried(picked)
    failing_call(f)
    for _ in range(pending._MOST - 1):
        f(X, INSIDE)
    with pytest.raises(IndexError, match="size 4"):
        f(X, INSIDE)


def test_threads_lose_no_failure(hurried, pending):
    f = hurried(picked)
    f(X, INSIDE)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: f(X, OUTSIDE if k == 7 else INSIDE), range(40)))
    with pytest.raises(IndexError, match="size 4"):
        bs.settle()
    while pending._coming:  # other threads may have gone on from the same number
        with contextlib.suppress(IndexError):
            bs.settle()


def test_results_that_cannot_be_nan_are_waited_for(hurried):
    f = hurried(lambda x, i: (x[i], x[i] > 2))
    with pytest.raises(IndexError, match="size 4"):
        f(X, OUTSIDE)


def reads(x, i, n):
    return x[i], n + 1


def asserts(x, i, n):
    for _ in range(2):
        assert np.all(x > 0), "too small"
    return x * 2, n + 1


@pytest.mark.parametrize(
    ("f", "error", "told"), [(reads, IndexError, "size 4"), (asserts, AssertionError, "too small")]
)
def test_counts_beside_what_failed_are_right(hurried, f, error, told):
    entries, count = hurried(f)(X, OUTSIDE, np.int64(3))
    assert np.isnan(np.asarray(entries)).all()
    assert int(count) == 4
    with pytest.raises(error, match=told):
        bs.settle()


def test_assertions_about_what_is_counted_are_waited_for(hurried):
    def stepped(x, n):
        assert np.all(x > 0), "too small"
        return x * 2, n + np.argmax(x)

    with pytest.raises(AssertionError, match="too small"):
        hurried(stepped)(X, np.int64(3))


def test_assertions_inside_of_loops_are_assertions(hurried):
    def stepped(x, n):
        while np.sum(x) < 20.0:
            assert np.all(x > 0), "too small"
            x = x * 2
        return x, np.argmax(x) + n

    with pytest.raises(AssertionError, match="too small"):
        hurried(stepped)(X, np.int64(3))


def test_a_step_with_batch_norm_is_not_waited_for(hurried):
    """It counts its batches in an integer, and cross-entropy looks at its labels."""
    net = bs.nn.Sequential(bs.nn.Linear(4, 6), bs.nn.BatchNorm1d(6), bs.nn.Linear(6, 3))

    def step(parameters, buffers, x, y):
        def loss(p):
            now = net.replace({**p, **buffers})
            return bs.nn.functional.cross_entropy(now(x), y), now.named_buffers()

        (value, after), g = bs.value_and_grad(loss, has_aux=True)(parameters)
        return value, {k: a - 0.1 * g[k] for k, a in parameters.items()}, after

    x = np.random.default_rng(0).normal(size=(5, 4))
    held = net.named_parameters(), net.named_buffers()
    run = hurried(step)
    value, parameters, after = run(*held, x, np.array([0, 1, 2, 0, 3]))
    assert np.isnan(float(value))
    assert np.isnan(np.asarray(parameters["0.weight"])).all()
    assert int(after["1.num_batches_tracked"]) == 1
    with pytest.raises(IndexError, match="target must be at least 0 and less than 3"):
        bs.settle()
    assert np.isfinite(float(run(*held, x, np.array([0, 1, 2, 0, 1]))[0]))


def test_what_comes_back_as_arrays_of_numpy_is_looked_at(hurried):
    f = hurried(lambda x, i: np.sum(x[i] ** 2))
    np.testing.assert_array_equal(bs.grad(f)(X, INSIDE), [0.0, 2.0, 0.0, 6.0])
    with pytest.raises(IndexError, match="size 4"):
        bs.grad(f)(X, OUTSIDE)


def test_a_failure_that_nobody_looked_at_is_told_at_the_end():
    program = """
import jax, numpy as np, backsolve as bs
jax.default_backend = lambda: "gpu"
print(bs.jit(lambda x, i: x[i], backend="xla")(np.arange(4.0), np.array([7])))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "nan" in done.stdout
    assert "IndexError: an index is out of bounds for axis 0 with size 4" in done.stderr
