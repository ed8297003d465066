"""Discrete Fourier transforms of any length (docs/design/fourier.md), loaded when a program first has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir import Equation

if TYPE_CHECKING:
    from ..schedule import Schedule


def lower(schedule: Schedule, e: Equation) -> None:
    from . import step

    step.LOWER[e.primitive.name](schedule, e)


LOWER = dict.fromkeys(("fft", "rfft", "irfft"), lower)
