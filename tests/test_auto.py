"""The chooser: what it takes, that it is right, and that it really goes that way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.api import jacobians
from backsolve.errors import UnsupportedError
from backsolve.solve import ways
from backsolve.solve.auto import entry_count, prices

RNG = np.random.default_rng(0)
W = RNG.normal(size=(300, 300))


def waves(x: Any) -> Any:
    return np.sin(x) * np.exp(-x) + x**2


def stencil(u: Any) -> Any:
    v = np.concatenate([[0.0], u, [0.0]])
    return (v[:-2] - 2 * v[1:-1] + v[2:]) / 1e-2 + np.exp(u)


def network(x: Any) -> Any:
    return np.tanh(W @ np.tanh(W @ x))


CASES = [
    (waves, np.linspace(0, 1, 800), "eliminate"),
    (stencil, np.linspace(0, 1, 700), "eliminate"),
    (network, np.linspace(0, 1, 300), "reverse"),
    (lambda x: np.outer(x, x) @ np.linspace(0, 1, 900).reshape(3, 300), np.ones(3), "forward"),
    (waves, np.linspace(0, 1, 20), "reverse"),
    (lambda x: waves(x).sum(), np.linspace(0, 1, 900), "reverse"),
    (lambda t: waves(t * np.linspace(0, 1, 900)), 0.5, "forward"),
]


@pytest.mark.parametrize("k", range(len(CASES)))
def test_what_is_chosen_is_what_runs(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x, expected = CASES[k]
    by_hand = bs.jacobian(f, method="forward")(x)
    ran = []

    def watched(name: str, original: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            ran.append(name)
            return original(*args, **kwargs)

        return run

    for name in ("forward", "reverse"):
        original = getattr(jacobians, f"{name}_jacobian")
        for place in (jacobians, ways):
            monkeypatch.setattr(place, f"{name}_jacobian", watched(name, original))
    monkeypatch.setattr(ways, "eliminate", watched("eliminate", ways.eliminate))
    np.testing.assert_allclose(bs.jacobian(f)(x), by_hand, rtol=1e-12, atol=1e-12)
    assert ran == [expected]
    ran.clear()
    np.testing.assert_allclose(bs.linearize(f)(x).jacobian(), by_hand, rtol=1e-12, atol=1e-12)
    assert ran == [expected]
    assert bs.explain_cost(f, x).chosen == expected


def test_nothing_is_applied_for_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    system = bs.linearize(network)(np.ones(300))
    blocks = [block for row in system.rows for _, block in system.edges(row)]
    for kind in {type(b) for b in blocks}:
        monkeypatch.setattr(kind, "apply", None)
    assert {p.way for p in prices(system)} == {"forward", "reverse", "eliminate"}


def test_entries_are_counted_as_they_are() -> None:
    for f, x, _ in CASES[:4]:
        system = bs.linearize(f)(x[:30] if f is not network else x)
        for row in system.rows:
            for _, block in system.edges(row):
                if row.size * block.in_type.size < 1e5:
                    assert entry_count(block) >= np.count_nonzero(block.dense())


def test_infinities_behind_zeros_do_not_spread() -> None:
    def f(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(x), 0.0) + np.sqrt(x * x + 1) * np.cos(x)

    x = np.linspace(-1, 1, 801)
    x[400] = 0.0
    with np.errstate(invalid="ignore"):
        J = bs.jacobian(f)(x)
        expected = bs.jacobian(f, method="reverse")(x)
    assert np.isfinite(J).all()
    np.testing.assert_allclose(J, expected)


def test_several_outputs_some_of_them_constant() -> None:
    def f(x: Any) -> Any:
        y = waves(x)
        return y, np.ones(2), y, x

    x = np.linspace(0, 1, 700)
    for a, b in zip(bs.jacobian(f)(x), bs.jacobian(f, method="reverse")(x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_the_table() -> None:
    text = str(bs.explain_cost(waves, np.linspace(0, 1, 1000)))
    assert text.splitlines()[0].split() == ["way", "multiplications", "bytes", "passes", "chosen"]
    assert text.splitlines()[1].startswith("eliminate")
    assert "✓ few entries" in text.splitlines()[1]
    held = bs.checkpoint(waves)
    with pytest.raises(UnsupportedError, match="not known"):
        bs.explain_cost(lambda x: held(x) * 2, np.ones(3))
