"""What tests of the XLA backend share."""

from __future__ import annotations

from typing import Any

import pytest

from backsolve.primitive import Primitive


@pytest.fixture(scope="session")
def judged() -> Primitive:
    """Doubles; a row on the host, which raises a KeyError where the first entry is above 2."""

    def judge(a: Any) -> Any:
        if a[0] > 2:
            raise KeyError("a refusal of its own")
        return a * 2

    return Primitive("judged", judge, type=lambda a: a)
