"""What is found in trainings that fail, and that nothing is found in those that do not."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.show.health import findings
from backsolve.show.numbers import norm
from backsolve.show.scene import scene_of
from backsolve.system_text import name_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 8))


def found(f, *args, **options):
    """(kind, what is found, its text)."""
    with np.errstate(all="ignore"):
        scene = scene_of(f, args, **options)
        return [
            (p.kind, p.row.primitive.name if p.row in scene.system.number else name_of(scene.system, p.row),
             p.text)
            for p in findings(scene)
        ]  # fmt: skip


def network(activation, depth, gain, bias=0.0):
    def loss(layers, x):
        for w in layers:
            x = activation(x @ w + bias)
        return (x * x).mean()

    width = 8
    layers = [gain * RNG.normal(size=(width, width)) / np.sqrt(width) for _ in range(depth)]
    return loss, layers


def kinds(items):
    return {kind for kind, _, _ in items}


@pytest.mark.parametrize(("activation", "gain"), [(np.tanh, 1.0), (nn.functional.relu, np.sqrt(2))])
def test_a_network_in_good_order_has_no_findings(activation, gain):
    loss, layers = network(activation, 6, gain)
    assert found(loss, layers, X, argnums=0) == []


def test_gradients_that_vanish_from_layer_to_layer():
    loss, layers = network(nn.functional.sigmoid, 8, 1.0)
    ((kind, name, text),) = found(loss, layers, X, argnums=0)
    assert (kind, name) == ("vanishing", "layers[0]")
    assert "from layers[7] back to it" in text
    grads = bs.grad(loss)(layers, X)
    ratio = np.linalg.norm(grads[0]) / np.linalg.norm(grads[7])
    assert f"{ratio:.1e}" in text


def test_gradients_that_explode_from_layer_to_layer():
    loss, layers = network(lambda x: x, 8, 6.0)
    # Growing weights make values explode as well: the first gradient is the larger by what lies between.
    layers = [w * 6.0**-k for k, w in enumerate(layers)]
    items = [i for i in found(loss, layers, X, argnums=0) if "layer" in i[2]]
    assert [(kind, name) for kind, name, _ in items] == [("vanishing", "layers[0]")]
    items = found(loss, [w * 36.0**k for k, w in enumerate(layers)], X, argnums=0)
    assert ("exploding", "layers[0]") in [(kind, name) for kind, name, _ in items]


def test_a_gradient_that_fades_below_all_numbers_is_said_once():
    def f(x):
        for _ in range(400):
            x = np.sin(x) * 0.1 + x * 0.0001
        return x

    items = found(f, 0.3)
    assert kinds(items) == {"vanishing"}
    assert len(items) < 10


def test_rounds_of_a_recurrence_that_forgets():
    def loss(w, u, xs):
        h = np.zeros(4)
        for x in xs:
            h = np.tanh(h @ w + x @ u)
        return (h * h).sum()

    w, u, xs = 0.2 * RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=(20, 3))
    items = found(loss, w, u, xs, argnums=(0, 1))
    assert [k for k, _, text in items if "rounds of loop at line" in text] == ["vanishing"]
    turn = np.linalg.qr(w)[0]
    assert found(loss, turn, 1e-3 * u, xs, argnums=(0, 1)) == []


def test_dead_units_and_saturated_ones_are_found_where_they_are():
    loss, layers = network(nn.functional.relu, 2, 1.0, bias=-50.0)
    items = found(loss, layers, X, argnums=0)
    assert ("dead", "where", "8 of 8 units give zero for everything that came in") in items
    assert "zero" in kinds(items)
    loss, layers = network(np.tanh, 2, 100.0)
    assert ("saturated", "tanh") in [i[:2] for i in found(loss, layers, X, argnums=0)]
    assert [i[2] for i in found(nn.functional.sigmoid, 10.0)] == [
        "100% of its one entry is saturated: slopes below 0.001"
    ]


def test_nan_is_followed_to_its_birth_entry_by_entry():
    x = np.array([np.nan, 4.0, -1.0, 9.0])
    items = found(lambda x: (np.sqrt(x) * 2).sum(), x)
    assert ("nan", "x", "NaN was given") in items
    assert ("nan", "sqrt", "its value holds NaN, and what it reads does not") in items
    assert not any(name == "multiply" for _, name, text in items if "value" in text)


def test_a_gradient_spoilt_by_a_value_names_the_value():
    items = found(lambda x: np.sum(np.sqrt(x - 2.0) * np.log(x)), np.array([1.0, 3.0]))
    texts = {name: text for kind, name, text in items if kind == "nan" and "gradient" in text}
    assert texts["log"].endswith("makes it, for v2 holds NaN")
    assert texts["subtract"].endswith("makes it")  # the slope of the root itself


def test_nan_in_the_data_is_said_to_be_there():
    data = X.copy()
    data[3, 2] = np.nan
    loss, layers = network(np.tanh, 2, 1.0)
    items = [i for i in found(loss, layers, data, argnums=0) if i[0] == "nan"]
    assert items[0] == ("nan", "contract", "a constant that it reads holds NaN")


def test_the_slope_that_makes_an_infinity_on_the_way_back():
    def f(x, y):
        return np.sqrt(x) + x * y

    ((kind, name, text),) = found(f, 0.0, 2.0)[:1]
    assert (kind, name) == ("inf", "x")
    assert "the slope of v1 = √x" in text
    assert f"line {f.__code__.co_firstlineno + 1}" in text


def test_cross_entropy_written_naively_fails_at_the_logarithm():
    def loss(w):
        p = np.exp(X @ w)
        p = p / p.sum(axis=1, keepdims=True)
        return -np.log(p[np.arange(32), np.arange(32) % 8]).mean()

    items = found(loss, 1e4 * RNG.normal(size=(8, 8)))
    assert items[0][:2] == ("inf", "exp")
    assert ("nan", "divide", "its value holds NaN, and what it reads holds infinities") in items


def test_a_bias_before_a_normalisation_has_no_gradient():
    def loss(b):
        y = X + b
        y = (y - y.mean(axis=0)) / y.std(axis=0)
        return (y**3).sum()

    (text,) = [
        text for kind, name, text in found(loss, np.zeros(8)) if (kind, name) == ("zero", "b")
    ]
    assert "zero up to rounding" in text


def test_norms_of_very_large_and_very_small_numbers():
    assert norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert norm(np.array([3e-300 + 4e-300j])) == pytest.approx(5e-300)
    assert norm(np.zeros(0)) == 0.0
    assert norm(np.array([1, 2, 2], np.int32)) == 3.0
    assert np.isnan(norm(np.array([np.nan, 1.0])))
    assert norm(np.array([-np.inf, 1.0])) == np.inf
