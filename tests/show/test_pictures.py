"""Pictures for papers and terminals: their structure, not their pixels."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import backsolve as bs
from backsolve.show.layered import layered

SVG = "{http://www.w3.org/2000/svg}"


def f(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


POINT = np.array([2.0, 5.0])


def test_a_graph_has_a_shape_for_each_node_and_a_wire_for_each_edge():
    root = ET.fromstring(bs.show.graph(f, POINT).svg)
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert len(titles) == 8
    assert "v4 = v1 · v3: 10.0, gradient 1.0" in titles
    arrows = [p for p in root.iter(f"{SVG}path") if p.get("marker-end")]
    assert len(arrows) == 10
    words = [t.text for t in root.iter(f"{SVG}text")]
    assert "[5.5, 1.71634]" in words


def test_a_matrix_has_a_block_for_each_edge():
    root = ET.fromstring(bs.show.matrix(f, POINT).svg)
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert sum(t.startswith("∂") for t in titles) == 10
    assert "∂v2/∂v1: Diagonal(0.5)" in titles


def test_pictures_are_saved_by_the_ending_of_the_name(tmp_path):
    picture = bs.show.graph(f, POINT)
    assert picture.save(tmp_path / "a.svg").read_text().startswith("<svg")
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "v4  v1 · v3" in picture.save(tmp_path / "a.txt").read_text()
    assert picture.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf or \.txt, got 'a\.gif'"):
        picture.save(tmp_path / "a.gif")


def test_a_trace_in_latex():
    text = bs.show.trace(lambda x, y: x * y + np.sin(x), 2.0, 3.0).latex
    assert (
        r"\bar x &= \bar v_{2} \cdot \cos \left(x\right) + \bar v_{1} \cdot y &&= \text{2.58385}"
        in text
    )
    assert text.count(r"\\") == 4


def test_boxes_do_not_overlap_and_wires_go_to_the_right():
    rng = np.random.default_rng(0)
    wires = sorted({(int(a), int(b)) for b in range(1, 40) for a in rng.integers(0, b, 2)})
    sizes = [(float(rng.integers(30, 90)), 40.0) for _ in range(40)]
    layout = layered(sizes, wires)
    for (a, b), bends in zip(wires, layout.bends, strict=True):
        xs = [layout.centres[a][0], *[x for x, _ in bends], layout.centres[b][0]]
        assert xs == sorted(xs)
    for i in range(40):
        for j in range(i):
            (xi, yi), (xj, yj) = layout.centres[i], layout.centres[j]
            apart = abs(xi - xj) >= (sizes[i][0] + sizes[j][0]) / 2 - 1e-9
            assert apart or abs(yi - yj) >= 40.0
    assert all(0 <= x <= layout.width for x, _ in layout.centres)
    assert all(0 <= y <= layout.height for _, y in layout.centres)


def test_a_page_in_a_notebook_is_a_frame():
    page = bs.show(f, POINT)
    assert re.match(r"<iframe .*src=\"data:text/html;base64,", page._repr_html_())
    assert repr(page) == "<Page f: 7 rows, 1 parameter>"
