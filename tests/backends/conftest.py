"""What tests of native code share: numbers of threads, a folder of compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import backsolve as bs
from backsolve.backends.native import disk


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = bs.get_threads()
    bs.set_threads(request.param)
    yield request.param
    bs.set_threads(before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", str(path))
    monkeypatch.setattr(disk, "_open", {})
    return path
