"""Functions of ours inside JAX: every transformation of JAX's, against the same function written in JAX."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backsolve as bs
from backsolve.interop.jax import function
from backsolve.operators import Diagonal
from backsolve.primitive import primitive

BACKENDS = ("native", "xla")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


def ours(x, y):
    """A recurrence with a branch, and a product."""
    s = 0.0
    for i in range(len(x)):
        s = np.tanh(s + x[i]) if x[i] > 0 else s * y[i]
    return s * np.sin(x), x @ y


def theirs(x, y):
    s = 0.0
    for i in range(len(x)):
        s = jnp.where(x[i] > 0, jnp.tanh(s + x[i]), s * y[i])
    return s * jnp.sin(x), x @ y


X = np.array([0.3, -0.7, 1.1])
Y = np.array([0.9, 0.4, -1.2])


def close(a, b, tolerance=1e-12):
    def one(u, v):
        assert u.dtype == v.dtype
        assert u.shape == v.shape
        np.testing.assert_allclose(u, v, rtol=tolerance, atol=tolerance)

    jax.tree.map(one, a, b)


def transformed(f):
    """Many transformations of a function, in one that is compiled once."""
    total = lambda x, y: (lambda u, v: (u * u).sum() + v)(*f(x, y))
    tangents = lambda x, y: jax.jvp(f, (x, y), (jnp.cos(x), x * y))
    batch = jnp.stack([jnp.cos(jnp.arange(3.0)), -jnp.ones(3), jnp.ones(3) / 3, jnp.zeros(3) + 0.2])

    def run(x, y):
        return {
            "value": f(x, y),
            "grad": jax.grad(total, argnums=(0, 1))(x, y),
            "jvp": tangents(x, y),
            "vjp": jax.vjp(f, x, y)[1]((x, y[0])),
            "jacrev": jax.jacrev(f)(x, y),
            "jacfwd": jax.jacfwd(f, argnums=1)(x, y),
            "hessian": jax.hessian(total)(x, y),
            "reverse twice": jax.jacrev(jax.grad(total))(x, y),
            "grad of jvp": jax.grad(lambda x: tangents(x, y)[1][0].sum())(x),
            "vmap": jax.vmap(f, in_axes=(0, None))(batch, y),
            "vmap, last axis": jax.vmap(f, in_axes=(None, 1), out_axes=(1, 0))(x, batch.T),
            "vmap twice": jax.vmap(jax.vmap(f, (0, None)), (None, 0))(batch, batch),
            "vmap of grad": jax.vmap(jax.grad(total), in_axes=(0, 0))(batch, batch + 1),
            "grad of vmap": jax.grad(lambda y: jax.vmap(total, (0, None))(batch, y).sum())(y),
            "scan": jax.lax.scan(lambda c, x: (f(x, c)[0], f(x, c)[1]), y, batch),
            "grad of scan": jax.grad(
                lambda y: jax.lax.scan(lambda c, x: (f(x, c)[0] + c, None), y, batch)[0].sum()
            )(y),
            "remat": jax.grad(jax.checkpoint(total))(x, y),
            "unused result": jax.grad(lambda x: f(x, y)[1])(x),
        }

    return run


def test_every_transformation_gives_what_it_gives_of_jax_itself(backend, wide):
    got = jax.jit(transformed(function(ours, backend=backend)))(X, Y)
    close(got, jax.jit(transformed(theirs))(X, Y))


def test_third_derivatives(backend, wide):
    f = function(lambda x: np.sum(np.exp(x) * x[::-1]), backend=backend)
    g = lambda x: jnp.sum(jnp.exp(x) * x[::-1])
    third = lambda f: jax.jit(jax.jacfwd(jax.jacrev(jax.jacrev(f))))
    close(third(f)(X), third(g)(X))


def test_a_number_and_its_gradient_are_computed_together(wide):
    f = function(lambda x, y: np.sum(np.tanh(x) * y))
    g = lambda x, y: jnp.sum(jnp.tanh(x) * y)
    many = np.stack([X, 2 * X])

    def run(f):
        each = jax.vmap(jax.vmap(f, (0, None)), (None, 0))
        return {
            "both": jax.value_and_grad(f, (0, 1))(X, Y),
            "examples": jax.grad(lambda x, y: jax.vmap(f)(x, y).sum(), (0, 1))(many, many + 1),
            "shared": jax.grad(lambda x, y: each(x, y).sum(), (0, 1))(many, many),
            "forward": jax.jvp(jax.vmap(f), (many, many), (many + 1, many)),
            "hessian": jax.vmap(jax.hessian(f))(many, many),
            "thrice": jax.jacfwd(jax.hessian(lambda x: jax.vmap(f)(x, many).sum()))(many),
        }

    close(jax.jit(lambda: run(f))(), jax.jit(lambda: run(g))())
    calls = lambda f: str(jax.make_jaxpr(f)(many, many)).count("backsolve[")
    assert calls(jax.value_and_grad(f)) == 1
    assert calls(jax.value_and_grad(lambda x, y: jax.vmap(f)(x, y).sum())) == 1


def test_without_jit_the_same(backend, wide):
    f = function(ours, backend=backend)
    total = lambda f: lambda x: f(x, Y)[0].sum()
    close(f(X, Y), theirs(X, Y))
    close(jax.grad(total(f))(X), jax.grad(total(theirs))(X))


def test_a_linearized_function_is_mapped_and_transposed(backend, wide):
    f = function(ours, backend=backend)
    eye = jnp.eye(3)

    def run(f):
        _, linear = jax.linearize(lambda x: f(x, jnp.asarray(Y)), jnp.asarray(X))
        mapped = lambda ts: jax.vmap(linear)(ts)[0]
        (back,) = jax.linear_transpose(mapped, eye)(eye + 1)
        return mapped(eye), back, jax.grad(lambda t: (mapped(t) ** 2).sum())(eye)

    close(run(f), run(theirs))


def test_jax_sees_one_primitive():
    f = function(ours)
    names = [e.primitive.name for e in jax.make_jaxpr(f)(X, Y).eqns]
    assert names.count("backsolve") == 1
    assert set(names) <= {"backsolve", "convert_element_type"}


def test_complex_numbers_as_jax_pairs_them(backend, wide):
    def f(np):
        return lambda z, x: (np.sum(np.abs(z) ** 2 * x + (z * z).imag), z * x)

    z, x = np.array([1 + 2j, 0.5 - 1j]), np.array([0.3, 2.0])

    def run(f):
        u = lambda z, x: (lambda a, b: a + jnp.sum(b * b).real + b[0].imag)(*f(z, x))
        back = lambda z: jax.vjp(f, z, x)[1]((1.0, z + 1j))
        return jax.grad(u, argnums=(0, 1))(z, x), back(z), jax.jvp(f, (z, x), (z * 1j, x))

    close(jax.jit(lambda: run(function(f(np), backend=backend)))(), jax.jit(lambda: run(f(jnp)))())


# ---- types


def test_nothing_has_64_bits_while_jax_has_none(backend):
    def f(x, n):
        y = np.zeros(3)
        for i in range(3):
            y[i] = x[i] * np.pi
        return y, np.arange(3) + n, n, {"half": 0.5 * x.sum()}

    g = function(f, backend=backend)
    x = jnp.arange(3, dtype=jnp.float32)
    results = (g(x, 3), jax.jit(g)(x, 3), jax.grad(lambda x: g(x, 3)[0].sum())(x))
    kinds = {str(y.dtype) for y in jax.tree.leaves(results)}
    assert kinds == {"float32", "int32"}
    np.testing.assert_allclose(results[0][0], np.pi * np.arange(3), rtol=1e-6)
    np.testing.assert_array_equal(results[1][1], [3, 4, 5])
    np.testing.assert_allclose(results[2], np.full(3, np.pi), rtol=1e-6)


def test_python_numbers_take_the_type_of_the_arrays(backend, wide):
    f = function(lambda x, a, n: x * a + n, backend=backend)
    x = jnp.ones(2, jnp.float32)
    assert f(x, 2.0, 3).dtype == jnp.float32
    assert jax.jit(f)(x, 2.0, 3).dtype == jnp.float32
    assert f(x, np.float64(2.0), 3).dtype == jnp.float64
    assert jax.typeof(f(1.0, 2.0, 3)).weak_type
    da = jax.jit(jax.grad(lambda a: f(x, a, 3).sum()))(2.0)
    assert float(da) == 2.0


def test_integers_have_no_derivatives_and_take_none(backend):
    f = function(lambda x, k: (x * k, k + 1, k > 2), backend=backend)
    x, k = jnp.float32(2.0), jnp.int32(3)
    (y, n, more), (dy, dn, dmore) = jax.jvp(f, (x, k), (x, np.zeros((), jax.dtypes.float0)))
    assert (float(y), int(n), bool(more), float(dy)) == (6.0, 4, True, 6.0)
    assert dn.dtype == dmore.dtype == jax.dtypes.float0
    assert float(jax.grad(lambda x: f(x, k)[0])(x)) == 3.0


def test_a_constant_has_no_slope(backend):
    x = jnp.arange(3.0)
    for f in (lambda x: 1.5, lambda x: np.float32(2.0), lambda x: np.ones(2)):
        g = function(f, backend=backend)
        assert not jax.grad(lambda x, g=g: jnp.sum(g(x)))(x).any()


def test_arrays_without_entries(backend):
    f = function(lambda x, y: (x * 2, x.sum() + y), backend=backend)
    x, y = jnp.zeros((0, 3), jnp.float32), jnp.float32(2.0)
    results = jax.jit(f)(x, y)
    assert results[0].shape == (0, 3)
    assert float(results[1]) == 2.0
    assert jax.grad(lambda x: f(x, y)[1])(x).shape == (0, 3)
    assert jax.vmap(f, in_axes=(0, None))(x, y)[1].shape == (0,)


def test_trees_names_and_static_arguments(backend):
    @function(backend=backend, static_argnums=(1,))
    def f(p, how, *, scale):
        y = p["w"] @ p["x"][0]
        return {"y": y * scale if how == "scaled" else y, "none": None, "both": (y, [scale])}

    p = {"w": jnp.ones((2, 3)), "x": (jnp.arange(3.0),)}
    got = f(p, "scaled", scale=2.0)
    assert set(got) == {"y", "none", "both"}
    np.testing.assert_allclose(got["y"], [6.0, 6.0])
    np.testing.assert_allclose(jax.jit(lambda p: f(p, "plain", scale=2.0))(p)["y"], [3.0, 3.0])
    dp = jax.grad(lambda p: f(p, "scaled", scale=2.0)["y"].sum())(p)
    np.testing.assert_allclose(dp["x"][0], [4.0, 4.0, 4.0])
    np.testing.assert_allclose(dp["w"], 2 * np.array([[0, 1, 2]] * 2))


# ---- derivatives of one's own, rows without native code


def test_derivatives_of_ones_own_stay(backend):
    class Double(bs.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad * 100.0

    f = function(lambda x: Double.apply(x) + bs.stop_gradient(x) * x, backend=backend)
    run = jax.jit(lambda x: (jax.grad(f)(x), jax.vmap(jax.grad(f))(jnp.stack([x, x]))))
    one, many = run(jnp.float32(3.0))
    assert float(one) == 103.0
    np.testing.assert_array_equal(many, [103.0, 103.0])


@cache
def cubes():
    """A row of the user; made by the first test, for rows that exist before are tested as rows."""

    def run(a):
        if np.any(a > 100):
            raise OverflowError("too large to be cubed")
        return a**3

    return primitive("cubes_inside_jax", run, blocks=(lambda a: Diagonal(3 * a * a),))


def test_rows_that_numpy_computes_are_called_back(backend, wide):
    f = function(lambda x: np.sin(x) * cubes()(x), backend=backend)
    run = lambda f: jax.jit(lambda x: (f(x), jax.vmap(jax.grad(lambda x: f(x).sum()))(x[:, None])))
    close(run(f)(X), run(lambda x: jnp.sin(x) * x**3)(X))
    with pytest.raises(OverflowError, match="too large"):
        f(1000 * X)


# ---- what fails


def test_what_fails_inside_reaches_the_user(backend):
    def f(x, i):
        assert x[0] > 0, "x must start above zero"
        return x[i]

    g = function(f, backend=backend)
    x = jnp.array([1.0, 2.0])
    assert float(g(x, 1)) == 2.0
    with pytest.raises(AssertionError, match="x must start above zero"):
        g(-x, 1)
    with pytest.raises(IndexError, match="out of"):
        g(x, 5)
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="x must start above zero"):
        jax.block_until_ready(jax.jit(g)(-x, 1))
    assert float(jax.jit(g)(x, 1)) == 2.0


def test_a_while_with_too_many_rounds_to_keep_says_so():
    def roots(x):
        while x > 1.01:
            x = np.sqrt(x)
        return x

    f = function(roots, backend="xla", rounds=4)
    np.testing.assert_allclose(jax.grad(f)(1.1), 1.1**-0.9375 / 16, rtol=1e-5)
    assert 1 < float(f(1e6)) < 1.01
    with pytest.raises(bs.errors.BackendError, match="rounds=32"):
        jax.grad(f)(1e6)


def power(x, n):
    return x if n < 1.5 else x * power(x, n - 1.0)


def test_recursion_is_native_alone():
    dx = jax.jit(jax.vmap(jax.grad(function(power)), in_axes=(0, None)))(jnp.arange(3.0), 3.0)
    np.testing.assert_allclose(dx, [0.0, 3.0, 12.0])
    with pytest.raises(bs.errors.BackendError, match="`power` calls itself"):
        function(power, backend="xla")(1.0, 3.0)


def test_native_code_is_for_the_cpu():
    f = function(ours, backend="native")
    with pytest.raises(bs.errors.DeviceError, match='backend="xla"'):
        jax.jit(f).trace(X, Y).lower(lowering_platforms=("cuda",))
    g = function(ours, backend="xla")
    assert "stablehlo" in jax.jit(g).trace(X, Y).lower(lowering_platforms=("cuda",)).as_text()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="backend"):
        function(ours, backend="cuda")
    with pytest.raises(ValueError, match="rounds"):
        function(ours, rounds=0)
    f = function(lambda x, how: x, static_argnums=1)
    with pytest.raises(bs.errors.StaticArgumentError, match="hashable"):
        f(1.0, [1])
    with pytest.raises(TypeError, match="static_argnums"):
        function(lambda x, how: x)(1.0, "how")
    with pytest.raises(TypeError, match="bfloat16"):
        function(lambda x: x)(jnp.ones(2, jnp.bfloat16))
    with pytest.raises(TypeError, match="key_data"):
        function(lambda x: x)(jax.random.key(0))


after = lambda y, c: np.sin(y) * c
before = lambda y, c: c * np.sin(y)
decides = lambda y, c: y if c.sum() > 0 else -y


@pytest.mark.parametrize(
    ("around", "use"),
    [
        *[(around, use) for around in (jax.jit, jax.grad, jax.vmap) for use in (after, before)],
        (jax.jit, decides),
    ],
)
def test_a_traced_array_that_is_closed_over_is_our_error(around, use):
    def closing(x):
        c = 2 * x
        return function(lambda y: use(y, c).sum())(x)

    x = jnp.ones((4, 3)) if around is jax.vmap else jnp.ones(3)
    with pytest.raises(bs.errors.TracedValueError, match=r"as an argument[\s\S]*test_jax\.py"):
        around(closing)(x)
    around(lambda x: function(lambda y: use(y, np.ones(3)).sum())(x))(x)


def test_calls_at_the_same_time_do_not_meet():
    def walk(x):
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i] = np.sin(y[i - 1]) + x[i]
        return np.cumsum(y @ y * x[::-1]) * y

    f = function(walk)
    many = [jnp.full(2000, 0.1 * k, jnp.float32) for k in range(16)]
    together = jax.jit(lambda xs: [f(x) for x in xs])
    for got, x in zip(together(many), many, strict=True):
        np.testing.assert_array_equal(got, jax.jit(f)(x))
