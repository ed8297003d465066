"""The entry that long programs on arrays share: what it takes, gives and refuses, and whose it is."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import build, library
from backsolve.backends.native import compile as native
from backsolve.trace import stage

if not native.knows_layout():
    pytest.skip("the fast entry does not know this interpreter's objects", allow_module_level=True)

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 40))
c = rng.normal(size=(300, 40))


def compiled(f, *args):
    program, _ = stage(f, [bs.ir.Type(a.shape, a.dtype) for a in args])
    return native.compile_program(program).call


@pytest.fixture
def texts(monkeypatch):
    """All that is built: nothing is found in memory or on disk."""
    found = []
    monkeypatch.setattr(build, "_engines", weakref.WeakValueDictionary())
    inner = build._build
    note = lambda key, text, *rest, **more: found.append(text) or inner(key, text, *rest, **more)
    monkeypatch.setattr(build, "_build", note)
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", "")
    return found


def test_a_long_program_has_no_entry_of_its_own(texts):
    f = bs.jit(lambda x: np.exp(x) + 2.5)
    np.testing.assert_allclose(f(x), np.exp(x) + 2.5)
    assert '@"entry"' not in texts[-1]
    assert library.address("entry_of_arrays")


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x + 1, (x[0, :3],)),  # short
        (lambda x, n: np.exp(x) * n, (x, 3.0)),  # with a Python number
    ],
)
def test_others_have(f, args, texts):
    np.testing.assert_allclose(bs.jit(f)(*args), f(*args))
    assert '@"entry"' in texts[-1]


@pytest.mark.parametrize("kind", ["f4", "f8", "c16", "i8", "?"])
def test_results_of_all_ranks(kind):
    a = (np.abs(x) * 3).astype(kind)
    f = lambda a: (a.sum(), np.exp(c), a[:, :1], a.any(), a[0] + a, np.max(a.real))
    for got, expected in zip(bs.jit(f)(a), f(a), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert isinstance(got, np.generic) == (not expected.shape)


def test_refuses_what_it_was_not_compiled_for():
    call = compiled(lambda x, y: [np.exp(x) + y], x, c)
    np.testing.assert_allclose(call(x, c), np.exp(x) + c)
    wide = np.zeros((300, 80))
    misplaced = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(np.float64)
    refused = [
        (x,),
        (x, c, c),
        (x, c.astype("f4")),
        (x, c[:, :39].copy()),
        (x, c[0]),
        (x, wide[:, ::2]),
        (x, c.T.copy().T),
        (x, misplaced.reshape(x.shape)),
        (x, c.tolist()),
        (x, 1.0),
        (x, np.ma.array(c)),
    ]
    for args in refused:
        assert call(*args) is NotImplemented


def test_leaves_no_references_behind():
    f = bs.jit(lambda x, y: (np.exp(x) * y, np.sum(x)))
    wrong = x.astype("f4")
    f(x, c)
    f(wrong, c)
    gc.collect()
    before = [sys.getrefcount(a) for a in (x, c, wrong, x.dtype)]
    for _ in range(100):
        assert sys.getrefcount(f(x, c)[0]) <= 2
        f(wrong, c)
    assert [sys.getrefcount(a) for a in (x, c, wrong, x.dtype)] == before


def test_calls_are_counted():
    program, _ = stage(lambda x: [np.exp(x)], [bs.ir.Type(x.shape, x.dtype)])
    made = native.compile_program(program)
    for _ in range(3):
        made.call(x)
    made.call(c[:, ::2])  # refused
    assert made.calls == 3
