"""Attention holds no matrix of scores, whatever mask there is; some queries at a time give the same as all."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import backsolve as bs

attend = bs.nn.functional.scaled_dot_product_attention
module = importlib.import_module("backsolve.nn.functional.attention")
_rng = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return _rng.normal(size=shape)


# from the number of steps to settings and a mask
CASES: dict[str, Any] = {
    "alone": lambda n: ({}, None),
    "causal": lambda n: ({"is_causal": True}, None),
    "booleans": lambda n: ({}, _rng.uniform(size=(n, n)) < 0.5),
    "padding": lambda n: ({}, _rng.uniform(size=(1, 1, 1, n)) < 0.5),
    "added": lambda n: ({}, draw(n, n).astype(np.float32)),
    "dropout": lambda n: (
        {"is_causal": True, "dropout_p": 0.1, "generator": bs.random.key(0)},
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_matrix_of_scores_is_held(name: str) -> None:
    """Memory grows as the length does, not as its square."""

    def bytes_held(n: int) -> int:
        options, mask = CASES[name](n)
        masks = () if mask is None else (mask,)

        def f(q: Any, kv: Any, *masks: Any) -> Any:
            return np.sum(attend(q, kv[0], kv[1], *masks, enable_gqa=True, **options) ** 2)

        compiled = bs.jit(bs.grad(f, (0, 1)))
        q, kv = draw(1, 2, n, 8).astype(np.float32), draw(2, 1, 1, n, 8).astype(np.float32)
        assert "llvm" in compiled.lower(q, kv, *masks).stages
        (stats,) = compiled.stats()["specialisations"]
        assert stats["native"]
        return int(stats["arena_bytes"])

    assert bytes_held(4096) < 2.5 * bytes_held(2048)


SMALL: list[tuple[Any, ...]] = [
    # leading axes of q, of k and v, a mask, settings
    ((2, 3), (2, 3), _rng.uniform(size=(2, 1, 9, 7)) < 0.6, {}),
    ((2, 3), (1, 3), draw(9, 7), {}),
    ((2, 3), (2, 1), _rng.uniform(size=(2, 1, 1, 7)) < 0.6, {"scale": 0.3}),
    ((), (), _rng.uniform(size=7) < 0.6, {}),
    ((2, 4), (2, 2), np.arange(7) < np.arange(9)[:, None], {"enable_gqa": True}),  # row 0 sees none
]


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", SMALL)
def test_in_tiles_as_whole(case: Any, compile: Any, monkeypatch: Any) -> None:
    lead, other, mask, options = case
    q, k, v = draw(*lead, 9, 4), draw(*other, 7, 4), draw(*other, 7, 5)
    is_added = mask.dtype == float

    def f(q: Any, k: Any, v: Any, mask: Any) -> Any:
        y = attend(q, k, v, mask, **options)
        return np.sum(np.sin(y) * np.arange(y.size).reshape(y.shape)), y

    run = bs.grad(f, (0, 1, 2, 3) if is_added else (0, 1, 2), has_aux=True)
    whole = run(q, k, v, mask)
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(module, "TILE", 4)
    tiled = compile(lambda *a: run(*a))(q, k, v, mask)
    for a, b in zip(bs.tree.flatten(tiled)[0], bs.tree.flatten(whole)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_dropout_in_tiles(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(module, "TILE", 64)
    q = k = np.zeros((200, 4))
    y = attend(q, k, np.eye(200), None, 0.25, True, generator=bs.random.key(0))
    seen = np.tri(200, dtype=bool)
    assert (y[~seen] == 0).all()
    dropped = np.mean(y[seen] == 0)
    assert abs(dropped - 0.25) < 0.02
    expected = np.broadcast_to(1 / np.arange(1, 201)[:, None] / 0.75, y.shape)
    np.testing.assert_allclose(y[y != 0], expected[y != 0])
    last = [y[row, :64] == 0 for row in (63, 127)]  # the last row of a tile, where it sees all
    assert not np.array_equal(*last)  # each tile draws its own
    with pytest.raises(ValueError, match="generator"):
        attend(q, k, k, None, 0.25)
