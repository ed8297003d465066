"""Functions of networks, against the formulas written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.errors import BacksolveError
from backsolve.nn.functional import rotary_embedding
from backsolve.nn.functional import scaled_dot_product_attention as attend
from backsolve.testing import check_grads

F = nn.functional
rng = np.random.default_rng(0)


def draw(*shapes, dtype=float):
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def plain(q, k, v, mask=None, scale=None):
    """By the formula, one matrix of scores and all."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = np.matmul(q, np.swapaxes(k, -1, -2)) * float(scale)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return np.matmul(e / np.sum(e, axis=-1, keepdims=True), v)


def total(f):
    return lambda *args: np.sum(np.sin(f(*args)))


SHAPES = [
    pytest.param((5, 3), (5, 3), (5, 2), id="one matrix"),
    pytest.param((2, 150, 3), (2, 150, 3), (2, 150, 4), id="several tiles"),
    pytest.param((2, 1, 70, 2), (2, 1, 9, 2), (2, 1, 9, 2), id="fewer keys"),
    pytest.param((3, 9, 2), (3, 130, 2), (3, 130, 5), id="more keys"),
]


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shapes", [p.values for p in SHAPES], ids=[p.id for p in SHAPES])
def test_attention_and_its_gradients(shapes, causal, dtype, compile):
    args = draw(*shapes, dtype=dtype)
    mask = np.tri(shapes[0][-2], shapes[1][-2], dtype=bool) if causal else None
    mine, theirs = lambda *a: attend(*a, is_causal=causal), lambda *a: plain(*a, mask)
    tolerance = 5e-5 if dtype == "float32" else 1e-12
    got = compile(mine)(*args)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, theirs(*args), rtol=tolerance, atol=tolerance)
    got = compile(bs.grad(total(mine), (0, 1, 2)))(*args)
    for x, y in zip(got, bs.grad(total(theirs), (0, 1, 2))(*args), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("which", [0, 1, 2, (0, 2), (1, 2)])
def test_gradients_with_respect_to_some(which):
    args = draw((2, 7, 3), (2, 7, 3), (2, 7, 3))
    mask = np.tri(7, dtype=bool)
    got = bs.grad(total(lambda *a: attend(*a, is_causal=True)), which)(*args)
    expected = bs.grad(total(lambda *a: plain(*a, mask)), which)(*args)
    np.testing.assert_allclose(np.stack(got), np.stack(expected), rtol=1e-12, atol=1e-14)


def test_both_modes_and_second_order():
    args = draw((2, 4, 3), (2, 5, 3), (2, 5, 2))
    check_grads(lambda *a: attend(*a, is_causal=True), args, order=2)


@pytest.mark.parametrize("causal", [False, True])
def test_third_order(causal):
    q, k, v = draw((3, 2), (3, 2), (3, 2))
    mask = np.tri(3, dtype=bool) if causal else None

    def thrice(f):
        along = lambda x: f(x * q, x * x * k, np.sin(x) * v)
        return bs.grad(bs.grad(bs.grad(total(along))))(0.7)

    mine = thrice(lambda *a: attend(*a, is_causal=causal))
    np.testing.assert_allclose(mine, thrice(lambda *a: plain(*a, mask)), rtol=1e-10)


def test_hessian_vector_product_compiled():
    q, k, v, t = draw((6, 3), (6, 3), (6, 2), (6, 3))
    mask = np.tri(6, dtype=bool)
    mine = bs.jit(bs.hvp(lambda q: total(attend)(q, k, v, None, 0.0, True)))(q, t)
    theirs = bs.hvp(lambda q: total(plain)(q, k, v, mask))(q, t)
    np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-13)


def test_gradient_of_compiled_attention():
    args = draw((2, 6, 3), (2, 6, 3), (2, 6, 3))
    f = total(lambda *a: attend(*a, is_causal=True))
    expected = bs.grad(f, (0, 1, 2))(*args)
    for x, y in zip(bs.grad(bs.jit(f), (0, 1, 2))(*args), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


def test_one_row_serves_several_solves():
    args = draw((5, 2), (5, 2), (5, 3))
    y, pull = bs.vjp(lambda *a: attend(*a, is_causal=True), *args)
    for _ in range(2):
        u = rng.normal(size=y.shape)
        expected = bs.grad(lambda *a: np.sum(u * attend(*a, is_causal=True)), (0, 1, 2))(*args)  # noqa: B023
        for x, e in zip(pull(u), expected, strict=True):
            np.testing.assert_allclose(x, e, rtol=1e-12)


def test_batched():
    q, k, v = draw((3, 5, 2), (5, 2), (3, 5, 4))
    got = bs.vmap(lambda q, v: attend(q, k, v, is_causal=True))(q, v)
    expected = [attend(q[b], k, v[b], is_causal=True) for b in range(3)]
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-12)


