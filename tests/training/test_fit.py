"""bs.fit: it learns, measures, stops, averages, and says what is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim, training
from backsolve.errors import NaNError, NotScalarError, ShapeError, StructureError
from backsolve.nn import functional as F  # noqa: N812 - as everyone writes it
from backsolve.training import EarlyStopping, ReduceOnPlateau

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
W = np.array([[1.0, -2.0, 0.5]], np.float32)
Y = X @ W.T
LABELS = (X[:, 0] > 0).astype(np.int64)


def linear(out: int = 1) -> Any:
    return nn.Linear(3, out, key=bs.random.key(1))


def fit(model: Any, loss: Any, data: Any, **settings: Any) -> Any:
    return bs.fit(model, loss, data, **{"progress": False, "epochs": 2, **settings})


def test_a_line_is_found_and_the_given_model_stays() -> None:
    model = linear()
    before = {name: a.copy() for name, a in model.state_dict().items()}
    done = fit(model, F.mse_loss, (X, Y), optimizer=optim.Adam(0.05), epochs=90, metrics=["mae"])
    np.testing.assert_allclose(done.model.weight, W, atol=1e-2)
    for name, a in model.state_dict().items():
        np.testing.assert_array_equal(a, before[name])
    assert done.metrics["loss"] < 1e-3
    assert set(done.metrics) == {"loss", "mae"}
    assert done.history["epoch"] == list(range(1, 91))
    assert done.step == 180
    assert done.stopped is None
    np.testing.assert_allclose(done.predict(X), done.model(X), rtol=1e-5, atol=1e-6)


def test_a_step_is_that_of_the_optimiser() -> None:
    """Two epochs by hand, eagerly, on the same batches."""
    data = bs.data.Batches((X, Y), 32, shuffle=True, seed=4)
    optimiser = optim.SGD(0.1, momentum=0.9)
    done = fit(linear(), F.mse_loss, data, optimizer=optimiser)
    model = linear()
    p = model.named_parameters()
    state = optimiser.init(p)
    again = bs.data.Batches((X, Y), 32, shuffle=True, seed=4)
    for _ in range(2):
        for x, y in again:
            g = bs.grad(lambda p, x=x, y=y: F.mse_loss(model.replace(p)(x), y))(p)
            p, state = optimiser.update(p, g, state)
    np.testing.assert_allclose(done.model.weight, p["weight"], rtol=1e-5)


def test_the_loss_may_take_model_and_batch() -> None:
    def loss(model: Any, batch: Any) -> Any:
        error = model(batch["x"]) - batch["y"]
        return np.mean(error**2), {"largest": np.max(np.abs(error))}

    done = fit(linear(), loss, {"x": X, "y": Y}, validation={"x": X, "y": Y})
    assert set(done.metrics) == {"loss", "largest", "val_loss", "val_largest"}
    assert done.metrics["val_largest"] ** 2 >= done.metrics["val_loss"]


def test_parameters_need_not_be_a_module() -> None:
    def loss(model: Any, batch: Any) -> Any:
        x, y = batch
        return np.mean((x @ model["w"] - y) ** 2)

    done = fit({"w": np.zeros((3, 1))}, loss, (X, Y), optimizer=optim.Adam(0.05), epochs=60)
    np.testing.assert_allclose(done.model["w"], W.T, atol=1e-2)
    assert done.model["w"].dtype == np.float64


def test_state_of_layers_moves_and_is_not_used_in_evaluation() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    done = fit(model, F.cross_entropy, (X, LABELS), batch_size=20)
    assert done.model[1].num_batches_tracked == 6
    assert not np.array_equal(done.model[2].key.key, model[2].key.key)
    assert not done.model[2].training
    assert model[2].training
    np.testing.assert_array_equal(done.predict(X), done.predict(X))


def test_frozen_parts_stay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    model[0].freeze()
    done = fit(model, F.mse_loss, (X, Y))
    np.testing.assert_array_equal(done.model[0].weight, model[0].weight)
    assert not np.array_equal(done.model[1].weight, model[1].weight)


def test_batches_of_two_sizes_are_compiled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    init = training.step.Steps.__init__

    def remember(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        made.append(self)

    monkeypatch.setattr(training.step.Steps, "__init__", remember)
    fit(linear(), F.mse_loss, (X, Y), batch_size=25, epochs=5, validation=(X, Y))
    (steps,) = made
    assert len(steps._step.stats()["specialisations"]) == 2
    assert all(s["native"] for s in steps._step.stats()["specialisations"])
    assert len(steps._test.stats()["specialisations"]) == 1


def test_means_are_over_examples() -> None:
    """A last batch of 10 counts a fifth of one of 50."""
    model = linear()
    done = fit(
        *(model, F.mse_loss, bs.data.Batches((X, Y), 50)), epochs=1, optimizer=optim.SGD(0.0)
    )
    whole = float(F.mse_loss(model(X), Y))
    assert done.metrics["loss"] == pytest.approx(whole, rel=1e-5)
    measured = training.evaluate(model, F.mse_loss, (X, Y), metrics=["mse"], batch_size=7)
    assert measured == pytest.approx({"loss": whole, "mse": whole}, rel=1e-5)


def test_accumulated_batches_are_one_step() -> None:
    data = bs.data.Batches((X, Y), 15)
    parts = fit(linear(), F.mse_loss, data, optimizer=optim.SGD(0.1), accumulate=4)
    whole = fit(linear(), F.mse_loss, bs.data.Batches((X, Y), 60), optimizer=optim.SGD(0.1))
    np.testing.assert_allclose(parts.model.weight, whole.model.weight, rtol=1e-5)


def test_clipping_bounds_a_step() -> None:
    model = linear()
    done = fit(
        *(model, F.mse_loss, (X, 1e3 * Y)), batch_size=60, optimizer=optim.SGD(1.0), clip=0.5,
        epochs=1,
    )  # fmt: skip
    moved = [a - b for a, b in zip(done.model.state_dict().values(),
                                   model.state_dict().values(), strict=True)]  # fmt: skip
    assert math.sqrt(sum(float(np.sum(d**2)) for d in moved)) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_averages_are_what_is_returned(accumulate: int) -> None:
    batches = [X[:20], X[20:40]] if accumulate == 2 else [X[:40]]
    data = bs.data.Batches((X[:40], Y[:40]), len(batches[0]))
    settings = {"optimizer": optim.SGD(0.1), "epochs": 1, "accumulate": accumulate}
    plain = fit(linear(), F.mse_loss, data, **settings)
    data = bs.data.Batches((X[:40], Y[:40]), len(batches[0]))
    averaged = fit(linear(), F.mse_loss, data, ema=0.75, **settings)
    expected = 0.75 * linear().weight + 0.25 * plain.model.weight
    np.testing.assert_allclose(averaged.model.weight, expected, rtol=1e-5)


def test_the_best_epoch_is_returned() -> None:
    """With a rate that grows, the loss goes down and up again."""
    rate = lambda t: 0.02 * 1.5**t
    seen: list[Any] = []
    done = fit(
        *(linear(), F.mse_loss, (X, Y)), optimizer=optim.SGD(rate), epochs=9, validation=(X, Y),
        best="val_loss", batch_size=30, callbacks=[lambda run: seen.append(run.model)],
    )  # fmt: skip
    losses = done.history["val_loss"]
    first = losses.index(min(losses))
    assert 0 < first < 8
    np.testing.assert_array_equal(done.model.weight, seen[first].weight)
    assert done.history.best("val_loss")["epoch"] == first + 1
    assert done.best_epoch == first + 1
    assert f"model of epoch {first + 1}" in repr(done)


def test_early_stopping_and_plateaus() -> None:
    factors: list[float] = []
    done = fit(
        *(linear(), F.mse_loss, (X, Y)), optimizer=optim.SGD(0.0), epochs=50, validation=0.2,
        callbacks=[
            ReduceOnPlateau(patience=1),
            EarlyStopping(patience=3),
            lambda run: factors.append(run.rate_factor),
        ],
    )  # fmt: skip
    assert done.epoch == 4
    assert done.stopped == "early stopping: val_loss did not improve for 3 epochs"
    assert factors == [1.0, 1.0, 0.1, 0.1]
    with pytest.raises(KeyError, match="give fit a validation="):
        fit(linear(), F.mse_loss, (X, Y), callbacks=[EarlyStopping()])


def test_the_factor_scales_every_rule() -> None:
    class Slow:
        def on_start(self, run: Any) -> None:
            run.rate_factor = 0.5

    rules = optim.Groups({"weight": optim.SGD(lambda t: 0.2 + 0.0 * t), "*": optim.SGD(0.1)})
    halves = optim.Groups({"weight": optim.SGD(0.1), "*": optim.SGD(0.05)})
    slow = fit(linear(), F.mse_loss, (X, Y), optimizer=rules, clip=9.0, callbacks=[Slow()])
    half = fit(linear(), F.mse_loss, (X, Y), optimizer=halves, clip=9.0)
    np.testing.assert_allclose(slow.model.weight, half.model.weight, rtol=1e-5)
    np.testing.assert_allclose(slow.model.bias, half.model.bias, rtol=1e-5)


def test_callbacks_see_the_run_and_may_stop_it() -> None:
    told: list[str] = []

    class Watch:
        def on_start(self, run: Any) -> None:
            told.append(f"start {run.step}")

        def on_step(self, run: Any) -> None:
            assert run.loss >= 0
            if run.step == 3:
                run.stop("boredom")

        def on_epoch(self, run: Any) -> None:
            told.append(f"epoch {run.epoch}")

        def on_end(self, run: Any) -> None:
            told.append(f"end {run.step}")

    done = fit(linear(), F.mse_loss, (X, Y), callbacks=[Watch()], epochs=9)
    assert told == ["start 0", "epoch 1", "end 3"]
    assert done.stopped == "boredom"
    assert "stopped by boredom" in repr(done)


def test_double_precision_data_are_taken_in_that_of_the_parameters() -> None:
    single = fit(linear(), F.mse_loss, (X, Y))
    double = fit(linear(), F.mse_loss, (X.astype(np.float64), Y.astype(np.float64)))
    assert double.model.weight.dtype == np.float32
    np.testing.assert_array_equal(single.model.weight, double.model.weight)


class TestMistakes:
    def test_nan_is_traced_to_its_operation(self) -> None:
        class Root(nn.Module):
            weight: Any

            def __call__(self, x: Any) -> Any:
                return np.sqrt(x @ self.weight)

        model = Root(np.ones((3, 1), np.float32))
        with pytest.raises(NaNError, match="step 1, in epoch 1: `sqrt` made a NaN") as caught:
            fit(model, F.mse_loss, (X, Y))
        assert "test_fit.py" in str(caught.value)
        assert "return np.sqrt(x @ self.weight)" in str(caught.value)

    def test_infinite_gradients_stop_before_they_spoil_parameters(self) -> None:
        kept: list[Any] = []

        class Keep:
            def on_start(self, run: Any) -> None:
                kept.append(run)

        def loss(model: Any, batch: Any) -> Any:
            return np.sum(np.sqrt(model["w"]) * batch[0])

        with pytest.raises(NaNError, match=r"the gradient of inside\.w is infinite"):
            fit({"w": np.zeros(1)}, loss, (np.ones((4, 1)),), callbacks=[Keep()])
        np.testing.assert_array_equal(kept[0].state["parameters"]["inside.w"], [0.0])

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_numbers_in_the_data_that_are_not_finite_are_named(self, bad: float) -> None:
        x = X.copy()
        x[7, 1] = bad
        with pytest.raises(
            NaNError, match=rf"the batch has {bad} itself, in float32\[60, 3\] at \(7, 1\)"
        ):
            fit(linear(), F.mse_loss, (x, Y), batch_size=60, shuffle=False)

    @pytest.mark.parametrize("share", [0.0, 1.0, 1.5, -0.1])
    def test_a_share_that_is_none(self, share: float) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            fit(linear(), F.mse_loss, (X, Y), validation=share)

    def test_a_loss_must_be_a_number(self) -> None:
        with pytest.raises(NotScalarError, match="take its mean"):
            fit(linear(), lambda y, t: (y - t) ** 2, (X, Y))

    def test_batches_must_be_pairs_for_a_loss_of_outputs(self) -> None:
        with pytest.raises(StructureError, match=r"pairs \(input, target\), got 3 parts"):
            fit(linear(), F.mse_loss, (X, Y, Y))

    def test_shapes_that_do_not_fit(self) -> None:
        with pytest.raises(ShapeError, match="Linear takes arrays of 3 features") as caught:
            fit(linear(), F.mse_loss, (X[:, :2], Y))
        assert "on a batch of float32[32, 2], float32[32, 1]" in caught.value.__notes__[0]
        with pytest.raises(ShapeError, match=r"\(32, 1\).*\(32,\)"):
            fit(linear(), F.mse_loss, (X, Y[:, 0]))
        with pytest.raises(ShapeError, match="one length"):
            fit(linear(), F.mse_loss, (X, Y[:-1]))

    @pytest.mark.parametrize("compiled", [False, True])
    def test_a_loss_may_bring_output_and_target_to_one_shape(self, compiled: bool) -> None:
        column = lambda y, t: np.mean((y[:, 0] - t) ** 2)
        either = lambda y, t: column(y, t) if np.sum(y) > 0 else column(t[:, None], y[:, 0])
        for loss in (column, either, bs.jit(column)):
            found = fit(linear(), loss, (X, Y[:, 0]), epochs=2, compile=compiled).metrics["loss"]
            assert found == pytest.approx(
                fit(linear(), F.mse_loss, (X, Y), epochs=2).metrics["loss"], rel=1e-5
            )

    def test_every_output_meets_every_target_inside_of_a_branch(self) -> None:
        outer = lambda y, t: np.mean((y - t) ** 2)
        either = lambda y, t: outer(y, t) if np.sum(y) > 0 else 2 * outer(y, t)
        for loss in (outer, either, bs.jit(outer)):
            with pytest.raises(ShapeError, match=r"meet as \(32, 32\)"):
                fit(linear(), loss, (X, Y[:, 0]))

    @pytest.mark.parametrize("optimizer", ["adam", optim.Adam, 0.1])
    def test_an_optimizer_is_an_object(self, optimizer: Any) -> None:
        with pytest.raises(TypeError, match=r"such as bs.optim.Adam\(1e-3\)"):
            fit(linear(), F.mse_loss, (X, Y), optimizer=optimizer)

    def test_a_list_of_batches_is_gone_through_each_epoch(self) -> None:
        batches = [(X[k : k + 20], Y[k : k + 20]) for k in range(0, 60, 20)]
        found = fit(linear(), F.mse_loss, batches, validation=batches)
        whole = fit(linear(), F.mse_loss, (X, Y), batch_size=20, shuffle=False, validation=(X, Y))
        assert found.step == 6
        np.testing.assert_array_equal(found.model.weight, whole.model.weight)
        with pytest.raises(ValueError, match="give a list, not a generator"):
            fit(linear(), F.mse_loss, iter(batches))

    def test_lists_of_numbers_are_no_examples(self) -> None:
        with pytest.raises(ShapeError, match="got lists of numbers"):
            fit(linear(), F.mse_loss, (X.tolist(), Y.tolist()))

    @pytest.mark.parametrize("setting", [{"clip": 0.0}, {"clip": -1.0}, {"ema": 2.0}])
    def test_settings_that_would_go_astray(self, setting: dict[str, float]) -> None:
        with pytest.raises(ValueError, match=r"above 0|between 0 and 1"):
            fit(linear(), F.mse_loss, (X, Y), **setting)

    def test_names_and_numbers(self) -> None:
        with pytest.raises(ValueError, match="no metric is called 'acuracy'"):
            fit(linear(2), F.cross_entropy, (X, LABELS), metrics=["acuracy"])
        with pytest.raises(KeyError, match="is not measured"):
            fit(linear(), F.mse_loss, (X, Y), best="val_loss")
        with pytest.raises(StructureError, match="no parameters"):
            fit(nn.ReLU(), F.mse_loss, (X, X))
        with pytest.raises(ValueError, match="without batches"):
            fit(linear(), F.mse_loss, bs.data.Batches((X, Y), 99, drop_last=True))
        with pytest.raises(ValueError, match="progress must be"):
            fit(linear(), F.mse_loss, (X, Y), progress="loud")


def test_what_is_no_loss_and_no_model_is_named():
    x = np.ones((4, 1), np.float32)
    for loss in (nn.MSELoss, "mse"):
        with pytest.raises(TypeError, match=r"bs\.nn\.MSELoss\(\), got"):
            bs.fit(nn.Linear(1, 1), loss, (x, x), epochs=1)
    with pytest.raises(TypeError, match=r"a dict makes nothing of an input.*`model` and `batch`"):
        bs.fit({"w": x[:1]}, nn.functional.mse_loss, (x, x), epochs=1)
    loss = lambda model, batch: np.mean((batch[0] @ model["w"] - batch[1]) ** 2)
    assert bs.fit({"w": x[:1]}, loss, (x, x), epochs=1).model["w"].shape == (1, 1)
