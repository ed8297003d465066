"""Assertions inside regions: what failed there is one more result of the region, 0 if nothing did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..primitives.checks import CHECK, CODE, Messages
from ..trace import innermost_region


@dataclass(frozen=True)
class Failure:
    """A number that says which assertion failed first, 0 if none did; and what the numbers mean."""

    code: Any
    messages: Messages

    def before(self, later: Failure) -> Failure:
        if not self.messages:
            return later
        if not later.messages:
            return self
        both = dict(self.messages) | dict(later.messages)
        code = np.where(self.code != 0, self.code, later.code)
        return Failure(code, tuple(sorted(both.items())))

    def report(self) -> None:
        """Raise when the Program runs; inside a region, let the region say so."""
        if self.messages:
            CHECK(self.code, messages=self.messages)


NONE = Failure(CODE.type(0), ())


def noted() -> Failure:
    """The first failure among the checks in the innermost region so far; they are forgotten."""
    region = innermost_region()
    assert region is not None
    found, region.checks = region.checks, []
    result = NONE
    for code, messages in found:
        result = result.before(Failure(code, messages))
    return result
