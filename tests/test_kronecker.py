"""Kronecker factors of Gauss–Newton and Fisher matrices, against blocks of the dense ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim
from backsolve.curvature import Factors, kronecker
from backsolve.curvature.blocks import factors_of, solve_blocks, with_factors
from backsolve.errors import ShapeError, SingularError, StructureError, UnsupportedError
from backsolve.hooks import Watcher, hooks

from .test_laplacian import Bent, Widest

RNG = np.random.default_rng(0)
F = nn.functional
P = {
    "w1": RNG.normal(size=(5, 4)),
    "b1": RNG.normal(size=5),
    "w2": RNG.normal(size=(5, 3)),
    "b2": RNG.normal(size=3),
}
X = RNG.normal(size=(6, 4))


def model(p: Any, x: Any) -> Any:
    return np.tanh(x @ p["w1"].T + p["b1"]) @ p["w2"] + p["b2"]


def linear(p: Any, x: Any) -> Any:
    return x @ p["w"].T + p["b"]


def convolved(p: Any, x: Any) -> Any:
    y = F.conv2d(x, p["kernel"], p["bias"], stride=2, padding=1)
    return np.tanh(y).reshape(len(x), -1) @ p["w"].T


KERNELS = {
    "kernel": RNG.normal(size=(3, 2, 3, 3)),
    "bias": RNG.normal(size=3),
    "w": RNG.normal(size=(4, 12)) / 3,
}
IMAGES = RNG.normal(size=(5, 2, 4, 4))


def block(operator: Any, p: dict[str, Any], name: str) -> Any:
    """The diagonal block of one parameter of a dense matrix."""
    leaves = bs.tree.flatten(p)[0]
    k = next(k for k, x in enumerate(leaves) if x is p[name])
    ends = np.cumsum([0, *[x.size for x in leaves]])
    return operator.dense()[ends[k] : ends[k + 1], ends[k] : ends[k + 1]]


def of(operator: bs.operators.Operator, x: Any) -> Any:
    return np.stack([operator.apply(e.reshape(x.shape)).reshape(-1) for e in np.eye(x.size)], 1)


@pytest.mark.parametrize("family", ["categorical", "bernoulli", "poisson", "normal"])
def test_one_example_is_exact(family: str) -> None:
    whole = bs.fisher(model, family)(P, X[:1])
    found = whole.kfac()
    for name, x in P.items():
        exact = block(whole, P, name)
        np.testing.assert_allclose(block(found, P, name), exact, atol=1e-12)
        np.testing.assert_allclose(of(found.factors[name].operator, x), exact, atol=1e-12)
        assert found.factors[name].is_exact


def test_linear_layers_with_squares_are_exact() -> None:
    p = {"w": P["w1"], "b": P["b1"]}
    whole = bs.gauss_newton(linear, lambda z, t: np.sum((z - t) ** 2))(
        p, X, target=np.zeros((6, 5))
    )
    found = whole.kfac()
    for name in p:
        np.testing.assert_allclose(block(found, p, name), block(whole, p, name), atol=1e-12)
        assert found.factors[name].is_exact
    np.testing.assert_allclose(found.factors["w"].A, X.T @ X / 6, rtol=1e-12)
    np.testing.assert_allclose(found.factors["w"].G, 2 * np.eye(5), rtol=1e-12, atol=1e-14)


def test_many_examples_are_an_approximation_that_says_so() -> None:
    whole = bs.fisher(model)(P, X)
    found = whole.kfac()
    J = bs.jacobian(lambda y: np.tanh(y) @ P["w2"] + P["b2"])
    A, G = np.zeros((4, 4)), np.zeros((5, 5))
    for x in X:  # the factors by their definition, example by example
        z = model(P, x)
        s = np.exp(z) / np.sum(np.exp(z))
        j = J(P["w1"] @ x + P["b1"])
        A += np.outer(x, x) / 6
        G += j.T @ (np.diag(s) - np.outer(s, s)) @ j / 6
    np.testing.assert_allclose(found.factors["w1"].A, A, rtol=1e-12)
    np.testing.assert_allclose(found.factors["w1"].G, G, rtol=1e-10)
    for name in P:
        exact, made = block(whole, P, name), block(found, P, name)
        error = np.linalg.norm(made - exact) / np.linalg.norm(exact)
        np.testing.assert_allclose(found.factors[name].error, error, atol=1e-7)
        assert found.factors[name].is_exact == (name in ("b1", "b2"))
    assert repr(found) == "KFAC(43 × 43)"
    # no blocks between parameters
    assert not found.dense()[:20, 20:].any()


def test_solve_diagonal_and_trace() -> None:
    found = bs.fisher(model)(P, X).kfac()
    v = {name: RNG.normal(size=x.shape) for name, x in P.items()}
    solved = found.solve(v, damping=0.1)
    flat = lambda p: np.concatenate([np.reshape(x, -1) for x in bs.tree.flatten(p)[0]])
    dense = found.dense()
    np.testing.assert_allclose(
        flat(solved), np.linalg.solve(dense + 0.1 * np.eye(len(dense)), flat(v)), rtol=1e-9
    )
    np.testing.assert_allclose(flat(found.diagonal()), np.diagonal(dense), atol=1e-12)
    np.testing.assert_allclose(found.trace(), np.trace(dense), rtol=1e-12)
    with pytest.raises(SingularError, match="damping"):
        found.solve(v)  # logits are free up to a shift


def test_convolutions_and_sequences() -> None:
    whole = bs.fisher(convolved)(KERNELS, IMAGES)
    found = whole.kfac()
    patches = F.unfold(IMAGES, 3, stride=2, padding=1)  # (N, C K L, T)
    A = np.einsum("nit,njt->ij", patches, patches) / 20
    np.testing.assert_allclose(found.factors["kernel"].A, A, rtol=1e-12)
    assert found.factors["kernel"].count == 20
    assert not found.factors["kernel"].is_exact  # places of one image are not independent
    assert np.isnan(found.factors["kernel"].error)
    inside = lambda y: np.tanh(y).reshape(1, -1) @ KERNELS["w"].T
    G = np.zeros((3, 3))
    for x in IMAGES:
        y = F.conv2d(x[None], KERNELS["kernel"], KERNELS["bias"], stride=2, padding=1)
        z = inside(y)[0]
        s = np.exp(z) / np.sum(np.exp(z))
        j = bs.jacobian(inside)(y).reshape(4, 3, 4)
        G += np.einsum("apt,ab,bqt->pq", j, np.diag(s) - np.outer(s, s), j) / 20
    np.testing.assert_allclose(found.factors["kernel"].G, G, rtol=1e-10)
    # a dense layer on the only place of one example is exact, whatever stands before it
    one = bs.fisher(convolved)(KERNELS, IMAGES[:1])
    np.testing.assert_allclose(
        block(one.kfac(), KERNELS, "w"), block(one, KERNELS, "w"), atol=1e-12
    )


def scaled(p: Any, x: Any) -> Any:
    h = np.tanh(x @ p["w"].T)
    return (h * p["scale"]) @ p["w"]  # w is read twice, scale entry by entry: no factors


def test_parameters_without_factors_have_their_block_in_full() -> None:
    p = {"w": P["w1"], "scale": RNG.normal(size=5)}
    whole = bs.fisher(scaled, "normal")(p, X)
    found = whole.kfac()
    for name in p:
        assert not isinstance(found.factors[name], Factors)
        assert found.factors[name].is_exact
        np.testing.assert_allclose(block(found, p, name), block(whole, p, name), atol=1e-10)


def test_no_gradient_of_an_example_is_formed() -> None:
    p = {"w": RNG.normal(size=(40, 50)), "v": RNG.normal(size=(2, 40))}
    x = RNG.normal(size=(20, 50))
    seen = Widest()
    hooks.add(seen)
    try:
        bs.fisher(lambda p, x: np.tanh(x @ p["w"].T) @ p["v"].T, "normal")(p, x).kfac()
    finally:
        hooks.remove(seen)
    assert seen.size <= 20 * 40 * 10  # ten seeds; gradients of examples would be 80,000 numbers


def test_inside_jit() -> None:
    step = lambda p, x: bs.fisher(model)(p, x).kfac().solve(p, damping=0.1)
    for name, x in step(P, X).items():
        np.testing.assert_allclose(bs.jit(step)(P, X)[name], x, rtol=1e-9, atol=1e-11)
    undamped = bs.jit(lambda p: bs.fisher(model)(p, X).kfac().solve(p))
    with pytest.raises(np.linalg.LinAlgError, match="damping"):
        undamped(P)


def normalised(p: Any, x: Any) -> Any:
    y = x @ p["w"].T
    return (y - y.mean(0)) / y.std(0)


def test_examples_that_see_each_other_are_refused() -> None:
    p = {"w": P["w1"]}
    with pytest.raises(UnsupportedError, match="batch norm"):
        bs.fisher(normalised, "normal")(p, X).kfac()
    with pytest.raises(TypeError, match="batch norm"):
        bs.jit(lambda p: bs.fisher(normalised, "normal")(p, X).kfac().diagonal())(p)
    mixing = np.eye(6)
    mixing[1, 3] = 0.1  # two examples alone
    with pytest.raises(UnsupportedError, match="one example sees others"):
        bs.fisher(lambda p: mixing @ np.tanh(X @ p["w"].T), "normal")(p).kfac()
    with pytest.raises(UnsupportedError, match="examples=None"):
        bs.fisher(lambda p: p["w"] @ X[0])(p).kfac()
    whole = bs.fisher(lambda p: p["w"] @ X[0])(p)
    np.testing.assert_allclose(whole.kfac(examples=None).dense(), whole.dense(), atol=1e-12)


@pytest.mark.parametrize("act", [Bent.apply, lambda x: np.tanh(x) * bs.stop_gradient(x)])
def test_hand_written_derivatives_count(act: Any) -> None:
    p = {"w": P["w1"], "v": P["w2"]}
    whole = bs.fisher(lambda p, x: act(x @ p["w"].T) @ p["v"])(p, X[:1])
    np.testing.assert_allclose(block(whole.kfac(), p, "w"), block(whole, p, "w"), atol=1e-12)


def test_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match="gauss_newton"):
        bs.hessian_operator(lambda x: x @ x)(np.ones(3)).kfac()
    with pytest.raises(ShapeError, match="no axis"):
        bs.fisher(model)(P, X).kfac(examples=2)
    with pytest.raises(ShapeError, match="have none"):
        bs.fisher(model)(P, X[:0]).kfac()
    with pytest.raises(StructureError, match="one array"):
        bs.gauss_newton(lambda p: [p, p], lambda z: z[0] @ z[1])(np.ones(3)).kfac()
    monkeypatch.setattr(kronecker, "LARGEST", 10)
    with pytest.raises(UnsupportedError, match="read once"):
        bs.fisher(scaled, "normal")({"w": P["w1"], "scale": np.ones(5)}, X).kfac()


def flat(p: Any) -> Any:
    return np.concatenate([np.reshape(x, -1) for x in bs.tree.flatten(p)[0]])


def test_a_bias_folded_into_its_weight_is_exact_for_one_example() -> None:
    whole = bs.fisher(model)(P, X[:1])
    found = whole.kfac(fold_biases=True)
    first = np.concatenate([flat({**P, "w1": 0 * P["w1"] + 1, "b1": 0 * P["b1"] + 1})]) == 1
    layers = [first, ~first]
    for layer in layers:
        both = np.ix_(layer, layer)
        np.testing.assert_allclose(found.dense()[both], whole.dense()[both], atol=1e-12)
    assert np.abs(whole.dense()[:5, 5:25]).max() > 1e-3  # what lies between them is not nothing
    assert not found.dense()[np.ix_(*layers)].any()
    assert found.factors["w1"] is found.factors["b1"]
    assert found.factors["w1"].is_exact


def test_folded_blocks_by_their_definition() -> None:
    """Σ over examples of [x 1][x 1]ᵀ and of S, against A and G of one matrix [W b]."""
    found = bs.fisher(model)(P, X).kfac(fold_biases=True)
    apart = bs.fisher(model)(P, X).kfac()
    ones = np.concatenate([X, np.ones((6, 1))], axis=1)
    np.testing.assert_allclose(found.factors["w1"].factors.A, ones.T @ ones / 6, rtol=1e-12)
    np.testing.assert_allclose(found.factors["w1"].factors.G, apart.factors["w1"].G, rtol=1e-12)
    for name in P:
        np.testing.assert_allclose(block(found, P, name), block(apart, P, name), atol=1e-12)
    v = {name: RNG.normal(size=x.shape) for name, x in P.items()}
    dense = found.dense()
    np.testing.assert_allclose(
        flat(found.solve(v, damping=0.1)),
        np.linalg.solve(dense + 0.1 * np.eye(len(dense)), flat(v)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(flat(found.diagonal()), np.diagonal(dense), atol=1e-12)
    jitted = bs.jit(lambda p: bs.fisher(model)(p, X).kfac(fold_biases=True).solve(v, damping=0.1))
    for name, x in found.solve(v, damping=0.1).items():
        np.testing.assert_allclose(jitted(P)[name], x, rtol=1e-9, atol=1e-11)


def test_what_is_not_added_to_one_weight_alone_is_not_folded() -> None:
    def reused(p: Any, x: Any) -> Any:
        y = x @ p["w1"].T
        return np.tanh(y + p["b1"]) * y  # y is read twice: its adjoint is not that of the sum

    p = {"w1": P["w1"], "b1": P["b1"]}
    found = bs.fisher(reused, "normal")(p, X).kfac(fold_biases=True)
    assert isinstance(found.factors["w1"], Factors)
    assert isinstance(found.factors["b1"], Factors)


def test_a_step_with_folded_biases_solves_a_linear_model() -> None:
    x, y = RNG.normal(size=(26, 4)) + 1, RNG.normal(size=(26, 3))
    f, p = (lambda p: linear(p, x)), {"w": np.zeros((3, 4)), "b": np.zeros(3)}
    best = np.linalg.lstsq(np.concatenate([x, np.ones((26, 1))], 1), y, rcond=None)[0]
    rule = optim.NaturalGradient(lambda z: 0.5 * np.sum((z - y) ** 2), method="kfac")
    after, _ = rule.update(f, p, rule.init(f, p))
    np.testing.assert_allclose(after["w"], best[:4].T, rtol=1e-9)
    np.testing.assert_allclose(after["b"], best[4], rtol=1e-9)
    apart = optim.NaturalGradient(rule.loss, method="kfac", fold_biases=False)
    after, _ = apart.update(f, p, apart.init(f, p))
    assert np.abs(after["b"] - best[4]).max() > 1e-2


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("fold", [False, True])
def test_running_means_of_factors(compile: Any, fold: bool) -> None:
    batches = RNG.normal(size=(4, 6, 4))
    loss = lambda z: np.sum(bs.numpy.logsumexp(z, axis=1) - z[:, 0])
    how = {"lr": 0.5, "damping": 0.1, "method": "kfac", "fold_biases": fold}
    rule = optim.NaturalGradient(loss, decay=0.6, **how)
    f = lambda x: lambda p: model(p, x)
    step = compile(lambda p, state, x: rule.update(f(x), p, state))
    p, state = P, rule.init(f(batches[0]), P)
    means: Any = None
    for k, x in enumerate(batches):
        found = bs.fisher(model)(p, x).kfac(fold_biases=fold)
        new = factors_of(found.blocks)
        kept = min(1 - 1 / (k + 1), 0.6)  # 0, 1/2, 0.6, 0.6
        if k:
            new = [
                [kept * a + (1 - kept) * b for a, b in zip(*pair, strict=True)]
                for pair in zip(means, new, strict=True)
            ]
        means = new
        blocks = with_factors(found.blocks, means)
        slope = bs.grad(lambda p, x=x: loss(model(p, x)))(p)
        move = solve_blocks(blocks, slope, 0.1)
        expected = {name: p[name] - 0.5 * move[name] for name in p}
        p, state = step(p, state, x)
        for name in p:
            np.testing.assert_allclose(p[name], expected[name], rtol=1e-8, atol=1e-10)
    for mine, theirs in zip(state.factors, means, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def test_drawn_seeds_give_the_factors_in_the_mean() -> None:
    exact = bs.fisher(model)(P, X).kfac().factors["w1"]
    found = bs.fisher(model)(P, X).kfac(draws=4000).factors["w1"]
    np.testing.assert_allclose(found.A, exact.A, rtol=1e-12)
    np.testing.assert_allclose(found.G, exact.G, atol=0.05 * np.abs(exact.G).max())
    few = bs.fisher(model)(P, X).kfac(draws=1).factors["w1"].G
    assert np.linalg.eigvalsh(few).min() > -1e-12  # a sum of squares, however few
    assert np.abs(few - exact.G).max() > 0.01 * np.abs(exact.G).max()


class _Seeds(Watcher):
    """How many adjoints of the inner layer were computed side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_call(self, prim: Any, row: Any, y: Any, inputs: Sequence[Any]) -> None:
        if np.ndim(y) == 3 and np.shape(y)[1:] == (8, 30):
            self.count = max(self.count, np.shape(y)[0])


