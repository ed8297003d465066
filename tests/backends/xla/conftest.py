"""What tests of the XLA backend share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import backsolve as bs
from backsolve.primitive import Primitive


@pytest.fixture(scope="session")
def judged() -> Primitive:
    """Doubles; a row on the host, which raises a KeyError where the first entry is above 2."""

    def judge(a: Any) -> Any:
        if a[0] > 2:
            raise KeyError("a refusal of its own")
        return a * 2

    return Primitive("judged", judge, type=lambda a: a)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """jit on XLA, where the CPU plays a GPU."""
    monkeypatch.setattr(pytest.importorskip("jax"), "default_backend", lambda: "gpu")
    yield lambda f, **options: bs.jit(f, backend="xla", **options)
    bs.settle()
