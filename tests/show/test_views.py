"""The views of the explorer page: gates, wires, blocks, details, source, keys, and who can use them."""

import numpy as np
import pytest

from backsolve.show import show


def routes(a, b):
    return 9.0 * np.maximum(a, b) + 4.0 * a + a * b


def layers(W, x):
    h = np.tanh(W @ x)
    return np.sum(h * h)


def long(x):
    for k in range(400):
        x = x + 0.01 * np.sin(x * k)
    return x


def steps_to(tab, count):
    tab.keyboard.press("Home")
    for k in range(1, count + 1):
        tab.keyboard.press("ArrowRight")
        tab.wait_for_function(
            "k => document.querySelector('[aria-live]').textContent.startsWith(`Step ${k} `)", arg=k
        )


def test_wires_say_what_each_reader_sends_back_and_follow_edits(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    assert sorted(tab.locator(".sent").all_text_contents()) == ["0.0", "3.0", "4.0", "4.0", "9.0"]
    assert tab.locator(".copy title").count() == 2  # a and b are read more than once
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("spinbutton", name="a", exact=True).fill("5")
    assert sorted(tab.locator(".sent").all_text_contents()) == ["0.0", "4.0", "4.0", "5.0", "9.0"]


def test_gates_are_told_apart_by_their_outlines(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    outline = "e => e.querySelector('.shape').tagName + (e.querySelector('.shape').getAttribute('d') ?? '')"
    found = {
        kind: tab.locator(f".box.{kind}").first.evaluate(outline)
        for kind in ("add", "multiply", "max", "parameter")
    }
    assert len(set(found.values())) == 4
    legend = tab.get_by_role("list", name="Gates").text_content()
    for word in ("add distributes", "multiply swaps", "max routes", "copy adds"):
        assert word in legend


def test_nothing_is_written_over_anything_else_nor_wires_over_numbers(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    overlaps, crossed = tab.evaluate(
        """() => {
          const written = [...document.querySelectorAll('.graph > svg text')];
          const texts = written.map(e => [e.textContent, e.getBoundingClientRect()]);
          const overlaps = texts.flatMap(([s, a], i) => texts.slice(i + 1).filter(([, b]) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
          ).map(([t]) => [s, t]));
          const crossed = [...document.querySelectorAll('.wire')].flatMap(wire => {
            const [m, n] = [wire.getScreenCTM(), wire.getTotalLength()];
            const points = Array.from({ length: 200 }, (_, k) => wire.getPointAtLength(k * n / 199));
            return points.map(p => p.matrixTransform(m)).flatMap(p => texts.filter(([, r]) =>
              p.x > r.left && p.x < r.right && p.y > r.top + 4 && p.y < r.bottom - 4).map(([t]) => t));
          });
          return [overlaps, crossed];
        }"""
    )
    assert overlaps == []
    assert crossed == []


def test_a_box_tells_all_about_itself_and_leads_to_its_line(open_page):
    rng = np.random.default_rng(0)
    tab = open_page(show(layers, rng.normal(size=(20, 5)), rng.normal(size=5)))
    tab.get_by_role("button", name="v2 = tanh").click()
    details = tab.get_by_role("tabpanel")
    assert details.get_by_role("heading", name="v2 = tanh(v1)").count() == 1
    assert details.locator(".numbers.value span").count() == 20
    assert "Diagonal" in details.text_content()
    assert "times the slope" in details.text_content()
    tab.get_by_role("button", name="parameter W").click()  # 100 numbers: a histogram
    assert details.get_by_role("img", name="histogram, from").count() == 2
    assert details.locator("td", has_text="Contraction").count() == 1
    tab.get_by_role("button", name="v2 = tanh").click()
    details.get_by_role("button", name="line ").click()
    assert tab.locator(".listing li.now code").text_content().strip() == "h = np.tanh(W @ x)"
    tab.locator(".listing").get_by_role("button", name="v4").click()
    assert tab.locator(".box.selected").get_attribute("data-node") == "5"
    assert "return np.sum" in tab.locator(".listing li.now code").text_content()


def test_parameters_have_columns_of_d_and_rows_can_be_chosen(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    assert tab.locator(".matrix .one").count() == 6
    assert tab.locator(".matrix .above").all_text_contents()[:2] == ["a", "b"]
    assert "10 blocks, 4 multiplications" in tab.locator(".matrix .strip").text_content()
    labels = tab.locator(".matrix .block text:not(.cost)").all_text_contents()
    costs = tab.locator(".matrix .block .cost").all_text_contents()
    assert costs == ["1"] * 4
    assert sorted(labels) == ["Diag"] * 3 + ["Mask"] * 2 + ["−Diag"] + ["−I"] * 4
    tab.locator('.matrix [data-row="2"] .head').click(force=True)
    assert tab.locator(".box.selected").get_attribute("data-node") == "2"


def test_what_the_pointer_is_on_is_lit_in_both_views(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    block = tab.locator(".matrix .block").first
    block.hover()
    assert tab.locator(".wire.lit").count() == tab.locator(".block.lit").count() == 1
    name = block.get_attribute("data-wire")
    assert tab.locator(".link:has(.lit)").get_attribute("data-wire") == name
    assert "multiplication" in block.locator("title").text_content()


def test_everything_is_reached_by_keys_alone(open_page):
    expect = pytest.importorskip("playwright.sync_api").expect
    tab = open_page(show(routes, 3.0, 4.0))
    tab.keyboard.press("?")
    keys = tab.get_by_role("dialog", name="Keys")
    assert "one step back" in keys.text_content()
    tab.keyboard.press("Escape")
    keys.wait_for(state="hidden")
    aloud = tab.locator("[aria-live]")
    # Until the next frame, the focus is where it was.
    pressed = "b => b.dispatchEvent(new KeyboardEvent('keydown', {key: 'End', bubbles: true}))"
    tab.locator("dialog button").evaluate(pressed)
    expect(aloud).to_contain_text("Step 16 of 16")
    steps_to(tab, 3)
    expect(aloud).to_have_text("Step 3 of 16, ahead: v1 = maximum(a, b) = 4.0")
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    expect(aloud).to_have_text("Step 14 of 16, back: gradient of v1 = 9.0, goes to a and b")
    expect(tab.locator(".rule .term").nth(1)).to_contain_text("= 9.0")
    tab.keyboard.press("Escape")
    expect(aloud).to_have_text("")
    tab.keyboard.press(" ")
    tab.get_by_role("button", name="pause").wait_for()
    tab.keyboard.press(" ")
    tab.get_by_role("button", name="play").wait_for()
    tab.get_by_role("combobox", name="speed").select_option("4")
    # Tab stops: the graph is one, the matrix one, the tabs one.
    tab.get_by_role("button", name="graph: zoom out").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab.locator(".box.selected")).to_have_attribute("data-node", "2")
    expect(tab.locator('.matrix [tabindex="0"]')).to_have_attribute("data-cell", "head 2")
    for _ in range(4):  # past the buttons that zoom the matrix
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.dataset.cell") == "head 2"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "tab-Details"
    tab.keyboard.press("ArrowRight")
    expect(tab.get_by_role("tab", selected=True)).to_have_text("Trace")


def focused(tab):
    return tab.evaluate("document.activeElement.dataset.cell")


def test_blocks_of_the_matrix_are_reached_by_arrows_and_lit_in_the_graph(open_page):
    tab = open_page(show(routes, 3.0, 4.0))
    assert tab.locator('.matrix [tabindex="0"]').count() == 1
    tab.locator('.matrix [tabindex="0"]').focus()
    assert focused(tab) == "head 2"  # of v1 = maximum(a, b)
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert focused(tab) == "0-2"
    name = tab.locator('[data-cell="0-2"]').get_attribute("aria-label")
    assert name.startswith("∂v1/∂a: Mask")
    assert tab.locator(".wire.lit").count() == 1
    assert tab.get_by_role("gridcell", name="∂v1/∂a").count() == 1
    tab.keyboard.press("ArrowRight")
    assert focused(tab) == "1-2"
    tab.keyboard.press("ArrowDown")  # v2 reads v1 alone
    assert focused(tab) == "one 3"
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    assert focused(tab) == "2-3"
    tab.keyboard.press("Enter")
    assert tab.locator(".box.selected").get_attribute("data-node") == "3"
    assert tab.get_by_role("tab", selected=True).text_content() == "Details"
    assert (
        tab.locator(".stepper output").text_content() == "16 steps"
    )  # no arrow was one of the stepper's


@pytest.mark.parametrize("view", ["graph", "matrix"])
def test_opening_a_group_by_keys_keeps_the_focus_there(open_page, view):
    tab = open_page(show(long, 0.3))
    group = tab.locator(f"#{view} [aria-label^='round 1 … 10,']")
    group.focus()
    tab.keyboard.press("Enter")
    tab.locator(f"#{view} [aria-label^='round 2,']").wait_for()
    name = "document.activeElement.getAttribute('aria-label')"
    assert tab.evaluate(name).startswith("fold round 1 … 10" if view == "graph" else "round 1,")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate(name).startswith("round 1," if view == "graph" else "round 2,")


def test_every_block_is_labelled_and_names_stay_in_sight(open_page):
    tab = open_page(show(long, 0.3))
    assert tab.locator(".matrix .block").count() == tab.locator(".matrix .block text").count()
    tab.locator(".matrix .scroll").evaluate("e => { e.scrollTop = 500; e.scrollLeft = 700; }")
    tab.wait_for_function(
        """() => {
          const at = s => document.querySelector(s).getBoundingClientRect();
          const [frame, row, column] = ['.matrix .scroll', '.matrix .names', '.matrix .heads'].map(at);
          return Math.abs(row.left - frame.left) < 12 && Math.abs(column.top - frame.top) < 12;
        }"""
    )
    tab.get_by_role("button", name="fit: the whole matrix").click()
    tab.wait_for_function(
        """() => {
          const e = document.querySelector('.matrix .scroll');
          return e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth;
        }"""
    )


def test_the_stepper_keeps_its_box_and_its_row_in_sight(open_page):
    tab = open_page(show(long, 0.3))
    steps_to(tab, 30)
    tab.wait_for_function(
        "document.querySelector('.stepper output').textContent.startsWith('30 /')"
    )
    inside = """([inner, outer]) => {
      const [a, b] = [inner, outer].map(s => document.querySelector(s).getBoundingClientRect());
      return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
    }"""
    tab.wait_for_function(inside, arg=[".box.now .shape", ".graph > svg"])
    tab.wait_for_function(inside, arg=[".line.now .one", ".matrix .scroll"])
    # Opening the group in question leaves the stepper where it is in the program.
    first = tab.locator(".box.now").get_attribute("data-order")
    tab.locator(".box.now").focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".box.now").get_attribute("data-order") == first


def test_a_phone_shows_one_view_at_a_time(open_page):
    tab = open_page(show(routes, 3.0, 4.0), 380, 760)
    assert tab.locator(".graph").is_visible()
    assert not tab.locator(".matrix").is_visible()
    tab.get_by_role("button", name="matrix").click()
    assert tab.locator(".matrix").is_visible()
    assert not tab.locator(".graph").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_people_out(open_page, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = open_page(show(routes, 3.0, 4.0))
    if tab.evaluate("document.documentElement.dataset.theme") != theme:
        tab.get_by_role("button", name="dark or light").click()
    steps_to(tab, 12)
    for name in tab.get_by_role("tab").all_text_contents():
        tab.get_by_role("tab", name=name).click()
        found = axe.run(tab, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"
