"""Regions whose work is on arrays: loops, branches and calls (see region.py)."""

from __future__ import annotations

from .box import lower_box, lower_unbox
from .branch import lower_branch
from .call import lower_call
from .empty import lower_length, lower_no_entries
from .loop import lower_loop

LOWER = {
    "loop": lower_loop,
    "branch": lower_branch,
    "call": lower_call,
    "no_entries": lower_no_entries,
    "length": lower_length,
    "box": lower_box,
    "unbox": lower_unbox,
}
