"""docs/numpy.md says of every function of NumPy's what really happens."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
import scipy
from scipy import special

from backsolve.testing import coverage

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "numpy.md"
REMEDY = "run: python -m backsolve.testing.coverage > docs/numpy.md"
ROOMS = {
    **{name: coverage.public(room) for name, room in coverage.ROOMS},
    "scipy.special": coverage.ufuncs(special),
}


def committed(room: str) -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {room}\n")[1].split("\n## ")[0]
    return {name: line for line in text.splitlines() for name in re.findall(r"^\| `(\w+)`", line)}


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_is_current(room: str) -> None:
    """Of the functions that the NumPy and SciPy at hand have in common with those of the table."""
    rows = committed(room)
    here = {n: f for n, f in ROOMS[room].items() if n in rows}
    fresh = dict(zip(sorted(here), coverage.table(room, here), strict=True))
    assert fresh == {n: rows[n] for n in here}, REMEDY


def test_the_table_is_complete() -> None:
    if f"NumPy {np.__version__} and SciPy {scipy.__version__}" not in PAGE.read_text("utf-8"):
        pytest.skip("the table was made with other versions of NumPy and SciPy")
    for room, functions in ROOMS.items():
        assert set(committed(room)) == set(functions), REMEDY


@pytest.mark.parametrize(
    ("name", "f", "expected"),
    [
        ("numpy.sin", np.sin, (coverage.DIFFERENTIABLE, True)),
        ("numpy.unique", np.unique, (coverage.DIFFERENTIABLE, False)),
        ("numpy.floor", np.floor, (coverage.CONSTANT, True)),
        ("numpy.savetxt", np.savetxt, (coverage.UNSUPPORTED, False)),
        ("numpy.zeros", np.zeros, (coverage.HERE, True)),
        ("numpy.seterr", np.seterr, (coverage.ELSEWHERE, False)),
    ],
)
def test_what_is_told_of_a_function(name: str, f: object, expected: object) -> None:
    assert coverage.status(name, f) == expected
