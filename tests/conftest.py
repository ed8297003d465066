"""What every test run shares: the hypothesis profile, fenced doctests, NumPy's print state, first keys."""

from __future__ import annotations

import doctest
import gc
import os
import re
import sys
import tracemalloc
import types
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ["BACKSOLVE_CACHE_DIR"] = ""  # code is built by this run, not by an earlier one
os.environ.setdefault("BACKSOLVE_VERIFY", "1")  # compile with the Program checked after every pass

settings.register_profile(
    "backsolve",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],  # like a deadline, it would tell of the machine
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("backsolve")

FENCE = re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE)
PRINT_OPTIONS = np.get_printoptions()
parse = doctest.DocTestParser.parse


def parse_fenced(self: doctest.DocTestParser, string: str, name: str = "<string>") -> list[Any]:
    """doctest would read the ``` that closes a block as the last line of its output."""
    return parse(self, FENCE.sub("", string), name)


class Everywhere:
    """Registered by hand because src/, README.md and docs/ are outside this conftest's folder."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Layers without a key begin as in a new process, whatever tests ran before."""
        if init := sys.modules.get("backsolve.nn.init"):
            init.manual_seed(0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if not isinstance(item, pytest.DoctestItem):
            return (yield)
        with np.printoptions(**PRINT_OPTIONS):
            return (yield)


@pytest.fixture
def peak_of() -> Callable[[Callable[[], Any]], tuple[Any, int]]:
    """What a call returns, and the most bytes at any time of its third run: the first import, compile."""

    def measured(run: Callable[[], Any]) -> tuple[Any, int]:
        run(), run()
        tracemalloc.start()
        try:
            return run(), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measured


@pytest.fixture
def left_to_collector() -> Callable[[Callable[[], object]], list[Any]]:
    """What of ours is in cycles after a call; threads of other tests leave garbage of their own."""

    def is_ours(x: Any) -> bool:
        if isinstance(x, types.FrameType):
            return x.f_globals.get("__name__", "").startswith("backsolve")
        named = x if isinstance(x, types.FunctionType | type) else type(x)
        return isinstance(x, np.ndarray) or str(named.__module__).startswith("backsolve")

    def left(use: Callable[[], object]) -> list[Any]:
        gc.collect()
        gc.disable()
        try:
            use()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            return [x for x in gc.garbage if is_ours(x)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    return left


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/")


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(doctest.DocTestParser, "parse", parse_fenced)
    config.add_cleanup(patch.undo)
    config.pluginmanager.register(Everywhere())