@pytest.mark.parametrize(("draws", "count"), [(None, 2 * 40 + 4), (2, 2 + 4)])
def test_draws_save_back_substitutions(draws: int | None, count: int) -> None:
    p = {"w": RNG.normal(size=(30, 5)), "v": RNG.normal(size=(40, 30))}
    x = RNG.normal(size=(8, 5))
    whole = bs.fisher(lambda p: np.tanh(x @ p["w"].T) @ p["v"].T, "normal")(p)
    seen = _Seeds()
    hooks.add(seen)
    try:
        whole.kfac(draws=draws)
    finally:
        hooks.remove(seen)
    assert seen.count == count  # four probe whether examples are apart


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_draws_differ_from_step_to_step(compile: Any) -> None:
    loss = lambda z: np.sum(bs.numpy.logsumexp(z, axis=1) - z[:, 0])
    rule = optim.NaturalGradient(loss, lr=0.1, damping=0.1, method="kfac", decay=0.9, draws=1)
    f = lambda p: model(p, X)
    step = compile(lambda p, state: rule.update(f, p, state))
    state = rule.init(f, P)
    _, first = step(P, state)
    _, second = step(P, first)
    drawn = 2 * second.factors[0][1] - first.factors[0][1]  # the mean of two, less the first
    assert np.abs(drawn - first.factors[0][1]).max() > 1e-3
    exact = factors_of(bs.fisher(model)(P, X).kfac(fold_biases=True).blocks)[0][1]
    for _ in range(300):
        _, state = step(P, state)
    far = lambda found: np.abs(found.factors[0][1] - exact).max()
    assert far(state) < 0.8 * far(first)


def test_natural_gradients_by_factors() -> None:
    """One step of a linear model with squares ends at the solution: there K-FAC is exact."""
    x = np.concatenate([X, RNG.normal(size=(20, 4))])
    y = RNG.normal(size=(26, 3))
    rule = optim.NaturalGradient(lambda z: 0.5 * np.sum((z - y) ** 2), method="kfac")
    f = lambda p: x @ p["w"].T
    p = {"w": np.zeros((3, 4))}
    after, _ = rule.update(f, p, rule.init(f, p))
    np.testing.assert_allclose(after["w"], np.linalg.lstsq(x, y, rcond=None)[0].T, rtol=1e-9)


def test_parameters_without_entries_have_empty_blocks() -> None:
    X = np.arange(6.0).reshape(3, 2)
    p = {"none": np.zeros((0, 2)), "w": np.ones(2)}
    K = bs.gauss_newton(lambda p: X @ p["w"] + np.sum(p["none"]), lambda z: np.sum(z**2))(p).kfac()
    found = K.solve(p, damping=0.5)
    assert found["none"].shape == (0, 2)
    np.testing.assert_allclose(2 * X.T @ X @ found["w"] + 0.5 * found["w"], p["w"], rtol=1e-9)
