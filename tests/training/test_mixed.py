"""Training in 16 bits: losses near those in float32, overflows left out, scales that are resumed."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import BackendError, NaNError
from backsolve.training.mixed import FIRST_SCALE, STEPS_TO_DOUBLE, Mixed
from backsolve.training.objective import Objective
from backsolve.training.step import Steps

F, nn = bs.nn.functional, bs.nn
rng = np.random.default_rng(0)
X = rng.normal(size=(96, 1, 6, 6)).astype(np.float32)
Y = (X.mean((1, 2, 3)) > 0).astype(int)


def network(kind):
    keys = bs.random.split(bs.random.key(1), 2)
    if kind == "MLP":
        first, last = nn.Linear(36, 16, key=keys[0]), nn.Linear(16, 2, key=keys[1])
        return nn.Sequential(nn.Flatten(), first, nn.LayerNorm(16), nn.GELU(), last)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, key=keys[0]),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 2, key=keys[1]),
    )


def train(kind, precision, **options):
    options = {"epochs": 5, "optimizer": bs.optim.Adam(1e-2), "progress": False, **options}
    return bs.fit(network(kind), F.cross_entropy, (X, Y), precision=precision, **options)


@pytest.mark.parametrize("kind", ["MLP", "CNN"])
def test_losses_are_near_those_of_float32(kind):
    pytest.importorskip("jax")
    expected = train(kind, None)
    for precision in ("bfloat16", "float16"):
        got = train(kind, precision)
        assert abs(got.history.last["loss"] - expected.history.last["loss"]) < 0.02
        assert all(p.dtype == np.float32 for p in got.model.named_parameters().values())


def test_an_overflow_is_left_out_and_halves_the_scale():
    objective = Objective(F.mse_loss, {})
    steps = Steps(nn.Linear(4, 1), objective, bs.optim.SGD(1e-3), precision="float16")
    state = steps.first_state()
    before = {k: a.copy() for k, a in state["parameters"].items()}
    # The gradient of an output is near 8, times 2¹⁶ no float16.
    batch = np.ones((2, 4), np.float32), np.full((2, 1), -8.0, np.float32)
    state, loss, _, whole, _ = steps.step(state, batch, 1.0)
    assert whole
    assert np.isfinite(loss)
    assert state["scale"]["factor"] == FIRST_SCALE / 2
    for name, a in before.items():
        np.testing.assert_array_equal(state["parameters"][name], a)
    for _ in range(20):
        state, *_ = steps.step(state, batch, 1.0)
    assert 1 < state["scale"]["factor"] < FIRST_SCALE / 2
    assert all(np.any(state["parameters"][name] != a) for name, a in before.items())


def test_a_scale_grows_after_many_steps():
    mixed = Mixed("float16")
    scale = {"factor": np.float32(8), "good": np.int32(STEPS_TO_DOUBLE - 1)}
    assert mixed.next_scale(scale, np.True_) == {"factor": 16, "good": 0}
    assert mixed.next_scale(scale, np.False_) == {"factor": 4, "good": 0}
    assert mixed.next_scale({**scale, "good": np.int32(3)}, np.True_) == {"factor": 8, "good": 4}


def test_a_loss_that_is_infinite_itself_is_told():
    x = np.full((4, 1, 6, 6), 1e6, np.float32)  # infinite in float16
    data = x, np.zeros(4, int)
    with pytest.raises(NaNError):
        bs.fit(network("MLP"), F.cross_entropy, data, precision="float16", progress=False)


def test_a_run_in_float16_is_resumed_exactly(tmp_path):
    whole = train("MLP", "float16", epochs=4)
    train("MLP", "float16", epochs=2, checkpoint=tmp_path)
    rest = train("MLP", "float16", epochs=4, checkpoint=tmp_path)
    for name, a in whole.model.named_parameters().items():
        np.testing.assert_array_equal(rest.model.named_parameters()[name], a)


def test_what_is_asked_of_precision():
    with pytest.raises(ValueError, match='precision must be "bfloat16" or "float16"'):
        train("MLP", "float8")
    with pytest.raises(BackendError, match="compile=False"):
        train("MLP", "bfloat16", compile=False)
