"""Where a rewriting would change the result, it is not made."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import Type
from backsolve.numpy import special
from backsolve.rewrite.division import share_division
from backsolve.trace import stage

X = np.array([0.3, -1.2, 0.7])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (np.exp(x) / np.sum(np.exp(bs.stop_gradient(x))))[0],
        lambda x: (np.exp(bs.stop_gradient(x)) / np.sum(np.exp(x)))[0],
        lambda x: np.exp(x[0]) / (1 + np.exp(bs.stop_gradient(x)[0])),
    ],
)
def test_a_softmax_of_which_a_part_is_constant(f):
    """One value, two derivatives: it is no softmax."""
    np.testing.assert_allclose(bs.jit(bs.grad(f))(X), bs.grad(f)(X), rtol=1e-14)
    assert not np.allclose(bs.grad(f)(X), bs.grad(lambda x: (np.exp(x) / np.sum(np.exp(x)))[0])(X))


@pytest.mark.parametrize("factor", [-2.0, 0.0, np.inf, np.nan])
def test_logarithms_of_multiples_that_have_none(factor):
    f = lambda x: np.log(factor * np.sum(np.exp(x)))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bs.jit(f)(X), f(X))


def test_integers_wrap_before_their_logarithm_is_taken():
    f = lambda n: np.log(1 + n)
    n = np.array([127, 3], np.int8)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(bs.jit(f)(n), f(n), rtol=1e-3)  # of half precision
    assert np.isnan(bs.jit(f)(n)[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_negation_in_a_narrower_dtype_wraps(dtype):
    x, y = np.array([-128, 1]).astype(dtype), np.array([2, 3], np.int32)
    for f in (
        lambda x, y: (-x) * y,
        lambda x, y: y * (-x),
        lambda x, y: y + (-x),
        lambda x, y: y - (-x),
        lambda x, y: (-x) * (-y),
    ):
        np.testing.assert_array_equal(bs.jit(f)(x, y), f(x, y))


def test_of_no_entries_nothing_fails():
    f = lambda a, b: np.broadcast_to(a, (0, 3)) // np.broadcast_to(b, (0, 3))
    assert bs.jit(f)(np.array([1]), np.array([0])).shape == (0, 3)


def test_a_sum_is_masked_if_one_of_its_terms_is_not():
    """The square root has an infinite derivative at 0, where another term goes on."""

    def f(x):
        inside = np.where(x > 0, np.sqrt(x), 0.0)
        return np.sum(np.where(x > 0, inside + x, 0.0) * np.arange(1.0, 4.0) + inside)

    x = np.array([0.0, 4.0, -1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(bs.jit(f)(x), f(x))
        np.testing.assert_allclose(bs.jit(bs.grad(f))(x), bs.grad(f)(x))
    y = lambda x: np.where(x > 0, np.where(x > 0, 2 * x, 0.0) + x**2, 0.0)
    np.testing.assert_array_equal(bs.jit(y)(x), y(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.exp(x - special.logsumexp(y, axis=1, keepdims=True)),
        lambda x, y: np.exp(x - special.logsumexp(x, axis=1)),  # of other rows
        lambda x, y: np.exp(x[:1] - special.logsumexp(x, axis=1, keepdims=True)),
        lambda x, y: np.exp(x - special.logsumexp(x, axis=0)),
        lambda x, y: np.exp(x[:, :1] - special.logsumexp(x[:, :1], axis=0)[:, None]),
    ],
)
def test_only_its_own_total_makes_shares_of_powers(f):
    """e^(x − logsumexp y) is a softmax if y is x, and the total stands where it was taken."""
    x, y = np.random.default_rng(0).normal(size=(2, 3, 3))
    both = lambda x, y: (f(x, y), special.logsumexp(x, axis=1), special.logsumexp(y, axis=1))
    for found, expected in zip(bs.jit(both)(x, y), both(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_totals_of_other_powers_have_no_reciprocal():
    """Σ e^(x − max x) is 1 at least if both go along one axis; else 1 / Σ may overflow where p / Σ does not."""

    def f(x, w):
        powers = np.exp(x - np.max(x, axis=0))
        return np.sum(w * powers / np.sum(powers, axis=1, keepdims=True), axis=1)

    x = np.array([[0.0] * 16, [-718.0] * 16])
    np.testing.assert_allclose(bs.jit(f)(x, np.ones(16)), [1, 1], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_softmax_are_multiplied_by_one_number_each(dtype):
    """A total that is bounded otherwise may be as large as numbers are, and is brought into range before."""

    def softmax_(x, w):
        return bs.grad(lambda x: np.sum(w * bs.nn.functional.softmax(x, 1)))(x)

    def bounded(x, w):
        powers = np.exp(x - np.minimum(np.max(x, axis=1, keepdims=True), 0.0))
        return np.sum(w * powers / np.sum(powers, axis=1, keepdims=True), axis=1)

    top = np.log(np.finfo(dtype).max) - 4
    x, w = np.array([[top] * 16, [-3.0] * 16], dtype), np.arange(16, dtype=dtype)
    compiled = bs.jit(softmax_)
    np.testing.assert_allclose(compiled(x, w), softmax_(x, w), rtol=1e-5)
    assert "greater" not in compiled.lower(x, w).stages["steps"]
    compiled = bs.jit(bounded)
    np.testing.assert_allclose(compiled(x, w), [7.5, 7.5], rtol=1e-5)
    assert "greater" in compiled.lower(x, w).stages["steps"]


LESS = np.nextafter(1.0, 0.0)
JUMPING = {
    "floor": np.floor,
    "trunc": np.trunc,
    "sign": lambda q: np.sign(q - 1),
    "floor_divide": lambda q: q // 1,
    "remainder": lambda q: q % 1,
    "fmod": lambda q: np.fmod(q, 1),
    "cast": lambda q: q.astype(int),
    "argsort": lambda q: np.argsort(np.append(1.0, q), kind="stable"),
    "searchsorted": lambda q: np.searchsorted(np.array([1.0]), q, side="right"),
    "argmax": lambda q: np.argmax(np.append(LESS, q)),
    "argmin": lambda q: np.argmin(np.append(1.0, q)),
    "equal": lambda q: q == 1,
    "not_equal": lambda q: q != 1,
    "less": lambda q: q < 1,
    "less_equal": lambda q: q <= LESS,
    "greater": lambda q: q > LESS,
    "greater_equal": lambda q: q >= 1,
    "heaviside": lambda q: np.heaviside(q - 1, 0.5),
    "place": lambda q: np.arange(3.0)[q.astype(int)],
}


@pytest.mark.parametrize("name", JUMPING)
def test_a_quotient_that_a_jump_rests_on_is_a_quotient(name):
    """49 · (1 / 49) is less than 1, where 49 / 49 is not; shared divisors are multiplied by otherwise."""
    f = lambda x, c: JUMPING[name](x / c)
    x, c = np.full(16, 49.0), np.array([49.0])
    assert LESS == 49.0 * (1 / 49.0)
    np.testing.assert_array_equal(bs.jit(f)(x, c), f(x, c))


@pytest.mark.parametrize(
    ("name", "jump"),
    [
        ("argmax", np.argmax),
        ("argmin", np.argmin),
        ("heaviside", lambda q: np.heaviside(q, 0.5)),
        ("gather", lambda q: q[np.array([3, 1, 2, 2])]),
        ("floor", np.floor),
    ],
)
def test_rows_that_jump_by_themselves(name, jump):
    """By the rewriting alone: others write these rows with comparisons, which jump as well."""
    types = [Type((16,), np.dtype(float)), Type((1,), np.dtype(float))]
    program, _ = stage(lambda x, c: jump(x / c), types)
    assert name in [e.primitive.name for e in program.equations]
    smooth, _ = stage(lambda x, c: np.sin(x / c), types)
    divided = lambda p: [
        e.outputs[0].shape for e in share_division(p).equations if e.primitive.name == "divide"
    ]
    assert divided(program) == [(16,)]
    assert divided(smooth) == [(1,)]
