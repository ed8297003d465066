"""The training dashboard in a real browser: over the logs of short runs, and while one is written."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim
from backsolve.training import Log, dashboard, read_log
from backsolve.training.live import Live

expect = pytest.importorskip("playwright.sync_api").expect

X = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs with all that a page can show; the second ends with a NaN."""
    folders = [tmp_path_factory.mktemp(name) for name in ("good", "bad")]

    def poisoned(batch, rng):
        return (np.where(rng.random() < 0.2, np.nan, batch[0]).astype(np.float32), batch[1])

    for folder, transform in zip(folders, (None, poisoned), strict=True):
        nn.init.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        data = bs.data.Batches((X, Y), 16, shuffle=True, seed=1, transform=transform)
        try:
            bs.fit(
                model, nn.functional.cross_entropy, data, optimizer=optim.Adam(0.01), epochs=4,
                metrics=["accuracy"], validation=(X, Y), progress=False,
                log=Log(folder, every_steps=1, histograms=True, share=np.inf),
            )  # fmt: skip
        except bs.errors.NaNError:
            assert transform is not None
    return folders


def of(folder, kind):
    return [row for row in read_log(folder) if row["kind"] == kind]


def test_curves_have_the_points_of_the_log(open_page, runs):
    good, _ = runs
    tab = open_page(dashboard(good))
    assert tab.locator("figcaption").all_text_contents() == ["loss", "accuracy", "learning rate"]
    loss = tab.locator("figure").first
    counts = loss.locator(".curve").evaluate_all("es => es.map(e => Number(e.dataset.points))")
    assert counts == [24, 4]
    logged = [row["loss"] for row in of(good, "step")]
    drawn = tab.evaluate("backsolve.measures.value[0].series[0].points.map(p => p.y)")
    assert drawn == logged
    loss.get_by_text("table").first.click()
    rows = loss.locator("tbody tr")
    rows.first.wait_for()
    cells = rows.last.locator("td").all_text_contents()
    last = logged[-1], of(good, "epoch")[-1]["val_loss"]
    np.testing.assert_allclose([float(c) for c in cells], last, rtol=1e-3)


def test_smoothing_log_scale_and_axis(open_page, runs):
    tab = open_page(dashboard(runs[0]))
    path = tab.locator(".curve").first
    shapes = [path.get_attribute("d")]
    assert tab.locator(".raw").count() == 2
    tab.get_by_label("smooth").fill("0")
    assert tab.locator(".raw").count() == 0
    shapes.append(path.get_attribute("d"))
    tab.get_by_label("log scale").check()
    shapes.append(path.get_attribute("d"))
    assert len(set(shapes)) == 3
    tab.get_by_label("over").select_option("epoch")
    at = tab.evaluate("backsolve.measures.value[0].series.map(s => s.points.at(-1).x)")
    assert at == [4, 4]


def test_a_chart_is_read_by_keys(open_page, runs):
    good, _ = runs
    tab = open_page(dashboard(good))
    chart = tab.locator("figure").first.get_by_role("img")
    chart.focus()
    tab.keyboard.press("Home")
    shown = float(tab.locator(".legend b").first.text_content())
    np.testing.assert_allclose(shown, of(good, "step")[0]["loss"], rtol=1e-3)
    tab.keyboard.press("ArrowRight")
    assert "at step 2" in chart.get_attribute("aria-label")
    right = 'new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true })'
    chart.evaluate(f"e => [1, 2, 3].forEach(() => e.dispatchEvent({right}))")  # before it is drawn
    expect(chart).to_have_attribute("aria-label", re.compile("at step 5"))
    tab.keyboard.press("Escape")
    assert "latest" in chart.get_attribute("aria-label")
    tab.get_by_role("tab", name="Curves").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.get_by_role("tab", name="Gradients").get_attribute("aria-selected") == "true"


def test_gradients_and_histograms(open_page, runs):
    good, _ = runs
    tab = open_page(dashboard(good))
    tab.get_by_role("tab", name="Gradients").click()
    labels = tab.locator(".curve").evaluate_all("es => es.map(e => e.dataset.label)")
    assert labels == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert tab.locator(".ridges figcaption").all_text_contents()[0].startswith("0.weight")
    assert tab.locator(".ridges").last.locator(".ridge").count() == 4
    tab.get_by_role("tab", name="Weights").click()
    assert tab.locator(".ridges").count() == 4
    assert tab.locator(".ridges").first.locator(".ridge").count() == 4
    tab.get_by_role("tab", name="Activations").click()
    names = [t.split()[:2] for t in tab.locator("figcaption").all_text_contents()]
    assert names == [["0", "Linear"], ["1", "ReLU"], ["2", "Linear"]]
    zeros = of(good, "activations")[-1]["arrays"]["1 ReLU"]["zeros"]
    tab.locator(".ridges").nth(1).get_by_text("table").first.click()
    assert tab.locator(".ridges").nth(1).locator("tr").last.locator("td").nth(
        5
    ).text_content() == str(zeros)
    tab.get_by_role("tab", name="Speed").click()
    assert tab.locator("figure").count() == 3


