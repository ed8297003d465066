"""A compiled function that closes over a module moves its state at each call, as the module itself does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors, nn

BATCHES = np.random.default_rng(7).normal(2, 3, size=(4, 8, 3))


def batch_norm() -> Any:
    return nn.BatchNorm1d(3, dtype=np.float64)


def dropout() -> Any:
    return nn.Dropout(0.5, key=bs.random.key(1))


def spectral() -> Any:
    layer = nn.Linear(3, 4, key=bs.random.key(1), dtype=np.float64)
    return nn.utils.spectral_norm(layer, key=bs.random.key(2))


def several() -> Any:
    return nn.Sequential(nn.utils.weight_norm(batch_norm(), dim=None), dropout())


def assert_same_state(net: Any, plain: Any) -> None:
    assert net.named_buffers().keys() == plain.named_buffers().keys()
    for name, figure in plain.named_buffers().items():
        found = net.named_buffers()[name]
        assert not isinstance(found, bs.Tensor), name
        np.testing.assert_allclose(found, np.asarray(figure), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("make", [batch_norm, dropout, spectral, several])
def test_values_and_state_are_those_of_the_module(make: Any) -> None:
    net, plain = make(), make()
    compiled = bs.jit(lambda x: net(x))
    for x in BATCHES:
        np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-12, atol=1e-14)
        assert_same_state(net, plain)
    stats = compiled.stats()["specialisations"]
    assert [s["native"] for s in stats] == [True]
    np.testing.assert_allclose(net(BATCHES[0]), plain(BATCHES[0]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("derive", [lambda f: bs.grad(bs.jit(f)), lambda f: bs.jit(bs.grad(f))])
def test_under_derivatives(derive: Any) -> None:
    net, plain = several(), several()
    compiled = derive(lambda x: np.sum(net(x) ** 3))
    eager = bs.grad(lambda x: np.sum(plain(x) ** 3))
    for x in BATCHES:
        np.testing.assert_allclose(compiled(x), eager(x), rtol=1e-9, atol=1e-9)
        assert_same_state(net, plain)


def test_in_loops_and_compiled_functions_that_take_nothing_traced() -> None:
    net, plain = batch_norm(), batch_norm()
    inner = bs.jit(lambda x: np.mean(net(x) ** 3))

    def by_way_of(net: Any, inner: Any, x: Any) -> Any:
        y = x
        for _ in range(12):
            y = net(1.5 * y + x)
        return np.sum(y**3) + inner(BATCHES[0])

    compiled = bs.jit(lambda x: by_way_of(net, inner, x))
    for x in BATCHES:
        expected = by_way_of(plain, lambda x: np.mean(plain(x) ** 3), x)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-9)
        assert_same_state(net, plain)
    assert net.num_batches_tracked == 13 * len(BATCHES)


def test_static_and_donated_arguments_stay_where_they_are() -> None:
    net, plain = dropout(), dropout()
    compiled = bs.jit(lambda n, w, x: w + n * np.sum(net(x), 0), static_argnums=0, donate=-2)
    for n, x in enumerate(BATCHES):
        w = np.ones(3)
        result = compiled(n, w, x) if n % 2 else compiled(n, w=w, x=x)
        np.testing.assert_allclose(result, 1 + n * np.sum(plain(x), 0), rtol=1e-12)
    assert compiled(2, w, x) is w


def test_state_that_others_set_between_calls_is_seen() -> None:
    net = batch_norm()
    compiled = bs.jit(lambda x: net(x))
    compiled(BATCHES[0])
    net.running_mean = np.full(3, 100.0)
    compiled(BATCHES[0])
    np.testing.assert_allclose(net.running_mean, 90 + 0.1 * BATCHES[0].mean(0))
    compiled(BATCHES[0].astype(np.float32))  # another form: recorded on what it holds now
    np.testing.assert_allclose(net.num_batches_tracked, 3)


def test_an_attribute_that_a_call_makes_has_numbers() -> None:
    class Keeps(nn.Module):
        factor: np.ndarray

        def __call__(self, x: Any) -> Any:
            self.seen = self.factor * x
            return np.sum(self.seen)

    net = Keeps(np.array(2.0))
    compiled = bs.jit(lambda x: net(x))
    for x in BATCHES:
        compiled(x)
        np.testing.assert_array_equal(net.seen, 2 * x)


def test_an_error_while_recording_leaves_the_state_as_it_was() -> None:
    net = batch_norm()

    def fails(x: Any) -> Any:
        raise KeyError(f"after {net(x).shape}")

    with pytest.raises(KeyError):
        bs.jit(fails)(BATCHES[0])
    assert_same_state(net, batch_norm())


def test_a_copy_that_an_argument_became_is_nobodys_state() -> None:
    kept = []

    @bs.jit
    def apply(net: Any, x: Any) -> Any:
        kept.append(net)
        return net(x)

    net = batch_norm()
    apply(net, BATCHES[0])
    assert_same_state(net, batch_norm())
    assert len(kept) == 1


def test_where_state_cannot_be_put_back() -> None:
    jax = pytest.importorskip("jax")
    net = batch_norm()
    on_mesh = bs.jit(lambda x: net(x), mesh=bs.mesh(data=1))
    with pytest.raises(errors.TracedValueError, match=r"BatchNorm1d.running_mean.*return y, model"):
        on_mesh(BATCHES[0])
    in_jax = jax.jit(bs.interop.jax.function(lambda x: net(x)))
    with pytest.raises(errors.TracedValueError, match=r"BatchNorm1d.running_mean.*return y, model"):
        in_jax(BATCHES[0])
    assert_same_state(net, batch_norm())


stages = pytest.mark.parametrize("stage", [lambda f: f, bs.jit], ids=["eager", "jit"])


@stages
@pytest.mark.parametrize("make", [batch_norm, dropout])
def test_state_that_vmap_would_move_once_for_all_is_refused(make: Any, stage: Any) -> None:
    net, plain = make(), make()
    for g in (lambda x: net(x), bs.grad(lambda x: np.sum(net(x) ** 3))):
        with pytest.raises(errors.TracedValueError, match=r"`vmap`.* bs\.map "):
            stage(bs.vmap(g))(BATCHES)
        assert_same_state(net, plain)
    found = stage(lambda xs: bs.map(net, xs))(BATCHES)
    np.testing.assert_allclose(found, [plain(x) for x in BATCHES], rtol=1e-12, atol=1e-14)
    assert_same_state(net, plain)
    whole = stage(bs.vmap(net.eval()))(BATCHES)
    np.testing.assert_allclose(whole, [plain.eval()(x) for x in BATCHES], rtol=1e-12, atol=1e-14)


@stages
def test_a_module_that_vmap_is_given_has_a_state_for_each_example(stage: Any) -> None:
    kept = []

    def apply(net: Any, x: Any) -> Any:
        kept.append(net)
        return net(x), net

    net = batch_norm()
    found, states = stage(bs.vmap(apply, in_axes=(None, 0)))(net, BATCHES)
    assert_same_state(net, batch_norm())
    for k, x in enumerate(BATCHES):
        plain = batch_norm()
        np.testing.assert_allclose(found[k], plain(x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(states.running_mean[k], plain.running_mean, rtol=1e-12)


@stages
@pytest.mark.parametrize("make", [batch_norm, dropout, several])
def test_a_checkpoint_moves_state_once(make: Any, stage: Any) -> None:
    net, plain = make(), make()
    kept = lambda x: np.sum(bs.checkpoint(lambda x: net(x) ** 3)(x))
    found = stage(bs.grad(kept))
    expected = bs.grad(lambda x: np.sum(plain(x) ** 3))
    for x in BATCHES:
        np.testing.assert_allclose(found(x), expected(x), rtol=1e-9, atol=1e-9)
        for name, figure in plain.named_buffers().items():
            np.testing.assert_allclose(np.asarray(net.named_buffers()[name]), np.asarray(figure))


@stages
@pytest.mark.parametrize("budget", [{"memory": "1MB"}, {"slots": 2}], ids=str)
def test_state_that_a_budget_would_move_again_is_refused(budget: Any, stage: Any) -> None:
    net, plain = batch_norm(), batch_norm()
    f = bs.checkpoint([lambda x: net(x), np.sin], **budget)
    with pytest.raises(errors.TracedValueError, match="without a budget"):
        stage(bs.grad(lambda x: np.sum(f(x))))(BATCHES[0])
    assert_same_state(net, plain)
