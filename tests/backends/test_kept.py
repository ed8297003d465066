"""Memory kept from one call to the next: used again, by one at a time, never more than its bound."""

from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import math
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import build, kept
from backsolve.backends.native.interpreter import INT, WORDS, is_null
from backsolve.backends.native.repeat import loop_between


def chain(w, n):
    """Its gradient keeps numbers of each round."""
    y, total, k = 0.3, 0.0, 0
    while k < n:
        y = w * np.sin(y + 0.1 * k) + 0.5
        total += y
        k += 1
    return total


def tree(n, x):
    """Its gradient keeps a record of each call."""
    if n < 1:
        return x
    return np.sin(tree(n - 1, 0.9 * x)) * tree(n - 1, x + 0.1)


@functools.cache
def slope(n, w=0.7):
    """The derivative of `chain`, by hand."""
    y, dy, total = 0.3, 0.0, 0.0
    for k in range(n):
        angle = y + 0.1 * k
        y, dy = w * math.sin(angle) + 0.5, math.sin(angle) + w * math.cos(angle) * dy
        total += dy
    return total


def in_threads(work, count):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


@pytest.fixture(scope="module")
def gradient():
    return bs.jit(bs.grad(chain))


LENGTHS = [10, 3_000, 9_000, 50_000, 300_000, 600_000]  # bytes: 80, 24 K, 72 K, 400 K, 2.4 M, 4.8 M


@pytest.mark.parametrize("n", LENGTHS)
def test_a_tape_that_was_kept_is_as_good_as_a_new_one(gradient, n):
    for w in (0.7, 0.6, 0.7):
        assert float(gradient(w, n)) == pytest.approx(slope(n, w), rel=1e-9)


@pytest.fixture
def traced():
    """Python's own count of the bytes that are allocated."""
    gc.collect()
    tracemalloc.start()
    yield tracemalloc.get_traced_memory
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("f", "argument", "args"),
    [(chain, 0, (0.7, 300_000)), (tree, 1, (13, 0.3))],
    ids=["chain", "tree"],
)
def test_later_calls_allocate_next_to_nothing(f, argument, args, traced):
    g = bs.jit(bs.grad(f, argnums=argument))
    for _ in range(2 * kept.SLOTS):  # until all blocks that it finds are large enough
        g(*args)
    held, _ = traced()
    tracemalloc.reset_peak()
    for _ in range(5):
        g(*args)
    assert traced()[1] - held < 4 * kept.LEAST  # tapes are small before they become large


def test_thousands_of_calls_of_all_sizes_stay_within_the_bound(gradient, traced):
    before, _ = traced()
    random = np.random.default_rng(0)
    for k in range(10_000):
        gradient(0.7, int(random.choice(LENGTHS)) if k % 100 == 0 else int(random.integers(12_000)))
    assert traced()[0] - before <= kept.SLOTS * kept.MOST + (1 << 16)


def test_many_threads_at_once(gradient):
    cases = [(n, w) for n in LENGTHS[:5] for w in (0.5, 0.6, 0.7)]
    expected = {case: slope(*case) for case in cases}
    wrong: list[tuple[int, float]] = []

    def work(seed):
        for k in np.random.default_rng(seed).integers(len(cases), size=40):
            n, w = cases[k]
            if not np.isclose(float(gradient(w, n)), expected[n, w], rtol=1e-9):
                wrong.append((n, w))

    in_threads(work, 8)
    assert not wrong


def test_nobody_gets_a_block_that_another_holds():
    """Threads that sign a block, wait a little, and look whether the signature is still theirs."""
    module = ir.Module("stress")
    function = ir.Function(module, ir.FunctionType(INT, [INT, INT]), "stress")
    me, rounds = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    wrong = b.alloca(INT)
    b.store(INT(0), wrong)

    def look(b, sign, i):
        there = b.load_atomic(sign, "seq_cst", 8)
        other = b.zext(b.icmp_unsigned("!=", there, me), INT)
        b.store(b.add(b.load(wrong), other), wrong)

    def once(b, i):
        block = kept.take(b, INT(kept.LEAST))
        with b.if_then(is_null(b, block)):
            b.ret(INT(-1))
        words = b.bitcast(block, WORDS)
        size, sign = b.load(words), b.gep(words, [INT(1)])
        b.store_atomic(me, sign, "seq_cst", 8)
        loop_between(b, INT(0), INT(20), lambda b, i: look(b, sign, i))
        kept.give_back(b, block, size)

    loop_between(b, INT(0), rounds, once)
    b.ret(b.load(wrong))
    engine, _ = build.load(str(module))
    address = engine.get_function_address("stress")
    stress = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    found: list[int] = []
    in_threads(lambda k: found.append(stress(k, 50_000)), 24)
    assert found == [0] * 24


GRADIENT = f"""
import os
import numpy as np
import backsolve as bs

{inspect.getsource(chain)}

g = bs.jit(bs.grad(chain))
"""
SCRIPT = f"""
{GRADIENT}
results = {{float(g(0.7, 50_000)) for _ in range(3)}}
print(g.stats()["specialisations"][0]["code"], *results)
"""


FORK = f"""
{GRADIENT}
expected = float(g(0.7, 50_000))
is_right = lambda: all(float(g(0.7, 50_000)) == expected for _ in range(3))
child = os.fork()
if child == 0:
    os._exit(0 if is_right() else 1)
print(is_right(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_blocks_of_its_own(tmp_path):
    (tmp_path / "program.py").write_text(FORK)  # a file: the text of `chain` is read again
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_code_from_disk_finds_it(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    environment = {**os.environ, "BACKSOLVE_CACHE_DIR": str(tmp_path / "cache")}
    printed = [
        subprocess.run(
            [sys.executable, str(tmp_path / "program.py")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [words[0] for words in printed] == ["built", "disk"]
    for words in printed:
        assert float(words[1]) == pytest.approx(slope(50_000), rel=1e-9)
    assert printed[0][1:] == printed[1][1:]
