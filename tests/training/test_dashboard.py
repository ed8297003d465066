"""What a run tells of itself: norms, histograms, rates, faults; and the page over it, from disk and live."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim
from backsolve.training import Checkpoints, Log, dashboard, read_log
from backsolve.training.board import shown
from backsolve.training.held import hold, news
from backsolve.training.histograms import histogram
from backsolve.training.live import Live, new_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def net() -> Any:
    nn.init.manual_seed(1)
    inner = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(nn.Linear(3, 8), inner, nn.Linear(8, 2))


def train(folder: Path, epochs: int = 3, **more: Any) -> Any:
    settings = {"optimizer": optim.SGD(optim.schedules.linear(0.1, 12)), "batch_size": 16, **more}
    log = Log(folder, every_steps=2, histograms=True, share=np.inf)
    return bs.fit(
        net(), nn.functional.cross_entropy, (X, Y), epochs=epochs, progress=False, log=log,
        validation=(X, Y), metrics=["accuracy"], **settings,
    )  # fmt: skip


def of(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in read_log(folder) if row["kind"] == kind]


def test_norms_are_those_of_the_gradients(tmp_path: Path) -> None:
    log = Log(tmp_path, every_steps=1, histograms=True)
    bs.fit(
        net().eval(), nn.functional.cross_entropy, [(X, Y)], log=log, progress=False, clip=1e-3,
        optimizer=optim.SGD(0.1),
    )  # fmt: skip
    ((_, norms),) = [(row["step"], row["norms"]) for row in of(tmp_path, "gradients")]

    def loss(parameters: Any) -> Any:
        return nn.functional.cross_entropy(net().replace(parameters).train()(X), Y)

    slopes = bs.grad(loss)(net().named_parameters())
    assert list(norms) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for name, norm in norms.items():
        np.testing.assert_allclose(norm, np.linalg.norm(slopes[name]), rtol=1e-5)


def test_without_histograms_nothing_of_it_is_there(tmp_path: Path) -> None:
    bs.fit(net(), nn.functional.cross_entropy, (X, Y), log=tmp_path, progress=False)
    assert {row["kind"] for row in read_log(tmp_path)} == {"start", "epoch", "end"}


def test_weights_and_activations_are_those_of_the_model(tmp_path: Path) -> None:
    batches = [(X[:48], Y[:48])]
    log = Log(tmp_path, histograms=True)
    done = bs.fit(net(), nn.functional.cross_entropy, batches, log=log, progress=False)
    (weights,) = of(tmp_path, "weights")
    for name, a in done.model.named_parameters().items():
        assert weights["arrays"][name] == histogram(a)
    (found,) = of(tmp_path, "activations")
    names = ["0 Linear", "1.0 ReLU", "2 Linear"]  # dropout passes on, and so do the containers
    assert list(found["arrays"]) == names
    first = X[:16] @ done.model[0].weight.T + done.model[0].bias
    told = found["arrays"]["0 Linear"]
    assert told["size"] == 16 * 8
    np.testing.assert_allclose(told["mean"], first.mean(), rtol=1e-4, atol=1e-6)
    assert found["arrays"]["1.0 ReLU"]["zeros"] == np.sum(first <= 0)


def test_looking_changes_no_result(tmp_path: Path) -> None:
    with_log = train(tmp_path).model
    plain = bs.fit(
        net(), nn.functional.cross_entropy, (X, Y), epochs=3, progress=False, batch_size=16,
        optimizer=optim.SGD(optim.schedules.linear(0.1, 12)),
    ).model  # fmt: skip
    for name, a in with_log.state_dict().items():
        np.testing.assert_array_equal(a, plain.state_dict()[name])
    assert {type(m) for _, m in with_log.modules()} == {type(m) for _, m in net().modules()}


def test_rates_are_those_of_the_schedule(tmp_path: Path) -> None:
    train(tmp_path)
    rates = {row["step"]: row["learning_rate"] for row in of(tmp_path, "step")}
    assert rates == pytest.approx({n: 0.1 * (1 - (n - 1) / 12) for n in (2, 4, 6, 8, 10, 12)})
    assert all(row["examples_per_second"] > 0 for row in of(tmp_path, "step"))


def test_groups_and_accumulation_have_their_rates(tmp_path: Path) -> None:
    rules = optim.Groups({"*.bias": optim.SGD(0.5), "*": optim.SGD(optim.schedules.linear(0.1, 4))})
    train(tmp_path, epochs=1, optimizer=rules, accumulate=2)
    rows = [{k: v for k, v in row.items() if "rate" in k} for row in of(tmp_path, "step")]
    assert rows == [
        {"learning_rate/*.bias": 0.5, "learning_rate/*": pytest.approx(0.1)},
        {"learning_rate/*.bias": 0.5, "learning_rate/*": pytest.approx(0.075)},
    ]


def test_slopes_are_the_gradients_on_the_first_examples(tmp_path: Path) -> None:
    log = Log(tmp_path, histograms=True)
    done = bs.fit(
        nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)),
        nn.functional.cross_entropy, [(X[:48], Y[:48])], log=log, progress=False,
    )  # fmt: skip
    (found,) = of(tmp_path, "slopes")
    loss = lambda p: nn.functional.cross_entropy(done.model.replace(p)(X[:16]), Y[:16])
    for name, g in bs.grad(loss)(done.model.named_parameters()).items():
        told = found["arrays"][name]
        assert told["size"] == g.size
        np.testing.assert_allclose([told["low"], told["high"]], [g.min(), g.max()], rtol=1e-5)


class OnlyStaged(nn.Module):
    weight: np.ndarray

    def __call__(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            raise RuntimeError("only inside of jit")
        return x @ self.weight


class OnlyTrained(nn.Module):
    weight: np.ndarray

    def __call__(self, x: Any) -> Any:
        if not self.training:
            raise RuntimeError("only in training")
        return x @ self.weight


@pytest.mark.parametrize("kind", [OnlyStaged, OnlyTrained])
def test_models_that_cannot_be_run_as_written(tmp_path: Path, kind: Any) -> None:
    """What runs inside of `jit` is looked at there; what does not is noted, and the training goes on."""
    log = Log(tmp_path, histograms=True, share=np.inf)
    w = np.ones((3, 1), np.float32)
    done = bs.fit(
        kind(w), nn.functional.mse_loss, [(X, X[:, :1])], epochs=2, log=log, progress=False
    )
    assert len(of(tmp_path, "slopes")) == 2
    if kind is OnlyTrained:
        (note,) = of(tmp_path, "note")
        assert note["text"].endswith("only in training")
        return
    found = of(tmp_path, "activations")[-1]["arrays"]["model OnlyStaged"]
    y = X[:16] @ done.model.weight
    np.testing.assert_allclose([found["low"], found["high"]], [y.min(), y.max()], rtol=1e-5)


def test_states_of_recurrent_layers_are_among_the_activations(tmp_path: Path) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

        def __call__(self, x: Any) -> Any:
            y, _ = self.lstm(x)
            return self.head(y[:, -1])

    nn.init.manual_seed(0)
    sequences = RNG.normal(size=(8, 5, 3)).astype(np.float32)
    done = bs.fit(
        Reader(), nn.functional.cross_entropy, [(sequences, Y[:8])], progress=False,
        log=Log(tmp_path, histograms=True),
    )  # fmt: skip
    (row,) = of(tmp_path, "activations")
    names = ["lstm LSTM", "lstm LSTM, result 2", "lstm LSTM, result 3", "head Linear"]
    assert list(row["arrays"]) == names
    y, (h, c) = done.model.lstm(sequences)
    assert [row["arrays"][n]["size"] for n in names[:3]] == [y.size, h.size, c.size]
    np.testing.assert_allclose(row["arrays"][names[2]]["mean"], np.mean(c), rtol=1e-4, atol=1e-6)


def test_a_fault_is_logged(tmp_path: Path) -> None:
    def broken(model: Any, batch: Any) -> Any:
        return np.mean(np.log(batch[0] @ model["w"]))

    with pytest.raises(bs.errors.NaNError):
        bs.fit({"w": -np.ones(3)}, broken, (np.abs(X).astype(float),), log=tmp_path, progress=False)
    last = read_log(tmp_path)[-1]
    assert (last["kind"], last["step"], last["epoch"]) == ("nan", 0, 1)
    assert "`log` made a NaN" in last["text"]


def test_an_error_ends_the_log(tmp_path: Path) -> None:
    def fail(run: Any) -> None:
        raise OSError("the disk is full\n  at line 3")

    with pytest.raises(OSError, match="full"):
        bs.fit(
            net(),
            nn.functional.cross_entropy,
            (X, Y),
            log=tmp_path,
            progress=False,
            callbacks=[fail],
        )
    last = read_log(tmp_path)[-1]
    assert (last["kind"], last["stopped"]) == ("end", "OSError: the disk is full")


def test_a_log_is_held_as_long_as_its_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert news(path) is None
    seen = []
    bs.fit(
        net(), nn.functional.cross_entropy, (X, Y), log=tmp_path, progress=False,
        callbacks=[lambda run: seen.append(news(path))],
    )  # fmt: skip
    (start,) = of(tmp_path, "start")
    told = [(a["held"], a["host"]) for a in (seen[0], news(path)) if a]
    assert told == [(True, start["host"]), (False, start["host"])]


def test_a_log_that_another_keeps_for_itself_stops_no_run(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path, told = tmp_path / "log.jsonl", []
    with open(path, "w") as other, open(path) as file:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: told.append(hold(file)), daemon=True)
        waiting.start()
        waiting.join(120)
        assert told == [None]
        fcntl.flock(other, fcntl.LOCK_UN)
        assert hold(file) == socket.gethostname()


def test_a_run_that_goes_on_leaves_one_log(tmp_path: Path) -> None:
    for epochs in (1, 3):
        train(tmp_path, epochs, checkpoint=Checkpoints(tmp_path))
    assert [row["step"] for row in of(tmp_path, "start")] == [0, 4]
    assert [row["step"] for row in of(tmp_path, "gradients")] == [2, 4, 6, 8, 10, 12]
    assert [row["epoch"] for row in of(tmp_path, "weights")] == [1, 2, 3]


# ---- histograms


def test_histograms_of_odd_arrays() -> None:
    assert histogram(np.full(3, 2.0)) == {
        **{"size": 3, "bad": 0, "zeros": 0, "low": 2.0, "high": 2.0, "mean": 2.0, "std": 0.0},
        "counts": [3],
    }
    assert histogram([np.nan, np.inf]) == {"size": 2, "bad": 2}
    assert histogram(np.array([])) == {"size": 0, "bad": 0}
    assert histogram([3 + 4j, 0])["high"] == 5.0
    assert "counts" not in histogram([-1.7e308, 1.7e308])
    half = histogram(np.arange(2000, dtype=np.float16))
    assert sum(half["counts"]) == 2000


def test_bins_are_numpys() -> None:
    v = RNG.normal(size=5000)
    assert histogram(v)["counts"] == np.histogram(v, 40)[0].tolist()


# ---- pages


def test_long_logs_are_thinned_and_keep_their_last_line() -> None:
    rows = [{"kind": "step", "step": n, "loss": float("nan")} for n in range(1, 7002)]
    found = shown([*rows, {"kind": "epoch", "step": 7001}])
    assert found["every"] == {"step": 3}
    steps = [row["step"] for row in found["rows"] if row["kind"] == "step"]
    assert steps == list(range(2, 7002, 3))
    assert found["rows"][0]["loss"] == "nan"


def test_a_page_needs_a_log(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no log\.jsonl"):
        dashboard(tmp_path)
    with pytest.raises(ValueError, match="at least one folder"):
        dashboard()
    with pytest.raises(ValueError, match="give fit a log=folder"):
        bs.fit(net(), nn.functional.cross_entropy, (X, Y), dashboard=True)


def line(step: int, **more: Any) -> str:
    return json.dumps({"kind": "step", "step": step, **more}) + "\n"


def test_new_lines_are_read_from_where_one_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert new_rows(path, "") == {"rows": [], "every": {}, "at": "", "anew": True}
    path.write_text(line(1) + line(2) + '{"kind": "st')
    first = new_rows(path, "")
    assert ([row["step"] for row in first["rows"]], first["anew"]) == ([1, 2], True)
    path.write_text(line(1) + line(2) + line(3))
    second = new_rows(path, first["at"])
    assert ([row["step"] for row in second["rows"]], second["anew"]) == ([3], False)
    assert new_rows(path, second["at"])["rows"] == []
    # a run that began again, and has come further already
    path.write_text("".join(line(n, loss=0.5) for n in range(1, 9)))
    third = new_rows(path, second["at"])
    assert (len(third["rows"]), third["anew"]) == (8, True)
    # and one that has not come so far
    path.write_text(line(1))
    assert new_rows(path, third["at"])["anew"]


def asked(url: str, **headers: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read().decode()


def test_the_server_gives_the_page_and_new_lines(tmp_path: Path) -> None:
    with Live([tmp_path / "later"]) as live:
        assert asked(live.url).startswith("<!doctype html>")
        assert json.loads(asked(f"{live.url}rows?run=0&at="))["rows"] == []
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "log.jsonl").write_text(line(1, loss=float("inf")))
        (row,) = json.loads(asked(f"{live.url}rows?run=0&at="))["rows"]
        assert row["loss"] == "inf"
        for wrong in ("rows?run=1", "rows?run=x", "rows", "etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                asked(live.url + wrong)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            asked(live.url, Host="elsewhere.example")
    with pytest.raises(urllib.error.URLError):
        asked(live.url)


def test_fit_serves_its_page_while_it_runs(tmp_path: Path, capsys: Any) -> None:
    seen: list[str] = []

    def look(run: Any) -> None:
        if not seen:
            url = capsys.readouterr().out.split("dashboard: ")[1].split()[0]
            seen.append(asked(url))

    bs.fit(
        net(), nn.functional.cross_entropy, (X, Y), log=tmp_path, dashboard=True, progress="lines",
        callbacks=[look],
    )  # fmt: skip
    assert '"live":true' in seen[0]
    assert not any("serve" in thread.name for thread in threading.enumerate())
