"""What notebooks show: HTML and LaTeX of systems, operators, plans and tables, and the text of Tensors."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import backsolve as bs
from backsolve import operators as ops


class Parsed(HTMLParser):
    """Text and tags of a piece of HTML whose elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data.strip())


def f(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


@pytest.fixture
def system():
    return bs.linearize(f)(np.array([2.0, 5.0]))


def test_a_system_is_its_matrix_beside_its_trace(system):
    page = Parsed(system._repr_html_())
    assert page.tags.count("svg") == 1
    assert "∂v2/∂v1: Diagonal(0.5)" in page.words
    assert "v4 = v1 · v3" in page.words
    assert "[5.5, 1.71634]" in page.words


def test_tables_are_read_on_dark_grounds(system):
    """On a light sheet cells have colours and no stripes of a dark notebook's; alone, its own colours."""
    page = system._repr_html_()
    assert page.count("<tr") == page.count('<tr style="background:none">') > 0
    assert all("color:#" in cell for cell in re.findall("<t[dh] [^>]*>", page))
    prices = bs.explain_cost(f, np.array([2.0, 5.0]))._repr_html_()
    assert not re.search("background|color:", prices)


def test_a_system_in_latex_is_the_equation_itself(system):
    text = system._repr_latex_()
    assert text.startswith(r"$\displaystyle \begin{pmatrix} I &  &")
    assert text.count(r"\begin{pmatrix}") == text.count(r"\end{pmatrix}") == 4
    assert "-0.5 & I" in text
    assert r"dv_{7} \end{pmatrix} = " in text
    assert text.endswith(r"\begin{pmatrix} dx \end{pmatrix}$")
    last = text.split(r"\end{pmatrix}")[0].split(r"\\")[-1]
    assert last.split("&")[4:] == [" -I ", " 1 ", " I "]  # v7 = v5 − v6


def test_large_systems_are_text_and_long_ones_have_no_latex():
    long = bs.linearize(lambda x: sum(np.sin(x * k) for k in range(5)))(1.0)
    assert long._repr_latex_() is None
    assert long._repr_html_()
    longer = bs.linearize(lambda x: sum(np.sin(x * k) for k in range(30)))(1.0)
    assert longer._repr_html_() is None


def test_small_operators_are_written_out():
    assert ops.Diagonal(np.float64(0.5))._repr_latex_() == r"$\displaystyle 0.5$"
    matrix = ops.as_operator(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert matrix._repr_latex_().endswith(r"1.0 & 2.0 \\ 3.0 & 4.0 \end{pmatrix}$")
    block = bs.I - bs.Block([[0, 0], [2.0, 0]])
    assert block._repr_latex_() == r"$\displaystyle \begin{pmatrix} I &  \\ -2 & I \end{pmatrix}$"


def test_plans_prices_stages_and_histories():
    plan = bs.sparsity(lambda v: v[1:] - v[:-1], np.zeros(1000))
    page = Parsed(plan._repr_html_())
    assert "<Sparsity: 1998 of 999 × 1000 entries>" in page.words
    cells = page.tags.count("rect") - 2
    assert 120 <= cells <= 360  # a band on a grid of 120 × 120
    costs = Parsed(bs.explain_cost(f, np.array([2.0, 5.0]))._repr_html_())
    assert "eliminate, markowitz" in costs.words
    lowered = bs.jit(f).lower(np.array([2.0, 5.0]))
    assert repr(lowered) == "<Lowered: program, rewritten, steps, llvm, assembly>"
    assert Parsed(lowered._repr_html_()).tags.count("details") == 3
    history = bs.training.History([{"epoch": 1, "loss": 0.5}])
    assert Parsed(history._repr_html_()).words.count("0.5") == 1


def test_tensors_print_numbers_shape_and_the_state_of_the_gradient():
    w = bs.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    assert repr(w) == "Tensor([1., 2.], requires_grad=True, grad=[2., 4.])"
    assert repr(bs.tensor(np.zeros(2000))).endswith("..., 0., 0., 0.], shape=(2000,))")
    assert repr(bs.tensor(np.zeros((0, 3)))) == "Tensor([], shape=(0, 3))"
    v = bs.tensor(np.ones((3, 3)), requires_grad=True)
    v.sum().backward()
    assert "grad=<float64 3, 3>" in repr(v)
