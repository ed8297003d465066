"""Arguments in any layout: the same results; large ones in Fortran's order are not copied."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import backsolve as bs

RNG = np.random.default_rng(0)
A = RNG.normal(size=(70, 90))
T = RNG.normal(size=(20, 30, 40))
LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "transposed twice": lambda a: np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 0, -1)), 0, -1),
    "turned around": lambda a: a[::-1, ..., ::-1],
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "inner": lambda a: np.pad(a, 1)[(slice(1, -1),) * a.ndim],
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
}
PROGRAMS = {
    "twice": lambda a: a * 2,
    "sum": np.sum,
    "rows": lambda a: np.sum(np.exp(a), axis=0),
    "columns": lambda a: np.max(a, axis=-1),
    "first": lambda a: a[0] - a[1] * 2,
    "turned": lambda a: a.T + 1,
    "product": lambda a: a @ np.swapaxes(a, -1, -2),
    "softmax": lambda a: np.exp(a) / np.sum(np.exp(a), -1, keepdims=True),
    "running": lambda a: np.cumsum(a, axis=0),
    "sorted": lambda a: np.sort(a, axis=0),
    "chosen": lambda a: a[np.array([3, 1, 1]), np.array([0, 2, 5])],
    "places": lambda a: np.argmax(a, axis=0),
    "single": lambda a: np.sum(a.astype("f4") ** 2, axis=-1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_gradients(name: str, layout: str) -> None:
    f = PROGRAMS[name]
    compiled = bs.jit(f)
    slope = bs.jit(bs.grad(lambda a: np.sum(f(a) * 1.0)))
    for a in (A, T, A):
        x = LAYOUTS[layout](a)
        plain = np.array(x, order="C")
        np.testing.assert_allclose(compiled(x), f(plain), rtol=1e-5 if name == "single" else 1e-11)
        np.testing.assert_allclose(slope(x), slope(plain), rtol=1e-5, atol=1e-12)


def test_one_order_is_not_taken_for_the_other() -> None:
    f = bs.jit(lambda x, y: x[0] - y[:, 0])
    c = RNG.normal(size=(80, 80))
    turned = np.asfortranarray(c)
    for _ in range(2):
        for x in (c, turned):
            for y in (turned, c):
                np.testing.assert_array_equal(f(x, y), c[0] - c[:, 0])


@pytest.mark.parametrize("f", [np.sum, lambda x: x[:, 0] @ x, lambda x: np.sum(np.exp(x), 0)])
def test_large_arrays_in_the_order_of_fortran_are_not_copied(f) -> None:
    x = np.asfortranarray(RNG.normal(size=(500, 400)))
    compiled = bs.jit(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-11)
    tracemalloc.start()
    try:
        compiled(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 4


def test_donated_ones_are_copied() -> None:
    f = bs.jit(lambda x: x + 1, donate=0)
    x = np.asfortranarray(A)
    np.testing.assert_array_equal(f(x), A + 1)
    np.testing.assert_array_equal(x, A)
