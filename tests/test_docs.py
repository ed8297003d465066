"""Code of the pages that doctest does not see: commands of a shell, and tables of equivalents."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backsolve.cli import make_parser

DOCS = Path(__file__).parents[1] / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [
        text for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")) if kind == language
    ]


def with_shell() -> list[Path]:
    return [page for page in sorted(DOCS.rglob("*.md")) if blocks(page, "sh")]


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def test_every_block_is_run_by_someone() -> None:
    """Python as a doctest, a shell's commands below, what stands in a console by tests/cli/test_document.py."""
    for page in DOCS.rglob("*.md"):
        for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")):
            if kind == "python":
                assert text.startswith((">>> ", "# model.py")), (page, text)
            else:
                assert kind == "sh" or (kind, page.name) == ("console", "cli.md"), (
                    page,
                    kind,
                )
    assert with_shell()


@pytest.mark.parametrize("page", with_shell(), ids=name)
def test_commands_of_a_shell_run(page: Path, tmp_path: Path) -> None:
    for line in "".join(blocks(page, "sh")).splitlines():
        command, *arguments = shlex.split(line)
        assert command == "backsolve", line
        done = subprocess.run(
            [sys.executable, "-m", "backsolve", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_commands_that_are_only_shown_are_understood() -> None:
    """Those that train for long or serve a page stand indented, and are read by the parser alone."""
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    lines = [
        line
        for page in pages
        for line in re.findall(r"^    backsolve (.*)$", page.read_text(encoding="utf-8"), re.M)
    ]
    assert len(lines) > 5
    for line in lines:
        assert make_parser().parse_args(shlex.split(line.split(" > ")[0], comments=True)).command, (
            line
        )


@pytest.mark.parametrize("page", sorted((DOCS / "coming-from").glob("*.md")), ids=name)
def test_our_column_of_a_table_runs(page: Path) -> None:
    names: dict[str, Any] = {}
    text = page.read_text(encoding="utf-8")
    for example in doctest.DocTestParser().get_examples(text[: text.index("|---")]):
        exec(example.source, names)
    cells = [row.strip("|").split(" | ")[-1] for row in text.splitlines() if row.startswith("| ")]
    code = [found for cell in cells[1:] for found in re.findall(r"`([^`]*)`", cell)]
    assert len(code) > 15
    for found in code:
        try:
            exec(found, names)
        except Exception as error:
            pytest.fail(f"{found}: {type(error).__name__}: {error}")


def test_pictures_of_long_training_are_small_and_shown() -> None:
    """website/trained.py draws them; nobody trains for minutes in a test."""
    kept = {path.name: path.stat().st_size for path in (DOCS / "trained").iterdir()}
    page = (DOCS / "learned.md").read_text(encoding="utf-8")
    script = (DOCS.parent / "website" / "trained.py").read_text(encoding="utf-8")
    assert set(kept) == set(re.findall(r"\(trained/(\w+\.svg)\)", page))
    assert {name.removesuffix(".svg") for name in kept} == set(re.findall(r'"(\w+)": \1', script))
    assert max(kept.values()) < 60_000


def test_pages_of_the_design_name_files_that_are_there() -> None:
    """And the map of the rooms has all of them."""
    root = DOCS.parent
    kept = [str(path.relative_to(root)) for part in ("src", "tests", "benchmarks", "website", "examples")
            for path in (root / part).rglob("*.py")]  # fmt: skip
    pages = [*(DOCS / "design").glob("*.md"), DOCS.parent / "CONTRIBUTING.md"]
    for page in pages:
        for found in re.findall(r"[a-z_]+(?:/[a-z_]+)*\.py", page.read_text(encoding="utf-8")):
            assert any(f"/{path}".endswith(f"/{found}") for path in kept), (page.name, found)
    told = set(re.findall(r"`(\w+)/`", (DOCS / "design" / "index.md").read_text(encoding="utf-8")))
    rooms = {path.parent.name for path in (root / "src" / "backsolve").glob("*/__init__.py")}
    assert rooms <= told
