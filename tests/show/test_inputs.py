"""The Inputs panel in a real browser: what is typed, stepped, slid or pasted, and what follows from it."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.show import show
from backsolve.show.data import page_data
from backsolve.show.page import Page, write_page
from backsolve.show.scene import scene_of


def f(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


POINT = np.array([2.0, 5.0])
PASTE = """(cell, text) => {
  const data = new DataTransfer();
  data.setData("text", text);
  cell.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def panel(open_page):
    def open_(*args, **options):
        tab = open_page(show(*args, **options))
        tab.get_by_role("tab", name="Inputs").click()
        return tab

    return open_


def cell(tab, name):
    return tab.get_by_role("spinbutton", name=name, exact=True)


def test_result_and_gradients_follow_and_go_back(panel):
    tab = panel(f, POINT)
    cell(tab, "x[0]").fill("3.25")
    moved = np.array([3.25, 5.0])
    assert f"{f(moved):.6g}" in tab.locator(".results").text_content()
    assert "(was 11.6521)" in tab.locator(".results").text_content()
    shown = [
        float(t) for t in tab.locator("fieldset").first.locator("td .adjoint").all_text_contents()
    ]
    np.testing.assert_allclose(shown, bs.grad(f)(moved), rtol=1e-5)
    tab.get_by_role("button", name="as they were").click()
    assert "(was" not in tab.locator(".results").text_content()
    assert cell(tab, "x[0]").input_value() == "2.0"


def test_keys_step_a_number_and_sliders_move_it(panel):
    tab = panel(lambda a: a * a, 2.0)
    cell(tab, "a").focus()
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate("backsolve.numbers.value[0].value.data") == [2.1]
    tab.keyboard.press("PageDown")
    assert tab.evaluate("backsolve.numbers.value[0].value.data") == [1.1]
    slider = tab.get_by_role("slider", name="slide a")
    slider.fill("-2")
    assert tab.evaluate("backsolve.numbers.value[0].adjoint.data") == [-4]
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("backsolve.numbers.value[0].value.data[0]") > -2


@pytest.mark.parametrize(
    ("text", "says"), [("", "missing"), ("two", "no number"), ("1e999", "beyond float64")]
)
def test_what_is_no_number_changes_nothing_and_is_told(panel, text, says):
    tab = panel(lambda a: a * a, 2.0)
    cell(tab, "a").fill(text)
    assert cell(tab, "a").get_attribute("aria-invalid") == "true"
    assert says in tab.locator(".wrong").text_content()
    assert tab.evaluate("backsolve.numbers.value[0].value.data") == [2]
    tab.keyboard.press("Escape")
    assert cell(tab, "a").input_value() == "2"
    assert tab.locator(".wrong").count() == 0


def test_rows_of_numbers_are_pasted(panel):
    tab = panel(lambda A: np.sum(A * A), np.ones((3, 2)))
    cell(tab, "A[0, 1]").evaluate(PASTE, "7\t8\n[9, 10]\n")
    assert tab.evaluate("backsolve.numbers.value[0].value.data") == [1, 7, 1, 9, 1, 1]
    assert "2 of the numbers had no room" in tab.locator(".wrong").text_content()
    cell(tab, "A[0, 0]").evaluate(PASTE, "array([[1., 2.],\n [3., nonsense]])")
    assert "nothing was pasted" in tab.locator(".wrong").text_content()
    assert tab.evaluate("backsolve.numbers.value[0].value.data") == [1, 7, 1, 9, 1, 1]


def test_seeds_can_be_edited(panel):
    tab = panel(lambda x: (x * x, np.sin(x)), 2.0)
    gradients = [s.locator("td .adjoint").count() for s in tab.locator("fieldset").all()]
    assert gradients == [1, 0, 0]
    cell(tab, "seed of v1").fill("10")
    cell(tab, "seed of v2").fill("0")
    assert tab.evaluate("backsolve.numbers.value[0].adjoint.data") == [40]
    assert tab.evaluate("backsolve.numbers.value[1].adjoint.data") == [10]


def test_large_arrays_are_shown_in_parts(panel):
    tab = panel(lambda A: np.sum(A), np.arange(600.0).reshape(30, 20))
    assert tab.locator("fieldset").first.locator("td input").count() == 8 * 12
    tab.get_by_role("button", name="later rows").click()
    tab.get_by_role("button", name="later columns").click()
    cell(tab, "A[15, 19]").fill("0")
    total = tab.evaluate("backsolve.numbers.value[1].value.data[0]")
    assert total == np.arange(600.0).sum() - 319


def test_nan_and_infinities_are_found_again_for_edited_inputs(panel):
    tab = panel(lambda x: np.sum(np.sqrt(x - 1.0)), np.array([2.0, 3.0]))
    assert tab.locator(".box.bad").count() == 0
    cell(tab, "x[1]").fill("0.5")
    bad = [box.get_attribute("data-node") for box in tab.locator(".box.bad").all()]
    assert bad == ["1", "2"]  # the gradient behind the root, and its value
    tab.get_by_role("tab", name="Findings 2").click()
    assert "its value holds NaN" in tab.get_by_role("tabpanel").text_content()
    tab.get_by_role("tab", name="Inputs").click()
    cell(tab, "x[1]").fill("inf")
    tab.get_by_role("tab", name="Findings").click()
    assert "an infinity was given" in tab.get_by_role("tabpanel").text_content()


def test_a_page_that_computes_otherwise_than_python_computes_nothing(open_page):
    data = page_data(scene_of(f, (POINT,)))
    data["nodes"][2]["value"]["data"] = [0.7]
    tab = open_page(Page("f", write_page("f", "explorer", data), ""))
    tab.get_by_role("tab", name="Inputs").click()
    text = tab.get_by_role("tabpanel").text_content()
    assert "this browser finds other numbers than Python did, first of v2" in text
    assert tab.get_by_role("spinbutton").count() == 0


def test_the_parameters_of_a_model_have_their_names(panel):
    model = bs.nn.Sequential(bs.nn.Linear(2, 2), bs.nn.Dropout(0.5), bs.nn.Linear(2, 1))
    tab = panel(lambda model, x: model(x).sum(), model, np.ones((3, 2)))
    assert cell(tab, "model.0.weight[1, 0]").count() == 1
    cell(tab, "model.2.bias[0]").fill("4")
    assert "(was" in tab.locator(".results").text_content()


def test_what_python_wrote_about_the_run_goes_with_its_numbers(panel):
    tab = panel(f, POINT)
    wire = tab.locator(".graph title", has_text="∂v2/∂v1").first
    assert "Diagonal(0.5)" in wire.text_content()
    cell(tab, "x[0]").fill("4")
    assert "0.5" not in wire.text_content()
    tab.get_by_role("tab", name="Paths").click()
    assert "run it again in Python" in tab.get_by_role("tabpanel").text_content()
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("button", name="as they were").click()
    assert "Diagonal(0.5)" in wire.text_content()
