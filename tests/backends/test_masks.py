"""Known masks are as wide as the numbers that they choose between, where that is all they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import masks
from backsolve.backends.native.compile import scheduled
from backsolve.ir import Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.testing.backends import check_compiled
from backsolve.trace import stage

rng = np.random.default_rng(0)
M = rng.random((13, 11)) < 0.5
MANY = rng.random((129, 129)) < 0.5


def kept(f: Any, *shapes: tuple[int, ...], dtype: Any = float) -> list[str]:
    """The dtypes of the constants as compiled code has them."""
    program = stage(lambda *x: [f(*x)], [Type(shape, np.dtype(dtype)) for shape in shapes])[0]
    schedule, _ = scheduled(rewrite_for_machines(program))
    for buffer, known in schedule.constants:
        assert buffer.dtype == known.dtype
    return [str(known.dtype) for _, known in schedule.constants]


def both(x: Any) -> Any:
    y = x.astype(np.float32)
    return np.where(M, x, 0.0).sum() * np.where(M, y * y, y)


FUNCTIONS: dict[str, tuple[Any, tuple[int, ...], Any, list[str]]] = {
    "chosen": (lambda x: np.where(M, x * 2, 0.0), (9, 13, 11), float, ["int64"]),
    "both": (lambda x: np.where(M, x * 2, x), (9, 13, 11), float, ["int64"]),
    "in single precision": (lambda x: np.where(M, x, x * x), (9, 13, 11), np.float32, ["int32"]),
    "complex": (lambda x: np.where(M, x, 1j * x), (9, 13, 11), complex, ["int64"]),
    "summed": (lambda x: np.where(M, x, 0.0).sum(-1), (9, 13, 11), float, ["int64"]),
    "turned": (lambda x: np.where(M.T, x, 0.0) + 1.0, (9, 11, 13), float, ["int64"]),
    "a row of it": (lambda x: np.where(M[2], x, 0.0), (9, 13, 11), float, ["int64"]),
    # Added up only where it holds: a branch around the innermost loop.
    "whole rows": (lambda x: np.where(M[:, :1], x, 0.0).sum(-1), (9, 13, 11), float, ["int64"]),
    "for a number, too": (lambda x: np.where(M, M, x), (9, 13, 11), float, ["int64"]),
    "whole numbers": (lambda x: np.where(M, x, 0), (9, 13, 11), np.int64, ["bool"]),
    "of another mask": (lambda x: np.where(M & (x > 0), x, 0.0), (9, 13, 11), float, ["bool"]),
    "for itself": (lambda x: np.where(M, x, 0.0) + (M ^ (x > 0)), (9, 13, 11), float, ["bool"]),
    "of both widths": (both, (13, 11), float, ["bool"]),
    "large": (lambda x: np.where(MANY, x, 0.0), (3, 129, 129), float, ["bool"]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_wide_as_what_is_chosen(name: str) -> None:
    f, shape, dtype, dtypes = FUNCTIONS[name]
    assert kept(lambda x: f(x), shape, dtype=dtype) == dtypes
    x = rng.integers(-9, 9, size=shape).astype(dtype)
    assert check_compiled(f, (x,), ulps=8)


def test_what_is_given_out_stays() -> None:
    program = stage(
        lambda x: [np.where(M, x, 0.0), bs.tensor(M)], [Type(M.shape, np.dtype(float))]
    )[0]
    assert [str(c.dtype) for _, c in scheduled(rewrite_for_machines(program))[0].constants] == [
        "bool"
    ]
    x = rng.normal(size=M.shape)
    chosen, mask = bs.jit(lambda x: (np.where(M, x, 0.0), bs.tensor(M)))(x)
    np.testing.assert_array_equal(mask, M)
    np.testing.assert_array_equal(chosen, np.where(M, x, 0.0))


def test_what_loops_and_branches_read_stays() -> None:
    def f(x: Any) -> Any:
        y = np.where(M, x, 0.0)
        return bs.scan(lambda c, _: (np.where(M, c * 0.5, x), None), y, None, length=9)[0]

    assert kept(f, (13, 11)) == ["bool"]
    assert check_compiled(f, (rng.normal(size=(13, 11)),), ulps=8)


def test_what_is_not_chosen_may_be_infinite() -> None:
    f = lambda x: np.where(M, x, 0.0).sum(0)
    x = np.where(M, rng.normal(size=M.shape), np.inf)
    assert np.isfinite(bs.jit(f)(x)).all()
    assert check_compiled(f, (x,))


def test_jacobians_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their masks are identities: small ones are wide, and change no number."""
    x = rng.normal(size=(20, 7))
    J = lambda x: bs.vmap(bs.jacobian(lambda x: np.sin(x) * x[::-1], method="forward"))(x)
    expected = J(x)
    wide = bs.jit(lambda x: J(x) + 0.0)(x)
    monkeypatch.setattr(masks, "SMALL", 0)
    narrow = bs.jit(lambda x: J(x) - 0.0)(x)
    np.testing.assert_array_equal(wide, narrow)
    np.testing.assert_allclose(wide, expected, rtol=1e-14)
