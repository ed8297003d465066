"""Expansions of linear algebra: contractions in pairs, determinants by the diagonal of a factor."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ..ir import Equation
from ..operators.nests import split_subscripts
from ..operators.solve import adjoint
from ..primitive import P
from ..primitives.adjugate import inv_of_pivots
from ..primitives.convolution import by_windows
from ..primitives.exponential import expm, frechet
from ..primitives.linalg import lu_diagonal


def needs_splitting(e: Equation) -> bool:
    """Whether a contraction is more than one operand rearranged, or a product of two."""
    inputs, output = split_subscripts(e.params["subscripts"])
    return len(inputs) > 2 or (len(inputs) == 2 and not _is_product(inputs, output))


def _is_product(inputs: list[str], output: str) -> bool:
    return len(set(output)) == len(output) and set(output) <= set("".join(inputs))


def _contract(*operands: Any, subscripts: str, sizes: Any) -> Any:
    """The cheapest pairs first (einsum's plan); last, what only writes: diagonals and new axes."""
    labels, output = split_subscripts(subscripts)
    parts = list(operands)
    kept = "".join(c for c in dict.fromkeys(output) if any(c in x for x in labels))
    stand_ins = [np.broadcast_to(np.float64(0), a.shape) for a in parts]
    # Pairs only, however large: left to itself, einsum takes three at once to save memory.
    limits = ("optimal", 1 << 62)
    plan, _ = np.einsum_path(f"{','.join(labels)}->{kept}", *stand_ins, optimize=limits)
    for places in plan[1:]:
        chosen = sorted(places)
        taken, names = [parts[k] for k in chosen], [labels[k] for k in chosen]
        parts = [a for k, a in enumerate(parts) if k not in chosen]
        labels = [x for k, x in enumerate(labels) if k not in chosen]
        needed = kept + "".join(labels)
        made = "".join(c for c in dict.fromkeys("".join(names)) if c in needed) if parts else kept
        parts.append(P.contract(*taken, subscripts=f"{','.join(names)}->{made}", sizes=()))
        labels.append(made)
    if labels[0] == output:
        return parts[0]
    return P.contract(parts[0], subscripts=f"{labels[0]}->{output}", sizes=sizes)


FEW = 32  # terms that are written out


def _convolve(a: Any, v: Any, *, mode: str) -> Any:
    """Few terms, or few results, as sums of products that one loop computes; else by windows."""
    if mode == "full":
        a, v = (a, v) if a.shape[0] >= v.shape[0] else (v, a)
        if v.shape[0] <= FEW:
            a = np.pad(a, v.shape[0] - 1)
            mode = "valid"
    n, m = a.shape[0], v.shape[0]
    if mode == "valid" and m <= FEW:
        parts = [a[m - 1 - j : n - j] * v[j] for j in range(m)]
        return reduce(np.add, parts)
    if mode == "valid" and n - m < FEW:
        turned = v[::-1]
        return np.stack([np.sum(a[i : i + m] * turned) for i in range(n - m + 1)])
    return by_windows(a, v, mode)


def _pinv(a: Any, *, rcond: float) -> Any:
    m, n = a.shape[-2:]
    if not a.size:
        return np.zeros((*a.shape[:-2], n, m), a.dtype)
    y = P.svd(a)
    U, s, V = y[..., :m, :], np.real(y[..., m, :]), y[..., m + 1 :, :]
    kept = s > rcond * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
    return np.matmul(V * inverse[..., None, :], adjoint(U))


def _adjugate(a: Any) -> Any:
    """det(A) A⁻¹, with tiny pivots in place of zeros: what is divided by them is multiplied with them, too.

    So what has no other factor than the quotient is right, and all else is below rounding.
    """
    if not a.size:
        return a
    d = lu_diagonal(a)
    is_zero = np.equal(d, 0)
    size = np.max(np.abs(d), axis=-1, keepdims=True)
    tiny = np.where(np.equal(size, 0), 1, size) * float(np.finfo(a.dtype).eps) ** 2
    y = (
        inv_of_pivots(a, tiny[..., None])
        * np.prod(np.where(is_zero, tiny, 1), axis=-1)[..., None, None]
    )
    return y * np.prod(np.where(is_zero, 1, d), axis=-1)[..., None, None]


LINEAR: dict[str, Callable[..., Any]] = {
    "contract": _contract,
    "convolve": _convolve,
    "pinv": _pinv,
    "expm": expm,
    "expm_along": frechet,
    "adjugate": _adjugate,
    "det": lambda a: np.prod(lu_diagonal(a), axis=-1),
    "log_abs_det": lambda a: np.sum(np.log(np.abs(lu_diagonal(a))), axis=-1),
    "det_sign": lambda a: np.prod(np.sign(lu_diagonal(a)), axis=-1),
}
