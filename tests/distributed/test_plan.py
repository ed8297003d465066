"""Plans of many GPUs: the formulas, by hand and at their limits."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from pathlib import Path

import pytest

from backsolve.distributed.plan import (
    GPT2_SMALL,
    GPT_7B,
    KINDS,
    Cluster,
    Measured,
    Model,
    activations,
    plan,
    table,
)

ROOT = Path(__file__).parents[2]
ALONE = Measured(seconds=0.016)
PERFECT = Cluster(share=1.0, latency=0.0, hidden=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_gpu_is_what_was_measured(kind: str) -> None:
    p = plan(GPT2_SMALL, 1, kind, ALONE)
    assert p.compute == pytest.approx(0.016)
    assert (p.sent, p.communication, p.efficiency) == (0, 0, 1)
    assert p.weights == 2 * 124e6
    assert p.optimizer == 12 * 124e6


def test_collectives_by_hand() -> None:
    # 8 GPUs: each receives 7/8 of 800 MB at 450 GB/s. 32: the node's share comes over InfiniBand.
    inside = 700e6 / 450e9
    assert PERFECT.gather(800e6, 8) == pytest.approx(inside)
    assert PERFECT.gather(800e6, 32) == pytest.approx(inside + 3 / 4 * 100e6 / 50e9)
    slow = dataclasses.replace(PERFECT, latency=1e-3)
    assert slow.gather(0.0, 32) == pytest.approx(9e-3)  # 7 neighbours, and a tree of 4 nodes
    data = plan(GPT2_SMALL, 8, "data", ALONE, cluster=PERFECT)
    assert data.sent == pytest.approx(2 * 7 / 8 * 248e6)
    assert data.communication == pytest.approx(2 * 7 / 8 * 248e6 / 450e9)
    fully = plan(GPT2_SMALL, 8, "fully", ALONE, cluster=PERFECT)
    assert fully.communication == pytest.approx(1.5 * data.communication)


def test_what_is_split_among_gpus() -> None:
    whole, cut = (plan(GPT_7B, 64, kind, ALONE, batch=1) for kind in ("data", "fully"))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(cut, name) == pytest.approx(getattr(whole, name) / 64)
    assert cut.activations == whole.activations
    in_node = plan(GPT_7B, 64, "tensor", ALONE, batch=1)
    assert in_node.weights == pytest.approx(whole.weights / 8)


def test_activations_of_one_layer_by_hand() -> None:
    model = Model(0, layers=1, width=64, heads=4, vocabulary=0, sequence=16)
    entries = 16 * 2 * 64
    assert activations(model, 2) == 34 * entries
    assert activations(model, 2, stores_attention=True) == (34 + 5 * 4 * 16 / 64) * entries
    assert activations(model, 2, split=8) == (10 + 24 / 8) * entries
    deep = dataclasses.replace(model, layers=10)
    assert activations(deep, 2, recompute=True) == (2 * 10 + 34) * entries


def test_what_arithmetic_hides() -> None:
    cluster = dataclasses.replace(PERFECT, infiniband=1e9)  # slow: the backward pass ends first
    p = plan(GPT2_SMALL, 64, "data", ALONE, cluster=cluster)
    assert p.exposed == pytest.approx(p.communication - 2 / 3 * p.compute)
    assert p.efficiency == pytest.approx(p.compute / (p.compute + p.exposed))
    assert plan(GPT2_SMALL, 64, "data", ALONE, cluster=PERFECT).efficiency == 1
    some = dataclasses.replace(PERFECT, hidden=0.75)
    p = plan(GPT2_SMALL, 64, "data", ALONE, cluster=some)
    assert p.exposed == pytest.approx(p.communication / 4)


@pytest.mark.parametrize("kind", KINDS)
def test_more_gpus_are_never_more_efficient_nor_take_more_memory(kind: str) -> None:
    plans = [plan(GPT_7B, n, kind, ALONE, batch=2) for n in (8, 64, 512, 4096)]
    for fewer, more in zip(plans, plans[1:], strict=False):
        assert more.efficiency <= fewer.efficiency
        assert more.memory <= fewer.memory * (1 + 1e-12)
        assert more.sent >= fewer.sent


def test_flops_scale_time() -> None:
    p = plan(GPT2_SMALL, 1, "data", ALONE, batch=16)
    assert p.compute == pytest.approx(0.032)
    assert plan(GPT2_SMALL, 1, "data", ALONE, recompute=True).compute == pytest.approx(
        0.016 * 4 / 3
    )
    assert math.isclose(GPT2_SMALL.flops(1), (6 * 124e6 + 12 * 12 * 768 * 1024) * 1024)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="whole nodes of 8"):
        plan(GPT2_SMALL, 12, "data", ALONE)
    with pytest.raises(ValueError, match="one of data, fully, tensor"):
        plan(GPT2_SMALL, 8, "pipeline", ALONE)


def test_a_table_says_what_does_not_fit() -> None:
    lines = table(GPT_7B, ALONE, gpus=(8,), batch=8).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "too large" in lines[1]
    assert lines[2].startswith("fully")
    assert lines[2].endswith("%")


def test_the_page_plans_with_the_measured_figures() -> None:
    """docs/many-machines.md rests on the table of docs/benchmarks.md, and prints what follows from it."""
    spec = importlib.util.spec_from_file_location("plan_page", ROOT / "benchmarks" / "plan_page.py")
    assert spec is not None
    assert spec.loader is not None
    plan_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan_page)
    figures = plan_page.measured()
    assert set(figures) == {"ours", "jax.jit", "torch.compile"}
    page = plan_page.PAGE.read_text(encoding="utf-8")
    assert plan_page.written(page, figures) == page, "python benchmarks/plan_page.py writes it anew"
    doubled = {name: 2 * value for name, value in figures.items()}
    assert f"{2 * figures['ours']:.1f} ms" in plan_page.written(page, doubled)