def test_leading_axes_broadcast():
    q, k, v = draw((2, 3, 5, 2), (3, 5, 2), (1, 1, 5, 4))
    np.testing.assert_allclose(attend(q, k, v), plain(q, k, v), rtol=1e-12)
    got = bs.grad(total(attend), (0, 1, 2))(q, k, v)
    for x, y in zip(got, bs.grad(total(plain), (0, 1, 2))(q, k, v), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def test_groups_of_queries_share_keys():
    q, k, v = draw((4, 5, 2), (2, 5, 2), (2, 5, 3))
    expected = plain(q, np.repeat(k, 2, axis=0), np.repeat(v, 2, axis=0))
    np.testing.assert_allclose(attend(q, k, v, enable_gqa=True), expected, rtol=1e-12)


def test_scale():
    args = draw((3, 4), (3, 4), (3, 1))
    np.testing.assert_allclose(attend(*args, scale=0.3), plain(*args, scale=0.3), rtol=1e-12)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_masks(compile):
    q, k, v = draw((2, 4, 3), (2, 5, 3), (2, 5, 3))
    seen = rng.random((4, 5)) < 0.6
    seen[:, 0], seen[1] = True, False
    rows = np.array([0, 2, 3])
    expected = plain(q[:, rows], k, v, seen[rows])
    for mask in (seen, np.where(seen, 0.0, -np.inf)):
        y = compile(lambda q, k, v: attend(q, k, v, mask))(q, k, v)  # noqa: B023
        np.testing.assert_allclose(y[:, rows], expected, rtol=1e-12)
        np.testing.assert_array_equal(y[:, 1], 0.0)
        g = compile(bs.grad(lambda q, k, v: np.sum(attend(q, k, v, mask) ** 2), (0, 1, 2)))(q, k, v)  # noqa: B023
        assert all(np.isfinite(x).all() for x in g)
        np.testing.assert_array_equal(g[0][:, 1], 0.0)


def test_gradient_of_a_bias():
    q, k, v, bias = draw((4, 3), (5, 3), (5, 3), (4, 5))
    check_grads(lambda bias: attend(q, k, v, bias), [bias])


def test_what_it_refuses():
    q, k, v = draw((4, 3), (5, 3), (5, 2))
    with pytest.raises(ValueError, match="generator"):
        attend(q, k, v, dropout_p=0.1)
    with pytest.raises(ValueError, match="not both"):
        attend(q, k, v, np.ones((4, 5), bool), is_causal=True)
    with pytest.raises(BacksolveError, match="floating-point"):
        attend(q.astype(int), k, v)
    with pytest.raises(BacksolveError, match="queries"):
        attend(q, k, v[:4])
    with pytest.raises(BacksolveError, match="queries"):
        bs.jit(attend)(q, k[:, :2], v)


def test_dropped_weights():
    q, k, v = draw((4, 3), (5, 3), (5, 2))
    key = bs.random.key(0)
    many = [attend(q, k, v, None, 0.4, True, generator=own) for own in bs.random.split(key, 400)]
    np.testing.assert_allclose(np.mean(many, 0), attend(q, k, v, is_causal=True), atol=0.3)
    assert np.std(many, 0).min() > 0.01
    check_grads(lambda q, k, v: attend(q, k, v, None, 0.4, generator=key), [q, k, v])


def test_rotary_embeddings_know_distances_only():
    q, k = draw((6, 4), (6, 4))
    first = rotary_embedding(q) @ rotary_embedding(k).T
    later = rotary_embedding(q, offset=7) @ rotary_embedding(k, offset=7).T
    np.testing.assert_allclose(first, later)
    np.testing.assert_allclose(np.diagonal(first), np.sum(q * k, -1))
    np.testing.assert_allclose(rotary_embedding(q)[0], q[0])
    check_grads(rotary_embedding, [q])


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("wrong", [-1, 16])
def test_places_outside_are_refused_by_unpooling(compile: Any, wrong: int) -> None:
    places = np.array([[[0, 5], [10, wrong]]])
    with pytest.raises(
        IndexError, match="max_unpool2d: indices must be at least 0 and less than 16"
    ):
        compile(lambda x, i: F.max_unpool2d(x, i, 2))(np.ones((1, 2, 2)), places)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_place_that_is_no_number_reads_no_number(compile: Any, padding: str) -> None:
    image, grid = np.arange(1.0, 10.0).reshape(1, 1, 3, 3), np.full((1, 1, 2, 2), 0.1)
    grid[..., 0, 0] = np.nan
    for mode in ("bilinear", "bicubic", "nearest"):
        sample = compile(
            lambda x, g, mode=mode: F.grid_sample(x, g, mode, padding, align_corners=False)
        )
        found = np.ravel(sample(image, grid))
        # the nearest entry to nowhere is one outside
        assert found[0] == 0 if mode == "nearest" else np.isnan(found[0])
        assert np.isfinite(found[1])
