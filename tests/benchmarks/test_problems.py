"""The twelve problems: answers at small sizes against differences or closed forms, and the protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import backsolve as bs

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `benchmarks` is no part of the package
    sys.path.insert(0, str(ROOT))

from benchmarks.problems import NAMES, descent, load  # noqa: E402

SMALL = {
    "hello": {},
    "gmm": {"d": 3, "k": 2, "n": 5},
    "ba": {"n": 2, "m": 3, "p": 4},
    "lstm": {"l": 2, "c": 4, "bits": 3},
    "ht": {"points": 4, "vertices": 6, "complicated": True},
    "kmeans": {"k": 3, "n": 20, "d": 2},
    "lse": {"n": 7},
    "particle": {},
    "saddle": {},
    "ode": {"n": 4, "s": 3},
    "llsq": {"n": 9, "m": 4},
    "det": {"ell": 4},
}
rng = np.random.default_rng(7)


def arguments(name, **size):
    problem = load(name)
    return problem, problem.prepare(problem.generate(rng, **(size or SMALL[name])))


def numeric(f, x, h=1e-6):
    """The Jacobian of f at x by central differences, entry by entry of x."""
    columns = []
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h))
    return np.stack(columns, axis=-1).reshape(np.shape(f(x)) + x.shape)


def test_every_problem_has_all_a_tool_needs():
    assert len(NAMES) == len(set(NAMES)) == 12
    for name in NAMES:
        problem = load(name)
        assert set(problem.derivative) <= set(problem.functions)
        assert "small" in problem.sizes
        given = json.loads(json.dumps(problem.generate(rng, **SMALL[name])))
        assert problem.prepare(given)


def test_hello():
    problem, (x,) = arguments("hello")
    assert problem.functions["square"].run(x) == x * x
    assert problem.functions["double"].run(x) == 2 * x


@pytest.mark.parametrize("name", ["gmm", "lstm"])
def test_gradients_of_several_arrays(name):
    problem, (parameters, *rest) = arguments(name)
    f = problem.functions["objective"].run
    for k, (x, g) in enumerate(
        zip(parameters, problem.functions["jacobian"].run(parameters, *rest), strict=True)
    ):
        varied = lambda y, k=k: f((*parameters[:k], y, *parameters[k + 1 :]), *rest)
        np.testing.assert_allclose(g, numeric(varied, x), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "function"),
    [("lse", "primal"), ("ode", "primal"), ("llsq", "primal"), ("det", "primal")],
)
def test_gradients_of_one_array(name, function):
    problem, (x, *rest) = arguments(name)
    last = (lambda y: y[-1]) if name == "ode" else (lambda y: y)
    f = lambda x: last(problem.functions[function].run(x, *rest))
    got = problem.functions["gradient"].run(x, *rest)
    np.testing.assert_allclose(got, numeric(f, x), rtol=1e-6, atol=1e-8)


def test_gmm_is_the_posterior_of_its_definition():
    from scipy.stats import multivariate_normal, wishart

    _, ((alpha, mu, q, l), x, _, _) = arguments("gmm")
    m, gamma = 2, 1.3
    d, weights = x.shape[1], np.exp(alpha) / np.sum(np.exp(alpha))
    precisions = []
    for q_k, l_k in zip(q, l, strict=True):
        Q = np.diag(np.exp(q_k))
        Q[1, 0], Q[2, 0], Q[2, 1] = l_k
        precisions.append(Q.T @ Q)
    density = sum(
        w * multivariate_normal.pdf(x, mean, np.linalg.inv(P))
        for w, mean, P in zip(weights, mu, precisions, strict=True)
    )
    prior = [wishart.logpdf(P, d + m + 1, np.eye(d) / gamma**2) for P in precisions]
    got = load("gmm").functions["objective"].run((alpha, mu, q, l), x, m, gamma)
    np.testing.assert_allclose(got, np.sum(np.log(density)) + np.sum(prior))


def test_kmeans_steps_to_the_means():
    """The cost is quadratic while no point changes sides: Newton's step ends at the mean of a cluster."""
    problem, (centroids, points) = arguments("kmeans")
    nearest = np.argmin(np.sum((points[:, None] - centroids) ** 2, axis=2), axis=1)
    means = np.stack([points[nearest == k].mean(axis=0) for k in range(len(centroids))])
    got = problem.functions["dir"].run(centroids, points)
    np.testing.assert_allclose(centroids - got, means)


def test_det_has_its_closed_form():
    problem, (A,) = arguments("det")
    np.testing.assert_allclose(problem.functions["primal"].run(A), np.linalg.det(A))
    expected = np.linalg.det(A) * np.linalg.inv(A).T
    np.testing.assert_allclose(problem.functions["gradient"].run(A), expected)


