"""What the forward pass keeps for the backward one inside JAX: that it is used, and changes no derivative."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backsolve.backends.xla.compile import equations
from backsolve.interop import parted
from backsolve.interop.jax import function
from backsolve.interop.jax.primitive import PRIMITIVE, apply

TABLES = "jax._src.interpreters.ad"


@pytest.fixture
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def pays(monkeypatch: Any) -> Any:
    """Says whether two parts pay: that depends on sizes, and on the machine."""
    return lambda answer: monkeypatch.setattr(parted, "_pays", lambda *_: answer)


def trajectory(start, rates):
    states = np.zeros((20, len(start)), start.dtype)
    state = start
    for k in range(20):
        state = state + 0.1 * np.tanh(rates @ state)
        states[k] = state
    return states, state.sum()


def ranks(x, w):
    ordered = np.sort(x)
    away = -np.abs(ordered[:, None] - np.linalg.solve(w + 3 * np.eye(len(w)), x)) / 0.3
    weights = np.exp(away - away.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ x, np.argmax(x), ordered[0]


def waves(np):
    def run(x, w):
        z = np.fft.fft(x) * (w @ (x + 1j))
        return np.fft.ifft(z * z), np.abs(z)

    return run


X = np.array([0.3, -0.7, 1.1])
W = np.sin(np.arange(9.0)).reshape(3, 3)


def size(results: Any) -> Any:
    """One number of all that is smooth."""
    smooth = [y for y in jax.tree.leaves(results) if y.dtype.kind in "fc"]
    return sum([jnp.sum((k + 1.0) * jnp.abs(y * y) + y.real) for k, y in enumerate(smooth)])


def first_order(f: Any, x: Any, w: Any) -> dict[str, Any]:
    total = lambda x, w: size(f(x, w))
    many = jnp.stack([x, x[::-1], x + 0.2])
    chosen = lambda k, x: jax.lax.cond(k > 0, total, lambda x, w: (x * w[0]).sum(), x, w)
    values, pull = jax.vjp(f, x, w)
    seeds = jax.tree.map(
        lambda y: np.zeros(y.shape, jax.dtypes.float0) if y.dtype.kind == "i" else y * 2, values
    )
    return {
        "value and gradient": jax.value_and_grad(total, (0, 1))(x, w),
        "compiled inside": jax.grad(jax.jit(total))(x, w),
        "pulled": pull(seeds),
        "one result alone": jax.grad(lambda x: size(f(x, w)[0]))(x),
        "of one argument": jax.grad(total, 1)(x, w),
        "map of gradient": jax.vmap(jax.grad(total, (0, 1)), (0, None))(many, w),
        "gradient of map": jax.grad(lambda w: jax.vmap(total, (0, None))(many, w).sum())(w),
        "rows": jax.jacrev(lambda x: size(f(x, w)[0]) * x)(x),
        "scan": jax.grad(lambda c: rounds(f, c, many, w))(x),
        "mapped choice": jax.vmap(jax.grad(chosen, 1), (0, None))(jnp.arange(3) - 1, x),
        "checkpoint": jax.grad(jax.checkpoint(total))(x, w),
        "linearized": jax.linearize(total, x, w)[1](x, w),
    }


def second_order(f: Any, x: Any, w: Any) -> dict[str, Any]:
    total = lambda x, w: size(f(x, w))
    many = jnp.stack([x, x[::-1]])
    return {
        "forward over reverse": jax.hessian(total)(x, w),
        "reverse over reverse": jax.jacrev(jax.grad(total, (0, 1)))(x, w),
        "reverse over forward": jax.grad(lambda x: jax.jvp(total, (x, w), (x + 1, w))[1])(x),
        "mapped": jax.vmap(jax.hessian(total), (0, None))(many, w),
        "of seeds": jax.grad(lambda t: size(jax.vjp(lambda x: total(x, w) * x, x)[1](t)))(x),
        "scan": jax.hessian(lambda c: rounds(f, c, many, w))(x),
    }


def rounds(f: Any, start: Any, many: Any, w: Any) -> Any:
    step = lambda c, x: (jnp.sin(f(x, w * c.sum())[0].real.sum() + c), None)
    return jax.lax.scan(step, start, many)[0].sum()


@pytest.mark.parametrize(
    ("f", "derivatives"),
    [
        (trajectory, first_order),
        (trajectory, second_order),
        (ranks, first_order),
    ],
)
def test_derivatives_are_those_of_the_whole(f, derivatives, pays, wide):
    run = lambda: jax.jit(lambda x, w: derivatives(function(f), x, w))(X, W)
    pays(False)
    want = run()
    pays(True)
    got = run()
    for name in want:
        one = lambda a, b, name=name: np.testing.assert_allclose(a, b, 1e-9, 1e-11, err_msg=name)
        jax.tree.map(one, got[name], want[name])


def calls_of(f: Any, *args: Any) -> list[Any]:
    """The calls of ours in what JAX runs."""
    found = []

    def walk(jaxpr: Any) -> None:
        for e in jaxpr.eqns:
            if e.primitive.name == "backsolve":
                found.append(e)
            for held in e.params.values():
                if hasattr(held, "jaxpr"):
                    walk(held.jaxpr)

    walk(jax.make_jaxpr(f)(*args).jaxpr)
    return found


def executed(f: Any, *args: Any) -> Counter[str]:
    """How often each row stands in them."""
    programs = [e.params["op"].program for e in calls_of(f, *args)]
    return Counter([e.primitive.name for p in programs for e in equations(p, set())])


def test_complex_numbers_are_kept_as_they_are(pays, wide):
    pays(True)
    total = lambda f: lambda x, w: size(f(x, w))
    ours, theirs = [jax.jit(jax.grad(total(f), (0, 1))) for f in (function(waves(np)), waves(jnp))]
    for a, b in zip(ours(X, W), theirs(X, W), strict=True):
        np.testing.assert_allclose(a, b, 1e-10)
    assert any(v.aval.dtype.kind == "c" for v in calls_of(ours, X, W)[0].outvars[2:])


HOW = {
    "value and gradient": lambda f: jax.value_and_grad(f, (0, 1)),
    "of compiled code": lambda f: jax.value_and_grad(jax.jit(f)),
    "mapped": lambda f: lambda x, w: jax.vmap(jax.value_and_grad(f), (None, 0))(x, w[None]),
    "in rounds": lambda f: jax.value_and_grad(
        lambda x, w: jax.lax.scan(lambda c, _: (c + f(c, w), None), x, None, 4)[0].sum()
    ),
}


@pytest.mark.parametrize("how", HOW)
def test_forward_runs_once(how, pays):
    def count(answer: bool) -> int:
        pays(answer)
        f = function(trajectory)
        return executed(HOW[how](lambda x, w: size(f(x, w))), X, W)["tanh"]

    assert (count(False), count(True)) == (2, 1)


def test_what_is_not_transposed_keeps_nothing(pays):
    pays(True)
    f = function(trajectory)
    along = lambda x, w: jax.jvp(f, (x, w), (x, w))
    linear = lambda x, w: jax.linearize(f, x, w)[1](x, w)
    for g in (along, linear):
        assert [len(e.outvars) for e in calls_of(g, X, W)] == [2, 2]


def test_it_has_to_pay():
    f = function(lambda a, x: np.tanh(a @ x))
    g = lambda a, x: jax.grad(lambda x: f(a, x).sum())(x)
    assert executed(g, W, X)["tanh"] == 2


def hidden(x, w):
    """The root that is kept has an infinite slope where w @ x is 0, and nothing reads it there."""
    return np.where([False, True], np.exp(np.sqrt(w @ x)), 0.0) * x.sum()


def steep(x, w):
    return np.sin(w @ x) ** 2, np.sqrt(w @ x)


def test_structural_zeros_stay_in_second_derivatives(pays, wide):
    x, w = jnp.array([1.0, 1.0]), jnp.array([[1.0, -1.0], [1.0, 2.0]])

    def run(f: Any) -> Any:
        total = lambda x, w: (f(x, w) ** 2).sum()
        derivatives = lambda x, w: {
            "gradient": jax.grad(total, (0, 1))(x, w),
            "forward over reverse": jax.hessian(total, (0, 1))(x, w),
            "reverse over reverse": jax.jacrev(jax.grad(total, (0, 1)), (0, 1))(x, w),
            "thrice": jax.jacfwd(jax.jacrev(jax.grad(total)))(x, w),
        }
        return jax.jit(derivatives)(x, w)

    pays(True)
    close = lambda a, b: np.testing.assert_allclose(a, b, 1e-9, 1e-9)
    f, g = function(hidden), function(steep)
    jax.tree.map(close, run(f), run(lambda x, w: jnp.exp(jnp.sqrt(w[1] @ x)) * x.sum()))
    jax.tree.map(close, run(lambda x, w: g(x, w)[0]), run(lambda x, w: jnp.sin(w @ x) ** 2))
    assert executed(jax.grad(lambda x: f(x, w).sum()), x)["sqrt"] == 1


def test_nothing_is_lost_where_jax_has_no_64_bits(pays):
    """Differences of numbers near 1e9: single precision has no digit of them."""

    def far(x, w, a):
        y = w.astype(np.float64) @ x + 1e9
        return np.sin(y - a[0]), np.cos(y - a[1])

    x, w = jnp.asarray(X, jnp.float32), jnp.asarray(W, jnp.float32)
    a = jnp.array([1e9, 1e9 + 64], jnp.float32)
    both = []
    for answer in (False, True):
        pays(answer)
        f = function(far)
        g = lambda x, f=f: jax.vjp(lambda x: f(x, w, a), x)[1]((x, x))[0]
        both.append([g(x), jax.jit(g)(x), jax.vmap(g)(jnp.stack([x, x + 1]))])
        assert both[-1][0].dtype == jnp.float32
        words = [v.aval.dtype == jnp.uint32 for v in calls_of(g, x)[0].outvars]
        assert any(words) == answer
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), *both)


def test_what_jax_cannot_carry_is_not_kept(pays):
    pays(True)
    f = function(lambda x: np.fft.ifft(np.fft.fft(x) ** 2))
    g = lambda x: jnp.sum(jnp.abs(f(x)) ** 2)
    assert np.isfinite(jax.grad(g)(jnp.asarray(X, jnp.float32))).all()


def test_what_was_kept_may_be_mapped_alone(pays, wide):
    """Choices inside of a `vmap` repeat what one of their sides kept."""
    pays(True)
    op = calls_of(function(trajectory), X, W)[0].params["op"]
    parts = op.parts((0, 1))
    results, kept = apply(parts.first, [X, W])[:2], apply(parts.first, [X, W])[2:]
    pull, _ = parts.push.transposed([*parts.push.linear], [0, 1])
    want = apply(op.pull((0, 1), (0, 1)), [X, W, *results])
    many = jax.vmap(lambda *kept: apply(pull, [X, W, *kept, *results]))(
        *[jnp.stack([k, k]) for k in kept]
    )
    for a, b in zip(many, want, strict=True):
        np.testing.assert_allclose(a, jnp.stack([b, b]), 1e-12)


def test_failures_come_from_either_part(pays):
    pays(True)

    def f(x, i):
        return np.sort(x)[i] * np.sort(x)

    g = jax.value_and_grad(lambda x, i: function(f)(x, i).sum())
    assert np.isfinite(g(jnp.asarray(X), 1)[1]).all()
    with pytest.raises(IndexError, match="out of"):
        g(jnp.asarray(X), 5)


def _gone(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, TABLES, None)


def _of_another_form(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, TABLES, ModuleType(TABLES))


@pytest.mark.parametrize("hide", [_gone, _of_another_form])
def test_where_jax_has_no_such_table_nothing_is_kept_and_all_is_right(
    hide, pays, wide, monkeypatch
):
    pays(True)
    with monkeypatch.context() as hidden:
        hide(hidden)
        spec = importlib.util.find_spec(apply.__module__)
        again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(again)
    monkeypatch.setitem(sys.modules, apply.__module__, again)
    written = lambda np: lambda x, w: (np.tanh(w @ np.sort(x)), (x * x).sum())
    many = jnp.stack([X, X + 0.2])

    def results(f):
        total = lambda x, w: size(f(x, w))
        of_each = jax.vmap(jax.grad(total, (0, 1)), (0, None))
        both = lambda many, w: (jax.vmap(f, (0, None))(many, w), of_each(many, w))
        return jax.jit(both)(many, W), jax.grad(total, (0, 1))(X, W)

    f = function(written(np), backend="native")
    agree = partial(np.testing.assert_allclose, atol=1e-12)
    jax.tree.map(agree, results(f), results(written(jnp)))
    assert again.PRIMITIVE is not PRIMITIVE
    assert not [key for op in f._known.values() for key in op._derived if key[0] == "parts"]
