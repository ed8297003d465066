"""Keys and clicks that come faster than the page is drawn: each counts."""

import numpy as np
import pytest

from backsolve.show import show

from .test_views import focused

expect = pytest.importorskip("playwright.sync_api").expect

AT_ONCE = """([keys, each]) => {
  for (const key of keys) {
    const target = document.activeElement;
    if (each === "click") target.click();
    else target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }
}"""


def press(tab, *keys):
    """All within one frame: nothing is drawn between them."""
    tab.evaluate(AT_ONCE, [keys, "key"])


def chain(x):
    for k in range(12):
        x = np.sin(x) + k * x
    return x


def flat(x):
    a = x * 2.0
    b = np.sin(a) * x
    c = np.exp(b) + a
    d = c * c - b
    e = np.tanh(d) / a
    g = e * x + d
    h = np.cos(g) * e
    return h + g * a


def test_twenty_keys_in_one_frame_are_twenty_steps(open_page):
    tab = open_page(show(flat, 0.3))
    at = tab.locator(".stepper output")
    tab.keyboard.press("Home")
    expect(at).to_contain_text("0 /")
    press(tab, *["ArrowRight"] * 20)
    expect(at).to_contain_text("20 /")
    press(tab, *["ArrowLeft"] * 9)
    expect(at).to_contain_text("11 /")
    for name, end in (("step", "16 /"), ("step back", "11 /")):
        tab.get_by_role("button", name=name, exact=True).focus()
        tab.evaluate(AT_ONCE, [[""] * 5, "click"])
        expect(at).to_contain_text(end)


def test_quick_keys_in_the_matrix_and_the_graph(open_page):
    tab = open_page(show(flat, 0.3))
    heads = tab.locator(".matrix [role=rowheader]").evaluate_all(
        "es => es.map(e => e.dataset.cell)"
    )
    tab.locator(".matrix [role=rowheader]").first.focus()
    press(tab, *["ArrowDown"] * 12, *["ArrowUp"] * 2)
    assert focused(tab) == heads[10]
    boxes = tab.locator(".box").evaluate_all("es => es.map(e => e.dataset.node)")
    tab.locator(".box").first.focus()
    press(tab, *["ArrowDown"] * 12, *["ArrowUp"] * 2, "Enter")
    expect(tab.locator(".box.selected")).to_have_attribute("data-node", boxes[10])


def test_keys_meet_what_the_last_one_opened_though_it_is_not_drawn_yet(open_page):
    page = show(lambda x: chain(x) * chain(2.0 * x), 0.3)
    quick, slow = open_page(page), open_page(page)
    for first in (".box.group", ".matrix [role=rowheader]"):
        for tab in (quick, slow):
            tab.locator(first).first.focus()
        press(quick, "Enter", "ArrowDown", "ArrowDown")
        for key in ("Enter", "ArrowDown", "ArrowDown"):
            slow.keyboard.press(key)
            slow.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        name = slow.evaluate("document.activeElement.ariaLabel")
        quick.wait_for_function("name => document.activeElement.ariaLabel === name", arg=name)


def test_quick_keys_change_a_number_each(open_page):
    tab = open_page(show(lambda x: np.sum(x * x), np.arange(200.0).reshape(50, 4)))
    tab.get_by_role("tab", name="Inputs").click()
    cell = tab.get_by_role("spinbutton", name="x[0, 1]")
    cell.focus()
    press(tab, *["ArrowUp"] * 5, "ArrowDown", "PageUp")
    expect(cell).to_have_attribute("aria-valuenow", "2.4")
    tab.get_by_role("button", name="later rows").focus()
    tab.evaluate(AT_ONCE, [[""] * 3, "click"])
    expect(tab.locator(".pager")).to_contain_text("rows 24 … 31 of 50")
