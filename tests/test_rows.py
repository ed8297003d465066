"""Rows × dtypes × shapes: everything that a row of the table claims, on samples made from the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import backsolve as bs
from backsolve.primitive import PRIMITIVES, P
from backsolve.testing import Case, cases, check_case, check_grads
from backsolve.testing.calls import CALLS
from backsolve.testing.domains import DOMAINS


def all_cases() -> list[Any]:
    found: list[Any] = []
    for name in PRIMITIVES:
        try:
            found += [pytest.param(name, case, id=str(case)) for case in cases(name)]
        except LookupError:
            found.append(pytest.param(name, None, id=f"{name} without samples"))
    return found


@pytest.mark.parametrize(("name", "case"), all_cases())
def test_row(name: str, case: Case | None) -> None:
    if case is None:
        list(cases(name))  # raises, and says what to add
    else:
        check_case(case)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_row_is_sampled_in_double_precision_or_integers(name: str) -> None:
    dtypes = {case.dtype for case in cases(name)}
    if PRIMITIVES[name].differentiable:
        assert "float64" in dtypes
        assert "float32" in dtypes
    else:
        assert dtypes & {"float64", "int64", "bool"}


def test_samples_belong_to_rows() -> None:
    assert set(DOMAINS) | set(CALLS) <= set(PRIMITIVES)


# ---- subgradients at kinks: finite, and the ones that are documented


def gradient(f: Any, *args: Any) -> Any:
    """The gradient in reverse mode, after checking that forward mode agrees."""
    argnums = tuple(range(len(args)))
    found = bs.grad(lambda *xs: np.sum(f(*xs)), argnums)(*args)
    for k, x in enumerate(args):
        for place in np.ndindex(np.shape(x)):
            slope = 0
            for direction in (1, 1j) if np.iscomplexobj(x) else (1,):
                unit = [np.zeros_like(a) for a in args]
                unit[k][place] = direction
                _, image = bs.jvp(lambda *xs: np.sum(f(*xs)), args, [u[()] for u in unit])
                slope = slope + image * direction
            np.testing.assert_allclose(np.asarray(found[k])[place], slope, rtol=1e-15)
    return found[0] if len(args) == 1 else found


A = np.array


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        pytest.param(np.abs, (A([0.0, -2.0]),), A([0.0, -1.0]), id="abs"),
        pytest.param(np.fabs, (A([0.0, 2.0]),), A([0.0, 1.0]), id="fabs"),
        pytest.param(np.abs, (A([0j, 3 + 4j]),), A([0, 0.6 + 0.8j]), id="abs of complex"),
        pytest.param(np.sign, (A([0.0, -2.0]),), A([0.0, 0.0]), id="sign"),
        pytest.param(np.maximum, (1.0, 1.0), (0.5, 0.5), id="maximum"),
        pytest.param(np.minimum, (1.0, 1.0), (0.5, 0.5), id="minimum"),
        pytest.param(np.fmax, (1.0, 1.0), (0.5, 0.5), id="fmax"),
        pytest.param(np.fmin, (1.0, np.nan), (1.0, 0.0), id="fmin of NaN"),
        pytest.param(lambda x: np.clip(x, -1, 1), (A([-1.0, 1, 2]),), A([1.0, 1, 0]), id="clip"),
        pytest.param(np.max, (A([3.0, 1, 3]),), A([0.5, 0, 0.5]), id="max"),
        pytest.param(np.min, (A([2.0, 2, 2, 2]),), np.full(4, 0.25), id="min"),
        pytest.param(np.linalg.norm, (np.zeros(3),), np.zeros(3), id="norm"),
        pytest.param(np.linalg.norm, (np.zeros(2, complex),), np.zeros(2), id="norm of complex"),
        pytest.param(np.std, (np.full(3, 2.0),), np.zeros(3), id="std"),
        pytest.param(np.hypot, (0.0, 0.0), (0.0, 0.0), id="hypot"),
        pytest.param(np.power, (0.0, 0.0), (0.0, 0.0), id="0 ** 0"),
        pytest.param(np.power, (0.0, 2.0), (0.0, 0.0), id="0 ** 2"),
        pytest.param(np.power, (0.0, 1.0), (1.0, 0.0), id="0 ** 1"),
        pytest.param(lambda x: x**0, (A([0.0, 2.0]),), A([0.0, 0.0]), id="x ** the number 0"),
        pytest.param(lambda x: x**2, (A([0.0, 2.0]),), A([0.0, 4.0]), id="x ** the number 2"),
        pytest.param(lambda x: x**1.0, (A([0.0, 2.0]),), A([1.0, 1.0]), id="x ** 1.0"),
        pytest.param(bs.numpy.xlogy, (0.0, 0.0), (0.0, 0.0), id="xlogy"),
        pytest.param(bs.numpy.xlogy, (0.0, 2.0), (np.log(2.0), 0.0), id="xlogy(0, 2)"),
        pytest.param(bs.numpy.xlog1py, (0.0, -1.0), (0.0, 0.0), id="xlog1py(0, -1)"),
        pytest.param(np.logaddexp, (-np.inf, -np.inf), (0.0, 0.0), id="logaddexp"),
        pytest.param(np.logaddexp, (-np.inf, 1.0), (0.0, 1.0), id="logaddexp with one −∞"),
        pytest.param(np.logaddexp2, (-np.inf, -np.inf), (0.0, 0.0), id="logaddexp2"),
        pytest.param(bs.numpy.logsumexp, (A([-np.inf] * 2),), A([0.0, 0]), id="logsumexp"),
        pytest.param(bs.numpy.logsumexp, (A([-np.inf, 1]),), A([0.0, 1]), id="logsumexp, one −∞"),
        pytest.param(np.prod, (A([2.0, 0, 3]),), A([0.0, 6, 0]), id="prod, one zero"),
        pytest.param(np.prod, (A([0.0, 0, 3]),), A([0.0, 0, 0]), id="prod, two zeros"),
        pytest.param(np.cumprod, (A([2.0, 0, 3]),), A([1.0, 8, 0]), id="cumprod, one zero"),
        pytest.param(np.cumprod, (A([0.0, 0, 3]),), A([1.0, 0, 0]), id="cumprod, two zeros"),
        pytest.param(lambda x: np.heaviside(x, 0.5), (A([0.0, 1]),), A([0.0, 0]), id="heaviside"),
        pytest.param(
            np.heaviside,
            (A([0.0, 1.0]), A([0.5, 0.5])),
            (A([0.0, 0.0]), A([1.0, 0.0])),
            id="heaviside, its value at 0",
        ),
        pytest.param(
            np.clip,
            (A([-2.0, 0.0, 2.0]), -1.0, 1.0),
            (A([0.0, 1.0, 0.0]), 1.0, 1.0),
            id="clip, its bounds",
        ),
        pytest.param(np.copysign, (A([2.0]), A([-1.0])), (A([-1.0]), A([0.0])), id="copysign"),
        pytest.param(np.nextafter, (1.0, 2.0), (1.0, 0.0), id="nextafter"),
        pytest.param(bs.numpy.sinc, (A([0.0]),), A([0.0]), id="sinc"),
    ],
)
def test_subgradient(f: Any, args: Any, expected: Any) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = gradient(f, *args)
    several = isinstance(expected, tuple)
    pairs = zip(found, expected, strict=True) if several else [(found, expected)]
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        pytest.param(np.power, (2.0, 0.0), id="x ** 0"),
        pytest.param(np.float_power, (2.0, 0.0), id="float_power(x, 0)"),
        pytest.param(bs.numpy.xlogy, (0.0, 2.0), id="xlogy(0, y)"),
        pytest.param(bs.numpy.xlog1py, (0.0, 2.0), id="xlog1py(0, y)"),
        pytest.param(lambda x: x**3, (A([0.0, 1.0]),), id="0 ** 3"),
        pytest.param(lambda x: x**2.0, (A([0.0, 1.0]),), id="0 ** 2"),
        pytest.param(np.prod, (A([2.0, 0.0, 3.0]),), id="prod, one zero"),
        pytest.param(np.prod, (A([0.0, 0.0, 3.0]),), id="prod, two zeros"),
        pytest.param(np.cumprod, (A([2.0, 0.0, 3.0]),), id="cumprod, one zero"),
        pytest.param(np.cumprod, (A([0.0, 0.0, 3.0]),), id="cumprod, two zeros"),
        pytest.param(np.sign, (1 + 2j,), id="sign of complex"),
        pytest.param(np.hypot, (0.0, 2.0), id="hypot(0, y)"),
        pytest.param(np.arctan2, (0.0, 2.0), id="arctan2(0, x)"),
        pytest.param(np.logaddexp, (1.0, 1.0), id="logaddexp at a tie"),
        pytest.param(bs.numpy.sinc, (A([0.0, 0.5]),), id="sinc"),
    ],
)
def test_special_points_that_are_smooth(f: Any, args: Any) -> None:
    """A convention for one point must not spoil its neighbours' second derivatives."""
    check_grads(f, args, order=2)


