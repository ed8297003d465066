"""The page in the package is the one that web/ makes."""

import hashlib
from importlib import resources
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"


def test_the_page_was_built_from_these_sources():
    if not WEB.exists():
        pytest.skip("web/ is not part of this copy")
    names = sorted(p.relative_to(WEB).as_posix() for p in (WEB / "src").rglob("*") if p.is_file())
    found = hashlib.sha256()
    for name in ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", *names]:
        found.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    built = resources.files("backsolve.show").joinpath("static/sources.sha256").read_text().strip()
    assert found.hexdigest() == built, "web/ has changed: run `make web` and commit what it writes"


def test_nothing_is_fetched_and_licences_are_named():
    static = resources.files("backsolve.show").joinpath("static")
    style = static.joinpath("explorer.css").read_text()
    assert "url(http" not in style
    licences = static.joinpath("LICENSES.txt").read_text()
    for library in ("preact", "dagre", "katex", "d3-zoom"):
        assert library in licences
