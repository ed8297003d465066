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
    pipeline = bs.sharding.Pipeline(layers(2), 2, 4)
    with pytest.raises(ShapeError, match="6 examples cannot pass a pipeline in 4"):
        pipeline(np.ones((6, 3)))
    with pytest.raises(ShapeError, match="must keep the shape"):
        bs.sharding.Pipeline([bs.nn.Linear(3, 4), bs.nn.Linear(3, 4)], 2, 1)(np.ones((2, 3)))
