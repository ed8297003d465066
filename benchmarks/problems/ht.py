"""ht: the Jacobian of hand tracking, the distances of measured points from a posed and skinned hand.

θ is 26 numbers: a rotation (axis times angle) and a translation of the whole hand, and four angles for each
of five fingers. A measured point belongs to a vertex ("simple"), or to a place u in a triangle of vertices
("complicated"): then every point has two unknowns of its own, which move no other point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function

FINGERS, JOINTS = 5, 4
IDENTITY = np.eye(3)


def rotation_about(axis_times_angle: Any) -> Any:
    """3 × 3, after Rodrigues: n nᵀ + cos φ (I − n nᵀ) + sin φ [n]×, and I for a tiny angle."""
    angle = np.sqrt(np.sum(axis_times_angle**2))
    if angle < 1e-4:
        return IDENTITY
    n = axis_times_angle / angle
    along = np.outer(n, n)
    return along + np.cos(angle) * (IDENTITY - along) + np.sin(angle) * np.cross(IDENTITY, n)


def bone_rotations(angles: Any) -> Any:
    """R_z R_y R_x of every bone, as 4 × 4 matrices; `angles` has columns x, z, y."""
    (cx, cz, cy), (sx, sz, sy) = np.cos(angles).T, np.sin(angles).T
    zero, one = np.zeros_like(cx), np.ones_like(cx)
    rows = [
        [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
        [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
        [-sy, cy * sx, cy * cx, zero],
        [zero, zero, zero, one],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def bone_angles(theta: Any, bones: int) -> Any:
    """Of the wrist none; a finger bends at three of its four bones, and spreads at the first of them."""
    angles = np.zeros_like(theta, shape=(bones, 3))
    for finger in range(FINGERS):
        bend = theta[6 + JOINTS * finger : 6 + JOINTS * (finger + 1)]
        base = 2 + JOINTS * finger
        angles[base, :2] = bend[:2]
        angles[base + 1, 0] = bend[2]
        angles[base + 2, 0] = bend[3]
    return angles


def vertices(theta: Any, model: Any, parents: tuple[int, ...], mirrored: bool) -> Any:
    """The positions of all vertices of the posed hand."""
    relatives = model["base_relatives"] @ bone_rotations(bone_angles(theta, len(parents)))
    absolutes: list[Any] = []
    for relative, parent in zip(relatives, parents, strict=True):
        absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
    transforms = np.stack(absolutes) @ model["inverse_base_absolutes"]
    skinned = np.einsum(
        "vb,bij,vj->vi", model["weights"], transforms[:, :3], model["base_positions"]
    )
    if mirrored:
        skinned = skinned * np.array([-1.0, 1.0, 1.0])
    return skinned @ rotation_about(theta[:3]).T + theta[3:6]


def residuals(
    theta: Any, us: Any, points: Any, of: Any, model: Any, parents: tuple[int, ...], mirrored: bool
) -> Any:
    """Point i is that of vertex of[i]; or, if there are `us`, of the triangle of vertices of[i]."""
    hand = vertices(theta, model, parents, mirrored)
    if len(us) == 0:
        return points - hand[of]
    a, b, c = hand[of[:, 0]], hand[of[:, 1]], hand[of[:, 2]]
    u, v = us[:, :1], us[:, 1:]
    return points - (u * a + v * b + (1 - u - v) * c)


def jacobian(theta: Any, us: Any, *rest: Any) -> Any:
    """Rows for the coordinates of the points; columns for a point's own u, then for θ.

    No point depends on another's u, so that one direction moves all of them at once.
    """
    own = 2 if len(us) else 0

    def moved(by: Any) -> Any:
        return residuals(theta + by[own:], us + by[:own] if own else us, *rest)

    columns = bs.jacobian(moved, method="forward")(np.zeros(own + len(theta)))
    return columns.reshape(-1, own + len(theta))


def prepare(message: dict[str, Any]) -> tuple[Any, ...]:
    data, hand = message["data"], message["data"]["model"]
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    model = {name: np.array(hand[name], dtype=float) for name in names}
    us = np.array(message["us"], dtype=float).reshape(-1, 2)
    of = np.array(data["correspondences"])
    if len(us):
        of = np.array(hand["triangles"])[of]
    return (
        np.array(message["theta"], dtype=float),
        us,
        np.array(data["points"], dtype=float),
        of,
        model,
        tuple(hand["parents"]),
        bool(hand["is_mirrored"]),
    )


functions = {
    "objective": Function(bs.jit(residuals, static_argnums=(5, 6)), lambda r: r.ravel().tolist()),
    "jacobian": Function(bs.jit(jacobian, static_argnums=(5, 6))),
}
derivative = ("jacobian",)
sizes = {
    "small": {"points": 100, "vertices": 544, "complicated": False},
    "middle": {"points": 100, "vertices": 10_000, "complicated": True},
    "large": {"points": 12_800, "vertices": 10_000, "complicated": True},
}


def generate(
    rng: Any, points: int, vertices: int, complicated: bool, bones: int = 22
) -> dict[str, Any]:
    """A hand of random bones, skinned with up to four of them, in the form of the suite's messages."""

    def placed() -> np.ndarray:
        matrices = np.tile(np.eye(4), (bones, 1, 1))
        matrices[:, :3] += 0.1 * rng.normal(size=(bones, 3, 4))
        return matrices

    weights = rng.random((vertices, bones))
    weights *= weights >= np.sort(weights, axis=1)[:, -4:-3]
    weights /= weights.sum(axis=1, keepdims=True)
    triangles = rng.integers(0, vertices, (2 * vertices, 3))
    parents = [-1, *(0 if k % JOINTS == 1 else k - 1 for k in range(1, bones))]
    return {
        "theta": (0.3 * rng.normal(size=26)).tolist(),
        "data": {
            "model": {
                "bone_count": bones,
                "bone_names": [f"bone {k}" for k in range(bones)],
                "parents": parents,
                "base_relatives": placed().tolist(),
                "inverse_base_absolutes": placed().tolist(),
                "base_positions": np.c_[rng.random((vertices, 3)), np.ones(vertices)].tolist(),
                "weights": weights.tolist(),
                "triangles": triangles.tolist(),
                "is_mirrored": False,
            },
            "correspondences": rng.integers(
                0, len(triangles) if complicated else vertices, points
            ).tolist(),
            "points": rng.random((points, 3)).tolist(),
        },
        "us": rng.random((points, 2)).tolist() if complicated else [],
    }
