"""Messages from the suite's own data files, which are read where they lie and are no part of this project.

ba: three counts, then one camera, point, weight and feature, a line each. ht: a folder `model` of bones,
vertices and triangles, fields parted by colons, and a file of points (with triangles' `us`, if complicated).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def read(evals: Path, name: str) -> dict[str, Any] | None:
    """The first data set of a problem, or None for one whose data are random."""
    if name == "ba":
        return read_ba(next((evals / "ba" / "data").glob("ba1_*.txt")))
    if name == "ht":
        return read_ht(next((evals / "ht" / "data" / "complicated_big").glob("hand1_*.txt")))
    return None


def read_ba(path: Path) -> dict[str, Any]:
    counts, camera, point, weight, feature = path.read_text().splitlines()[:5]
    n, m, p = map(int, counts.split())
    numbers = [[float(x) for x in line.split()] for line in (camera, point, weight, feature)]
    return {"n": n, "m": m, "p": p} | dict(
        zip(("cam", "x", "w", "feat"), [*numbers[:2], numbers[2][0], numbers[3]], strict=True)
    )


def read_ht(path: Path) -> dict[str, Any]:
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    points, angles = map(int, lines[0])
    measured, rest = lines[1 : 1 + points], lines[1 + points :]
    has_us = len(rest[0]) == 2
    us, theta = (rest[:points], rest[points:]) if has_us else ([], rest)
    return {
        "theta": [float(x) for (x,) in theta[:angles]],
        "data": {
            "model": read_hand(path.parent / "model"),
            "correspondences": [int(line[0]) for line in measured],
            "points": [[float(x) for x in line[1:]] for line in measured],
        },
        "us": [[float(x) for x in line] for line in us],
    }


def read_hand(folder: Path) -> dict[str, Any]:
    def table(name: str) -> list[list[str]]:
        return [line.split(":") for line in (folder / name).read_text().splitlines()]

    bones, corners = table("bones.txt"), table("vertices.txt")
    positions = np.ones((len(corners), 4))
    weights = np.zeros((len(corners), len(bones)))
    for k, line in enumerate(corners):
        positions[k, :3] = [float(x) for x in line[:3]]
        for bone, weight in zip(line[9::2], line[10::2], strict=False):
            weights[k, int(bone)] = float(weight)
    matrices = np.array([[float(x) for x in line[2:34]] for line in bones]).reshape(-1, 2, 4, 4)
    return {
        "bone_count": len(bones),
        "bone_names": [line[0] for line in bones],
        "parents": [int(line[1]) for line in bones],
        "base_relatives": matrices[:, 0].tolist(),
        "inverse_base_absolutes": matrices[:, 1].tolist(),
        "base_positions": positions.tolist(),
        "weights": weights.tolist(),
        "triangles": [[int(x) for x in line] for line in table("triangles.txt")],
        "is_mirrored": False,
    }
