"""The public tasks of Jacobian accumulation: their published counts, and what the kept orders reach."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import backsolve as bs

FOLDER = Path(__file__).parents[2] / "benchmarks"
if str(FOLDER) not in sys.path:  # scripts, no part of the package
    sys.path.insert(0, str(FOLDER))

import elimination  # noqa: E402
from jacobian_tasks import TASKS  # noqa: E402

SCALAR = TASKS[:4]


@pytest.mark.parametrize("task", SCALAR, ids=lambda t: t.title)
def test_the_tasks_are_the_published_ones(task):
    skeleton = elimination.published(elimination.graph_of(task, merge=False))
    rows = range(skeleton.rows)
    orders = rows, rows[::-1], elimination.markowitz_of(skeleton, rows)
    assert tuple(skeleton.cost(o, "pairs") for o in orders) == task.published[:3]
    assert [skeleton.cost(o, "multiplications") for o in orders] == list(task.published[:3])


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.title)
def test_kept_orders_reach_the_goals(task):
    skeleton = elimination.published(elimination.graph_of(task, merge=False))
    best = elimination.kept_rows(task, "published")
    assert sorted(best) == list(range(skeleton.rows))
    assert skeleton.cost(best, "multiplications") <= task.goal


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.title)
def test_kept_orders_give_the_jacobian(task):
    f, argnums = elimination.function(task)
    at = [np.array(x) if isinstance(x, list) else x for x in task.at]
    order = elimination.kept()[task.title]["honest"]
    found = bs.jacobian(f, argnums, "eliminate", order)(*at)
    expected = bs.jacobian(f, argnums, "reverse")(*at)
    for row, other in zip(found, expected, strict=True):
        for a, b in zip(row, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
