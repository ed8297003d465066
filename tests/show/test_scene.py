"""What a scene holds: values, adjoints, where rows came from, and what folds."""

import numpy as np

import backsolve as bs
from backsolve.show.code import gradient_code
from backsolve.show.data import page_data
from backsolve.show.folds import closed_at_first, folded
from backsolve.show.formulas import row_tex, step_tex
from backsolve.show.health import findings
from backsolve.show.scene import scene_of


def _folds(f, *args, **options):
    scene = scene_of(f, args, **options)
    return scene, *folded([scene.home[row] for row in scene.system.rows])


def test_adjoints_of_all_rows_come_from_one_back_substitution():
    def f(x):
        y = np.exp(x)
        return (y * y).sum() + np.log(y).sum()

    x = np.array([0.1, 0.7])
    scene = scene_of(f, (x,))
    rows = scene.system.rows
    found = {r.primitive.name: scene.adjoints[r] for r in rows}
    np.testing.assert_allclose(found["exp"], 2 * np.exp(x) + 1 / np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(
        scene.adjoints[scene.system.parameters[0]], bs.grad(f)(x), rtol=1e-14
    )


def test_rounds_of_nested_loops_are_groups():
    def f(x):
        for _ in range(3):
            y = x * 2
            for _ in range(2):
                x = np.sin(x) + y
        return x

    _, groups, own = _folds(f, 1.0)
    kinds = [g["kind"] for g in groups]
    assert kinds.count("loop") == 4
    assert kinds.count("round") == 3 + 6
    rounds = ["round 1", "round 1", "round 2", "round 2"]  # of the inner loop, two rows each
    expected = [name for k in (1, 2, 3) for name in (f"round {k}", *rounds)]
    assert [groups[g]["name"] for g in own] == expected


def test_several_rows_of_one_call_are_one_round():
    def f(x):
        total = 0.0
        for k in range(2):
            total = total + np.mean(x * k)  # a sum and a quotient, by one instruction
        return total

    _, groups, own = _folds(f, np.ones(3))
    assert len({g for g in own if g is not None}) == 2
    assert [g["kind"] for g in groups] == ["loop", "round", "round"]


def test_functions_and_modules_are_groups():
    def inner(x):
        return np.sin(x) * x

    model = bs.nn.Sequential(bs.nn.Linear(4, 8), bs.nn.Tanh(), bs.nn.Linear(8, 2))

    def f(model, x):
        return inner(model(x)).sum()

    _, groups, own = _folds(f, model, np.ones((3, 4)), argnums=0)
    names = [g["name"] for g in groups]
    assert "inner" in names
    assert "Sequential" in names
    assert "0 · Linear" in names
    assert own[-1] is None  # the sum stands in f itself


def test_long_flat_programs_are_cut_into_stretches():
    def f(x):
        for k in range(1000):
            x = x + 0.01 * k
        return x

    _, groups, own = _folds(f, 1.0)
    closed = set(closed_at_first(groups, own))
    children = {}
    for g in groups:
        children[g["parent"]] = children.get(g["parent"], 0) + 1
    assert max(children.values()) <= 60
    assert closed


def test_stretches_of_rows_without_rounds_are_told_apart():
    flat: dict = {}
    exec(
        "def f(x):\n    for k in range(100):\n        x = x + 0.01 * k\n    return x", flat
    )  # no text, no loop
    _, groups, _ = _folds(flat["f"], 1.0)
    assert [g["name"] for g in groups][:2] == ["rows 1 … 10", "rows 11 … 20"]


def test_groups_that_are_alike_open_together_or_not_at_all():
    def squash(x):
        return 1 / (1 + np.exp(-x))

    def f(x, w, rounds):
        for _ in range(rounds):
            x = squash(x * w) * x
        return x

    for rounds in range(3, 12):
        _, groups, own = _folds(f, 0.5, 2.0, rounds)
        closed = set(closed_at_first(groups, own))
        by_kind = {}
        for k, g in enumerate(groups):
            by_kind.setdefault(g["kind"], set()).add(k in closed)
        assert all(len(found) == 1 for found in by_kind.values())
        assert by_kind["function"] == {
            rounds > 6
        }  # 6 rows each, and a box more where they are folded


def test_compiled_functions_are_shown_as_they_are_written():
    @bs.jit
    def f(x):
        while x < 10.0:
            x = x * x
        return x

    scene = scene_of(f, (2.0,))
    assert [r.primitive.name for r in scene.system.rows] == ["multiply", "multiply"]


def test_the_line_of_a_nan_and_no_others():
    def f(x):
        y = np.log(x)
        z = y * 2.0
        return z.sum()

    with np.errstate(all="ignore"):
        scene = scene_of(f, (np.array([-1.0, 2.0]),))
        found = findings(scene)
    values = [p for p in found if "value" in p.text]
    assert [(p.kind, p.row.primitive.name) for p in values] == [("nan", "log")]


def test_vanishing_exploding_and_unused():
    def f(a, b, c):
        return 1e-12 * a + 1e12 * b + 0.0 * 1.0

    scene = scene_of(f, (1.0, 1.0, 1.0))
    kinds = {
        p.kind: scene.system.names[scene.system.parameters.index(p.row)] for p in findings(scene)
    }
    assert kinds == {"vanishing": "a", "exploding": "b", "unused": "c"}


def test_steps_back_in_mathematics():
    def f(x, y):
        return np.sin(x) * y / np.maximum(x, y)

    scene = scene_of(f, (2.0, 3.0))
    steps = {
        (e.reader.primitive.name, e.place): step_tex(scene.system, e.reader, e.place, e.block)
        for e in scene.edges
    }
    assert steps["sin", 0] == r"\bar v_{1} \cdot \cos \left(x\right)"
    assert steps["multiply", 0] == r"\bar v_{2} \cdot y"
    assert steps["maximum", 1] == r"\bar v_{3} \cdot \left[y > x\right]"
    assert steps["divide", 0] == r"\frac{\bar v_{4}}{v_{3}}"
    assert [row_tex(scene.system, r) for r in scene.system.rows][1] == r"v_{1} \cdot y"


def test_matrix_products_follow_the_swap_rule():
    scene = scene_of(lambda A, x: A @ x, (np.ones((2, 3)), np.ones(3)))
    (row,) = scene.system.rows
    back = [step_tex(scene.system, e.reader, e.place, e.block) for e in scene.edges]
    assert row_tex(scene.system, row) == r"\sum\nolimits_{b} {A}_{ab}\, {x}_{b}"
    assert sorted(back) == sorted(
        [r"{\bar v_{1}}_{a}\, {x}_{b}", r"\sum\nolimits_{a} {A}_{ab}\, {\bar v_{1}}_{a}"]
    )


def test_lines_of_code_know_their_nodes():
    def f(x):
        return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])

    scene = scene_of(f, (np.array([2.0, 5.0]),))
    code = gradient_code(scene)
    about = {line.strip(): nodes for line, nodes in zip(code["lines"], code["nodes"], strict=True)}
    names = [n.primitive.name for n in scene.nodes]
    assert names[about["s1 = np.log(s0)"][0]] == "log"
    assert names[about["grad_s5 = -grad_f"][0]] == "sin"
    assert about["return f, grad_x"] == []