# ---- what was not selected passes on nothing, whatever its derivative there


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        pytest.param(lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0, id="where"),
        pytest.param(
            lambda x: np.where(x > 0, np.sqrt(x), x), A([0.0, 4.0]), A([1.0, 0.25]), id="where, both"
        ),
        pytest.param(
            lambda x: np.where(x > 0, np.log(x) * np.sqrt(x), 0), A([0.0, 1]), A([0.0, 1]), id="chain"
        ),
        pytest.param(lambda x: np.sqrt(x)[1:], A([0.0, 4.0]), A([0.0, 0.25]), id="slice"),
        pytest.param(lambda x: np.sqrt(x)[A([1, 1])], A([0.0, 4.0]), A([0.0, 0.5]), id="gather"),
        pytest.param(lambda x: np.maximum(np.sqrt(x), 1.0), 0.0, 0.0, id="maximum"),
        pytest.param(lambda x: np.minimum(1 / x, 1.0), A([0.0, 2.0]), A([0.0, -0.25]), id="minimum"),
        pytest.param(lambda x: np.clip(np.sqrt(x), 0.5, 2), A([0.0, 1.0]), A([0.0, 0.5]), id="clip"),
        pytest.param(lambda x: np.max(np.sqrt(x)), A([0.0, 4.0]), A([0.0, 0.25]), id="max"),
        pytest.param(
            lambda x: np.concatenate([np.sqrt(x), x])[1:], A([0.0, 4.0]), A([1.0, 1.25]), id="joined"
        ),
        pytest.param(
            lambda x: np.reshape(np.sqrt(x), (2, 1))[1], A([0.0, 4.0]), A([0.0, 0.25]), id="reshaped"
        ),
        pytest.param(lambda x: np.sqrt(x).T[1], A([[0.0, 1], [0, 4]]), A([[0, 0.5], [0, 0.25]]), id="T"),
        pytest.param(lambda x: np.tril(np.sqrt(x)), A([[1.0, 0], [4, 9]]),
                     A([[0.5, 0], [0.25, 1 / 6]]), id="tril"),
    ],
)  # fmt: skip
def test_unselected_infinity(f: Any, x: Any, expected: Any) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = bs.grad(lambda x: np.sum(f(x)))(x)
    np.testing.assert_allclose(found, expected)


