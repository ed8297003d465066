"""The path that a run took, followed again while the function is staged.

A staged value has no truth; but a scene has numbers. Where Python asks, the answer is computed from them and
written down: what is staged is right for all inputs that give the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import users_frame
from ..hooks import hooks
from ..ir import Var
from ..primitive import wrap


class Path:
    """What was asked of values that rest on `leaves`, which stand for `numbers`, and where."""

    def __init__(self, leaves: Sequence[Any], numbers: Sequence[Any]):
        self.values: dict[Var, Any] = {t._v: x for t, x in zip(leaves, numbers, strict=True)}
        self.recorder: Any = leaves[0]._v.recorder if leaves else None
        self.asked: list[Any] = []  # staged values, in the order of the run
        self.answers: list[tuple[bool, int]] = []  # their truth, and the line that asked
        self.differs_at: int | None = (
            None  # the line from which on the rows are others, 0 if unknown
        )
        self._seen = 0

    @contextmanager
    def followed(self) -> Iterator[None]:
        with hooks.truth.holding(self.truth), hooks.as_written.holding(True):
            yield

    def truth(self, v: Var) -> bool | None:
        if v.recorder is not self.recorder or v.type.size != 1:
            return None
        self._catch_up()
        if v not in self.values:
            return None
        answer = bool(self.values[v])
        frame = users_frame(2)
        self.asked.append(wrap(v, None))
        self.answers.append((answer, frame.f_lineno if frame is not None else 0))
        return answer

    def _catch_up(self) -> None:
        """Compute what was recorded since the last question."""
        values, recorder = self.values, self.recorder
        values.update((v, getattr(c, "_v", c)) for v, c in recorder.order)
        fresh = recorder.equations[self._seen :]
        self._seen = len(recorder.equations)
        for e in fresh:
            inputs = [values.get(a) if type(a) is Var else a for a in e.inputs]
            if e.primitive.holds_regions or any(x is None for x in inputs):
                continue
            with np.errstate(all="ignore"):
                values[e.outputs[0]] = e.primitive.run(*inputs, **e.params)
