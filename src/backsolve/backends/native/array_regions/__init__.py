"""Regions whose work is on arrays: loops, branches and calls (see region.py)."""

from __future__ import annotations

from .branch import lower_branch
from .loop import lower_loop

LOWER = {"loop": lower_loop, "branch": lower_branch}
