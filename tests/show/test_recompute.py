"""The forward and the backward pass run again on the page, on other inputs, as in Python."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import backsolve as bs
from backsolve import tree
from backsolve.ir import Type
from backsolve.show.numbers import array_data
from backsolve.show.recompute import recomputation
from backsolve.show.scene import scene_of
from backsolve.testing import fuzz
from backsolve.trace import stage

from .conftest import as_array
from .programs import REFUSED, RUNS, branch, cube_root


def moved(numbers):
    """Other numbers of the same kinds."""
    rng = np.random.default_rng(1)
    other = [
        x + np.asarray(0.3 * rng.uniform(0.1, 1, np.shape(x)), np.asarray(x).dtype) for x in numbers
    ]
    return [float(y) if type(x) is float else y for x, y in zip(numbers, other, strict=True)]


@pytest.fixture(scope="module")
def answers(in_page):
    """By name: other arguments and seeds, and values and adjoints as the page finds them."""
    asked, others = [], []
    for f, args in RUNS:
        scene = scene_of(f, args)
        found = recomputation(scene)
        assert "program" in found, f"{f.__name__}: {found}"
        other = moved([scene.values[row] for row in scene.system.parameters])
        seeds = moved(scene.seeds)
        others.append((scene.arguments(other), tuple(seeds)))
        given = [*other, *seeds[: len(found["program"]["seeded"])]]
        asked.append({"program": found["program"], "inputs": [array_data(x) for x in given]})
    done = in_page(asked)
    return {f.__name__: (o, a) for (f, _), o, a in zip(RUNS, others, done, strict=True)}


@pytest.mark.parametrize("f", [f for f, _ in RUNS], ids=lambda f: f.__name__)
def test_agrees_with_python(f, answers):
    (args, seeds), answer = answers[f.__name__]
    assert "error" not in answer, answer
    scene = scene_of(f, args, seed=seeds)
    single = any(np.asarray(x).dtype == np.float32 for x in tree.flatten(args)[0])
    close = {"rtol": 1e-5, "atol": 1e-5} if single else {"rtol": 1e-9, "atol": 1e-9}
    assert len(answer["values"]) == len(scene.nodes)
    for row, value, adjoint in zip(scene.nodes, answer["values"], answer["adjoints"], strict=True):
        np.testing.assert_allclose(as_array(value), scene.values[row], **close)
        assert (adjoint is None) == (row not in scene.adjoints)
        if adjoint is not None:
            np.testing.assert_allclose(as_array(adjoint), scene.adjoints[row], **close)
    if any(scene.varied.static):
        return
    (seed,) = seeds
    grads = bs.grad(lambda *args: np.sum(f(*args) * seed), argnums=tuple(range(len(args))))(*args)
    for adjoint, g in zip(answer["adjoints"], tree.flatten(grads)[0], strict=False):
        found = np.zeros_like(g) if adjoint is None else as_array(adjoint)
        np.testing.assert_allclose(found, g, **close)


def test_random_programs_agree(in_page):
    scenes, asked = [], []
    for seed in range(200):
        sketch = fuzz.sketch(seed)
        with np.errstate(all="ignore"):
            scene = scene_of(sketch.function(), tuple(sketch.inputs))
            found = recomputation(scene)
        if "program" in found:
            scenes.append((str(sketch), scene))
            asked.append({"program": found["program"], "inputs": found["program"]["inputs"]})
    assert len(asked) > 140  # others have complex numbers, or rows that the page does not know
    for (text, scene), answer in zip(scenes, in_page(asked), strict=True):
        assert "error" not in answer, (answer, text)
        single = any(np.asarray(v).dtype == np.float32 for v in scene.values.values())
        expected = [scene.values[r] for r in scene.nodes]
        expected += [scene.adjoints.get(r) for r in scene.nodes]
        for got, y in zip([*answer["values"], *answer["adjoints"]], expected, strict=True):
            assert (got is None) == (y is None), text
            if got is None:
                continue
            x = as_array(got)
            assert (x.shape, x.dtype) == (np.shape(y), np.asarray(y).dtype), text
            size = np.abs(x[np.isfinite(x)], dtype=float).max(initial=1)
            rtol = 2e-4 if single else 1e-8
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * size, err_msg=text)


@pytest.mark.parametrize(("f", "args", "reason"), REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_refuses_with_a_reason(f, args, reason):
    assert reason in recomputation(scene_of(f, args))["why"]


@pytest.mark.parametrize(
    ("f", "at", "same", "other"),
    [(branch, (1.0, 2.0), (3.0, -1.0), (-1.0, 2.0)), (cube_root, (8.0,), (8.0001,), (100.0,))],
    ids=["branch", "while"],
)
def test_another_path_is_noticed(f, at, same, other, in_page):
    program = recomputation(scene_of(f, at))["program"]
    asked = [
        {"program": program, "inputs": [array_data(x) for x in (*xs, 1.0)]} for xs in (same, other)
    ]
    stays, leaves = in_page(asked)
    assert stays["leaves"] is None
    np.testing.assert_allclose(as_array(stays["values"][-1]), f(*same), rtol=1e-12)
    np.testing.assert_allclose(
        [as_array(a) for a in stays["adjoints"][: len(same)]],
        bs.grad(f, argnums=tuple(range(len(same))))(*same),
        rtol=1e-9,
    )
    text, first = inspect.getsourcelines(f)
    (asks,) = [first + k for k, line in enumerate(text) if " if " in line or "while" in line]
    assert leaves["leaves"] == asks


def test_staging_follows_no_path_by_itself():
    with pytest.raises(bs.errors.TracedValueError):
        stage(branch, [Type((), np.dtype(float))] * 2)


def test_is_json():
    for f, args in RUNS:
        json.dumps(recomputation(scene_of(f, args)), allow_nan=False)
