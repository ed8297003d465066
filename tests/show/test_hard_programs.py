"""Programs that are not straight lines of NumPy: what is shown of them is right, or absent, or an error."""

import threading

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import NotDifferentiableError
from backsolve.show.data import page_data
from backsolve.show.scene import scene_of


class Multiply(bs.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return y * grad, x * grad


def shown(f, *args, **options):
    """The data of a page, after all three pictures were drawn too."""
    for draw in (bs.show.graph, bs.show.matrix):
        picture = draw(f, *args, **options)
        assert picture.svg.startswith("<svg")
        assert str(picture)
    assert bs.show.trace(f, *args, **options).latex
    return page_data(scene_of(f, args, **options))


def values(data, name):
    return [n["value"]["data"] for n in data["nodes"] if n.get("operation") == name]


@pytest.mark.parametrize(
    ("f", "name", "args"),
    [
        (lambda x, y: Multiply.apply(x, y) + x, "Multiply", (2.0, 3.0)),
        (lambda x: bs.checkpoint(lambda t: np.sin(t) * t)(x) + 1, "checkpoint", (2.0,)),
        (lambda a: bs.root(lambda x, a: x**3 - a, 1.0, a) * 2, "implicit", (8.0,)),
        (lambda a: bs.fixed_point(lambda x, a: a * np.cos(x), 1.0, a), "implicit", (0.5,)),
    ],
)
def test_a_call_with_a_derivative_of_its_own_has_its_value_and_adjoint(f, name, args):
    data = shown(f, *args)
    numbers = tuple(range(len(args)))
    scene = scene_of(f, args)
    for row, g in zip(scene.system.parameters, bs.grad(f, numbers)(*args), strict=True):
        np.testing.assert_allclose(scene.adjoints[row], g, rtol=1e-12)
    (call,) = [n for n in data["nodes"] if n.get("operation") == name]
    (result,) = [n for n in data["nodes"] if n.get("operation") == "component"]
    assert call["value"]["data"] == result["value"]["data"]
    assert call["adjoint"]["data"] == result["adjoint"]["data"]
    assert call["line"] > 0


def test_constants_are_shown_as_they_were_when_they_were_read():
    def f(x):
        y = np.zeros(3)
        for i in range(3):
            y[i] = x[i] * 2
        return y.sum()

    def g(x):
        scale = np.array([1.0, 2.0])
        y = x * scale
        scale[0] = 100.0
        return y.sum()

    texts = [n["text"] for n in shown(f, np.ones(3))["nodes"] if "text" in n]
    assert "slice_update([0.0, 0.0, 0.0], v2)" in texts
    assert "x · [1.0, 2.0]" in [n.get("text") for n in shown(g, np.ones(2))["nodes"]]


def test_compiled_functions_that_write_entries_are_shown():
    @bs.jit
    def f(x):
        y = np.zeros(4)
        for i in range(1, 4):
            y[i] = y[i - 1] * x[i] if x[i] > 0 else y[i - 1] + 1.0
        return y.sum()

    x = np.array([1.0, 2.0, -3.0, 4.0])
    scene = scene_of(f, (x,))
    np.testing.assert_allclose(scene.adjoints[scene.system.parameters[0]], bs.grad(f)(x))


def test_what_ran_in_another_thread_has_no_value_but_a_gradient():
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(np.sin(x)))
        thread.start()
        thread.join()
        return found[0] * 2

    data = shown(f, 1.0)
    assert [n["value"]["text"] for n in data["nodes"]] == ["1.0", "·", "1.68294"]
    assert data["nodes"][0]["adjoint"]["data"] == [2 * np.cos(1.0)]
    assert "thread" in data["recompute"]["why"]


@pytest.mark.parametrize(
    ("result", "said"),
    [(None, "is a `return` missing"), ("text", "of type str"), (object(), "of type object")],
)
def test_results_that_are_no_numbers_are_an_error(result, said):
    for show in (bs.show, bs.show.graph, bs.show.matrix, bs.show.trace):
        with pytest.raises(NotDifferentiableError, match=said):
            show(lambda x: result, 1.0)


def test_settings_among_the_arguments():
    f = lambda kind, x: x * len(kind)
    data = shown(f, "abc", 2.0)
    assert data["paths"]["inputs"][0]["gradient"] == 3.0
    assert bs.explain(f, "abc", 2.0).inputs[0].gradient == 3.0


def test_paths_are_those_of_the_run_that_is_shown():
    rng = np.random.default_rng(0)
    f = lambda x: x * rng.normal()
    data = shown(f, 1.0)
    assert data["paths"]["inputs"][0]["gradient"] == data["nodes"][0]["adjoint"]["data"][0]


def test_containers_complex_numbers_empty_arrays_and_constants():
    data = shown(lambda x: {"a": x * 2, "b": [np.sin(x), x]}, 1.0)
    np.testing.assert_allclose(data["nodes"][0]["adjoint"]["data"], [3 + np.cos(1.0)])
    data = shown(lambda z: (z * z.conj()).real.sum(), np.array([1 + 2j, 2.0]))
    assert data["nodes"][0]["adjoint"]["data"] == [[2.0, 4.0], [4.0, 0.0]]
    assert shown(lambda x: np.sin(x).sum(), np.ones(0))["nodes"][-1]["value"]["data"] == [0.0]
    assert [p["kind"] for p in shown(lambda x: 3.0, 1.0)["findings"]] == ["unused"]
