"""A real browser, for tests that look at pages and tests of what their code computes."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backsolve.show import show

_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: `make test` installs it where it may (see the Makefile)")
        pytest.skip("no Chromium on this machine: pages are not looked at")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # as long as playwright waits for anything else
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=_FLAGS)
        yield opened
        opened.close()


class Opened:
    """A page that was opened from disk, and what went wrong on it."""

    def __init__(self, browser: Any, path: Any, width: int, height: int):
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab = browser.new_page(viewport={"width": width, "height": height})
        self.tab.on(
            "console", lambda m: m.type in ("error", "warning") and self.errors.append(m.text)
        )
        self.tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.tab.on("request", lambda r: self.requests.append(r.url))
        self.tab.goto(path.resolve().as_uri())
        self.tab.wait_for_selector("#page header")


@pytest.fixture
def open_page(browser: Any, tmp_path: Any) -> Iterator[Any]:
    """open_page(page): the page in the browser; after the test, nothing may have gone wrong on it."""
    opened: list[Opened] = []

    def open_(page: Any, width: int = 1400, height: int = 900) -> Any:
        found = Opened(browser, page.save(tmp_path / f"{len(opened)}.html"), width, height)
        opened.append(found)
        return found.tab

    yield open_
    for found in opened:
        assert found.errors == []
        assert [u for u in found.requests if not u.startswith(("file:", "data:"))] == []
        found.tab.close()


_RUN = """asked => {
  const { run, fromData } = backsolve;
  const plain = x => Number.isFinite(x) ? x : Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const listed = a => a && { shape: a.shape, dtype: a.dtype, data: Array.from(a.data, plain) };
  const answer = ({ program, inputs }) => {
    try {
      const { values, adjoints, leaves } = run(program, inputs.map(fromData));
      return { leaves, values: values.map(listed), adjoints: adjoints.map(listed) };
    } catch (error) {
      return { error: String(error) };
    }
  };
  return JSON.stringify(JSON.parse(asked).map(answer));
}"""


@pytest.fixture(scope="session")
def in_page(browser: Any, tmp_path_factory: Any) -> Iterator[Any]:
    """`in_page(cases)` runs a list of {"program", "inputs"} by the code of the page in the package."""
    page = Opened(
        browser, show(abs, 1.0).save(tmp_path_factory.mktemp("page") / "any.html"), 800, 600
    )

    def run(cases: list[Any]) -> list[Any]:
        # As text: Playwright looks at every number that is passed otherwise.
        return json.loads(page.tab.evaluate(_RUN, json.dumps(cases, allow_nan=False)))

    run.tab = page.tab
    yield run
    page.tab.close()


def as_array(data):
    flat = [float(x) if isinstance(x, str) else x for x in data["data"]]
    return np.array(flat, dtype=data["dtype"]).reshape(data["shape"])