@pytest.mark.parametrize("width", [380, 1400])
def test_runs_are_compared_and_a_nan_is_told(open_page, runs, width):
    tab = open_page(dashboard(*runs), width, 800)
    assert "NaN" in tab.get_by_role("alert").text_content()
    assert tab.locator("figure").first.locator(".curve").count() >= 3
    tab.get_by_role("checkbox", name=str(runs[1])).uncheck()
    assert tab.locator("figure").first.locator(".curve").count() == 2
    for role in ("button", "tab", "checkbox", "slider", "combobox", "img"):
        for control in tab.get_by_role(role).all():
            assert control.evaluate(
                "e => (e.ariaLabel || e.labels?.[0]?.textContent || e.textContent).trim()"
            )
    for name in ("Curves", "Weights", "Notes"):
        tab.get_by_role("tab", name=name).click()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


WRITER = """
import json, sys, time
with open(sys.argv[1], sys.argv[2]) as file:
    for step in range(int(sys.argv[3]), int(sys.argv[4])):
        file.write(json.dumps({"kind": "step", "step": step, "loss": 1 / step}) + "\\n")
        file.flush()
        time.sleep(0.01)
"""


def test_a_live_page_shows_lines_as_they_are_written(browser, tmp_path):
    errors = []

    def write(mode, first, end):
        command = [
            sys.executable,
            "-c",
            WRITER,
            str(tmp_path / "log.jsonl"),
            mode,
            str(first),
            str(end),
        ]
        return subprocess.Popen(command)

    def wait_for(points):
        count = "document.querySelector('.curve')?.dataset.points"
        tab.wait_for_function(f"{count} === '{points}'", timeout=60_000)

    with Live([tmp_path]) as live:
        tab = browser.new_page()
        tab.on("pageerror", lambda e: errors.append(str(e)))
        tab.goto(live.url)
        tab.get_by_text("waiting for its first line").wait_for()
        write("w", 1, 2).wait()
        tab.wait_for_function("backsolve.runs.value[0].rows.length === 1")  # nothing to draw yet
        writer = write("a", 2, 41)
        wait_for(40)
        assert writer.wait() == 0
        width = "document.querySelector('.chart svg').clientWidth"
        tab.wait_for_function(f"{width} === document.querySelector('.chart > div').clientWidth")
        write("a", 41, 51).wait()
        wait_for(50)
        write("w", 1, 11).wait()  # the run began anew
        wait_for(10)
        ys = tab.evaluate("backsolve.measures.value[0].series[0].points.map(p => p.y)")
        assert ys == [1 / n for n in range(1, 11)]
        old = time.time() - 300
        os.utime(tmp_path / "log.jsonl", (old, old))
        tab.get_by_text("no news for 5 min, killed?: epoch 0, step 10").wait_for()
    tab.get_by_text("no longer live").wait_for(timeout=60_000)
    assert tab.locator(".curve").get_attribute("data-points") == "10"
    tab.close()
    assert errors == []


ENDLESS = """
import os, sys, threading, numpy as np, backsolve as bs
threading.Timer(600, os._exit, (1,)).start()  # whatever happens to who started it
x = np.ones((8, 1), np.float32)
log = bs.training.Log(sys.argv[1], every_steps=100, tensorboard=False)
bs.fit(bs.nn.Linear(1, 1), bs.nn.functional.mse_loss, [(x, x)] * 1000, epochs=10**9, progress=False, log=log)
"""


def test_a_run_that_was_killed_is_not_under_way(browser, open_page, tmp_path):
    with Live([tmp_path]) as live:
        tab = browser.new_page()
        tab.goto(live.url)
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)])
        try:
            tab.get_by_text("under way: epoch").wait_for(timeout=120_000)
            under_way = open_page(dashboard(tmp_path)).locator(".status").text_content()
        finally:
            process.kill()
            process.wait()
        expect(tab.locator(".status")).to_contain_text("the process that wrote its log is gone")
        assert re.match("did not end: epoch \\d+ of", tab.locator(".status").text_content())
        tab.close()
    assert under_way.startswith("under way when this page was made")
    assert (
        open_page(dashboard(tmp_path)).locator(".status").text_content().startswith("did not end")
    )
    path = tmp_path / "log.jsonl"
    path.write_text(path.read_text().replace('"host": "', '"host": "not '))
    elsewhere = open_page(dashboard(tmp_path)).locator(".status").text_content()
    assert re.match("no end is logged.* s before this page was made", elsewhere)
