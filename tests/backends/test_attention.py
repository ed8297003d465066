"""Attention in tiles computes what eager NumPy does: layouts, stacks, threads, odd numbers."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import attention_products, sweep
from backsolve.backends.native.tiles import Large, Registers
from backsolve.nn.functional import scaled_dot_product_attention as attend

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=[1, 3])
def _threads(monkeypatch, request):
    monkeypatch.setattr(sweep, "LONG", 0.0)
    before = bs.get_threads()
    bs.set_threads(request.param)
    yield
    bs.set_threads(before)


def compare(f, *args, tolerance=1e-11):
    compiled = bs.jit(f)
    for got, expected in zip(compiled(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    (made,) = compiled.stats()["specialisations"]
    assert made["native"], made["reason"]
    return compiled, made


def gradients(f, count=3):
    return bs.grad(lambda *args: np.sum(np.sin(f(*args))), tuple(range(count)))


@pytest.mark.parametrize(
    ("batch", "n", "m"),
    [((), 130, 65), ((1,), 1, 1), ((5,), 64, 64), ((2, 3), 65, 130), ((2,), 3, 200)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_shapes(batch, n, m, causal):
    q, k, v = (rng.normal(size=(*batch, *s)) for s in ((n, 4), (m, 4), (m, 3)))
    compare(gradients(lambda *a: attend(*a, is_causal=causal)), q, k, v)


LARGE = Large(1 << 10, 1 << 20, 4, in_lines=True)
MACHINES = {
    "by lanes": Registers(16, 4, 4, by_lane=True, cache=1 << 16, near=1 << 16, large=LARGE),
    "of 512 bits": Registers(64, 8, 3, by_lane=False, cache=1 << 12, near=1 << 15, large=LARGE),
    "with masks": Registers(
        64, 8, 3, by_lane=False, cache=1 << 12, near=1 << 15, large=LARGE, masks=True
    ),
}


@pytest.mark.parametrize(
    ("found", "dtype"), list(zip(MACHINES.values(), ("f8", "f4", "f4"), strict=True)), ids=MACHINES
)
@pytest.mark.parametrize(("n", "m"), [(130, 65), (1, 1), (65, 130), (70, 70)])
@pytest.mark.parametrize("causal", [False, True])
def test_products_in_tiles(n, m, causal, dtype, found, monkeypatch):
    """Last lines and keys of all lengths; nothing is left for BLAS."""
    monkeypatch.setattr(attention_products, "registers", lambda: found)
    q, k, v = (rng.normal(size=(2, *s)).astype(dtype) for s in ((n, 16), (m, 16), (m, 48)))
    f = gradients(lambda *a: attend(*a, scale=-0.3, is_causal=causal))
    compiled, _ = compare(f, q, k, v, tolerance=1e-4 if dtype == "f4" else 1e-11)
    assert "gemm" not in compiled.lower(q, k, v).stages["llvm"]


@pytest.mark.parametrize("found", MACHINES.values(), ids=MACHINES)
def test_tiles_of_heads_behind_the_sequence(found, monkeypatch):
    monkeypatch.setattr(attention_products, "registers", lambda: found)
    x = rng.normal(size=(2, 70, 96))

    def f(x):
        q, k, v = x.reshape(2, 70, 3, 2, 16).transpose(2, 0, 3, 1, 4)
        return attend(q, k, v, is_causal=True)

    compiled, _ = compare(lambda x: (gradients(f, 1)(x)[0],), x)
    assert "gemm" not in compiled.lower(x).stages["llvm"]


def test_columns_that_fill_no_vectors_are_left_to_blas(monkeypatch):
    monkeypatch.setattr(attention_products, "registers", lambda: MACHINES["of 512 bits"])
    q, k, v = rng.normal(size=(3, 2, 70, 12))
    compiled, _ = compare(gradients(lambda *a: attend(*a, is_causal=True)), q, k, v)
    assert "gemm" in compiled.lower(q, k, v).stages["llvm"]


def test_heads_behind_the_sequence():
    """(batch, length, heads · width), as projections give them, is split and turned without copies."""
    x = rng.normal(size=(2, 70, 12))

    def f(a, b, c):
        heads = [np.swapaxes(t.reshape(2, 70, 3, 4), 1, 2) for t in (a, b, c)]
        return np.swapaxes(attend(*heads, is_causal=True), 1, 2).reshape(2, 70, 12)

    compiled, _ = compare(gradients(f), x, x[::-1].copy(), x + 1)
    assert "sweep over [2, 3] slices" in compiled.lower(x, x, x).stages["steps"]


def test_columns_first():
    q, k, v = rng.normal(size=(3, 4, 70))
    compare(gradients(lambda *a: attend(*[t.T for t in a], is_causal=True)), q, k, v)


def test_attention_to_itself_beside_constants():
    x, c = rng.normal(size=(2, 3, 70, 4))

    def f(x):
        return attend(x, x, x, is_causal=True) + attend(c, x, np.ones_like(c))

    compare(lambda x: gradients(f, 1)(x), x)


def test_layers():
    q, k, v = rng.normal(size=(3, 2, 70, 4))

    def f(q, k, v):
        for _ in range(3):
            q = q + attend(q, k, v, is_causal=True)
        return q

    compare(gradients(f), q, k, v)


def test_no_square_array_is_held():
    n = 700
    q, k, v = rng.normal(size=(3, 2, n, 4)).astype("f4")
    f = gradients(lambda *a: attend(*a, is_causal=True))
    _, made = compare(f, q, k, v, tolerance=1e-4)
    assert made["arena_bytes"] < sweep.most_workers() * n * n * 4 / 2


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_odd_numbers_stay_in_their_rows(odd):
    q, k, v = rng.normal(size=(3, 70, 4))
    q[5, 0] = odd
    with np.errstate(invalid="ignore"):
        compare(lambda *a: (attend(*a, is_causal=True),), q, k, v)


def test_what_is_not_seen_does_not_matter():
    q, k, v = rng.normal(size=(3, 100, 4))
    k[90], v[90] = np.inf, np.nan
    causal = lambda *a: attend(*a, is_causal=True)
    for f in (causal, bs.jit(causal)):
        with np.errstate(invalid="ignore"):
            y = f(q, k, v)
        assert np.isfinite(y[:64]).all()
        assert np.isnan(y[90:]).any()


def test_other_dtypes_meet():
    q, k, v = rng.normal(size=(3, 70, 4))
    compare(gradients(lambda *a: attend(*a, is_causal=True)), q.astype("f4"), k, v, tolerance=1e-5)
