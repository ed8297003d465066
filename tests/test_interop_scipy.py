"""SciPy's solvers with exact derivatives, on vectors and on trees."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import backsolve as bs
from backsolve.interop.sparse import by_pattern, jacobian_of


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize(
    "method",
    [
        *("Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG"),
        *("trust-ncg", "trust-krylov", "trust-exact", "trust-constr", "dogleg"),
    ],
)
def test_every_method_of_minimize(method):
    x0 = np.array([1.2, 1.2])
    start = rosenbrock(x0)
    if method == "dogleg":  # it wants a convex function

        def f(x):
            return rosenbrock(x) + 500 * ((x - 1) ** 2).sum()
    else:
        f = rosenbrock
    found = scipy.optimize.minimize(**bs.scipy.problem(f, x0, method=method))
    assert found.fun < 1e-3 < start
    np.testing.assert_allclose(found.x, 1.0, atol=2e-2)


def test_a_method_may_be_chosen_at_the_call():
    """Without one, the problem holds the gradient alone, which no method that uses one complains about."""
    found = scipy.optimize.minimize(
        **bs.scipy.problem(rosenbrock, np.array([-1.2, 1.0])), method="L-BFGS-B"
    )
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
    with_hessian = bs.scipy.problem(rosenbrock, np.array([-1.2, 1.0]), hess=True)
    np.testing.assert_allclose(
        with_hessian["hess"](np.array([-1.2, 1.0])),
        scipy.optimize.rosen_hess(np.array([-1.2, 1.0])),
    )
    products = bs.scipy.problem(rosenbrock, np.array([-1.2, 1.0]), hessp=True)
    np.testing.assert_allclose(
        products["hessp"](np.array([-1.2, 1.0]), np.array([1.0, 2.0])),
        scipy.optimize.rosen_hess_prod(np.array([-1.2, 1.0]), np.array([1.0, 2.0])),
    )


def test_trees_come_back_in_their_form():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)

    def loss(p, X, y):
        return ((X @ p["w"] + p["b"] - y) ** 2).sum()

    start = {"w": np.zeros(3, np.float32), "b": bs.tensor(0.0)}
    found = bs.scipy.minimize(loss, start, (X, y), method="trust-ncg")
    want = np.linalg.lstsq(np.column_stack([X, np.ones(50)]), y)[0]
    np.testing.assert_allclose(found.x, want, atol=1e-5)
    assert found.form["w"].dtype == np.float32
    assert found.form["w"].shape == (3,)
    assert isinstance(found.form["b"], bs.Tensor)


def test_unknowns_are_real():
    with pytest.raises(TypeError, match="args="):
        bs.scipy.problem(lambda x: x, {"n": 3})
    with pytest.raises(TypeError, match="imaginary"):
        bs.scipy.problem(lambda x: abs(x), 1j)


def test_what_cannot_be_staged_runs_as_written():
    calls = []

    def f(x):
        calls.append(bs.stop_gradient(x[0]).item())  # a number that no compiled program has
        return ((x - 1) ** 2).sum()

    found = scipy.optimize.minimize(**bs.scipy.problem(f, np.zeros(2)))
    np.testing.assert_allclose(found.x, 1.0)
    assert len(calls) > 1


def test_errors_of_the_function_are_not_hidden():
    def f(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        scipy.optimize.minimize(**bs.scipy.problem(f, np.zeros(2)))


def broyden(x):
    """Broyden's tridiagonal function."""
    left, right = np.concatenate([np.zeros(1), x[:-1]]), np.concatenate([x[1:], np.zeros(1)])
    return (3 - 2 * x) * x - left - 2 * right + 1


