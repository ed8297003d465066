"""Figures of pymanopt 2.2.1; run with it installed.

python tests/manifolds/make_references.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    import pymanopt.manifolds as mf

    rng = np.random.default_rng(7)
    found: dict[str, np.ndarray] = {}
    square = rng.normal(size=(4, 4))
    cases = {
        "Sphere": (mf.Sphere(5), rng.normal(size=5)),
        "Oblique": (mf.Oblique(4, 3), rng.normal(size=(4, 3))),
        "Stiefel": (mf.Stiefel(5, 3), rng.normal(size=(5, 3))),
        "PositiveDefinite": (mf.SymmetricPositiveDefinite(4), square @ square.T + np.eye(4)),
        "Symmetric": (mf.Symmetric(4), square + square.T),
        "Skew": (mf.SkewSymmetric(4), square - square.T),
        "SpecialOrthogonal": (mf.SpecialOrthogonalGroup(4), square),
    }
    for name, (manifold, x) in cases.items():
        if name == "Sphere":
            x = x / np.linalg.norm(x)
        elif name == "Oblique":
            x = x / np.linalg.norm(x, axis=0)
        elif name in ("Stiefel", "SpecialOrthogonal"):
            x = np.linalg.qr(x)[0]
            if name == "SpecialOrthogonal" and np.linalg.det(x) < 0:
                x[:, 0] *= -1
        g, h = rng.normal(size=(2, *x.shape))
        # Rotations: pymanopt's tangents are the skew matrices xᵀ u
        turn = (lambda u, x=x: x @ u) if name == "SpecialOrthogonal" else (lambda u: u)
        own = manifold.projection(x, rng.normal(size=x.shape))
        u = turn(own)
        found[f"{name} x"], found[f"{name} g"], found[f"{name} h"] = x, g, h
        found[f"{name} u"] = u
        found[f"{name} gradient"] = turn(manifold.euclidean_to_riemannian_gradient(x, g))
        found[f"{name} hessian"] = turn(manifold.euclidean_to_riemannian_hessian(x, g, h, own))
        found[f"{name} norm"] = np.asarray(manifold.norm(x, own))
        found[f"{name} exp"] = manifold.exp(x, 0.3 * own)
        found[f"{name} dimension"] = np.asarray(manifold.dim)
        if name not in ("Stiefel",):
            found[f"{name} distance"] = np.asarray(manifold.dist(x, manifold.exp(x, 0.3 * own)))
    manifold = mf.FixedRankEmbedded(5, 4, 2)
    u, s, vt = np.linalg.svd(rng.normal(size=(5, 4)), full_matrices=False)
    point = (u[:, :2], s[:2], vt[:2])
    g = rng.normal(size=(5, 4))
    tangent = manifold.projection(point, g)
    wide = tangent.U if hasattr(tangent, "U") else tangent[0]
    middle, right = tangent[1], tangent[2]
    x = point[0] * point[1] @ point[2]
    found["FixedRank x"], found["FixedRank g"] = x, g
    found["FixedRank gradient"] = (
        point[0] @ middle @ point[2] + wide @ point[2] + point[0] @ right.T
    )
    found["FixedRank dimension"] = np.asarray(manifold.dim)
    found |= factored(manifold, point, rng)
    np.savez_compressed(Path(__file__).with_name("pymanopt.npz"), **found)


def factored(manifold: Any, point: Any, rng: Any) -> dict[str, np.ndarray]:
    """Tangents as (Up, M, Vp), points as (u, s, vt)."""
    found = {}
    u = manifold.projection(point, rng.normal(size=(5, 4)))
    v = manifold.projection(point, rng.normal(size=(5, 4)))
    y = manifold.retraction(point, u)
    groups = {"u": u, "v": v, "carried": manifold.transport(point, y, v)}
    for name, tangent in groups.items():
        for part, array in zip(("A", "M", "B"), tangent, strict=True):
            found[f"LowRank {name} {part}"] = np.asarray(array)
    for name, p in {"x": point, "y": y}.items():
        found[f"LowRank {name} U"], found[f"LowRank {name} s"] = p[0], p[1]
        found[f"LowRank {name} V"] = np.asarray(p[2]).T
    found["LowRank inner"] = np.asarray(manifold.inner_product(point, u, v))
    return found


if __name__ == "__main__":
    main()
