"""Second derivatives, series, taps, points and explanations at corners that once were wrong in silence."""

import threading

import numpy as np
import pytest

import backsolve as bs
from backsolve import tree
from backsolve.errors import (
    DTypeError,
    NotDifferentiableError,
    ShapeError,
    TracedValueError,
    UnsupportedError,
)

M = bs.manifolds

A = np.diag([1.0, 2.0, 5.0])
KEY = bs.random.key(0)


def _plain(f):
    return f


def _batched(f):
    """f of one argument, as one example of two."""

    def run(x):
        found = bs.vmap(f)(np.stack([x, x]))
        return tree.map(lambda y: y[0], found) if isinstance(found, tuple | list) else found[0]

    return run


WAYS = pytest.mark.parametrize("way", [_plain, bs.jit, _batched], ids=["eager", "jit", "vmap"])


def _complex(*shape):
    rng = np.random.default_rng(len(shape))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


# ---- the estimated trace


def _curve(x):
    return np.sum(2 * np.sin(x) ** 2 + x**3)


@pytest.mark.parametrize("coordinates", [False, True])
@pytest.mark.parametrize(
    ("manifold", "shape"),
    [
        (M.Sphere(), (3,)),
        (M.Stiefel(), (3, 2)),
        (M.PositiveDefinite(), (3, 3)),
        (M.Simplex(), (4,)),
    ],
    ids=str,
)
def test_the_estimated_trace_on_a_manifold_sees_its_curvature(manifold, shape, coordinates):
    x = manifold.random_point(np.random.default_rng(1), shape)
    x = bs.on(manifold, x, coordinates=coordinates)
    H = bs.hessian_trace(_curve)(x)
    found = bs.hessian_trace(_curve, samples=3000, state=KEY)(x)
    assert abs(found - H) < 0.06 * (1 + abs(H))


@WAYS
def test_the_estimate_on_a_sphere(way):
    def trace(x):
        p = bs.on(M.Sphere(), x)
        return bs.hessian_trace(lambda x, s: s * (x @ A @ x), samples=2000, state=KEY)(p, 1.0)

    assert abs(way(trace)(np.array([1.0, 2.0, 2.0]) / 3) + 10 / 3) < 0.3


def test_the_estimate_where_one_of_two_arguments_is_a_point():
    f = lambda x, y: (x @ A @ x) * np.sum(y**2)
    args = bs.on(M.Sphere(), np.array([1.0, 2.0, 2.0]) / 3), np.ones(2)
    for argnums in ((0, 1), 1):
        exact = bs.hessian_trace(f, argnums)(*args)
        found = bs.hessian_trace(f, argnums, samples=20000, state=KEY)(*args)
        assert abs(found - exact) < 0.5


@pytest.mark.parametrize("z", [1 + 2j, np.complex64(1), np.ones(2) + 1j])
def test_the_estimate_is_of_real_arguments(z):
    f = lambda z: np.sum(z.real**2 + 5 * z.imag**2)
    for settings in ({}, {"samples": 4, "state": KEY}):
        with pytest.raises(UnsupportedError, match="is of real arguments"):
            bs.hessian_trace(f, **settings)(z)
    with pytest.raises(UnsupportedError, match="is of real arguments"):
        bs.hessian_trace(f, samples=4, state=KEY)(bs.on(M.Complex(), np.ones(2) + 0j))


# ---- norms of single gradients

LOSSES = {
    "entry by entry": (lambda w, x: np.sum(np.abs(w * x) ** 2), 1 + 1j, np.arange(3.0)),
    "outer product": (lambda w, x: np.sum(np.abs(np.exp(w @ x))), _complex(3, 4), _complex(5, 4)),
    "sum": (lambda w, x: np.sum(np.abs(np.exp(x @ w))), _complex(4, 3), _complex(5, 2, 4)),
    "Gram": (lambda w, x: np.sum(np.abs(np.sin(x @ w))), _complex(20, 16) / 9, _complex(3, 2, 20)),
    "real": (lambda w, x: np.sum(np.abs(np.exp(x @ w))), np.eye(4, 3), _complex(5, 2, 4)),
    "bias": (
        lambda p, x: np.sum(np.abs(np.exp(x @ p["w"] + p["b"]))),
        {"w": _complex(4, 3), "b": _complex(3)},
        _complex(5, 2, 4),
    ),
}


@pytest.mark.parametrize("way", [_plain, bs.jit])
@pytest.mark.parametrize("name", LOSSES)
def test_norms_of_complex_gradients(name, way):
    loss, w, x = LOSSES[name]
    g = tree.flatten(bs.per_sample_grad(loss)(w, x))[0]
    squares = sum((np.abs(a) ** 2).reshape(len(a), -1).sum(axis=1) for a in g)
    for squared, want in ((True, squares), (False, np.sqrt(squares))):
        found = way(bs.per_sample_norms(loss, squared=squared))(w, x)
        assert found.dtype == float
        np.testing.assert_allclose(found, want)


