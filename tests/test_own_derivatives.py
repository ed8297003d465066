"""`stop_gradient` and `bs.Function` keep their meaning through every transformation that stages a function."""

import numpy as np
import pytest

import backsolve as bs

X = np.array([1.0, 2.0, 3.0])


class Seven(bs.Function):
    """x², with a derivative that is not that of x²."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 7 * x


# a function, and its derivative as it is meant
OWN = {
    "stop_gradient": (lambda t: t * t * bs.stop_gradient(t), lambda x: 2 * x * x),
    "Function": (lambda t: Seven.apply(t), lambda x: 7 * x),
}

WAYS = {
    "vmap outside": lambda h: bs.vmap(bs.grad(h))(X),
    "vmap inside": lambda h: bs.grad(lambda x: bs.vmap(h)(x).sum())(X),
    "vmap inside jit": lambda h: bs.grad(bs.jit(lambda x: bs.vmap(h)(x).sum()))(X),
    "jit of vmap inside": lambda h: bs.jit(bs.grad(lambda x: bs.vmap(h)(x).sum()))(X),
    "ahead through vmap": lambda h: bs.jvp(bs.vmap(h), (X,), (np.ones(3),))[1],
    "checkpoint": lambda h: bs.grad(bs.checkpoint(lambda x: h(x).sum()))(X),
    "budget": lambda h: bs.grad(bs.checkpoint(lambda x: h(x).sum(), memory=1000))(X),
    "budget in jit": lambda h: bs.grad(bs.jit(bs.checkpoint(lambda x: h(x).sum(), memory=1000)))(X),
    "loop": lambda h: bs.grad(lambda x: _last(h, x, "sequential"))(X),
    "scan": lambda h: bs.grad(lambda x: _last(h, x, "scan"))(X),
    "newton": lambda h: bs.grad(lambda x: _last(h, x, "newton"))(X),
    "one example each": lambda h: bs.per_sample_grad(lambda w, x: h(w) * x)(1.0, X) * X,
    "norms": lambda h: bs.per_sample_norms(lambda w, x: h(w)[0] * x)(np.ones(1), X) * X,
    "colours": lambda h: bs.jacobian(h, sparse=bs.sparsity(h, X, pattern=np.eye(3)))(X).diagonal(),
    "fixed point": lambda h: bs.grad(
        lambda p: bs.fixed_point(lambda x, p: 0.5 * x + 0.5 * h(p), 0 * X, p).sum()
    )(X),
}


def _last(h, x, method):
    return bs.recurrence(lambda c, t: c + h(t), 0.0, x, method=method)[-1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("own", OWN)
def test_first_order(own, way):
    h, derivative = OWN[own]
    expected = (
        derivative(np.ones(3)) * X * X if way in ("one example each", "norms") else derivative(X)
    )
    np.testing.assert_allclose(WAYS[way](h), expected)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("way", [bs.laplacian, bs.hessian_diagonal])
def test_second_order_of_what_is_stopped(way, jit):
    h, _ = OWN["stop_gradient"]
    f = lambda x: h(x).sum()
    found = (bs.jit(way(f)) if jit else way(f))(X)
    expected = 2 * X  # of x² c, with c = x held
    np.testing.assert_allclose(found, expected.sum() if way is bs.laplacian else expected)


IMPLICIT = {
    "root": lambda a: bs.root(lambda x, a: x**3 + x - a, np.ones(3), a).sum(),
    "closed over": lambda a: bs.root(lambda x: x**3 + x - a, np.ones(3)).sum(),
    "fixed point": lambda a: bs.fixed_point(lambda x, a: 0.3 * np.cos(x) * a, np.ones(3), a).sum(),
    "argmin": lambda a: bs.argmin(lambda x, a: np.sum((x - a) ** 2 + x**4), np.ones(3), a).sum(),
    "linear": lambda a: bs.linear_solve(lambda v: v * (1 + a) + np.sum(v), a, "cg").sum(),
    "implicit": lambda a: bs.implicit(lambda x, p: x**3 - p, np.cbrt)(a).sum(),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_implicit_functions_are_differentiated_from_outside_a_vmap(name):
    f, xs = IMPLICIT[name], np.stack([X / 4, X / 3])
    once = lambda xs: bs.grad(lambda xs: bs.vmap(f)(xs).sum())(xs)
    expected = [bs.grad(f)(x) for x in xs]
    for found in (once(xs), bs.jit(once)(xs)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    twice = bs.grad(lambda xs: once(xs).sum())(xs)
    expected = [bs.grad(lambda x: bs.grad(f)(x).sum())(x) for x in xs]
    np.testing.assert_allclose(twice, expected, rtol=1e-5)


class Product(bs.Function):
    """Two arguments, two results, and factors 2 and 3 to tell the derivative by."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return 2 * g * y + h, 3 * g * x + h


def test_function_under_vmap_with_a_shared_argument():
    def f(w, x):
        product, total = Product.apply(w, x)
        return np.sum(np.sin(product) * total)

    xs = np.arange(12.0).reshape(4, 3) / 5
    mapped = lambda w, xs: bs.vmap(f, in_axes=(None, 0))(w, xs).sum()
    one_by_one = lambda w, xs: sum(f(w, xs[k]) for k in range(4))
    for derive in (
        lambda g: bs.grad(g, (0, 1))(X, xs),
        lambda g: bs.jit(bs.grad(g, (0, 1)))(X, xs),
        lambda g: bs.grad(bs.jit(g), (0, 1))(X, xs),
        lambda g: bs.jvp(g, (X, xs), (X, xs)),
        lambda g: (bs.hessian(g)(X, xs),),
    ):
        for found, expected in zip(derive(mapped), derive(one_by_one), strict=True):
            np.testing.assert_allclose(found, expected)
