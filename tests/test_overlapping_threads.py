"""Threads that overlap inside of what watches, traces or fills gradients: each has its own, leaving nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import MutatedGraphError, NaNError, UnsupportedError
from backsolve.hooks import hooks

X = np.linspace(0.1, 1.0, 3)


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of them gives, or raises, in a thread of its own."""
    found: list[Any] = [None] * len(calls)

    def run(k: int) -> None:
        try:
            found[k] = calls[k]()
        except Exception as error:
            found[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


def overlapped(use: Callable[[Callable[[Any], Any]], Any]) -> list[Any]:
    """`use` of two functions: the second thread enters while the first is inside, and leaves after it."""
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first(x: Any) -> Any:
        first_in.set()
        second_in.wait(10)
        return (np.sin(x) ** 2).sum()

    def second(x: Any) -> Any:
        second_in.set()
        first_out.wait(10)
        return (np.sin(x) ** 2).sum()

    def run_first() -> Any:
        try:
            return use(first)
        finally:
            first_out.set()

    def run_second() -> Any:
        first_in.wait(10)
        return use(second)

    return together([run_first, run_second])


def watched(f: Callable[[Any], Any]) -> Any:
    with bs.debug_nans():
        return bs.grad(f)(X)


USES: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "source": lambda f: bs.source(f, X),
    "explain": lambda f: str(bs.explain(f, X)),
    "rounding": lambda f: bs.rounding(f, X).gradient,
    "debug_nans": watched,
    "show": lambda f: str(bs.show.trace(f, X)),
}


@pytest.mark.parametrize("name", USES)
def test_nothing_stays_switched_on(name: str) -> None:
    for found in overlapped(USES[name]):
        assert not isinstance(found, Exception), found
    switches = (hooks.as_written, hooks.stopped, hooks.tracer, hooks.truth)
    assert not any(s.is_set for s in switches)
    assert hooks.observe is None
    compiled = bs.jit(lambda x: np.sin(x).sum())
    compiled(X)
    assert len(compiled.stats()["specialisations"]) == 1
    loop = lambda x: bs.fori_loop(0, 500, lambda i, s: np.sin(s) * 1.01, x).sum()
    c = bs.checkpoint(loop, memory=3000)
    bs.jit(bs.grad(c))(np.ones(10))
    assert c.report.chains


def test_each_thread_watches_for_itself() -> None:
    """A watch of one does not keep another from compiling, nor end when another's does."""
    is_in, is_over = threading.Event(), threading.Event()

    def inside() -> Any:
        with bs.debug_nans(), np.errstate(all="ignore"):
            is_in.set()
            is_over.wait(10)
            return bs.grad(lambda x: np.sqrt(x) * 0)(-1.0)

    def beside() -> Any:
        is_in.wait(10)
        with bs.debug_nans():
            bs.grad(np.sin)(1.0)
        compiled = bs.jit(np.sin)
        compiled(1.0)
        is_over.set()
        return len(compiled.stats()["specialisations"])

    error, made = together([inside, beside])
    assert isinstance(error, NaNError)
    assert made == 1


def test_rounding_refuses_what_its_own_function_stops() -> None:
    def stops(x: Any) -> Any:
        return (np.sin(x) * bs.stop_gradient(np.cos(x))).sum()

    def does_not(x: Any) -> Any:
        return (np.sin(x) * x).sum()

    want = bs.rounding(does_not, X).bound
    barrier = threading.Barrier(2)

    def at_once(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            barrier.wait(10)
            found = f(x)
            barrier.wait(10)
            return found

        return run

    refused, found = together(
        [lambda: bs.rounding(at_once(stops), X), lambda: bs.rounding(at_once(does_not), X)]
    )
    assert isinstance(refused, UnsupportedError)
    np.testing.assert_array_equal(found.bound, want)


def test_gradients_of_several_threads_add_up() -> None:
    class Slow(np.ndarray):
        """Lets others in while it is added to."""

        def __add__(self, other: Any) -> Any:
            before = np.array(self)
            gate.wait(0.2)
            return (before + np.asarray(other)).view(Slow)

    gate = threading.Event()
    x = bs.tensor(X, requires_grad=True)
    x.grad = np.zeros(3).view(Slow)
    results = [(k * x).sum() for k in (1.0, 2.0, 3.0)]
    together([y.backward for y in results])
    np.testing.assert_array_equal(np.asarray(x.grad), np.full(3, 6.0))


def test_forward_that_fails_leaves_the_old_point() -> None:
    a = bs.tensor(np.array([[2.0, 1.0], [1.0, 3.0]]), requires_grad=True)
    y = (np.linalg.inv(np.exp(a) - 1.0) * np.sin(a)).sum()
    shown = float(y.value)
    old = bs.grad(lambda a: (np.linalg.inv(np.exp(a) - 1.0) * np.sin(a)).sum())(np.array(a.value))
    before = np.array(a.value)
    a.value = np.zeros((2, 2))  # exp(0) - 1 has no inverse
    with pytest.raises(np.linalg.LinAlgError):
        y.forward()
    assert float(y.value) == shown
    with pytest.raises(MutatedGraphError):
        y.backward()
    a.value = before
    y.forward()
    y.backward()
    np.testing.assert_allclose(a.grad, old, rtol=1e-12)


def test_a_checkpoint_that_moves_state_is_pulled_by_one_thread_at_a_time() -> None:
    norm = bs.nn.BatchNorm1d(3)
    inside: list[int] = []

    def f(x: Any) -> Any:
        inside.append(1)
        threading.Event().wait(0.05)
        assert len(inside) == 1
        found = norm(x)
        inside.pop()
        return (found**3).sum()

    x = np.random.default_rng(0).normal(size=(8, 3)) + 0.5
    _y, pull = bs.vjp(bs.checkpoint(f), x)
    mean, count = np.array(norm.running_mean), int(norm.num_batches_tracked)
    assert count == 1
    (want,) = pull(1.0)
    for found in together([lambda: pull(1.0)[0]] * 3):
        np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(norm.running_mean, mean)
    assert int(norm.num_batches_tracked) == 1