NARROW = A([True, False, True])  # a condition that broadcasts


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        pytest.param(
            lambda x: np.where(A([False, False]), np.sqrt(x), 1.0), 0.0, 0.0, id="to a scalar"
        ),
        pytest.param(
            lambda x: np.where(NARROW, np.reshape(2 * x, (2, 3)), 0),
            np.ones(6),
            A([2.0, 0, 2, 2, 0, 2]),
            id="reshape",
        ),
        pytest.param(
            lambda x: np.where(NARROW, (2 * x).T, 0),
            np.ones((3, 2)),
            A([[2.0, 2], [0, 0], [2, 2]]),
            id="transpose",
        ),
        pytest.param(
            lambda x: np.where(NARROW, (2 * x)[A([1, 1])], 0),
            np.ones((2, 3)),
            A([[0.0, 0, 0], [4, 0, 4]]),
            id="gather",
        ),
    ],
)
def test_a_condition_that_broadcasts(f: Any, x: Any, expected: Any) -> None:
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(bs.grad(lambda x: np.sum(f(x)))(x), expected)
        _, image = bs.jvp(lambda x: np.sum(f(x)), (x,), (np.ones_like(x)[()],))
        np.testing.assert_allclose(image, np.sum(expected))


def test_masked_and_sliced_adjoints_add_up() -> None:
    def f(x: Any) -> Any:
        y = 1.0 * x
        first = np.sum(y[0])
        return first + np.sum(np.where(NARROW, y, 0)) + np.sum(np.where(~NARROW, y, 0))

    np.testing.assert_array_equal(bs.grad(f)(np.ones((2, 3))), [[2, 2, 2], [1, 1, 1]])