def test_seeds_weigh_outputs():
    f = lambda x: (x * 2.0, x * 3.0)
    scene = scene_of(f, (1.0,), seed=(1.0, 10.0))
    assert scene.adjoints[scene.system.parameters[0]] == 32.0


def test_data_is_json_whatever_the_numbers():
    import json

    with np.errstate(all="ignore"):
        data = page_data(scene_of(lambda x: np.log(x).sum(), (np.array([0.0, -1.0, np.inf]),)))
    text = json.dumps(data, allow_nan=False)
    assert '"-inf"' in text
    assert '"nan"' in text


def test_what_readers_send_back_adds_up_to_the_gradient():
    def f(a, b):
        y = np.maximum(a, b)
        return 9.0 * y + 4.0 * a + a * b, y

    scene = scene_of(f, (3.0, 4.0))
    sent = {}
    for k, g in scene.sent.items():
        sent.setdefault(scene.edges[k].read, []).append(float(g))
    a, b = scene.system.parameters
    (y,) = [row for row in scene.system.rows if row.primitive.name == "maximum"]
    assert sent == {a: [0.0, 4.0, 4.0], b: [10.0, 3.0], y: [9.0]}  # y is a result, too: 9 + 1


def test_terms_that_single_blocks_cannot_tell_are_absent():
    def f(x):
        s = np.where(x > 0, np.log(x), x)
        return np.sum(s + x)

    with np.errstate(all="ignore"):
        scene = scene_of(f, (np.array([0.0, 2.0]),))
    assert scene.sent == {}  # log alone would send NaN where `where` did not look
    np.testing.assert_allclose(scene.adjoints[scene.system.parameters[0]], [2.0, 1.5])


def test_a_program_of_millions_of_numbers_is_priced_and_its_constants_are_not_written_out():
    x = np.linspace(0.0, 1.0, 600_000)
    data = page_data(scene_of(lambda w: np.sum(w * w * x), (np.ones(600_000),)))
    assert data["costs"][1][0] == "reverse"  # the way that is chosen
    passes = {line[0]: line[3] for line in data["costs"]}
    assert (passes["reverse"], passes["forward"]) == ("1", "600,000")
    assert data["nodes"][0]["value"]["bad"] == 0
    assert "    c0 = ...  # float64[600000]" in data["code"]["lines"]
    ways = [line for line in data["code"]["lines"] if "c0" in line]
    assert len(ways) > 1  # read where it is multiplied by
    assert sum(map(len, data["code"]["lines"])) < 2_000
