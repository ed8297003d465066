"""grad_report: every derivative of a function beside differences of its values, as a report.

All numbers are real coordinates: entries of arguments and of results, complex ones by their two parts. With
e_j a coordinate of the arguments and e_i one of the results, an entry J_ij has three computations,

    differences   (f_i(x + h e_j) − f_i(x − h e_j)) / 2h
    forward       ⟨e_i, J e_j⟩
    reverse       ⟨Jᵀ e_i, e_j⟩

and the latter two may be off the first by what the difference leaves out, plus what rounding makes of it: f_i
is known to its rounding error only, which is divided by h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import numeric
from ..api import jvp, vjp
from ..working import Working
from .coordinates import Coordinates
from .noise import measured_noise
from .smoothness import Roughness, roughness
from .verdicts import Entry, Report

_MUCH = 8  # deviations of rounding that may meet
_OUTPUTS = 16  # results that are checked one by one; of more, a weighted sum
_DOUBLE = float(np.finfo(np.float64).eps)
Progress = Callable[[int, int], None]
Flat = Callable[..., list[Any]]


def grad_report(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    argnums: Sequence[int] | None = None,
    order: int = 1,
    modes: Sequence[str] = ("forward", "reverse"),
    most: int | None = 64,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """The derivatives of `f` at `args` beside differences, entry by entry; it raises nothing about them.

    Arguments of more than `most` entries are checked at so many, drawn at random, and along a random
    direction; where only that shows an error, the entry at fault is found by halving.

    >>> report = grad_report(lambda x: np.sin(x) * x, [2.0])
    >>> report.is_right, len(report.entries)
    (True, 2)
    >>> print(grad_report(np.abs, [0.0]).rough[0])
    result by 0: a kink, slope -1 on the left and 1 on the right; forward mode takes 0
    """
    at = Coordinates.of(f, args, names, argnums)
    if not at.xs:
        raise ValueError("grad_report needs a floating-point or complex argument: nothing varies")
    if not at.ys:
        raise ValueError("the function gives no floating-point number: it has no derivative")
    entries: list[Entry] = []
    with Working("checking") as bar:
        for derived, chain in _levels(at, order, modes, seed):
            entries += _Check(derived, chain, modes, most, seed, progress or bar.show).entries()
    return Report(tuple(entries))


def _levels(
    at: Coordinates, order: int, modes: Sequence[str], seed: int
) -> Iterator[tuple[Coordinates, tuple[str, ...]]]:
    """The function itself, then its derivatives Jᵀ v and J u for fixed v and u, as functions of x."""
    level: list[tuple[Coordinates, tuple[str, ...]]] = [(at, ())]
    for _ in range(order):
        yield from level
        level = [(c.derived(m, seed), (m, *chain)) for c, chain in level for m in modes]


class _Check:
    """One function at one point."""

    def __init__(
        self,
        at: Coordinates,
        chain: tuple[str, ...],
        modes: Sequence[str],
        most: int | None,
        seed: int,
        progress: Progress | None,
    ):
        self.at, self.chain, self.modes, self.most = at, chain, modes, most
        self.progress = progress or (lambda done, total: None)
        self.rng = np.random.default_rng(seed)
        self.y = at.values(at.start)
        again = at.values(at.start)
        if not np.array_equal(self.y, again, equal_nan=True):
            raise ValueError(
                "the function gives other numbers when it is called again with the same arguments, so "
                "differences tell nothing: pass it the state of its random numbers"
            )
        if not np.all(np.isfinite(self.y)):
            raise ValueError(f"the function's result is not finite here: {self.y}")
        self.weights = np.eye(len(self.y))
        self.outputs = at.output_names()
        if len(self.y) > _OUTPUTS:
            self.weights = self.rng.normal(size=(1, len(self.y)))
            self.outputs = [f"a weighted sum of the {len(self.y)} results"]
        self.noise = np.abs(self.weights) @ self._noise()

    def _noise(self) -> Any:
        """How far rounding may move each result, in double precision."""
        least = self.at.value_eps * np.abs(self.y)
        found = _MUCH * measured_noise(self.at.values, self.at.start)
        return np.where(np.isfinite(found), np.maximum(found, least), least)

    def function(self, z: Any) -> Any:
        return self.weights @ self.at.values(z)

    # ---- both modes

    def pushed(self, direction: Any) -> Any:
        _, images = jvp(self.at.flat, self.at.xs, self.at.leaves(direction))
        return self.weights @ self.at.output_coordinates(images)

    def pulled(self) -> Any:
        """The rows of J, one for each (weighted) result."""
        if "reverse" not in self.modes:
            return None
        _, pull = vjp(self.at.flat, *self.at.xs)
        return np.array([self.at.coordinates(pull(self.at.seeds(w))) for w in self.weights])

    # ---- entries

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        rows = self.pulled()
        numbers, directions = self._chosen()
        total = len(numbers) + len(directions)
        seen = set(numbers)
        for done, j in enumerate(numbers):
            found += self.compare(self.at.unit(j), self.at.input_names[j], rows, rough=True)
            self.progress(done + 1, total)
        for done, (name, where) in enumerate(directions):
            u = np.zeros(len(self.at.start))
            u[where] = self.rng.normal(size=len(where))
            along = self.compare(u, f"{name}, along a random direction", rows, rough=False)
            if any(e.is_wrong for e in along):
                j = self._culprit(u, where, rows)
                if j not in seen:
                    along = self.compare(self.at.unit(j), self.at.input_names[j], rows, rough=True)
            found += along
            self.progress(len(numbers) + done + 1, total)
        return found

    def _chosen(self) -> tuple[list[int], list[tuple[str, Any]]]:
        """Coordinates to check one by one, and leaves that have more than these."""
        numbers: list[int] = []
        directions = []
        for name, start, stop in self.at.ranges:
            where = np.arange(start, stop)
            if self.most is not None and len(where) > self.most:
                directions.append((name, where))
                where = np.sort(self.rng.choice(where, self.most, replace=False))
            numbers += [int(j) for j in where]
        return numbers, directions

    def _culprit(self, u: Any, where: Any, rows: Any) -> int:
        """A coordinate whose derivative is wrong, by halving a direction along which it is."""
        while len(where) > 1:
            half = where[: len(where) // 2]
            v = np.zeros_like(u)
            v[half] = u[half]
            wrong = any(e.is_wrong for e in self.compare(v, "", rows, rough=False))
            where = half if wrong else where[len(where) // 2 :]
        return int(where[0])

    def compare(self, direction: Any, name: str, rows: Any, rough: bool) -> list[Entry]:
        """Both modes beside differences along one direction, for every result."""
        flaws: Sequence[Roughness | None] = [None] * len(self.weights)
        if rough:
            flaws = roughness(self.function, self.at.start, direction, self.noise)
        expected = allowed = np.full(len(self.weights), np.nan)
        try:
            d = numeric.directional(self.function, self.at.start, direction)
            expected, allowed = np.asarray(d.value), self._allowed(d, direction)
        except ValueError:  # beyond the edge of the domain
            flaws = [flaw or Roughness("edge", np.nan, np.nan) for flaw in flaws]
        got = {}
        if "forward" in self.modes:
            got["forward"] = self.pushed(direction)
        if "reverse" in self.modes:
            got["reverse"] = rows @ direction
        return [
            Entry(self.chain, mode, output, name, float(expected[i]), float(values[i]),
                  float(allowed[i]), flaws[i])
            for mode, values in got.items()
            for i, output in enumerate(self.outputs)
        ]  # fmt: skip

    def _allowed(self, d: numeric.Estimate, direction: Any) -> Any:
        """The difference's own error, what rounding of f makes of it, and the derivative's rounding."""
        size = np.abs(np.asarray(d.value))
        length = min(1.0, float(np.max(np.abs(self.at.start * direction), initial=0)) or 1.0)
        eps = self.at.eps
        own = 64 * eps * size + 8 * (eps / _DOUBLE) * self.noise / length
        return 4 * np.asarray(d.error) + 2 * self.noise / np.abs(np.asarray(d.step)) + own
