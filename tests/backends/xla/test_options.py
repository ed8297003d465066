"""What XLA's compiler is told: on GPUs, of loops, and only what it knows."""

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.xla import options


def told(f: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of each compilation as if on a GPU; what runs is the CPU's."""
    import jax

    given: list[Any] = []
    jit = jax.jit

    def watched(f: Any, **with_: Any) -> Any:
        given.append(with_.get("compiler_options"))
        return jit(f, **with_)

    with monkeypatch.context() as patch:
        patch.setattr(jax, "jit", watched)
        patch.setattr(jax, "default_backend", lambda: "gpu")
        bs.jit(f, backend="xla")(x)
    return [g for g in given if g]


def halved(x: Any) -> Any:
    while x > 1e-3:
        x = x / 2
    return x


def test_short_loops_are_started_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options.FEWEST in told(halved, 1.0, monkeypatch)
    assert not told(np.sin, np.ones(3), monkeypatch)
    assert bs.jit(halved, backend="xla")(1.0) == halved(1.0)


def test_what_this_xla_does_not_know_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options._are_known(*options.FEWEST.items())
    unknown = {"xla_gpu_no_such_option": 3}
    assert not options._are_known(*unknown.items())
    monkeypatch.setattr(options, "FEWEST", unknown)
    assert unknown not in told(halved, 1.0, monkeypatch)
