"""Functions of mathematics outside of loops: called, in their near and their far form."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import build
from backsolve.backends.native.mathematics import BINARY, EMITTERS, NARROW, RANGE_LIMIT
from backsolve.backends.native.registers import step
from backsolve.primitive import P


def numbers(dtype):
    limit = RANGE_LIMIT[np.dtype(dtype).name]
    near = [0.0, -0.0, 0.3, -0.7, 1.5, -40.0, limit, -limit]
    return np.array([*near, np.nextafter(limit, np.inf), -3 * limit, 1e30, np.inf, np.nan], dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(set(EMITTERS) & set(vars(P)) - BINARY))
def test_one_number_as_in_a_loop(name, dtype):
    """The two ways differ where a narrow form is used, and there by rounding alone."""
    f = bs.jit(lambda x: getattr(P, name)(x))
    xs = numbers(dtype)
    with np.errstate(all="ignore"):
        many = f(xs)
        ones = np.array([f(x) for x in xs], dtype)
    ulps = 4 if name in NARROW else 0
    np.testing.assert_allclose(ones, many, rtol=ulps * np.finfo(dtype).eps, atol=0)
    np.testing.assert_array_equal(np.signbit(ones[:2]), np.signbit(many[:2]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cube_is_two_products(dtype):
    tiny = np.finfo(dtype).tiny
    x = np.array([0.0, -0.0, 0.3, -1.7, 1e12, 1e30, -1e30, tiny, np.inf, -np.inf, np.nan], dtype)
    for cube in (lambda x: x**3, lambda x: x**3.0):
        f = bs.jit(cube)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(f(x), x * x * x)
            np.testing.assert_array_equal(np.signbit(f(x)), np.signbit(x * x * x))
        assert "power" not in f.lower(x).stages["llvm"]


def test_cubes_that_are_equal_leave_no_rest():
    x = np.random.default_rng(0).uniform(0.5, 2, 1000)
    f = bs.jit(lambda x, y: np.sqrt(x**3 - y**3))
    np.testing.assert_array_equal(f(x, x.copy()), np.zeros(1000))


def test_a_function_is_emitted_once():
    def f(x):
        for _ in range(8):
            x = np.sin(x) + np.cos(x) * np.exp(-x * x)
        return x

    text = bs.jit(bs.grad(f)).lower(0.3).stages["llvm"]
    assert text.count("define internal") <= 4  # run, and at most the functions
    x = 0.3
    assert bs.jit(bs.grad(f))(x) == pytest.approx(bs.grad(f)(x), rel=1e-12)


def test_numbers_are_put_into_vectors_where_they_are_in_loops(monkeypatch):
    """In long straight code LLVM would look for them longer than for all else."""
    chosen = []
    create = build.binding.create_pass_builder

    def noted(target, options):
        chosen.append(options.slp_vectorization)
        return create(target, options)

    def repeated(x, n):
        for _ in range(n):
            x = np.sin(x) * 1.5
        return x

    monkeypatch.setattr(build.binding, "create_pass_builder", noted)
    assert bs.jit(lambda x: np.sin(np.sin(x) * 1.25) * 1.5)(0.3) == np.sin(np.sin(0.3) * 1.25) * 1.5
    assert chosen == [False]
    assert bs.jit(repeated)(0.3, 7) == pytest.approx(repeated(0.3, 7), rel=1e-12)
    assert chosen == [False, True]
    monkeypatch.setattr(step, "STRAIGHT", 2)
    assert bs.jit(lambda x, n: repeated(x, n) + 0.75)(0.3, 7) == pytest.approx(
        repeated(0.3, 7) + 0.75, rel=1e-12
    )
    assert chosen == [False, True, False]
