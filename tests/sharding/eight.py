"""Checks that need eight devices: run by test_eight.py in a process that simulates them; prints what failed."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import backsolve as bs

rng = np.random.default_rng(0)
CHECKS: dict[str, Callable[[], None]] = {}
PARAMETERS = {
    "first": {"weight": rng.normal(size=(16, 8)), "bias": rng.normal(size=16)},
    "second": {"weight": rng.normal(size=(4, 16)), "bias": rng.normal(size=4)},
}
X = rng.normal(size=(8, 8))


def check(f: Callable[[], None]) -> Callable[[], None]:
    CHECKS[f.__name__] = f
    return f


def loss(parameters: Any, x: Any) -> Any:
    first, second = parameters["first"], parameters["second"]
    h = np.tanh(x @ first["weight"].T + first["bias"])
    return np.mean((h @ second["weight"].T + second["bias"]) ** 2)


def step(parameters: Any, x: Any) -> Any:
    value, gradient = bs.value_and_grad(loss)(parameters, x)
    return bs.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), value


def specs(tree: Any) -> list[tuple[Any, ...]]:
    return [tuple(a.sharding.spec) for a in bs.tree.flatten(tree)[0]]


def close(a: Any, b: Any, rtol: float = 1e-12) -> None:
    for x, y in zip(bs.tree.flatten(a)[0], bs.tree.flatten(b)[0], strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-12)


def raises(kind: type[Exception], said: str, f: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=said):
        f()


def collectives(f: Any, *args: Any) -> set[str]:
    text = f.lower(*args).stages["hlo"]
    return set(re.findall(r"(all-\w+|collective-permute|reduce-scatter)(?:-start)?\(", text))


# ---- meshes


@check
def meshes_are_made_and_shown() -> None:
    mesh = bs.mesh(data=4, model=2)
    assert repr(mesh) == "<Mesh data=4, model=2: 8 × cpu>"
    lines = str(mesh).splitlines()
    assert lines[1].split() == ["model", "0", "model", "1"]
    assert lines[2].split() == ["data", "0", "cpu:0", "cpu:1"]
    assert lines[-1].split() == ["data", "3", "cpu:6", "cpu:7"]
    assert bs.mesh(data=-1, model=2) == mesh
    assert bs.mesh(data=2, model=4) != mesh
    assert bs.mesh(data=2).size == 2
    assert bs.mesh(data=-1, devices=jax.devices()[4:]).devices[0].id == 4


@check
def meshes_that_do_not_fit() -> None:
    raises(bs.errors.DeviceError, "needs 16 devices; there are 8", lambda: bs.mesh(data=16))
    raises(bs.errors.DeviceError, "which 3 does not divide", lambda: bs.mesh(data=3, model=-1))
    first = jax.devices()[0]
    raises(TypeError, r"such as jax.devices\(\)", lambda: bs.mesh(data=1, devices=[]))
    raises(TypeError, "got 'cpu'", lambda: bs.mesh(data=1, devices="cpu"))
    raises(ValueError, "twice: cpu:0, cpu:0", lambda: bs.mesh(data=2, devices=[first, first]))


# ---- one program


@check
def rules_split_parameters_and_keep_the_numbers() -> None:
    mesh = bs.mesh(data=4, model=2)
    expected = step(PARAMETERS, X)
    sharding = bs.sharding
    bias, row, column = ("model",), (None, "model"), ("model", None)
    cases = [
        (None, None),
        ({"x": "data", "first.*": "model"}, [column[:1], bias, (), ()]),
        (lambda name, shape: ("data",) if name == "x" else None, None),
        (sharding.data("x"), None),
        (sharding.tensor("x"), [column, bias, row, ()]),
        (sharding.fully("x", least=10), [("data", None), ("data",), (None, "data"), (None,)]),
        (
            sharding.fully("x", least=0, within=sharding.tensor()),
            [("model", "data"), ("model",), ("data", "model"), ("data",)],
        ),
    ]
    for rule, wanted in cases:
        compiled = bs.jit(step, mesh=mesh, shard=rule, donate=0)
        once = compiled(PARAMETERS, X)
        close(once, expected)
        if wanted is not None:
            assert specs(once[0]) == wanted, (specs(once[0]), wanted)
        close(compiled(once[0], X), step(expected[0], X))


@check
def two_dense_layers_need_one_sum_forwards() -> None:
    mesh = bs.mesh(model=8)
    forward = bs.jit(loss, mesh=mesh, shard=bs.sharding.tensor("x"))
    text = forward.lower(PARAMETERS, X).stages["hlo"]
    assert len(re.findall(r"all-reduce(?:-start)?\(", text)) == 1
    assert collectives(forward, PARAMETERS, X) == {"all-reduce"}


@check
def parameters_are_gathered_where_they_are_used() -> None:
    compiled = bs.jit(step, mesh=bs.mesh(data=8), shard=bs.sharding.fully("x", least=0))
    text = compiled.lower(PARAMETERS, np.tile(X, (8, 1))).stages["hlo"]
    gathered = re.findall(r"= \w+\[([\d,]*)\]\S* all-gather\(", text)
    assert sorted(gathered) == ["16", "16,8", "4,16"], (
        gathered
    )  # both weights, one bias; no examples


@check
def derivatives_of_what_runs_on_a_mesh() -> None:
    forward = bs.jit(loss, mesh=bs.mesh(data=8), shard=bs.sharding.data("x"))
    close(bs.grad(forward)(PARAMETERS, X), bs.grad(loss)(PARAMETERS, X))


@check
def loops_failures_and_stacks_on_a_mesh() -> None:
    mesh = bs.mesh(data=8)

    def halved(x: Any) -> Any:
        while np.sum(x * x) > 1e-3:
            x = x / 2
        return x

    total = lambda x: np.sum(halved(x) ** 2)
    compiled = bs.jit(bs.grad(total), mesh=mesh, shard=bs.sharding.data("x"))
    close(compiled(X), bs.grad(bs.jit(total))(X))
    taken = bs.jit(lambda x, k: x[k], mesh=mesh, shard={"x": "data"})
    close(taken(X, np.int64(7)), X[7])
    raises(IndexError, "out of bounds|out of range", lambda: taken(X, np.int64(9)))


# ---- stages


class Block(bs.nn.Module):
    def __init__(self) -> None:
        self.dense = bs.nn.Linear(8, 8, dtype=np.float64)

    def __call__(self, x: Any) -> Any:
        return x + np.tanh(self.dense(x))


@check
def a_pipeline_is_its_layers_and_each_device_has_a_stage() -> None:
    layers = [Block() for _ in range(8)]
    pipeline = bs.sharding.Pipeline(layers, stages=4, parts=3)
    x = rng.normal(size=(12, 8))
    total = lambda model, x: np.mean(model(x) ** 2)
    value, alone = bs.value_and_grad(total)(bs.nn.Sequential(*layers), x)
    expected = np.stack([alone[k].dense.weight for k in range(8)]).reshape(4, 2, 8, 8)
    mesh, rule = bs.mesh(stage=4, data=2), bs.sharding.stages(also={"x": ("data",)})
    compiled = bs.jit(bs.value_and_grad(total), mesh=mesh, shard=rule)
    found, gradient = compiled(pipeline, x)
    close(found, value)
    close(gradient.stages["dense.weight"], expected)
    assert specs(gradient.stages) == [("stage",), ("stage",)]
    used = collectives(compiled, pipeline, x)
    assert "collective-permute" in used
    assert "all-gather" not in used  # weights stay where they are


# ---- training


EXAMPLES = rng.normal(size=(44, 8)), rng.normal(size=(44, 4))


def fit(dtype: Any = np.float64, **options: Any) -> bs.training.Fitted:
    """Three batches of 16, 16 and 3 examples; 9 to measure on."""
    bs.nn.manual_seed(0)
    layers = (
        bs.nn.Linear(8, 16, dtype=dtype),
        bs.nn.Tanh(),
        bs.nn.Linear(16, 4, dtype=dtype),
    )
    defaults = {
        "optimizer": bs.optim.Adam(0.01),
        "epochs": 2,
        "batch_size": 16,
        "validation": 9 / 44,
    }
    settings = {**defaults, "progress": False, **options}
    data = tuple([a.astype(dtype) for a in EXAMPLES])
    return bs.fit(bs.nn.Sequential(*layers), bs.nn.functional.mse_loss, data, **settings)


def same_run(a: bs.training.Fitted, b: bs.training.Fitted) -> None:
    for name in ("loss", "val_loss"):
        close(a.history[name], b.history[name])
    close(a.model.state_dict(), b.model.state_dict())


@check
def training_on_a_mesh_follows_the_curve_of_one_device() -> None:
    mesh, alone = bs.mesh(data=4, model=2), fit()
    for rule in (None, bs.sharding.fully(least=0, within=bs.sharding.tensor())):
        same_run(alone, fit(mesh=mesh, shard=rule))
    lies: list[Any] = []
    watch = lambda run: lies.append(specs(run.state["optimizer"]))
    same_run(alone, fit(mesh=mesh, shard={"0.*": "model"}, callbacks=[watch]))
    assert lies[0] == lies[-1]
    assert lies[0].count(("model",)) == 4  # two slots of a weight, and of a bias


@check
def a_run_goes_on_upon_another_mesh() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = {"mesh": bs.mesh(data=8), "shard": bs.sharding.fully(least=0)}
        fit(epochs=1, checkpoint=folder, **first)
        second = fit(checkpoint=folder, mesh=bs.mesh(data=2, model=4), shard=bs.sharding.tensor())
        same_run(fit(), second)


@check
def training_in_16_bits_on_a_mesh() -> None:
    for precision in ("bfloat16", "float16"):
        half = {"dtype": np.float32, "precision": precision}
        alone = fit(**half).history["loss"]
        for rule in (None, bs.sharding.fully(least=0)):
            run = fit(**half, mesh=bs.mesh(data=8), shard=rule)
            np.testing.assert_allclose(run.history["loss"], alone, rtol=2e-3)
            assert all(p.dtype == np.float32 for p in run.model.named_parameters().values())


@check
def arguments_on_different_devices() -> None:
    a, b = (jax.device_put(np.ones(3), d) for d in jax.devices()[:2])
    add = bs.jit(lambda a, b: a + b, backend="xla")
    said = "argument 0 on cpu:0, argument 1 on cpu:1. Bring them to one"
    raises(bs.errors.DeviceError, said, lambda: add(a, b))
    misnamed = bs.jit(np.sum, backend="xla", device=3)  # type: ignore[arg-type]  # it is the mistake
    raises(bs.errors.DeviceError, "got 3", lambda: misnamed(X))


@check
def trainings_that_do_not_fit() -> None:
    mesh = bs.mesh(data=8)
    parts = "a batch of 12 examples cannot be split into 8 equal parts, .* 'data'"
    raises(bs.errors.ShapeError, parts, lambda: fit(mesh=mesh, batch_size=12))
    stream = [(a[:12], b[:12]) for a, b in [EXAMPLES]]
    train = lambda data: bs.fit(
        bs.nn.Linear(8, 4), bs.nn.functional.mse_loss, data, mesh=mesh, progress=False
    )
    raises(bs.errors.ShapeError, parts, lambda: train(stream))
    raises(
        bs.errors.StructureError,
        "'first.*' fits no",
        lambda: fit(mesh=mesh, shard={"first.*": "data"}),
    )
    raises(ValueError, "data.. splits along 'data'", lambda: fit(mesh=bs.mesh(model=8)))
    raises(ValueError, "mesh=bs.mesh", lambda: fit(shard=bs.sharding.fully()))
    raises(TypeError, "bs.mesh.data=-1., got 8", lambda: fit(mesh=8))
    raises(ValueError, "compile=False", lambda: fit(mesh=mesh, compile=False))


# ---- bad input


@check
def rules_that_do_not_fit() -> None:
    mesh = bs.mesh(data=4, model=2)

    def run(shard: Any, x: Any = X) -> Callable[[], Any]:
        return lambda: bs.jit(loss, mesh=mesh, shard=shard)(PARAMETERS, x)

    raises(ValueError, "`x` .* 'dta', .* data=4, model=2", run({"x": "dta"}))
    six = r"`x` has 6 entries along axis 0 .* into 4 equal parts, .* along 'data'"
    raises(bs.errors.ShapeError, six, run({"x": "data"}, X[:6]))
    raises(bs.errors.ShapeError, "3 axes for 2", run({"x": (None, None, "data")}))
    raises(ValueError, "'data' twice", run({"x": ("data", "data")}))
    raises(bs.errors.StructureError, "'y' fits no array: .* x", run({"y": "data"}))
    raises(bs.errors.StructureError, "arguments are parameters, x", run(bs.sharding.data()))
    raises(TypeError, "dict from patterns", run(3))
    raises(TypeError, "axes of 'x' are a tuple", run({"x": (0, None)}))
    raises(TypeError, "texts such as .*, got 3", run({3: "data"}))
    raises(ValueError, "data.. splits along 'rows'", run(bs.sharding.data("x", axis="rows")))
    raises(ValueError, "tensor.. splits along 'rows'", run(bs.sharding.tensor("x", axis="rows")))


@check
def arrays_on_other_devices() -> None:
    small = bs.mesh(data=2)
    compiled = bs.jit(loss, mesh=small, shard=bs.sharding.data("x"))
    near, far = (bs.jit(lambda x: 1 * x, backend="xla", device=d)(X) for d in ("cpu:1", "cpu:7"))
    close(compiled(PARAMETERS, near), loss(PARAMETERS, X))
    raises(bs.errors.DeviceError, "`x` lives on cpu:7, outside", lambda: compiled(PARAMETERS, far))


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(CHECKS)
    said = {}
    for name in wanted:
        try:
            CHECKS[name]()
            said[name] = ""
        except Exception:
            said[name] = traceback.format_exc()
    print(json.dumps(said))
