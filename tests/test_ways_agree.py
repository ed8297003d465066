"""Random programs: every way to a Jacobian gives the same numbers, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import tree
from backsolve.errors import NotDifferentiableError, UnsupportedError
from backsolve.testing.fuzz_sketch import sketch

ORDERS = ("forward", "reverse", "markowitz", "greedy", "chain", "search")
KINDS = ("column", "row", "both")
REFUSED = (UnsupportedError, NotDifferentiableError)


def program(seed: int) -> tuple[Any, tuple[Any, ...]]:
    """A function of its smooth arguments to a dict of its smooth results, and arguments in double precision."""
    s = sketch(seed)
    f = s.function()
    places = [k for k, x in enumerate(s.inputs) if x.dtype.kind == "f"]

    def smooth(*varying: Any) -> dict[str, Any]:
        full = list(s.inputs)
        for k, x in zip(places, varying, strict=True):
            full[k] = x
        return {str(k): y for k, y in enumerate(f(*full)) if np.result_type(y).kind == "f"}

    return smooth, tuple(s.inputs[k].astype(float) for k in places)


def numbers(result: Any) -> list[Any]:
    return [
        x.toarray() if hasattr(x, "toarray") else np.asarray(x) for x in tree.flatten(result)[0]
    ]


def check(way: str, found: Any, expected: list[Any]) -> None:
    got = numbers(found)
    assert len(got) == len(expected), way
    for x, y in zip(got, expected, strict=True):
        known = np.isfinite(y)  # an infinity that one way masks may be NaN by another
        scale = np.abs(y[known]).max(initial=1.0)
        difference = np.abs(x.reshape(y.shape) - y)[known & np.isfinite(x.reshape(y.shape))]
        assert np.all(difference <= 1e-7 * scale), (way, x, y)


@pytest.mark.parametrize("seed", range(12))
def test_jacobians(seed: int) -> None:
    f, args = program(seed)
    if not args:
        return
    argnums = tuple(range(len(args)))
    kind, order = KINDS[seed % 3], ORDERS[seed % 6]
    ways = {
        "reverse": bs.jacobian(f, argnums, method="reverse"),
        "auto": bs.jacobian(f, argnums),
        order: bs.jacobian(f, argnums, method="eliminate", order=order),
        "sparse": bs.jacobian(f, argnums, sparse=True),
        kind: lambda *args: bs.jacobian(
            f, argnums, sparse=bs.sparsity(f, *args, argnums=argnums, colouring=kind)
        )(*args),
    }
    with np.errstate(all="ignore"):
        expected = numbers(bs.jacobian(f, argnums, method="forward")(*args))
        for way, run in ways.items():
            try:
                found = run(*args)
            except REFUSED:
                assert way not in ("reverse", "auto")
                continue
            check(way, found, expected)


@pytest.mark.parametrize("method", ["auto", "reverse", "eliminate", "colour", "scan"])
def test_hessians_by_every_way(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Jacobian of the gradient's system, really by the way that was asked for."""
    from backsolve.system import WAYS

    def f(x: Any) -> Any:
        for _ in range(20):
            x = x + 0.05 * np.sin(x)
        return (x[1:] * x[:-1] ** 2).sum()

    x = np.random.default_rng(1).normal(size=5)
    asked = []
    whole = WAYS["jacobian"]
    monkeypatch.setitem(WAYS, "jacobian", lambda s, m, o=None: asked.append(m) or whole(s, m, o))
    found = bs.hessian(f, method=method)(x)
    np.testing.assert_allclose(found, bs.hessian(f)(x), rtol=1e-10, atol=1e-13)
    if method in ("eliminate", "colour", "scan"):
        assert asked[0] == method
    if method == "eliminate":
        by_greed = bs.hessian(f, method=method, order="greedy")(x)
        np.testing.assert_allclose(by_greed, found, rtol=1e-10, atol=1e-13)
