"""Rounds do only what they must: nothing that is fixed, no copies, no arrays of zeros."""

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp

rng = np.random.default_rng(0)


def steps(f, *args):
    (text,) = [stages["steps"] for stages in [f.lower(*args).stages]]
    return text() if callable(text) else text


def inside(text):
    return [line for line in text.split("\n") if line.startswith("     ")]


def test_what_is_fixed_is_done_once():
    w, x = rng.normal(size=100), rng.normal(size=100)
    f = lambda w, x: bs.while_loop(lambda s: s.sum() > 1, lambda s: s * bnp.exp(-bnp.abs(w)), x * x)
    compiled = bs.jit(f)
    np.testing.assert_allclose(compiled(w, x), f(w, x), rtol=1e-12)
    text = steps(compiled, w, x)
    assert "exp" in text
    assert not any("exp" in line for line in inside(text))


def test_a_failure_is_not_moved_before_a_loop_without_rounds():
    def f(n, i, x):
        return bs.fori_loop(0, n, lambda k, s: s + bnp.take(x, i) * s, x)

    compiled = bs.jit(f)
    x, i = rng.normal(size=10), np.asarray(10)
    np.testing.assert_array_equal(compiled(np.asarray(0), i, x), x)
    with pytest.raises(IndexError):
        compiled(np.asarray(1), i, x)


def test_adjoints_of_slices_are_put_side_by_side():
    B, m = 4, 8
    U, xs = rng.normal(size=(m, 3 * m)) / 9, rng.normal(size=(6, B, 3 * m))

    def f(U, xs):
        def cell(h, x):
            z = x + h @ U
            h = bnp.tanh(z[:, :m]) * h + bnp.sin(z[:, m : 2 * m]) * z[:, 2 * m :]
            return h, h

        return (bs.scan(cell, bnp.ones((B, m)), xs)[1] ** 2).sum()

    compiled, eager = bs.jit(bs.grad(f, argnums=(0, 1))), bs.grad(f, argnums=(0, 1))
    for got, expected in zip(compiled(U, xs), eager(U, xs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    text = "\n".join(inside(steps(compiled, U, xs)))
    assert "where" not in text
    assert "zero" not in text


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_parts_that_fill_an_array(order):
    x = rng.normal(size=(6, 4))
    cuts = [(slice(0, 2), 2.0), (slice(2, 5), 3.0), (5, 4.0)]

    def f(x):
        return sum((bnp.sin(x[cuts[k][0]]) * cuts[k][1]).sum() for k in order)

    g = bs.jit(bs.grad(f))
    np.testing.assert_allclose(g(x), bs.grad(f)(x), rtol=1e-13)
    assert "zero" not in steps(g, x)


def test_parts_that_overlap_or_leave_gaps():
    x = rng.normal(size=(6, 4))
    for f in (
        lambda x: (x[:3] ** 2).sum() + (x[2:] ** 3).sum(),
        lambda x: (x[:2] ** 2).sum() + (x[3:] ** 3).sum(),
        lambda x: (x[:, :2] ** 2).sum() + (x[3:] ** 3).sum(),
        lambda x: (x[::2] ** 2).sum() + (x[1::2] ** 3).sum(),
        lambda x: (x[4:2] ** 2).sum() + (x[::-1] ** 3).sum(),
    ):
        np.testing.assert_allclose(bs.jit(bs.grad(f))(x), bs.grad(f)(x), rtol=1e-13)


def test_a_masked_part_keeps_what_the_mask_takes_away():
    x = rng.normal(size=(6, 4))
    mask = np.arange(6) > 2
    f = lambda x: (bnp.where(mask[:, None], x, 0.0)[1:5] ** 2).sum()
    np.testing.assert_allclose(bs.jit(bs.grad(f))(x), bs.grad(f)(x), rtol=1e-13)


def shifted(x, y):
    z = bnp.zeros_like(x)
    z[0] = x[0]
    z[1:] = x[1:] * y[:-1]
    return z


def test_slices_that_leave_nothing_of_an_array():
    x, y = rng.normal(size=(2, 50))
    f = bs.jit(shifted)
    np.testing.assert_allclose(f(x, y), shifted(x, y))
    assert "zero" not in steps(f, x, y)


@pytest.mark.parametrize("what", ["gaps", "overlap", "backwards", "cast", "number"])
def test_slices_that_are_not_put_side_by_side(what):
    x = rng.normal(size=(6, 4))

    def f(x):
        z = bnp.ones((6, 4))
        if what == "gaps":
            z[:2], z[3:] = x[:2], x[3:] * 2
        elif what == "overlap":
            z[:4], z[2:] = x[:4], x[2:] * 2
        elif what == "backwards":
            z[5:2:-1], z[:3] = x[:3], x[3:]
        elif what == "cast":
            z[:3], z[3:] = x[:3].astype(np.float32), x[3:]
        else:
            z[:3], z[3:] = x[0], 2.0
        return z

    np.testing.assert_array_equal(bs.jit(f)(x), f(x))


def test_steps_of_an_integrator():
    """Each slope and each of its adjoints is one pass."""
    x, n = rng.random(100), 10

    def last(x):
        def body(i, y):
            k = shifted(x, y)
            return y + 0.1 * (k + 2 * shifted(x, y + 0.1 * k))

        return bs.fori_loop(0, n, body, bnp.zeros_like(x))[-1]

    g = bs.jit(bs.grad(last))
    np.testing.assert_allclose(g(x), bs.grad(last)(x), rtol=1e-12)
    text = "\n".join(inside(steps(g, x)))
    assert "where" not in text
    assert "zero" not in text


@pytest.mark.parametrize(
    "spec", [np.s_[1:], np.s_[:-1], np.s_[2:5], np.s_[:, 1:3], np.s_[::2], np.s_[3]]
)
def test_a_part_added_to_what_is_read_again(spec):
    x = rng.normal(size=(6, 4))

    def f(x):
        y = bnp.sin(x)
        total = (y[spec] * 3 * y[spec]).sum()
        return (total + y * bnp.cos(x)).sum() + (y * y).sum()

    np.testing.assert_allclose(bs.jit(bs.grad(f))(x), bs.grad(f)(x), rtol=1e-12)
    twice = lambda x: (bs.grad(f)(x) ** 2).sum()
    np.testing.assert_allclose(bs.jit(bs.grad(twice))(x), bs.grad(twice)(x), rtol=1e-11)


def test_a_multiple_of_a_part_under_its_mask():
    """Infinite factors make NaN of the zeros around a part: the mask takes them away."""
    x = np.array([1.0, 2.0, 3.0, 4.0])
    f = lambda x: (np.inf * x[1:3]).sum() + (x * x).sum()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(bs.jit(bs.grad(f))(x), bs.grad(f)(x))
