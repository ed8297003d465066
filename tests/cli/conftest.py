"""A folder with a file of functions, as a user of the command line has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture(autouse=True)
def _jax_as_it_was() -> Iterator[None]:
    """`backsolve bench` has a process of its own, and gives JAX 64 bits there."""
    before = "jax" in sys.modules and sys.modules["jax"].config.jax_enable_x64
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with model.py of docs/cli.md; what is imported from it is forgotten again."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(r"^```python\n(# model.py\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    (tmp_path / "model.py").write_text(found[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    yield tmp_path
    sys.modules.pop("model", None)
