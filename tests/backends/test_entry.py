"""The entry under threads: the GIL given up in long runs, one arena among several callers."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import weakref

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import compile as native
from backsolve.backends.native import objects


@pytest.fixture(params=[True, False], ids=["fast entry", "slow entry"])
def entry(request, monkeypatch):
    if request.param and not native.knows_layout():
        pytest.skip("the fast entry does not know this interpreter's objects")
    monkeypatch.setattr(native, "knows_layout", lambda: request.param)


def iterate(x, w):
    for _ in range(4):
        x = np.tanh(x @ w)  # a product each time, so that intermediate results lie in the arena
    return x


def run_together(works):
    problems = []

    def guarded(work):
        try:
            work()
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=guarded, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems, problems


@pytest.mark.usefixtures("entry")
def test_many_threads_in_the_same_and_in_different_functions():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(64, 64)) / 8
    shared = bs.jit(iterate)

    def work(f, seed, times):
        x = np.random.default_rng(seed).normal(size=(48, 64))
        expected = iterate(x, w)

        def loop():
            for _ in range(times):
                np.testing.assert_allclose(f(x, w), expected, rtol=1e-12, atol=1e-12)

        return loop

    own = [bs.jit(lambda x, w, k=k: iterate(x, w) + k - k) for k in range(2)]
    run_together([work(shared, k, 25) for k in range(4)] + [work(f, 9, 25) for f in own])
    (made,) = shared.stats()["specialisations"]
    assert made["releases_gil"]
    assert made["arena_bytes"] > 0


@pytest.mark.usefixtures("entry")
def test_another_thread_goes_on_during_a_long_run():
    x, w = np.ones((256, 256)), np.ones((256, 256)) / 256
    f = bs.jit(iterate)
    f(x, w)
    go, went = threading.Event(), []

    def other():
        go.wait()
        went.append(True)

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # from here on, a thread gets the GIL only if another gives it up
    try:
        thread.start()
        go.set()
        for _ in range(200):
            f(x, w)
            if went:
                break
        assert went
    finally:
        sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.usefixtures("entry")
def test_every_call_finds_the_code_for_its_own_types():
    f = bs.jit(lambda x: x * 2)
    given = [
        np.ones(4),
        np.ones(2),
        np.ones(4, "f4"),
        np.ones((2, 2)),
        np.ones(4, "i8"),
        3.0,
        3,
        True,
    ]
    given += [1j, np.ones(8)[::2], np.float32(2), np.ones(4, ">f8"), [1.0, 2.0], 2**70]
    for x in [*given, *given]:
        got = f(x)
        assert np.shape(got) == np.shape(x * 2)
        np.testing.assert_array_equal(got, x * 2)
    np.testing.assert_array_equal(bs.grad(lambda x: np.sum(f(x)))(np.ones(4)), [2, 2, 2, 2])


@pytest.mark.usefixtures("entry")
def test_donated_arrays_that_cannot_be_written():
    f = bs.jit(lambda p, q: p + q, donate=0)
    p = np.ones(3)
    for x, y in [(p, np.ones(3)), (p, p), (p, p[::-1]), (np.ones(6)[::2], p)]:
        before = x.copy()
        expected = x + y
        got = f(x, y)
        np.testing.assert_array_equal(got, expected)
        assert got is x or np.array_equal(x, before)
    p.flags.writeable = False
    np.testing.assert_array_equal(f(p, np.ones(3)), p + 1)


def test_what_is_strided_beside_python_numbers_runs_natively(monkeypatch):
    f = bs.jit(lambda x, n, b: np.where(b, x * n, x), donate=0)
    f(np.ones(3), 2, True)
    monkeypatch.setattr(sys.modules["backsolve.compiled.specialise"], "evaluate", None)
    np.testing.assert_array_equal(f(np.ones(6)[::2], 2, True), [2, 2, 2])
    np.testing.assert_array_equal(f(np.ones(6)[::2], 2, False), [1, 1, 1])


def test_stats_count_the_calls_that_found_their_code():
    f = bs.jit(lambda x, i: x["a"][i])
    x = np.ones(3)
    for i in (0, 1, 7, 2):
        with contextlib.suppress(IndexError):
            f({"a": x}, i)
    f({"a": x[::2]}, 0)
    f({"a": x[::2]}, 0)
    assert f.stats()["cache_hits"] == 4
    g = bs.jit(lambda x: 2 * x)
    for _ in range(5):
        g(x)
    assert g.stats()["cache_hits"] == 4


def test_a_short_program_keeps_the_gil():
    f = bs.jit(lambda x: x * 2)
    f(np.ones(4))
    (made,) = f.stats()["specialisations"]
    assert not made["releases_gil"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_compilations_leave_no_memory_behind():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def compile_some(numbers):
        for k in numbers:
            bs.jit(lambda x, k=k: x * float(k))(np.ones(2))
        gc.collect()

    compile_some(range(2, 22))
    left = []
    for first in (22, 47):  # what else happens in this process happens once
        before = resident()
        compile_some(range(first, first + 25))
        left.append((resident() - before) / 25)
    assert min(left) < 35_000  # bytes each; LLVM alone once left 75,000


def test_definitions_outlive_their_class(monkeypatch):
    """When the interpreter ends, functions that are garbage may go last, and CPython reads these."""
    monkeypatch.setattr(objects._Definition, "spare", [])
    definition = objects._Definition(0)
    method = weakref.ref(definition.method)
    del definition
    objects._Definition.spare.clear()
    gc.collect()
    assert method() is not None
