"""Fits of the NIST's Statistical Reference Datasets, with their certified values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fit:
    model: Callable[[Any, Any], Any]
    x: Any
    y: Any
    starts: tuple[tuple[float, ...], ...]
    certified: tuple[float, ...]
    squares: float  # the sum of squares of what is left

    def residuals(self, b: Any) -> Any:
        return self.model(b, self.x) - self.y


_misra_x = np.array(
    [
        77.6,
        114.9,
        141.1,
        190.8,
        239.9,
        289.0,
        332.8,
        378.4,
        434.8,
        477.3,
        536.8,
        593.1,
        689.1,
        760.0,
    ]
)
_misra_y = np.array(
    [
        10.07,
        14.73,
        17.94,
        23.93,
        29.61,
        35.18,
        40.02,
        44.82,
        50.76,
        55.05,
        61.01,
        66.40,
        75.47,
        81.78,
    ]
)
_thurber_x = np.array(
    [-3.067, -2.981, -2.921, -2.912, -2.840, -2.797, -2.702, -2.699, -2.633, -2.481, -2.363, -2.322,
     -1.501, -1.460, -1.274, -1.212, -1.100, -1.046, -0.915, -0.714, -0.566, -0.545, -0.400, -0.309,
     -0.109, -0.103, 0.010, 0.119, 0.377, 0.790, 0.963, 1.006, 1.115, 1.572, 1.841, 2.047, 2.200]
)  # fmt: skip
_thurber_y = np.array(
    [80.574, 84.248, 87.264, 87.195, 89.076, 89.608, 89.868, 90.101, 92.405, 95.854, 100.696, 101.060,
     401.672, 390.724, 567.534, 635.316, 733.054, 759.087, 894.206, 990.785, 1090.109, 1080.914,
     1122.643, 1178.351, 1260.531, 1273.514, 1288.339, 1327.543, 1353.863, 1414.509, 1425.208,
     1421.384, 1442.962, 1464.350, 1468.705, 1447.894, 1457.628]
)  # fmt: skip


def _thurber(b: Any, x: Any) -> Any:
    above = b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3
    return above / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


FITS = {
    "Misra1a": Fit(
        lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
        _misra_x,
        _misra_y,
        ((500.0, 1e-4), (250.0, 5e-4)),
        (2.3894212918e02, 5.5015643181e-04),
        1.2455138894e-01,
    ),
    "Thurber": Fit(
        _thurber,
        _thurber_x,
        _thurber_y,
        ((1000, 1000, 400, 40, 0.7, 0.3, 0.03), (1300, 1500, 500, 75, 1, 0.4, 0.05)),
        (
            1.2881396800e03,
            1.4910792535e03,
            5.8323836877e02,
            7.5416644291e01,
            9.6629502864e-01,
            3.9797285797e-01,
            4.9727297349e-02,
        ),
        5.6427082397e03,
    ),
}
