"""Programs that are not straight lines of NumPy: what is shown of them is right, or absent, or an error."""

import threading

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import DTypeError, NotDifferentiableError, ShapeError, StructureError
from backsolve.show.data import page_data
from backsolve.show.scene import scene_of

from .gates import Multiply


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
        with pytest.raises((NotDifferentiableError, DTypeError), match=said):
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
    assert "random" in data["recompute"]["why"]


def test_seeds_that_do_not_fit_are_an_error():
    with pytest.raises(StructureError, match="expected 1, got 2"):
        bs.show.graph(lambda x: x * 2, 1.0, seed=(1.0, 2.0))
    with pytest.raises(ShapeError, match=r"\(3,\), got \(2,\)"):
        bs.show.graph(lambda x: x * 2, np.ones(3), seed=np.ones(2))


def test_containers_complex_numbers_empty_arrays_and_constants():
    data = shown(lambda x: {"a": x * 2, "b": [np.sin(x), x]}, 1.0)
    np.testing.assert_allclose(data["nodes"][0]["adjoint"]["data"], [3 + np.cos(1.0)])
    data = shown(lambda z: (z * z.conj()).real.sum(), np.array([1 + 2j, 2.0]))
    assert data["nodes"][0]["adjoint"]["data"] == [[2.0, 4.0], [4.0, 0.0]]
    assert shown(lambda x: np.sin(x).sum(), np.ones(0))["nodes"][-1]["value"]["data"] == [0.0]
    assert [p["kind"] for p in shown(lambda x: 3.0, 1.0)["findings"]] == ["unused"]


# ---- groups


def paths_of_groups(f, *args):
    """For each row, the groups around it from the outside in; lines count from that of `f`."""
    data = page_data(scene_of(f, args))
    first, found = data["source"]["first"], []
    for node in data["nodes"]:
        if node["kind"] == "row":
            names, g = [], node["group"]
            while g is not None:
                group = data["groups"][g]
                names.insert(
                    0, group["name"].replace(str(group["line"]), f"+{group['line'] - first}")
                )
                g = group["parent"]
            found.append("/".join(names))
    return found


def helper(x):
    return np.sin(x) * x


def test_calls_in_a_loop_name_its_rounds():
    def f(x):
        for _ in range(2):
            x = helper(x)
        return x + 1

    one, two = [f"loop at line +1/round {k} · helper" for k in (1, 2)]
    assert paths_of_groups(f, 1.0) == [one, one, two, two, ""]


def test_a_comprehension_is_told_from_what_surrounds_it():
    def f(x):
        return sum([np.sin(x * k) for k in range(2)]) + helper(x)

    one, two = [f"loop at line +1/round {k}" for k in (1, 2)]
    assert paths_of_groups(f, 1.0) == [one, one, two, two, "", "", "helper", "helper", ""]


def test_what_a_loop_runs_over_is_no_part_of_it():
    def f(x):
        total = 0.0
        for y in np.sin(x):
            total = total + y * y
        else:
            total = total * 2
        return total

    found = paths_of_groups(f, np.ones(2))
    one, two = [f"loop at line +2/round {k}" for k in (1, 2)]
    assert found == ["", one, one, one, two, two, two, ""]  # a round: an entry, its square, the sum


def test_rounds_of_an_inner_loop_count_on_where_the_outer_one_computes_nothing():
    def f(x):
        for _ in range(2):
            for _ in range(2):
                x = np.sin(x) * x
        return x

    found = paths_of_groups(f, 1.0)
    assert found[::2] == [f"loop at line +2/round {k}" for k in (1, 2, 3, 4)]


def test_generators_belong_to_the_round_that_asks_them():
    def steps(x):
        for _ in range(2):
            x = np.sin(x) * 2
            yield x

    def f(x):
        total = 0.0
        for y in steps(x):
            total = total + y * y
        return total

    found = paths_of_groups(f, 1.0)
    assert found[:4] == ["loop at line +2/round 1/steps"] * 2 + ["loop at line +2/round 1"] * 2
    assert found[4:] == ["loop at line +2/round 2/steps"] * 2 + ["loop at line +2/round 2"] * 2


def test_rounds_of_the_librarys_loops():
    step = lambda c, t: (np.sin(c) * t, c)
    found = paths_of_groups(lambda x: bs.scan(step, x, np.arange(1.0, 3.0))[0], 1.0)
    assert found == [f"scan · lambda/round {k}" for k in (1, 1, 2, 2)]

    def double(c):
        return c * c + 1

    found = paths_of_groups(lambda x: bs.while_loop(lambda c: c < 20.0, double, x), 2.0)
    assert found == [f"while_loop · double/round {k}" for k in (1, 1, 2, 2)]
    assert paths_of_groups(lambda x: bs.cond(True, double, np.sin, x) * 2, 2.0) == [
        "double"
    ] * 2 + [""]


def test_loops_that_write_entries_have_rounds():
    def f(x):
        y = np.zeros(3)
        for i in range(1, 3):
            if x[i] > 0:
                y[i] = y[i - 1] * 0.5 + x[i]
        return y.sum()

    found = paths_of_groups(f, np.ones(3))
    assert set(found[:3]) == {"loop at line +2/round 1"}
    assert set(found[4:-1]) == {"loop at line +2/round 2"}
    assert found[-1] == ""


def test_functions_without_text_are_flat():
    space = {"np": np}
    exec("def g(x):\n    for k in range(2):\n        x = np.sin(x) * k\n    return x", space)
    data = page_data(scene_of(space["g"], (1.0,)))
    assert data["groups"] == []
    assert [n["line"] for n in data["nodes"][1:]] == [3] * 4
