"""Kernels that do the same are one function; those that do not are not."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import compile as native
from backsolve.backends.native import sharing
from backsolve.backends.native.kernel import Kernel

rng = np.random.default_rng(0)


def kernels_of(f, *args):
    """How many functions the kernels of `f` are, as they are emitted; its values are checked."""
    texts = []
    load = native.build.load

    def noting(text, **options):
        if not options:  # those are parts of the library
            texts.append(text)
        return load(text, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.build, "load", noting)
        got = bs.jit(f)(*args)
    for y, expected in zip(got, f(*args), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    return len(re.findall(r"define internal void @.?(?:kernel|part)_", texts[0]))


def arrays(*shapes, dtype=np.float64):
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def test_shapes_share_one_loop():
    f = lambda *xs: tuple(x * 0.9 + 0.1 for x in xs)
    assert kernels_of(f, *arrays((70,), (8, 9), (3, 5, 7), 200)) == 1
    assert kernels_of(f, *arrays((2,), (5,), (70,), (0,), (1,), ())) == 4  # short, long, none, one


def test_rows_of_any_length_share_one_loop():
    f = lambda a, x, b, y: (a * x + 1.0, b * y + 1.0)
    a, x, b, y = arrays((7, 64), 64, (3, 128), 128)
    assert kernels_of(f, a, x, b, y) == 1
    assert (
        kernels_of(f, a, x, b[:, :100].copy(), y[:100]) == 2
    )  # one with entries that fill no vector
    turned = lambda a, x, b, y: (a * x + 1.0, b * y[::-1] + 1.0)
    assert kernels_of(turned, a, x, b, y) == 2


def test_the_workers_of_a_long_loop_share_it_with_short_ones():
    big, small = arrays(1 << 20, 640)
    assert kernels_of(lambda x, y: (np.sin(x) * 2, np.sin(y) * 2), big, small) == 2  # in blocks
    assert kernels_of(lambda x, y: (np.tanh(x) * 2, np.tanh(y) * 2), big, small) == 1
    assert kernels_of(lambda x, y: (np.tanh(x) * 2, np.tanh(y) * 2), big, small[:100]) == 2


def test_what_tells_kernels_apart():
    x, y = arrays(70, 71)
    assert kernels_of(lambda x, y: (x * 2.0, y * 2.0), x, y) == 1
    assert kernels_of(lambda x, y: (x * 2.0, y * 3.0), x, y) == 2
    assert kernels_of(lambda x, y: (x * 0.0, y * -0.0), x, y) == 2
    assert kernels_of(lambda x, y: (x * 2.0, y + 2.0), x, y) == 2
    assert kernels_of(lambda x, y: (x - x[0], y - y[1]), x, y) == 2
    assert kernels_of(lambda x, y: (x[::-1] * 2.0, y * 2.0), x, y) == 2
    assert kernels_of(lambda x, y: (x * x, y * y[::-1]), x, y) == 2
    assert kernels_of(lambda x, y: (x.astype(np.float32) * 2, y * 2), x, y) == 2
    a, b = arrays((70, 3), (3, 70))
    assert kernels_of(lambda a, b: (a.T + b, b.T + a), a, b) == 2
    assert kernels_of(lambda x, y: (np.sum(x), np.sum(y)), x, y) == 2
    assert kernels_of(lambda x, y: (np.sum(x), np.sum(y)), x, x + 1) == 1


def test_where_views_begin_is_the_callers_business():
    x, y = arrays(100, 200)
    assert kernels_of(lambda x, y: (x[1:71] * 2.0, y[7:90] * 2.0), x, y) == 1
    assert kernels_of(lambda x, y: (x[1:71] + x[2:72], y[7:90] + y[8:91]), x, y) == 1
    assert kernels_of(lambda x, y: (x[1:71] + x[2:72], y[7:90] + y[9:92]), x, y) == 2


def test_layers_share_their_kernels():
    ws = arrays((20, 20), (20, 20), (20, 20), dtype=np.float32)

    def step(*ws):
        loss = lambda *ws: np.sum(np.tanh(np.tanh(np.tanh(ws[0]) @ ws[1]) @ ws[2]))
        return tuple(w - 0.1 * g for w, g in zip(ws, bs.grad(loss, (0, 1, 2))(*ws), strict=True))

    (made,) = (f := bs.jit(step), f(*ws))[0].stats()["specialisations"]
    assert kernels_of(step, *ws) < made["kernels"]


def test_the_key_knows_all_that_a_kernel_holds():
    """A new field belongs to the key, or keeps a kernel from being shared."""
    assert {f.name for f in dataclasses.fields(Kernel)} == sharing.KEYED | sharing.UNSHARED
