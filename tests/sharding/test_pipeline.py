"""Pipelines on one device: the layers one after the other, and what cannot be one."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ShapeError, StructureError


def layers(count: int, size: int = 3) -> list[bs.nn.Module]:
    return [bs.nn.Linear(size, size, dtype=np.float64) for _ in range(count)]


@pytest.mark.parametrize(("count", "stages", "parts"), [(4, 2, 3), (3, 3, 1), (2, 1, 6), (3, 3, 2)])
def test_a_pipeline_gives_what_its_layers_give(count: int, stages: int, parts: int) -> None:
    blocks = layers(count)
    x = np.random.default_rng(0).normal(size=(6, 3))
    pipeline, plain = bs.sharding.Pipeline(blocks, stages, parts), bs.nn.Sequential(*blocks)
    np.testing.assert_allclose(pipeline(x), plain(x), rtol=1e-12)
    slope = lambda model: bs.grad(lambda x: np.sum(np.sin(model(x))))(x)
    np.testing.assert_allclose(slope(pipeline), slope(plain), rtol=1e-12)


class Normalised(bs.nn.Module):
    """It has no slope where all entries are 0."""

    def __init__(self, size: int):
        self.weight = np.random.default_rng(1).normal(size=(size, size))

    def __call__(self, x):
        y = x @ self.weight
        return y / np.sqrt(np.sum(y * y, axis=-1, keepdims=True))


def test_stages_without_work_have_no_part_in_gradients() -> None:
    blocks = [Normalised(3) for _ in range(4)]
    x = np.random.default_rng(0).normal(size=(6, 3))
    slope = bs.grad(lambda model: np.sum(model(x) * x))
    got, expected = slope(bs.sharding.Pipeline(blocks, 2, 3)), slope(bs.nn.Sequential(*blocks))
    parts = np.stack([g.weight for g in expected]).reshape(2, 2, 3, 3)
    np.testing.assert_allclose(got.stages["weight"], parts, rtol=1e-10)


def test_narrow_and_whole_numbers_take_the_type_of_the_layers() -> None:
    blocks = layers(2)
    run = bs.jit(lambda model, x: model(x))
    for dtype in (np.float32, np.int64):
        x = np.arange(12, dtype=dtype).reshape(4, 3)
        y = run(bs.sharding.Pipeline(blocks, 2, 2), x)
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, bs.nn.Sequential(*blocks)(x), rtol=1e-12)


def test_layers_without_parameters() -> None:
    x = np.linspace(0, 1, 6).reshape(2, 3)
    y = bs.sharding.Pipeline([bs.nn.Tanh(), bs.nn.Tanh()], 2, 2)(x)
    np.testing.assert_allclose(y, np.tanh(np.tanh(x)), rtol=1e-12)


def test_stages_are_parameters_by_name() -> None:
    pipeline = bs.sharding.Pipeline(layers(6), stages=3, parts=2)
    shapes = {name: a.shape for name, a in pipeline.named_parameters().items()}
    assert shapes == {"stages.weight": (3, 2, 3, 3), "stages.bias": (3, 2, 3)}
    table = bs.sharding.describe(pipeline, {"stage": 3}, bs.sharding.stages())
    assert table.bytes_per_device * 3 == table.bytes_whole


def test_what_is_no_pipeline() -> None:
    with pytest.raises(ValueError, match="5 layers cannot make 2 equal stages"):
        bs.sharding.Pipeline(layers(5), 2, 1)
    with pytest.raises(StructureError, match="must be equal"):
        bs.sharding.Pipeline([*layers(1), *layers(1, 4)], 2, 1)
    with pytest.raises(StructureError, match="cannot hold state, such as key"):
        bs.sharding.Pipeline([bs.nn.Dropout(0.5), bs.nn.Dropout(0.5)], 2, 1)
    with pytest.raises(ValueError, match=r"stages=2\.0 must be a whole"):
        bs.sharding.Pipeline(layers(2), 2.0, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="parts=0 must be"):
        bs.sharding.Pipeline(layers(2), 2, 0)
    with pytest.raises(TypeError, match="list of modules"):
        bs.sharding.Pipeline([np.sin, np.sin], 2, 1)
    pipeline = bs.sharding.Pipeline(layers(2), 2, 4)
    with pytest.raises(ShapeError, match="axis of examples"):
        pipeline(1.0)
    with pytest.raises(ShapeError, match="6 examples cannot pass a pipeline in 4"):
        pipeline(np.ones((6, 3)))
    with pytest.raises(ShapeError, match="must keep the shape"):
        bs.sharding.Pipeline([bs.nn.Linear(3, 4), bs.nn.Linear(3, 4)], 2, 1)(np.ones((2, 3)))


def test_a_rule_without_its_brackets_is_named():
    with pytest.raises(TypeError, match=r"shard=bs\.sharding\.fully\(\), with brackets"):
        bs.sharding.describe(bs.nn.Linear(2, 2), {"data": 2}, bs.sharding.fully)
