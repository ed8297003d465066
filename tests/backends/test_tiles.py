"""Products in tiles: all sizes and layouts, whatever the registers of the processor are."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import contraction, tiling
from backsolve.backends.native.blas import THIN
from backsolve.backends.native.tiles import Large, Registers

from .test_blocks import MACHINES

rng = np.random.default_rng(0)

SIZES = [
    (24, 33, 45),
    (4, 32, 64),
    (25, 17, 16),
    (31, 64, 67),
    (64, 9, 10),
    (67, 130, 1 + 48),
    (3, 64, 48),
    (200, 65, 33),
    (9, 16, 243),
]


@pytest.fixture(params=MACHINES.values(), ids=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Registers:
    monkeypatch.setattr(tiling, "registers", lambda: request.param)
    found: Registers = request.param
    return found


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return rng.normal(size=shape).astype(dtype)


def steps(f: Any, *args: Any) -> str:
    return str(f.lower(*args).stages["steps"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_layouts_of_all_sizes(size: tuple[int, int, int], dtype: Any, machine: Any) -> None:
    m, k, n = size
    matrix, row_major = normal(k, n, dtype=dtype), normal(m, k, dtype=dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    products = {
        "A B": (lambda a, b: a @ b, row_major, matrix),
        "A Bᵀ": (lambda a, b: a @ b.T, row_major, matrix.T.copy()),
        "Aᵀ B": (lambda a, b: a.T @ b, row_major.T.copy(), matrix),
        "Aᵀ Bᵀ": (lambda a, b: a.T @ b.T, row_major.T.copy(), matrix.T.copy()),
    }
    expected = row_major @ matrix
    for f, a, b in products.values():
        got = bs.jit(f)(a, b)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 10)


def test_tiles_are_used(machine: Any) -> None:
    f = bs.jit(lambda a, b: a @ b)
    assert "in tiles" in steps(f, normal(32, 64), normal(64, 48))
    g = bs.jit(lambda a, b: a @ b.T)
    assert "panels of (64, 45)" in steps(g, normal(32, 64), normal(45, 64))


ARM = replace(MACHINES["by lanes"], large=Large(1 << 11, 1 << 20, 16, in_lines=False))


@pytest.mark.parametrize(
    ("machine", "few"),
    [(ARM, 8), *zip(MACHINES.values(), (24, 24, 24, 4), strict=True)],
    ids=["arm64", *MACHINES],
)
def test_columns_of_few_rows_are_put_into_panels(
    machine: Registers, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that lie across lines: from how many rows on that pays was measured."""
    monkeypatch.setattr(tiling, "registers", lambda: machine)
    for m in (few - 1, few):
        left, right = normal(m, 40), normal(243, 40)
        f = bs.jit(lambda a, b: a @ b.T)
        np.testing.assert_allclose(f(left, right), left @ right.T, rtol=1e-12, atol=1e-12)
        assert ("panels" in steps(f, left, right)) == (m == few)