def test_least_squares_dense_and_sparse():
    n = 30
    x0 = -np.ones(n)
    pattern = scipy.sparse.diags_array(
        [np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    dense = bs.scipy.least_squares(broyden, x0)
    sparse = bs.scipy.least_squares(broyden, x0, jac_sparsity=pattern)
    assert dense.cost < 1e-16
    assert sparse.cost < 1e-16
    np.testing.assert_allclose(sparse.x, dense.x, atol=1e-8)
    assert scipy.sparse.issparse(sparse.jac)
    np.testing.assert_allclose(
        sparse.jac.toarray(), bs.jacobian(broyden)(sparse.x), rtol=1e-10, atol=1e-12
    )


def test_a_sparse_jacobian_takes_as_many_directions_as_columns_meet():
    n = 40
    pattern = scipy.sparse.diags_array(
        [np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    J = by_pattern(broyden, pattern)
    x = np.linspace(-1, 1, n)
    np.testing.assert_allclose(J(x).toarray(), bs.jacobian(broyden)(x))
    assert bs.sparsity(broyden, x, pattern=pattern).colours.count == 3


def test_jacobians_of_many_unknowns_are_eliminated_without_being_asked_for(monkeypatch):
    """No dense Jacobian of broyden is computed: the dense way is made to fail."""
    x0 = -np.ones(300)
    expected = bs.scipy.root(broyden, x0, method="lm").x

    def dense(*_, **__):
        raise AssertionError("dense")

    monkeypatch.setattr("backsolve.interop.sparse.compiled", dense)
    found = bs.scipy.least_squares(broyden, x0)
    assert scipy.sparse.issparse(found.jac)
    assert found.cost < 1e-12
    exact = bs.scipy.least_squares(broyden, x0, tr_solver="exact")
    assert isinstance(exact.jac, np.ndarray)
    np.testing.assert_allclose(exact.x, expected, atol=1e-7)
    np.testing.assert_allclose(bs.scipy.root(broyden, x0).x, expected, atol=1e-7)
    decay = bs.scipy.solve_ivp(lambda t, y: -broyden(y) * 0.1, (0.0, 0.1), x0)
    assert decay.success
    energy = lambda x: (broyden(x) ** 2).sum()
    given = bs.scipy.problem(energy, x0, method="trust-exact")
    np.testing.assert_allclose(given["hess"](x0), bs.hessian(energy)(x0), atol=1e-10)
    given = bs.scipy.problem(energy, x0, method="trust-constr", hess=True)
    assert given["hess"](x0).nnz < 5 * x0.size


def test_a_full_jacobian_of_many_unknowns_stays_dense():
    W = np.random.default_rng(0).normal(size=(250, 250)) / 250
    J = jacobian_of(lambda x: np.tanh(W @ x))
    x = np.linspace(-1, 1, 250)
    assert isinstance(J(x), np.ndarray)
    np.testing.assert_allclose(J(x), bs.jacobian(lambda x: np.tanh(W @ x))(x), rtol=1e-10)


def test_a_pattern_that_leaves_out_an_entry_is_refused():
    with pytest.raises(TypeError, match="leaves out an entry of row 0"):
        bs.scipy.least_squares(broyden, -np.ones(4), jac_sparsity=np.eye(4))
    with pytest.raises(ValueError, match="5 × 5"):
        bs.scipy.least_squares(broyden, -np.ones(4), jac_sparsity=np.eye(5))


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov"])
def test_root(method):
    found = bs.scipy.root(broyden, -np.ones(5), method=method)
    assert found.success
    np.testing.assert_allclose(broyden(found.x), 0, atol=1e-5)


def test_root_of_a_tree_with_arguments():
    def f(p, c):
        return {"x": p["x"] + p["y"] - c, "y": p["x"] * p["y"] - 2.0}

    found = bs.scipy.root(f, {"x": 2.0, "y": 0.5}, args=(3.0,))
    assert found.form["x"] + found.form["y"] == pytest.approx(3)
    assert found.form["x"] * found.form["y"] == pytest.approx(2)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "RK45"])
def test_solve_ivp_in_the_form_of_its_start(method):
    """A damped oscillator, whose answer is known."""

    def f(t, y, damping):
        return {"x": y["v"], "v": -y["x"] - 2 * damping * y["v"]}

    def crossing(t, y, damping):
        return y["x"]

    crossing.terminal = True
    y0 = {"x": 1.0, "v": 0.0}
    found = bs.scipy.solve_ivp(
        f, (0, 10), y0, method, args=(0.1,), rtol=1e-8, atol=1e-10, events=crossing
    )
    w = np.sqrt(1 - 0.01)
    t = found.t
    want = np.exp(-0.1 * t) * (np.cos(w * t) + 0.1 / w * np.sin(w * t))
    np.testing.assert_allclose(found.form["x"], want, atol=1e-5)
    assert found.status == 1
    assert abs(found.form["x"][-1]) < 1e-6


def test_the_jacobian_of_a_stiff_equation_is_used():
    """Robertson's reaction: implicit methods ask for the Jacobian, once in a while."""

    def f(t, y):
        a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return np.stack([-a + b, a - b - c, c])

    found = bs.scipy.solve_ivp(f, (0, 1e5), np.array([1.0, 0.0, 0.0]), "BDF", rtol=1e-6, atol=1e-10)
    assert found.success
    assert found.njev > 0
    np.testing.assert_allclose(found.y.sum(axis=0), 1.0, rtol=1e-6)


def test_curve_fit_is_scipys_with_an_exact_jacobian():
    rng = np.random.default_rng(1)
    t = np.linspace(0, 4, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.01 * rng.normal(size=40)

    def model(t, a, b, c):
        return a * np.exp(-b * t) + c

    p, covariance = bs.scipy.curve_fit(model, t, y, [1.0, 1.0, 1.0])
    want, want_covariance = scipy.optimize.curve_fit(model, t, y, [1.0, 1.0, 1.0])
    np.testing.assert_allclose(p, want, rtol=1e-5)
    np.testing.assert_allclose(covariance, want_covariance, rtol=1e-3)


def test_curve_fit_without_a_start():
    """SciPy counts the parameters, and begins at 1 or between the bounds."""
    t = np.linspace(0, 1, 9)
    model = lambda t, a, b: a * np.exp(-b * t)
    for options in ({}, {"bounds": (0, [5.0, 6.0])}):
        found, _ = bs.scipy.curve_fit(model, t, model(t, 2.0, 3.0), **options)
        np.testing.assert_allclose(found, [2.0, 3.0], rtol=1e-6)
    with pytest.raises(ValueError, match="number of fit parameters"):
        bs.scipy.curve_fit(lambda t, *p: p[0] * t, t, t)


@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell", "BFGS", "L-BFGS-B", "SLSQP", "COBYLA"])
def test_a_derivative_that_minimize_would_lose_is_our_error(method):
    def least(a):
        return scipy.optimize.minimize(lambda x: ((x - a) ** 2).sum(), np.zeros(2), method=method)

    with pytest.raises(bs.errors.DroppedDerivativeError, match=r"minimize.*bs\.argmin"):
        bs.grad(lambda a: least(a).fun)(np.ones(2))
    with pytest.raises(bs.errors.TracedValueError, match="NumPy array"):
        bs.jit(lambda a: least(a).fun)(np.ones(2))
    assert least(np.ones(2)).fun < 1e-6
    assert least(bs.tensor(np.ones(2))).fun < 1e-6


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_derivative_that_differential_evolution_would_lose_is_our_error(vectorized):
    def least(a):
        return scipy.optimize.differential_evolution(
            lambda x: a * (x**2).sum(axis=0), [(-1.0, 1.0)], maxiter=2,
            vectorized=vectorized, updating="deferred",
        ).fun  # fmt: skip

    with pytest.raises(bs.errors.DroppedDerivativeError, match=r"evolution.*bs\.argmin"):
        bs.grad(least)(2.0)
    with pytest.raises(bs.errors.TracedValueError, match=r"NumPy array.*bs\.argmin"):
        bs.jit(least)(2.0)
    assert least(bs.tensor(2.0)) < 1e-3


@pytest.mark.parametrize("start", [[0.9, 0.8], (3, 4), np.array([3, 4])])
def test_lists_and_whole_numbers_are_arrays_of_floats_as_scipy_takes_them(start):
    """The function sees an array, not a list: x[1:] - x[:-1]**2 is arithmetic."""
    np.testing.assert_allclose(bs.scipy.minimize(rosenbrock, start).x, 1.0, atol=1e-4)
    found = bs.scipy.least_squares(lambda x: x**2 - np.array([1.0, 4.0]), start)
    np.testing.assert_allclose(found.form, [1.0, 2.0])
    decay = bs.scipy.solve_ivp(lambda t, y: -y * y, (0, 1), start)
    np.testing.assert_allclose(decay.form[0, -1], start[0] / (1 + start[0]), rtol=1e-2)


def test_arguments_as_scipy_takes_them():
    distance = lambda x, a: ((x - a) ** 2).sum()
    np.testing.assert_allclose(bs.scipy.minimize(distance, np.zeros(2), 3.0).x, 3.0, atol=1e-5)
    found = bs.scipy.least_squares(lambda x, a=1.0: x - a, np.zeros(2), kwargs={"a": 3.0})
    np.testing.assert_allclose(found.x, 3.0)
    with pytest.raises(TypeError, match="leave out jac="):
        bs.scipy.minimize(lambda x: ((x**2).sum(), 2 * x), np.ones(2), jac=True)


def test_bounds_in_the_form_of_the_start():
    f = lambda p: (p["a"] - 1) ** 2 + ((p["b"] - 3) ** 2).sum()
    start = {"a": 0.0, "b": np.zeros(2)}
    bounds = ({"a": -1, "b": -1}, {"a": 0.5, "b": np.array([2, 9])})
    found = bs.scipy.minimize(f, start, method="L-BFGS-B", bounds=bounds)
    np.testing.assert_allclose(found.x, [0.5, 2.0, 3.0], atol=1e-5)
    apart = lambda p: {"a": p["a"] - 1, "b": p["b"] - 3}
    found = bs.scipy.least_squares(apart, start, bounds=bounds)
    np.testing.assert_allclose(found.x, [0.5, 2.0, 3.0], atol=1e-4)
    with pytest.raises(TypeError, match=r"\(lower, upper\)"):
        bs.scipy.minimize(f, start, bounds={"a": (0, 1), "b": (0, 1)})


def test_complex_residuals_are_refused():
    """SciPy drops imaginary parts, and ends elsewhere."""
    t = np.linspace(0, 10, 40)
    turn = lambda w: np.exp(1j * w * t) - np.exp(0.3j * t)
    with pytest.raises(TypeError, match=r"r\.imag"):
        bs.scipy.least_squares(turn, np.array([0.29]))
    with pytest.raises(TypeError, match=r"r\.imag"):
        bs.scipy.curve_fit(lambda t, w: np.exp(1j * w * t), t, np.exp(0.3j * t), [0.29])
    parts = lambda w: np.concatenate([turn(w).real, turn(w).imag])
    np.testing.assert_allclose(bs.scipy.least_squares(parts, np.array([0.29])).x, 0.3)


def test_solvers_that_would_leave_a_manifold_say_so():
    x = bs.on(bs.manifolds.Sphere(), np.array([1.0, 0.0]))
    for solver in (bs.scipy.minimize, bs.scipy.least_squares, bs.scipy.root):
        with pytest.raises(TypeError, match="RiemannianCG"):
            solver(lambda x: x - 2.0, x)