def test_a_sum_of_structural_zeros_is_one() -> None:
    f = lambda x: np.sqrt(np.sum(np.where(x > 0, x, 0.0)))
    x = np.array([-1.0, -2.0])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(bs.grad(f)(x), [0.0, 0.0])
        assert bs.jvp(f, (x,), (x,))[1] == 0.0


def test_unselected_infinity_in_forward_mode() -> None:
    f = lambda x: np.where(x > 0, np.sqrt(x), 0.0)
    with np.errstate(divide="ignore"):
        assert bs.jvp(f, (0.0,), (1.0,))[1] == 0.0
        np.testing.assert_array_equal(bs.jacobian(f)(np.array([0.0, 4.0])), np.diag([0.0, 0.25]))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (np.log, 0.0),
        (np.log2, 0.0),
        (np.log10, 0.0),
        (np.log1p, -1.0),
        (np.sqrt, 0.0),
        (np.cbrt, 0.0),
        (np.reciprocal, 0.0),
        (np.arcsin, 1.0),
        (np.arccosh, 1.0),
        (np.arctanh, 1.0),
        (bs.numpy.logit, 0.0),
        (lambda x: x**0.5, 0.0),
        (lambda x: x**-1, 0.0),
        (lambda x: 1 / x, 0.0),
        (lambda x: np.arctan2(x, x), 0.0),
        (lambda x: np.remainder(1.0, x), 0.0),
        (lambda x: np.power(x, 1 / 3), -8.0),
    ],
)
def test_a_python_number_at_a_singularity_is_what_an_array_is(f: Any, x: float) -> None:
    with np.errstate(all="ignore"):
        expected = bs.grad(lambda x: np.sum(f(x)))(np.array([x]))
        assert not np.isfinite(expected)
        np.testing.assert_array_equal(bs.grad(f)(x), expected[0])


def test_overwritten_infinity() -> None:
    def f(x: Any) -> Any:
        y = np.sqrt(x)
        y[0] = 1.0
        return np.sum(y)

    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(bs.grad(f)(np.array([0.0, 4.0])), [0.0, 0.25])


# ---- any shape

PAIRS = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0)


@given(PAIRS, st.sampled_from(["add", "multiply", "divide", "maximum", "arctan2", "power"]))
def test_broadcasting_pairs(shapes: Any, name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.uniform(0.5, 2.0, s)[()] for s in shapes.input_shapes]
    y = P.__dict__[name](bs.tensor(a), bs.tensor(b))
    assert y.shape == shapes.result_shape
    check_grads(lambda a, b: P.__dict__[name](a, b), [a, b], order=1)


@given(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), st.data())
def test_reductions_over_any_axes(shape: tuple[int, ...], data: Any) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1))))) if shape else ()
    keep = data.draw(st.booleans())
    x = np.random.default_rng(0).uniform(0.5, 2.0, shape)[()]
    for name in ("sum", "prod", "norm"):
        f = lambda x, name=name: P.__dict__[name](x, axis=axes, keepdims=keep)
        check_grads(f, [x], order=2)


@given(hnp.array_shapes(max_dims=3, max_side=3), st.data())
def test_any_index(shape: tuple[int, ...], data: Any) -> None:
    """x[key] and x[key] = v for every key that NumPy takes."""
    kind = data.draw(st.sampled_from(["basic", "integers", "mask"]))
    if kind == "basic":
        key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    elif kind == "integers":
        key = data.draw(hnp.integer_array_indices(shape))
    else:
        key = data.draw(hnp.arrays(bool, shape))
    x = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_array_equal(bs.tensor(x)[key].value, x[key])
    check_grads(lambda x: x[key], [x], order=1)

    def write(x: Any, v: Any) -> Any:
        y = x * 1.0
        y[key] = v
        return y

    check_grads(write, [x, np.random.default_rng(1).standard_normal(x[key].shape)[()]], order=1)