SMALL = [(2, 1, 2), (3, 5, 7), (5, 3, 3), (10, 10, 10), (4, 16, 17), (26, 23, 9), (40, 3, 33)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SMALL, ids=str)
def test_small_products_touch_nothing_beyond_their_operands(
    size: tuple[int, int, int], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them end where memory that cannot be read begins. Without masks they are loops, or BLAS."""
    monkeypatch.setattr(tiling, "registers", lambda: MACHINES["with masks"])
    monkeypatch.setattr(contraction, "registers", lambda: MACHINES["with masks"])
    m, k, n = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = a @ b
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for f, x, y in (
        (lambda a, b: a @ b, a, b),
        (lambda a, b: a @ b.T, a, b.T),
        (lambda a, b: a.T @ b, a.T, b),
        (lambda a, b: a.T @ b.T, a.T, b.T),
    ):
        product = bs.jit(f)
        with at_the_end_of_memory(x) as x, at_the_end_of_memory(y) as y:
            got = product(x, y)
            in_tiles = "in tiles" in steps(product, x, y)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 10)
        assert in_tiles or (m < 4 and y.shape == (n, k)) or k == 1  # that is a multiplication


@pytest.mark.parametrize("size", [(0, 3, 4), (3, 0, 4), (3, 4, 0)], ids=str)
def test_products_of_nothing(size: tuple[int, int, int]) -> None:
    m, k, n = size
    a, b = np.ones((m, k)), np.ones((k, n))
    np.testing.assert_array_equal(bs.jit(lambda a, b: a @ b)(a, b), a @ b)


@contextmanager
def at_the_end_of_memory(matrix: Any) -> Iterator[Any]:
    """A copy whose last entry stands before a page that must not be touched."""
    page, size = mmap.PAGESIZE, matrix.nbytes
    pages = -(-size // page)
    room = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    library = ctypes.CDLL(None, use_errno=True)
    protect = lambda how: library.mprotect(ctypes.c_void_p(start + pages * page), page, how)
    assert protect(mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0) == 0
    copy = np.frombuffer(room, matrix.dtype, matrix.size, pages * page - size)
    copy = copy.reshape(matrix.shape)
    copy[...] = matrix
    yield copy
    assert protect(mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_blas_keeps_what_is_large_complex_or_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tiling.registers()
    if own is not None:  # a processor that has large products in blocks, too: here it has not
        monkeypatch.setattr(tiling, "registers", lambda: replace(own, large=None))
    f = bs.jit(lambda a, b: a @ b)
    for a, b in (
        (normal(64, 2000), normal(2000, 64)),
        (normal(64, 512), normal(512, 512)),
        (normal(32, 32) + 1j, normal(32, 32) + 1j),
        (normal(3, 32, 32), normal(3, 32, 32)),
    ):
        assert "tiles" not in steps(f, a, b)


def test_a_processor_without_tiles_has_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "registers", lambda: None)
    a, b = normal(32, 64), normal(64, 48)
    f = bs.jit(lambda a, b: a @ b)
    assert "tiles" not in steps(f, a, b)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("columns", [48, 45])
def test_only_what_a_nan_or_an_infinity_enters_is_spoiled(columns: int, machine: Any) -> None:
    a, b = normal(27, 33), normal(33, columns)
    a[3, 5], a[26, 32] = np.nan, np.inf
    b[7, columns - 1] = -np.inf
    got = bs.jit(lambda a, b: a @ b)(a, b)
    with np.errstate(invalid="ignore"):  # of which NumPy warns on some machines
        expected = a @ b
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    fine = np.isfinite(expected)
    np.testing.assert_allclose(got[fine], expected[fine], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(26, 35, 21), (32, 64, 48)], ids=str)
def test_gradients_of_a_layer(size: tuple[int, int, int], machine: Any) -> None:
    m, k, n = size
    x, w, bias = normal(m, k), normal(k, n), normal(n)
    loss = lambda x, w, bias: np.mean(np.tanh(x @ w + bias) ** 2)
    f = bs.grad(loss, (0, 1, 2))
    for got, expected in zip(bs.jit(f)(x, w, bias), f(x, w, bias), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    bs.testing.check_grads(bs.jit(loss), (x, w, bias), modes=("reverse",))


def recurrent(h: Any, xs: Any, u: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(h @ u + x)
        return h, h

    return bs.scan(step, h, xs)[1]


@pytest.mark.parametrize("size", [(9, 33), (16, 64)], ids=str)
def test_weights_are_packed_once_before_a_loop(size: tuple[int, int], machine: Any) -> None:
    m, n = size
    h, xs, u = normal(m, n), normal(7, m, n), normal(n, n) / n**0.5
    f = bs.jit(lambda h, xs, u: recurrent(h, xs, u))
    before, inside = steps(f, h, xs, u).split("loop of 7 rounds")
    assert f"panels of ({n}, {n})" in before
    assert "panels" not in inside
    assert "tiles" in inside
    np.testing.assert_allclose(f(h, xs, u), recurrent(h, xs, u), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(9, 33), (16, 64)], ids=str)
def test_gradients_through_a_loop(size: tuple[int, int], machine: Any) -> None:
    m, n = size
    args = normal(m, n), normal(6, m, n), normal(n, n) / n**0.5
    f = bs.grad(lambda h, xs, u: np.sum(recurrent(h, xs, u) ** 2), (0, 1, 2))
    for got, expected in zip(bs.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)


def test_loops_in_loops_pack_before_the_outermost(machine: Any) -> None:
    n = 32
    h, u = normal(n, n), normal(n, n) / n

    def f(h: Any, u: Any) -> Any:
        def inner(h: Any, _: Any) -> Any:
            return np.sin(h @ u), None

        def outer(h: Any, ks: Any) -> Any:
            return bs.scan(inner, h * 0.5, ks)[0], None

        return bs.scan(outer, h, np.ones((3, 4)))[0]

    g = bs.jit(f)
    before, *inside = steps(g, h, u).split("loop of")
    assert "panels of" in before
    assert not any("panels of" in x for x in inside)
    np.testing.assert_allclose(g(h, u), f(h, u), rtol=1e-12, atol=1e-12)


def test_weights_that_change_in_a_loop_are_not_packed_before_it(machine: Any) -> None:
    h, u = normal(32, 32), normal(32, 33)[:, :32] / 32

    def f(h: Any, u: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            h, u = state
            return (np.sin(h @ u.T), u * 0.9), None

        return bs.scan(step, (h, u), np.ones(5))[0]

    for got, expected in zip(bs.jit(f)(h, u), f(h, u), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_rows_or_columns(threads: int, machine: Any) -> None:
    chosen = bs.get_threads()
    try:
        bs.set_threads(threads)
        for m, k, n in ((1003, 64, 45), (33, 64, 505)):
            a, b = normal(m, k), normal(k, n)
            f = bs.jit(lambda a, b: a @ b)
            assert "in tiles" in steps(f, a, b)
            np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-12, atol=1e-12)
    finally:
        bs.set_threads(chosen)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1024, 1003])
def test_what_follows_many_rows_is_done_slice_by_slice(rows: int, threads: int) -> None:
    x, w, bias = normal(rows, 48), normal(48, 70) / 7, normal(70)
    f = lambda x, w, bias: np.maximum(x @ w + bias, 0)
    g = bs.grad(lambda x, w, bias: np.sum(np.tanh(x @ w + bias) ** 2), (0, 1, 2))
    chosen = bs.get_threads()
    try:
        bs.set_threads(threads)
        compiled = bs.jit(f)
        if tiling.registers() is not None:
            before, sweep = steps(compiled, x, w, bias).split("sweep over")
            assert "panels of (48, 70)" in before
            assert "in tiles" in sweep
            assert "maximum" in sweep
        np.testing.assert_allclose(compiled(x, w, bias), f(x, w, bias), rtol=1e-12, atol=1e-12)
        for got, expected in zip(bs.jit(g)(x, w, bias), g(x, w, bias), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    finally:
        bs.set_threads(chosen)


def test_layers_pass_rows_on_in_slices(machine: Any) -> None:
    x, w, v = normal(1030, 40), normal(40, 64) / 6, normal(64, 36) / 8
    f = lambda x, w, v: np.tanh(np.tanh(x @ w) @ v).sum(axis=0)
    np.testing.assert_allclose(bs.jit(f)(x, w, v), f(x, w, v), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 20, 33])
def test_thin_products_of_slices(columns: int, machine: Any) -> None:
    x, w = normal(1030, 40), normal(40, columns) / 6
    f = lambda x, w: np.tanh(np.maximum(x, 0.0) @ w).sum(axis=1)
    np.testing.assert_allclose(bs.jit(f)(x, w), f(x, w), rtol=1e-11, atol=1e-11)
    made = steps(bs.jit(f), x, w)
    if "product" in made.partition("sweep")[2]:  # else it is no part of one here
        assert ("in tiles" in made) == (columns > (1 if machine.by_lane else THIN))


def test_rows_that_lie_across_lines_stay_whole() -> None:
    """A weight gradient: its slices could not go through tiles, and BLAS would copy B for each."""
    x, d, w = normal(64, 800), normal(64, 200), normal(800, 200)
    f = bs.jit(lambda x, d, w: w - np.tanh(x.T @ d))
    assert "\n" not in steps(f, x, d, w).split("product (800, 64)")[0]
    np.testing.assert_allclose(f(x, d, w), w - np.tanh(x.T @ d), rtol=1e-12, atol=1e-12)
