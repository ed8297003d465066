"""The site of `make docs`: it builds without a warning, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import backsolve as bs

ROOT = Path(__file__).parents[2]
_ASKS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class Read(HTMLParser):
    """What a page links to, what it asks for while it opens, and its anchors."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.asked: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {name for name in (found.get("id"), found.get("name")) if name}
        target = found.get(_ASKS.get(tag, ""))
        if target and found.get("rel") not in ("canonical", "prev", "next"):
            self.asked.append(target)
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))


def build(folder: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        if os.environ.get("CI"):
            pytest.fail("no MkDocs: the extra `docs` has it")
        pytest.skip("needs MkDocs: pip install 'backsolve[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def check_links(folder: Path) -> None:
    pages = {path.resolve(): Read(path) for path in folder.rglob("*.html")}
    broken = []
    for path, read in pages.items():
        for link in [*read.links, *read.asked]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data") or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder.resolve())}: {link} (no such anchor)")
    assert broken == []
    assert len(pages) > 70


def check_alone(folder: Path) -> None:
    for path in folder.rglob("*.html"):
        assert [a for a in Read(path).asked if re.match(r"(https?:)?//", a)] == [], path
    for path in folder.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", path.read_text()) == [], path


def check_pictures(folder: Path) -> None:
    """Each has something on it: gates and wires, blocks, or lines."""
    drawn = list((folder / "pictures").rglob("*.svg"))
    assert len(drawn) > 25
    for path in drawn:
        assert len(re.findall(r"<(?:path|rect|use|circle)\b", path.read_text())) > 5, path


def look(browser: Any, folder: Path, name: str) -> Any:
    """A page in the browser, and all that it says and asks for."""
    tab = browser.new_page(viewport={"width": 1300, "height": 900})
    tab.said, tab.asked = [], []
    tab.on("console", lambda m: m.type in ("error", "warning") and tab.said.append(m.text))
    tab.on("pageerror", lambda e: tab.said.append(str(e)))
    tab.on("request", lambda r: tab.asked.append(r.url))
    tab.goto((folder / name).resolve().as_uri())
    return tab


def search(tab: Any, text: str, found: str) -> None:
    """By its keys: the page hears these and its index's readiness, not that a field was filled."""
    query = tab.locator("[data-md-component=search-query]")
    query.click()
    query.press_sequentially(text)
    tab.locator(found).first.wait_for(timeout=150_000)  # its index is made here, beside all tests


def test_the_site_builds_and_stands_alone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """One test, for the site is built once; a browser looks at the end."""
    build(tmp_path)
    check_links(tmp_path)
    check_alone(tmp_path)
    check_pictures(tmp_path)
    browser = request.getfixturevalue("browser")

    tour = look(browser, tmp_path, "tour.html")
    tour.locator("iframe.explorer").first.scroll_into_view_if_needed()
    tour.frame_locator("iframe.explorer").first.locator("#page header").wait_for()
    pictures = tour.locator(".picture img")
    shown = "all => all.every(i => i.complete && i.naturalWidth > 100)"
    assert pictures.evaluate_all(shown)
    assert pictures.count() >= 2

    reference = look(browser, tmp_path, "reference/derivatives.html")
    search(reference, "per_sample_norms", ".md-search-result__link[href*='reference/ways.html']")
    for tab in (tour, reference):
        assert tab.said == []
        assert [url for url in tab.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        tab.close()


def test_the_reference_has_every_public_name() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "website" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    listed = {name for _, names in reference.NAMES.values() for name in names}
    listed |= {name.split(".")[0] for name in (*reference.MODULES, *reference.MORE, "numpy")}
    public = {name for name in dir(bs) if not name.startswith("_") and name in offered()}
    assert public - listed == set()


def offered() -> set[str]:
    """The names that `__init__` offers by `X as X`; its other names are modules that Python sets there."""
    return set(re.findall(r"import \w+ as (\w+)", inspect.getsource(bs)))
