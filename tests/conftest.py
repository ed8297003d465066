"""What every test run shares: the hypothesis profile, fenced doctests, NumPy's print state."""

from __future__ import annotations

import doctest
import os
import re
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

os.environ["BACKSOLVE_CACHE_DIR"] = ""  # code is built by this run, not by an earlier one
os.environ.setdefault("BACKSOLVE_VERIFY", "1")  # compile with the Program checked after every pass

settings.register_profile(
    "backsolve",
    deadline=None,
    max_examples=50,
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("backsolve")

FENCE = re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE)
PRINT_OPTIONS = np.get_printoptions()
parse = doctest.DocTestParser.parse


def parse_fenced(self: doctest.DocTestParser, string: str, name: str = "<string>") -> list[Any]:
    """doctest would read the ``` that closes a block as the last line of its output."""
    return parse(self, FENCE.sub("", string), name)


class Doctests:
    """Registered by hand because src/, README.md and docs/ are outside this conftest's folder."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if not isinstance(item, pytest.DoctestItem):
            return (yield)
        with np.printoptions(**PRINT_OPTIONS):
            return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/")


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(doctest.DocTestParser, "parse", parse_fenced)
    config.add_cleanup(patch.undo)
    config.pluginmanager.register(Doctests())
