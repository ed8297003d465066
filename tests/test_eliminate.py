"""Jacobians by elimination, in every order, against forward and reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import NotScalarError, UnsupportedError
from backsolve.solve import ways
from backsolve.solve.eliminate import Graph, jacobian_entries
from backsolve.solve.orders import ORDERS

RNG = np.random.default_rng(0)
W = RNG.normal(size=(5, 4))


def bratu(u: Any) -> Any:
    v = np.concatenate([[0.0], u, [0.0]])
    return (v[:-2] - 2 * v[1:-1] + v[2:]) / 1e-2 + np.exp(u)


def brusselator(y: Any) -> Any:
    u, v = y[0], y[1]

    def laplacian(a: Any) -> Any:
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    return np.stack([1 + u * u * v - 4.4 * u + laplacian(u), 3.4 * u - u * u * v + laplacian(v)])


def broyden(x: Any) -> Any:
    n = len(x)
    p = np.concatenate([np.zeros(5), x * (1 + x), np.zeros(1)])
    return x * (2 + 5 * x * x) + 1 - sum(p[k : k + n] for k in range(7) if k != 5)


def network(x: Any) -> Any:
    h = np.tanh(W @ x)
    return np.stack([h.sum(), (h * h).mean(), h.max(), np.sort(h)[1]]) * x[0]


def matrices(x: Any) -> Any:
    X = x.reshape(3, 4)
    S = X @ X.T + np.eye(3)
    return (
        np.linalg.inv(S)[0],
        np.convolve(x, [1.0, 2.0, 3.0]),
        np.cumsum(x)[::2],
        np.where(x > 0, x, x * x),
        np.einsum("ij,kj->ik", X, X)[::-1],
        x[np.array([1, 1, 3])] ** 2,
        X[:, ::-1].T @ np.ones(3),
        np.outer(x[:3], x[3:6]),
    )


def two(x: Any, y: Any) -> Any:
    return x[:, None] * y, (x.sum() * y).cumprod()


FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (bratu, (RNG.normal(size=7),)),
    (brusselator, (RNG.normal(size=(2, 4, 5)),)),
    (broyden, (RNG.normal(size=12),)),
    (network, (RNG.normal(size=4),)),
    (matrices, (RNG.normal(size=12),)),
    (two, (RNG.normal(size=3), RNG.normal(size=4))),
    (lambda a, b: (a * b, np.sin(a * b) / b, a), (0.7, 1.3)),
    (lambda x: np.sum(x) * x + x[0] * np.sin(x), (RNG.normal(size=3),)),  # entries at one place
    (lambda x: np.sum(x) * x + x[0] * np.sin(x), (RNG.normal(size=30),)),
]


def _compare(found: Any, expected: Any) -> None:
    found, expected = (bs.tree.flatten(x)[0] for x in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_every_order_gives_the_jacobian(k: int, order: str) -> None:
    f, args = FUNCTIONS[k]
    argnums = tuple(range(len(args)))
    expected = bs.jacobian(f, argnums, "reverse")(*args)
    _compare(bs.jacobian(f, argnums, "eliminate", order)(*args), expected)


@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_compiled(k: int) -> None:
    f, args = FUNCTIONS[k]
    argnums = tuple(range(len(args)))
    expected = bs.jacobian(f, argnums, "reverse")(*args)
    _compare(bs.jit(bs.jacobian(f, argnums, "eliminate"))(*args), expected)


@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_any_list_of_rows(k: int) -> None:
    f, args = FUNCTIONS[k]
    argnums = tuple(range(len(args)))
    system = bs.linearize(f, argnums)(*args)
    order = list(np.random.default_rng(k).permutation(len(system.rows)) + 1)
    expected = bs.jacobian(f, argnums, "reverse")(*args)
    _compare(bs.jacobian(f, argnums, "eliminate", order)(*args), expected)
    _compare(system.jacobian("eliminate", order), expected)


def test_each_elimination_removes_one_row() -> None:
    system = bs.linearize(broyden)(np.ones(8))
    graph = Graph(system)
    assert len(graph.reads) == len(system.rows) + 1
    for left, k in zip(range(len(system.rows), 0, -1), ORDERS["markowitz"](graph), strict=True):
        graph.eliminate(graph.rows[k])
        assert len(graph.reads) == left
    assert set(graph.reads) == {0}
    assert set(graph.reads[0]) == set(system.parameters)


# ---- calls without blocks


class Swap(bs.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, np.sin(y)

    @staticmethod
    def backward(ctx: Any, u: Any, v: Any) -> Any:
        x, y = ctx.saved_tensors
        return u * y, u * x + v * np.cos(y)


held, compiled = bs.checkpoint(network), bs.jit(lambda a, b: (a * b.sum(), np.cumsum(b)))


def looped(x: Any) -> Any:
    return bs.fori_loop(0, 4, lambda k, h: np.sin(h) + h[::-1] * x, x)


OPAQUE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x: held(np.sin(x)) * 2, (RNG.normal(size=4),)),
    (lambda x, y: compiled(x * x, np.exp(y)), (RNG.normal(size=3), RNG.normal(size=5))),
    (lambda x: compiled(x, x)[1] * compiled(x, x)[0], (RNG.normal(size=3),)),
    (lambda x, y: np.concatenate(Swap.apply(x * y, y)), (RNG.normal(size=3), RNG.normal(size=3))),
    (looped, (RNG.normal(size=5),)),
]


@pytest.mark.parametrize("order", ["forward", "reverse", "markowitz", "greedy"])
@pytest.mark.parametrize("k", range(len(OPAQUE)))
def test_a_small_call_is_written_by_its_columns(
    k: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, args = OPAQUE[k]
    argnums = tuple(range(len(args)))
    expected = bs.jacobian(f, argnums, "reverse")(*args)
    monkeypatch.setattr(ways, "plain_jacobian", None)  # no solve in its stead
    _compare(bs.jacobian(f, argnums, "eliminate", order)(*args), expected)
    if order == "forward":
        _compare(bs.jit(bs.jacobian(f, argnums, "eliminate", order))(*args), expected)


def test_compiled_complex_jacobians_are_eliminated() -> None:
    z = np.array([1 + 2j, 3j, -1 + 0j])
    f = lambda z: z[1:] * np.exp(z[:-1])
    np.testing.assert_allclose(bs.jit(bs.jacobian(f))(z), bs.jacobian(f)(z), rtol=1e-12)
    found = bs.jit(bs.jacobian(f, method="forward"))(z)
    np.testing.assert_allclose(found, bs.jacobian(f)(z), rtol=1e-12)
    with pytest.raises(ValueError, match="holomorphic"):
        bs.jit(bs.jacobian(lambda z: z * np.conj(z)))(z)


def test_a_large_call_is_refused() -> None:
    inner = bs.jit(lambda x: x * x)
    with pytest.raises(UnsupportedError, match=r"compiled.*too large.*forward"):
        bs.jacobian(lambda x: inner(x), 0, "eliminate")(np.ones(600))
    with pytest.raises(UnsupportedError, match=r"compiled.*forward"):
        jacobian_entries(bs.linearize(lambda x: inner(x))(np.ones(2)))


# ---- complex rows

Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)
C = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))

COMPLEX: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda z: np.sin(z) * z[0], Z),
    (lambda z: 2 * z, Z),
    (lambda z: C @ np.exp(z), Z),
    (lambda z: np.cumsum(z) / z[1:2], Z),
    (lambda z: np.fft.fft(z * z), Z),
    (lambda z: np.conj(np.sin(np.conj(z))), Z),  # holomorphic, though its rows are not
    (lambda x: np.exp(1j * x) * np.conj(x + 1j * x[::-1]), Z.real),
    (lambda x: (x[:2] + 1j * x[2:]) ** 3, Z.real),
    (lambda x: np.abs(np.exp(1j * x) * (1 + x)), Z.real),
    (lambda x: np.real(np.exp(1j * x) * x) + np.imag(C @ (x * x + 1j * x)).sum(), Z.real),
    (lambda x: np.abs(np.fft.rfft(x)) ** 2, Z.real),
    (lambda x: np.fft.ifft(np.fft.fft(x) * C[0]).real, Z.real),
]


@pytest.mark.parametrize("order", [o for o in sorted(ORDERS) if o != "search"])
@pytest.mark.parametrize("k", range(len(COMPLEX)))
def test_complex_rows(k: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = COMPLEX[k]
    expected = bs.jacobian(f, method="forward")(x)
    monkeypatch.setattr(ways, "plain_jacobian", None)
    found = bs.jacobian(f, 0, "eliminate", order)(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [k for k in range(len(COMPLEX)) if k != 5])
def test_complex_rows_compiled(k: int) -> None:
    f, x = COMPLEX[k]
    found = bs.jit(bs.jacobian(f, 0, "eliminate"))(x)
    np.testing.assert_allclose(found, bs.jacobian(f, method="forward")(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["auto", "forward", "reverse", "eliminate"])
def test_what_is_not_holomorphic_has_no_complex_jacobian(method: str) -> None:
    for f in (np.abs, np.conj, lambda z: z * np.conj(z)):
        with pytest.raises(NotScalarError, match="holomorphic"):
            bs.jacobian(f, 0, method)(Z)
        with pytest.raises(NotScalarError, match="holomorphic"):
            bs.linearize(f)(Z).jacobian(method)


@pytest.mark.parametrize("method", ["auto", "forward", "reverse", "eliminate"])
def test_complex_systems_have_one_jacobian(method: str) -> None:
    np.testing.assert_allclose(bs.linearize(lambda z: z * z)(Z).jacobian(method), np.diag(2 * Z))
    system = bs.linearize(lambda x: np.exp(1j * x))(Z.real)
    np.testing.assert_allclose(system.jacobian(method), np.diag(1j * np.exp(1j * Z.real)))


MASKED: list[Callable[[Any], Any]] = [
    lambda x: np.where(x > 0, np.sqrt(x), 0.0),
    lambda x: np.sqrt(np.where(x > 0, x, 0.0)),
    lambda x: np.exp(np.where(x > 0, np.sqrt(x), np.sin(x))),
    lambda x: np.where(np.ones((3, 2), bool) * (x > 0), np.sqrt(x), 0.0).sum(0),
    lambda x: np.max(np.sqrt(x)),
    lambda x: np.outer(x, x) @ np.where(x > 0, np.sqrt(x), 0.0),
]


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("k", range(len(MASKED)))
def test_infinities_behind_masks_stay_out(k: int, order: str) -> None:
    f, x = MASKED[k], np.array([0.0, 1.0])
    expected = bs.jacobian(f, 0, "reverse")(x)
    assert np.isfinite(expected).all()
    for way in (lambda J: J, bs.jit):
        np.testing.assert_allclose(way(bs.jacobian(f, 0, "eliminate", order))(x), expected)


def test_infinities_that_are_seen_stay() -> None:
    x = np.array([0.0, 1.0])
    found = bs.jacobian(lambda x: np.where(x > 0.5, x, np.sqrt(x)), 0, "eliminate")(x)
    np.testing.assert_array_equal(found, [[np.inf, 0.0], [0.0, 1.0]])


CHOSEN = np.array([False, True, False])

# A mask hides an infinite slope on one way, and another way sees it.
MIXED: list[Callable[[Any], Any]] = [
    lambda s: np.where(CHOSEN, np.sin(s), 0.0) + s * 0.5,
    lambda s: np.where(CHOSEN, np.cos(s), np.exp(s)),
    lambda s: np.maximum(s, 2.0) * 3 + s,
    lambda s: np.stack([np.where(CHOSEN, s * s, 0.0), s]),
    lambda s: np.ones((2, 3)) @ np.where(CHOSEN, s * s, 0.0) + s[1],
    lambda s: np.where(CHOSEN[1:], s[:-1] * s[1:], 0.0).sum() + s[0],
    lambda s: np.sqrt(np.where(CHOSEN, s, s[::-1] * 2)),
]


@pytest.mark.parametrize("k", range(len(MIXED)))
def test_infinities_that_are_seen_on_one_way_and_masked_on_another(k: int) -> None:
    f, x = lambda x: MIXED[k](np.sqrt(x)), np.array([0.0, 1.0, 4.0])
    expected = bs.jacobian(f, 0, "reverse")(x)
    assert not np.isnan(expected).any()
    for method, order in [("eliminate", o) for o in ("forward", "reverse", "markowitz")] + [
        ("forward", None),
        ("reverse", None),
        ("auto", None),
    ]:
        J = bs.jacobian(f, 0, method, order)
        np.testing.assert_allclose(J(x), expected)
        np.testing.assert_allclose(bs.jit(J)(x), expected)


@pytest.mark.parametrize("method", ["forward", "reverse", "eliminate", "auto"])
def test_compiled_jacobians_keep_the_zeros_beside_an_infinity(method: str) -> None:
    for n in (2, 300):
        x = np.linspace(0, 1, n)
        found = bs.jit(bs.jacobian(np.sqrt, 0, method))(x)
        assert found[0, 0] == np.inf
        assert np.count_nonzero(found) == n
        assert not np.isnan(found).any()
