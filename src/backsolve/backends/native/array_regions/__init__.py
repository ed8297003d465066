"""Regions whose work is on arrays: loops, branches and calls (see region.py)."""

from __future__ import annotations

from .loop import lower_loop

LOWER = {"loop": lower_loop}
