"""Pictures of the programs of the four documents: what stands on them, not where."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import backsolve as bs
from backsolve.show.drawing import COLOURS
from backsolve.show.page import _static

from .gates import Multiply

GOLDEN = Path(__file__).parents[1] / "golden" / "show"
SVG = "{http://www.w3.org/2000/svg}"


# Akyürek, Edelman, Wang


def path_weights(x, y):
    return (x * 2.0 + y * 3.0) * 5.0 * 7.0


def scalar_mlp(w, b):
    x = 0.3
    for k in range(2):
        x = np.tanh(w[k] * x + b[k])
    return x


def matrix_mlp(W1, W2):
    return ((W2 @ np.tanh(W1 @ np.ones((3, 2)))) ** 2).sum() / 2


# Grover


def add_then_multiply(x, y, z):
    return (x + y) * z


def neuron_of_gates(w0, x0, w1, x1, w2):
    return 1 / (1 + np.exp(-1.0 * (w0 * x0 + w1 * x1 + w2)))


def neuron(w0, x0, w1, x1, w2):
    return expit(w0 * x0 + w1 * x1 + w2)


def copy_gate(a):
    return 4.0 * a + 2.0 * a


def max_gate(a, b):
    return 9.0 * np.maximum(a, b)


def relu(x):
    return np.maximum(0, x)


def matrix_product(x, w):
    return x @ w


def function_with_context(x, y):
    return Multiply.apply(x, y)


# Bellani


def trace_example(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


def loop(x):
    y = 1.0
    for _ in range(5):
        y = y * x
        y = y + x
    return y


def recursive(x):
    def go(x, n):
        return x if n == 0 else np.sin(go(x * 2.0, n - 1))

    return go(x, 3)


# McAllester


def messages(x, y):
    return x * y + x


def swap_rule(A, B):
    return np.einsum("hik,hjk->hij", A, B)


NEURON = (2.0, -1.0, -3.0, -2.0, -3.0)
PROGRAMS = [
    (path_weights, (1.0, 1.0)),
    (scalar_mlp, (np.array([0.5, -0.5]), np.array([0.25, 1.0]))),
    (matrix_mlp, (np.full((2, 3), 0.25), np.full((1, 2), 0.5))),
    (add_then_multiply, (-2.0, 5.0, -4.0)),
    (neuron_of_gates, NEURON),
    (neuron, NEURON),
    (copy_gate, (3.0,)),
    (max_gate, (3.0, 4.0)),
    (relu, (np.array([1.0, -2.0, 3.0, -1.0]),)),
    (matrix_product, (np.ones((2, 3)), np.ones((3, 4)))),
    (function_with_context, (3.0, -4.0)),
    (trace_example, (np.array([2.0, 5.0]),)),
    (loop, (2.0,)),
    (recursive, (0.5,)),
    (messages, (3.0, 4.0)),
    (swap_rule, (np.ones((2, 3, 4)), np.ones((2, 5, 4)))),
]


def structure(svg):
    """Shapes, their titles and all words of a drawing, in order; wires are counted."""
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    lines, wires = [], 0
    for shape in root:
        tag = shape.tag.removeprefix(SVG)
        title = shape.find(f"{SVG}title")
        if tag in ("rect", "circle") and title is not None:
            lines.append(f"{tag} {shape.get('fill')}: {title.text}")
        elif tag == "text":
            lines.append(f"  {shape.text or ''}".rstrip())
        elif tag == "path" and shape.get("marker-end"):
            wires += 1
    return "\n".join([f"{wires} wires", *lines])


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_a_picture_holds_what_it_held(f, args, pytestconfig):
    graph, matrix = bs.show.graph(f, *args), bs.show.matrix(f, *args)
    for picture in (graph, matrix):
        assert not re.search(r"(href|src)=|url\((?!#bs-arrow\))|<script|@import", picture.svg)
    parts = [
        "# graph",
        str(graph),
        structure(graph.svg),
        "# matrix",
        str(matrix),
        structure(matrix.svg),
    ]
    text = "\n".join([*parts, "# trace", str(bs.show.trace(f, *args))]) + "\n"
    path = GOLDEN / f"{f.__name__}.txt"
    if pytestconfig.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"run pytest --update-golden, look at {path}"


def test_open_groups_are_framed():
    def inner(x):
        return np.sin(x) * x

    root = ET.fromstring(bs.show.graph(lambda x: inner(x) + 1.0, 2.0).svg)
    (frame,) = [
        r
        for r in root.iter(f"{SVG}rect")
        if (t := r.find(f"{SVG}title")) is not None and t.text == "inner"
    ]
    left, top = float(frame.get("x")), float(frame.get("y"))
    right, bottom = left + float(frame.get("width")), top + float(frame.get("height"))
    sine = next(r for r in root.iter(f"{SVG}rect") if "sin(x)" in "".join(r.itertext()))
    times, plus = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(f"{SVG}circle")]
    assert left < float(sine.get("x"))
    assert top < float(sine.get("y"))
    assert left < times[0] < right
    assert top < times[1] < bottom
    assert plus[0] > right


def test_colours_are_those_of_the_page():
    page: dict[str, str] = {}
    for name, colour in re.findall(r"--([\w-]+): ?(#[0-9a-f]+)", _static("explorer.css")):
        page.setdefault(name, colour)  # in the light, which comes first
    same = {*COLOURS} - {"line", "sheet", "bad", "frame", "group", "one"}
    assert {name: COLOURS[name] for name in same} == {name: page[name] for name in same}


def test_lines_are_cut_at_the_edge_of_a_terminal(monkeypatch):
    picture = bs.show.graph(neuron_of_gates, *NEURON)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = str(picture).split("\n")
    assert max(map(len, lines)) == 30
    assert lines[-1].endswith("…")