@pytest.mark.parametrize("shape", [(3, 40), (3, 2, 40)])
def test_norms_whose_squares_are_below_all_numbers(shape):
    x, w = np.full(shape, 1e-25, np.float32), np.ones((40, 30), np.float32)
    norms = bs.per_sample_norms(lambda w, x: np.sum(x @ w))(w, x)
    assert norms.dtype == np.float32
    np.testing.assert_allclose(norms, np.sqrt(1200.0) * 1e-25 * np.prod(shape[1:-1]), rtol=1e-5)
    norms = bs.per_sample_norms(lambda w, x: np.sum(x * w))(w[:, 0], x)
    np.testing.assert_allclose(norms, np.sqrt(40.0) * 1e-25 * np.prod(shape[1:-1]), rtol=1e-5)


def test_norms_of_no_gradient_have_a_derivative():
    norms = lambda w: np.sum(
        bs.per_sample_norms(lambda w, x: 0 * np.sum(w @ x))(w, np.ones((2, 3)))
    )
    assert norms(np.eye(3)) == 0
    np.testing.assert_array_equal(bs.grad(norms)(np.eye(3)), np.zeros((3, 3)))


# ---- what is declared inside compiled code

POINTS = [
    (M.Sphere(), (3,)),
    (M.Oblique(), (3, 2)),
    (M.Stiefel(), (4, 2)),
    (M.Stiefel(), (2, 4, 2)),
    (M.SpecialOrthogonal(), (3, 3)),
    (M.PositiveDefinite(), (3, 3)),
    (M.Simplex(), (4,)),
    (M.Symmetric(), (3, 3)),
    (M.Skew(), (3, 3)),
    (M.Diagonal(), (3, 3)),
    (M.FixedRank(2), (4, 3)),
]


def _gradient_on(manifold):
    f = lambda x: np.sum(np.sin(x) * np.arange(x.size).reshape(x.shape))
    return lambda x: bs.grad(f)(bs.on(manifold, x))


@WAYS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("manifold", "shape"), POINTS, ids=str)
def test_a_point_is_looked_at_wherever_it_is_declared(manifold, shape, dtype, way):
    x = manifold.random_point(np.random.default_rng(2), shape).astype(dtype)
    gradient = _gradient_on(manifold)
    np.testing.assert_allclose(way(gradient)(x), gradient(x), rtol=1e-4, atol=1e-4)
    odd = x + np.arange(x.size, dtype=dtype).reshape(x.shape) + 1
    with pytest.raises(ValueError, match=r"is no point of|rows"):
        way(gradient)(odd)


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_a_matrix_that_is_not_positive_stops_compiled_code(bad):
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        bs.jit(_gradient_on(M.PositiveDefinite()))(bad * np.eye(3))


def test_a_tensor_and_a_loop_state_are_looked_at():
    x = np.array([2.0, 4.0, 4.0]) / 3
    gradient = _gradient_on(M.Sphere())
    with pytest.raises(ShapeError, match="no point"):
        bs.grad(lambda x: np.sum(gradient(x)))(x)
    with pytest.raises(ValueError, match="no point"):
        bs.jit(lambda x: bs.fori_loop(0, 2, lambda k, x: gradient(x), x))(x)


@pytest.mark.parametrize("x", [np.ones(3) + 0j, np.ones(3, int)])
def test_a_point_is_real_in_compiled_code_too(x):
    with pytest.raises(ShapeError, match=r"real arrays|floating-point"):
        bs.jit(_gradient_on(M.Sphere()))(x)


def test_a_point_has_its_axes_in_compiled_code_too():
    with pytest.raises(ShapeError, match="2 axes"):
        bs.jit(_gradient_on(M.Symmetric()))(np.ones(3))


# ---- series


def test_a_real_argument_moves_by_real_numbers():
    for f in (lambda t: bs.jet(np.sin, (2.0,), [[t]]), lambda t: bs.jvp(np.sin, (2.0,), (t,))):
        with pytest.raises(DTypeError, match="must be real"):
            f(1 + 1j)
        with pytest.raises(DTypeError, match="must be real"):
            bs.jit(f)(1 + 1j)


def test_derivatives_have_the_dtype_of_the_argument():
    x = np.ones(2, np.float32)
    y, derivatives = bs.jet(np.sin, (x,), [[np.ones(2), np.ones(2)]])
    assert {y.dtype, *[d.dtype for d in derivatives]} == {np.dtype(np.float32)}


