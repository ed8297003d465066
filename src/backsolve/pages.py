"""Memory that was given back stays at hand.

The C library of most Linux systems hands freed arrays back to the system, and asks for fresh pages for the
next ones, until it has seen a large one freed: from then on it keeps what is smaller. Fresh pages take longer
to get than arrays of a megabyte take to compute, so let it see one. (Nobody touches it, so it costs nothing;
elsewhere it has no effect.)
"""

from __future__ import annotations

import numpy as np

LARGE = (1 << 25) - (1 << 16)  # the largest that the C library learns from


def keep_pages() -> None:
    np.empty(LARGE, np.uint8)
