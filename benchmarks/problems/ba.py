"""ba: the sparse Jacobian of bundle adjustment, the errors of p observations of points by cameras.

A camera is 11 numbers: a rotation (axis times angle), its centre, focal length, principal point, and two of
radial distortion. An observation depends on its own camera, point and weight only: the Jacobian is one
block of 2 × 15 per observation, and a diagonal of the weights' own errors below them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function

CAMERA, POINT = 11, 3
BLOCK = CAMERA + POINT + 1


def rotate(rotation: Any, x: Any) -> Any:
    """x turned about the axis `rotation` by its length, after Rodrigues."""
    square = np.sum(rotation**2)
    if square == 0:
        return x + np.cross(rotation, x)
    angle = np.sqrt(square)
    axis = rotation / angle
    along = axis * np.sum(axis * x)
    return along + np.cos(angle) * (x - along) + np.sin(angle) * np.cross(axis, x)


def project(camera: Any, point: Any) -> Any:
    seen = rotate(camera[0:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    square = np.sum(flat**2)
    distortion = 1 + camera[9] * square + camera[10] * square**2
    return flat * distortion * camera[6] + camera[7:9]


def reprojection_error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    return weight * (project(camera, point) - feature)


def weight_error(weight: Any) -> Any:
    return 1 - weight**2


def errors(cameras: Any, points: Any, weights: Any, features: Any, seen_by: Any, seen: Any) -> Any:
    """Of all observations: observation i is of point seen[i] by camera seen_by[i]."""
    reprojected = bs.vmap(reprojection_error)(cameras[seen_by], points[seen], weights, features)
    return reprojected, bs.vmap(weight_error)(weights)


def sparse_jacobian(
    cameras: Any, points: Any, weights: Any, features: Any, seen_by: Any, seen: Any
) -> Any:
    """Rows as where each begins, columns, and values, row by row."""
    p = len(weights)
    of_block = bs.vmap(bs.jacobian(reprojection_error, argnums=(0, 1, 2)))
    by_camera, by_point, by_weight = of_block(cameras[seen_by], points[seen], weights, features)
    blocks = np.concatenate([by_camera, by_point, by_weight[:, :, None]], axis=2)
    diagonal = bs.vmap(bs.grad(weight_error))(weights)
    values = np.concatenate([blocks.reshape(-1), diagonal])

    first_point = CAMERA * len(cameras)
    first_weight = first_point + POINT * len(points)
    observation = np.arange(p)
    block_columns = np.concatenate(
        [
            CAMERA * seen_by[:, None] + np.arange(CAMERA),
            first_point + POINT * seen[:, None] + np.arange(POINT),
            first_weight + observation[:, None],
        ],
        axis=1,
    )
    both_rows = np.repeat(block_columns[:, None], 2, axis=1)
    columns = np.concatenate([both_rows.reshape(-1), first_weight + observation])
    begins = np.concatenate([BLOCK * np.arange(2 * p), 2 * BLOCK * p + np.arange(p + 1)])
    return begins.astype(np.int32), columns.astype(np.int32), values


def prepare(message: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """The suite sends one of each: all cameras, points, weights and features are copies of it."""
    n, m, p = message["n"], message["m"], message["p"]
    observation = np.arange(p)
    return (
        np.tile(np.array(message["cam"], dtype=float), (n, 1)),
        np.tile(np.array(message["x"], dtype=float), (m, 1)),
        np.full(p, float(message["w"])),
        np.tile(np.array(message["feat"], dtype=float), (p, 1)),
        (observation % n).astype(np.int32),
        (observation % m).astype(np.int32),
    )


def errors_answer(result: Any) -> dict[str, Any]:
    reprojected, of_weights = result
    return {
        "reproj_error": {"elements": reprojected[0].tolist(), "repeated": len(reprojected)},
        "w_err": {"element": float(of_weights[0]), "repeated": len(of_weights)},
    }


def jacobian_answer(result: Any) -> dict[str, Any]:
    """The suite asks for the first block and the last entry."""
    begins, columns, values = ([*part[: 2 * BLOCK].tolist(), part[-1].item()] for part in result)
    return {"rows": begins, "cols": columns, "vals": values}


functions = {
    "objective": Function(bs.jit(errors), errors_answer),
    "jacobian": Function(bs.jit(sparse_jacobian), jacobian_answer),
}
derivative = ("jacobian",)
sizes = {
    "small": {"n": 20, "m": 500, "p": 2000},
    "middle": {"n": 49, "m": 7776, "p": 31_843},
    "large": {"n": 257, "m": 65_132, "p": 225_911},
}


def generate(rng: Any, n: int, m: int, p: int) -> dict[str, Any]:
    camera = [*rng.normal(size=6), 500 + rng.random(), *rng.normal(size=2), *(0.01 * rng.random(2))]
    return {
        "n": n,
        "m": m,
        "p": p,
        "cam": [float(c) for c in camera],
        "x": (10 * rng.normal(size=3)).tolist(),
        "w": float(rng.random()),
        "feat": (100 * rng.normal(size=2)).tolist(),
    }