_rng = np.random.default_rng(0)
_B, _D = _rng.normal(size=(2, 3, 2))
BASES = {
    "svd": lambda t: np.linalg.svd(_B + t * _D)[1][0],
    "qr": lambda t: np.linalg.qr(_B + t * _D, mode="complete")[1][0, 1],
    "loop": lambda t: bs.fori_loop(0, 3, lambda k, s: s + np.linalg.svd(_B + s * _D)[1][0] / 10, t),
}


@WAYS
@pytest.mark.parametrize("name", BASES)
def test_what_nobody_reads_needs_no_derivative(name, way):
    f = BASES[name]
    first, second = way(lambda t: bs.jet(f, (t,), [[1.0, 0.0]])[1])(0.3)
    np.testing.assert_allclose(first, bs.jvp(f, (0.3,), (1.0,))[1])
    np.testing.assert_allclose(second, bs.hessian(f)(0.3))


@WAYS
def test_what_is_read_needs_one(way):
    with pytest.raises(NotDifferentiableError, match="complete a basis"):
        way(lambda t: bs.jet(lambda t: np.linalg.svd(_B + t * _D)[0], (t,), [[1.0]]))(0.3)


# ---- derivatives of derivatives, row by row


def _second(f):
    """The second derivative along (1, …, 1), by a jet."""
    return lambda x: bs.jet(f, (x,), [[np.ones_like(x), np.zeros_like(x)]])[1][1]


def _on_the_way(x):
    p = bs.on(M.Sphere(), x / np.sqrt(np.sum(x * x)))
    return np.sum(bs.grad(lambda x: x @ A @ x)(p) * np.arange(3.0))


def _both(x):
    H = bs.hessian_operator(lambda y: np.sum(np.exp(y)) + y @ A @ y)(x)
    return np.sum(H @ x) * np.sum(H.solve(x))


NESTED = {
    "jet": _second(lambda x: np.sum(np.sin(x) ** 2) * x[0]),
    "twice": _second(_second(lambda x: np.sum(np.exp(x)) * x[1])),
    "laplacian": bs.laplacian(lambda x: np.sum(np.sin(x) ** 2) * x[0]),
    "point": _on_the_way,
    "operator": _both,
}


@WAYS
@pytest.mark.parametrize("name", NESTED)
def test_derivatives_ahead_of_derivatives_ahead(name, way):
    f, x = NESTED[name], np.array([0.3, 1.1, 0.7])
    H = bs.hessian(f)(x)
    np.testing.assert_allclose(way(_second(f))(x), np.sum(H), rtol=1e-6)
    np.testing.assert_allclose(way(bs.laplacian(f))(x), np.trace(H), rtol=1e-6)


def test_nested_series_of_a_number():
    found = bs.jet(_second(np.sin), (0.5,), [[1.0, 0.0]])
    np.testing.assert_allclose(found[0], -np.sin(0.5))
    np.testing.assert_allclose(found[1], [-np.cos(0.5), np.sin(0.5)])


def test_rows_that_nobody_saw_are_an_error_that_says_so():
    def elsewhere(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(np.sum(np.sin(x))))
        thread.start()
        thread.join()
        return found[0]

    for ahead in (bs.laplacian, _second):
        with pytest.raises(UnsupportedError, match="`sin` was computed where nobody looked"):
            ahead(elsewhere)(np.ones(2))


# ---- results that are no numbers


@WAYS
@pytest.mark.parametrize("ahead", [bs.laplacian, bs.hessian_diagonal, bs.hessian_trace])
@pytest.mark.parametrize("result", ["s", None])
def test_second_derivatives_are_of_numbers(ahead, result, way):
    with pytest.raises((NotDifferentiableError, DTypeError), match=r"are numbers|expected numbers"):
        way(ahead(lambda x: result))(np.ones(2))


def test_a_name_among_results_has_no_derivative():
    with pytest.raises(NotDifferentiableError, match="results are numbers"):
        bs.hessian_trace(lambda x: "s", samples=2, state=KEY)(np.ones(2))
    assert bs.hessian_trace(lambda x: 3.0, samples=2, state=KEY)(np.ones(2)) == 0
    found = bs.jet(lambda x: (x, "name"), (1.0,), [[2.0]])
    assert found == ((1.0, "name"), [(2.0, None)])
    assert bs.jvp(lambda x: (x, "name"), (1.0,), (2.0,)) == (found[0], found[1][0])


# ---- explanations


@pytest.mark.parametrize("way", [bs.jit, _batched])
def test_explanations_are_of_numbers(way):
    f = lambda x: np.sum(np.sin(x))
    for explained in (
        lambda x: bs.explain(f, x).inputs[0].gradient,
        lambda x: bs.explain(lambda p: f(p["x"]), {"x": x}).inputs[0].gradient,
        lambda x: bs.explain(lambda y: f(y) + f(x), np.ones(2)).inputs[0].gradient,
    ):
        with pytest.raises(TracedValueError, match="types alone"):
            way(explained)(np.ones(2))
