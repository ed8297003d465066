"""Long chains by a scan: `h_t = A_t h_{t−1} + b_t` for all t at once.

The system of such a chain has the blocks A_t below its diagonal and nothing else. Products of neighbours
halve its length (primitives/chains.py), so T rows are solved in 2 log₂ T operations on arrays; the adjoint is
the same system from the other end. Factors that are diagonal stay so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import P


def scan_chain(factors: Any, terms: Any, start: Any) -> Any:
    """All states (T, n) after `start`; factors are (T, n) if they are diagonal, else (T, n, n)."""
    is_diagonal = len(factors.shape) == 2
    image = factors[0] * start if is_diagonal else np.matmul(factors[0], start)
    first = terms[:1] + image[None]
    whole = np.concatenate([first, terms[1:]]) if terms.shape[0] > 1 else first
    return solve_chain(factors, whole)


def solve_chain(factors: Any, terms: Any) -> Any:
    """(I − L)⁻¹ applied to `terms`."""
    if len(factors.shape) == 2:
        return P.recurrence(factors, terms, axis=0, reverse=False)
    return P.block_recurrence(factors, terms, reverse=False)