@pytest.mark.parametrize("turned", [True, False])
def test_ba_as_a_matrix(turned):
    """Also without a rotation, where the axis is 0 / 0."""
    problem, (cameras, points, weights, *rest) = arguments("ba")
    cameras = cameras + 0.1 * rng.normal(size=cameras.shape)
    if not turned:
        cameras[:, :3] = 0
    begins, columns, values = problem.functions["jacobian"].run(cameras, points, weights, *rest)
    sizes = (cameras.size, points.size, weights.size)
    dense = np.zeros((len(begins) - 1, sum(sizes)))
    for row, (begin, end) in enumerate(zip(begins, begins[1:], strict=False)):
        dense[row, columns[begin:end]] = values[begin:end]

    def errors(x):
        c, p, w = np.split(x, np.cumsum(sizes)[:2])
        parts = problem.functions["objective"].run(
            c.reshape(cameras.shape), p.reshape(points.shape), w, *rest
        )
        return np.concatenate([np.ravel(part) for part in parts])

    x = np.concatenate([cameras.ravel(), points.ravel(), weights])
    np.testing.assert_allclose(dense, numeric(errors, x, 1e-5), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("complicated", [True, False])
def test_ht(complicated):
    problem, (theta, us, *rest) = arguments("ht", points=4, vertices=6, complicated=complicated)
    got = problem.functions["jacobian"].run(theta, us, *rest)
    f = problem.functions["objective"].run
    by_theta = numeric(lambda x: f(x, us, *rest), theta).reshape(-1, len(theta))
    np.testing.assert_allclose(got[:, -len(theta) :], by_theta, rtol=1e-6, atol=1e-8)
    if complicated:
        full = numeric(lambda x: f(theta, x, *rest), us)  # point, coordinate, point, u
        own = full[np.arange(4), :, np.arange(4)].reshape(-1, 2)
        np.testing.assert_allclose(got[:, :2], own, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("modes", descent.VARIANTS)
def test_particle_differentiates_through_its_path(modes):
    particle = load("particle")
    outer, inner = (descent.GRADIENTS[mode] for mode in modes)
    miss = lambda w: particle.miss(w, inner)
    got = outer(miss)(0.3)
    np.testing.assert_allclose(got, (miss(0.3 + 1e-6) - miss(0.3 - 1e-6)) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("modes", descent.VARIANTS)
def test_saddle_differentiates_through_a_descent(modes):
    """The maximum over y of x·y − 50 |y|² is |x|² / 200, at y = x / 100; its gradient is that y."""
    outer, inner = (descent.GRADIENTS[mode] for mode in modes)
    f = lambda x, y: np.sum(x * y) - 50 * np.sum(y * y)
    start = np.array([0.1, 0.1])
    largest = lambda x: f(x, descent.argmax(lambda y: f(x, y), start, inner))
    x = np.array([0.5, -0.25])
    np.testing.assert_allclose(outer(largest)(x), x / 100, atol=2e-4)


def test_particle_and_saddle_reach_their_goals():
    """The particle meets the origin; the saddle is at 0."""
    particle, w = load("particle"), load("particle").functions["fr"].run(0.0)
    assert particle.miss(w, bs.grad) < 1e-8
    point = load("saddle").functions["rr"].run(np.array([1.0, 1.0]))
    np.testing.assert_allclose(point, 0, atol=1e-4)


def test_descent_finds_a_minimum():
    f = lambda x: 100 * np.sum((x - 1.5) ** 2)
    np.testing.assert_allclose(descent.argmin(f, np.array([1.2]), bs.grad), 1.5, atol=1e-4)


def test_the_protocol():
    """Two modules, an unknown module, an unknown function: every message is answered, in order."""
    lse = {"x": [0.0, 0.0], "min_runs": 2, "min_seconds": 0}
    messages = [
        {"kind": "start", "eval": "hello"},
        {"kind": "define", "module": "hello"},
        {"kind": "evaluate", "module": "hello", "function": "double", "input": 3.0},
        {"kind": "analysis", "of": 2, "valid": True},
        {"kind": "define", "module": "lse"},
        {"kind": "evaluate", "module": "lse", "function": "gradient", "input": lse},
        {"kind": "define", "module": "nothing"},
        {"kind": "evaluate", "module": "lse", "function": "nothing", "input": lse},
    ]
    lines = "".join(json.dumps({"id": k, **m}) + "\n" for k, m in enumerate(messages))
    command = [sys.executable, "-m", "benchmarks.gradbench"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["id"] for a in answers] == list(range(len(messages)))
    assert answers[0]["tool"] == "backsolve"
    assert [answers[k]["success"] for k in (1, 2, 4, 5, 6, 7)] == [True] * 4 + [False] * 2
    assert answers[2]["output"] == 6.0
    assert answers[5]["output"] == [0.5, 0.5]
    assert [t["name"] for t in answers[5]["timings"]] == ["compile", "evaluate", "evaluate"]
    assert "there is no problem 'nothing'" in answers[6]["error"]
