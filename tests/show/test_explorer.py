"""The explorer page in a real browser: it steps, folds, recomputes, and can be used by keys alone."""

import json

import numpy as np
import pytest

import backsolve as bs
from backsolve.show import show


def f(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


POINT = np.array([2.0, 5.0])


def steps(x):
    for k in range(1250):
        x = x + 0.001 * np.sin(x * k)
    return x


def test_the_graph_has_all_nodes_with_values_and_gradients(open_page):
    tab = open_page(show(f, POINT))
    assert tab.locator(".box").count() == 8
    product = tab.get_by_role("button", name="v4 = v1 · v3")
    assert product.locator(".value").text_content() == "10.0"
    assert product.locator(".adjoint").text_content() == "1.0"
    parameter = tab.get_by_role("button", name="parameter x")
    assert parameter.locator(".adjoint").text_content() == "[5.5, 1.71634]"


def test_the_matrix_has_a_block_for_every_edge(open_page):
    tab = open_page(show(f, POINT))
    assert tab.locator(".matrix .block").count() == 10
    assert tab.locator(".matrix .one").count() == 7  # I, row by row; x has a column of D
    assert tab.locator(".matrix .block text").all_text_contents().count("Slice") == 2


def test_the_stepper_goes_ahead_and_back_in_both_views(open_page):
    tab = open_page(show(f, POINT))
    tab.get_by_role("button", name="to the start").click()
    assert tab.locator(".box .value").count() == 0
    for _ in range(8):
        tab.get_by_role("button", name="step", exact=True).click()
    assert tab.locator(".box .value").count() == 8
    assert tab.locator(".box .adjoint").count() == 0
    assert tab.locator(".box.now").get_attribute("data-node") == "7"
    assert tab.locator(".matrix .line.now").count() == 1
    tab.get_by_role("button", name="step", exact=True).click()
    assert tab.locator(".box .adjoint").count() == 1  # the last row has its seed
    assert tab.locator(".wire.back").count() == 2
    assert tab.locator(".matrix .block.back").count() == 2
    rule = tab.locator(".rule annotation").all_text_contents()
    assert any(r"\mathrel{+}=" in formula for formula in rule)
    for _ in range(7):
        tab.keyboard.press("ArrowRight")
    assert tab.locator(".box .adjoint").count() == 8


def test_playing_ends_with_everything(open_page):
    tab = open_page(show(lambda x: x * x, 3.0))
    tab.get_by_role("button", name="play").click()
    tab.wait_for_function("document.querySelector('.stepper output').textContent === '4 / 4'")
    tab.get_by_role("button", name="play").wait_for()


@pytest.mark.parametrize("entry", [0, 1])
def test_editing_an_input_recomputes_as_python_does(open_page, entry):
    tab = open_page(show(f, POINT))
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("spinbutton", name=f"x[{entry}]").fill("3.25")
    moved = POINT.copy()
    moved[entry] = 3.25
    found = tab.evaluate("backsolve.numbers.value[0].adjoint.data")
    np.testing.assert_allclose(found, bs.grad(f)(moved), rtol=1e-12)
    value = tab.evaluate("backsolve.numbers.value[7].value.data[0]")
    np.testing.assert_allclose(value, f(moved), rtol=1e-12)
    tab.get_by_role("button", name="as they were").click()
    assert tab.evaluate("backsolve.numbers.value[7].value.text") == "11.6521"


def test_edited_inputs_may_leave_the_path_and_the_page_says_so(open_page):
    tab = open_page(show(lambda x: x * x if x > 0 else -x, 3.0))
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("spinbutton", name="x").fill("5")
    assert tab.evaluate("backsolve.numbers.value[0].adjoint.data") == [10]
    assert tab.get_by_role("alert").count() == 0
    tab.get_by_role("spinbutton", name="x").fill("-5")
    assert "another way at line" in tab.get_by_role("alert").text_content()
    assert tab.evaluate("backsolve.numbers.value[0].adjoint.data") == [6]


def test_a_program_that_cannot_be_recomputed_says_why(open_page):
    tab = open_page(show(lambda x: np.linalg.inv(x).sum(), np.eye(2) * 3))
    tab.get_by_role("tab", name="Inputs").click()
    text = tab.get_by_role("tabpanel").text_content()
    assert "stay as they are: the page has no code for `inv`" in text


def test_a_program_of_five_thousand_rows_is_folded_and_opens_on_demand(open_page):
    tab = open_page(show(steps, 0.3))
    assert 2 < tab.locator(".box").count() <= 80
    stretch = tab.get_by_role("button", name="round 1 … 21")
    stretch.focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="round 21, 4 rows").wait_for()
    tab.get_by_role("tab", name="Trace").click()
    assert tab.locator(".trace tbody tr[data-node]").count() < 200  # of 5,001
    tab.locator(".trace").evaluate("e => { e.scrollTop = e.scrollHeight; }")
    tab.locator('.trace tr[data-node="5000"]').wait_for()


def test_a_nan_is_found_with_its_line(open_page):
    def bad(x):
        y = x - 2.0
        return np.sum(np.sqrt(y) * x)

    with np.errstate(all="ignore"):
        tab = open_page(show(bad, np.array([1.0, 3.0])))
    text = tab.get_by_role("tabpanel").text_content()
    assert "v2 NaN: its value holds NaN, and what it reads does not" in text
    assert "return np.sum(np.sqrt(y) * x)" in text
    assert tab.locator(".box.bad").count() >= 1


def test_code_lines_lead_to_nodes(open_page):
    tab = open_page(show(f, POINT))
    tab.get_by_role("tab", name="Code").click()
    tab.get_by_role("button", name="s3 = s0 * s2").click()
    assert tab.locator(".box.selected").get_attribute("data-node") == "4"


def test_the_strongest_paths_and_the_prices_are_there(open_page):
    tab = open_page(show(f, POINT))
    tab.get_by_role("tab", name="Cost").click()
    assert bs.explain_cost(f, POINT).chosen in tab.locator("tr.chosen").text_content()
    tab.get_by_role("tab", name="Paths").click()
    assert tab.locator(".paths li").count() == 4


@pytest.mark.parametrize("width", [380, 900, 1600])
def test_every_control_has_a_name_and_nothing_overflows(open_page, width):
    tab = open_page(show(f, POINT), width, 800)
    for role in ("button", "tab", "slider"):
        for control in tab.get_by_role(role).all():
            name = control.get_attribute("aria-label") or control.text_content()
            assert (name or "").strip()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture = tab.screenshot()
    assert len(picture) > 10_000


def test_dark_and_light(open_page):
    tab = open_page(show(f, POINT))
    before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.get_by_role("button", name="dark or light").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_text_of_a_user_cannot_end_the_script(open_page):
    def f(x):
        return x * 2.0  # </script><script>alert(1)</script>

    tab = open_page(show(f, 1.0))
    assert "</script>" in tab.evaluate("backsolve.scene.source.text")
    json.dumps(tab.evaluate("backsolve.scene.title"))
