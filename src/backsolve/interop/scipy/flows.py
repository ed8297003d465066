"""Flows: differential equations in levels, solved by SciPy's LSODA. `integrate` says where they come from.

What is needed of an earlier level between two times is carried along with a later one, from the value known
where that begins: the cheapest way. It is checked: where the later one arrives, the earlier one has to be where
it is known to be, up to what the tolerances allow. Then it is a solution from there, too, as good as any.
A dissipative equation is unstable against its direction and fails; then earlier levels are solved in
their own direction, and kept as LSODA's own polynomials, one for each of its steps.
"""

from __future__ import annotations

import itertools
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import DroppedDerivativeError
from ...tensor import Tensor
from ..flat import compiled
from .plain import module as _module

_numbers = itertools.count(1)
_UNTIL_COMPILED_HELD = 5  # of a Program, which is not
UNTIL_COMPILED = 1000  # evaluations of the user's function, which is fast enough in Python
_TOLERANCE = 1.49012e-8  # SciPy's, of both kinds
_STEPS = 500  # SciPy's, between two times
_PATIENCE = 20  # with a larger system
_AGREE = 100.0  # times the tolerances
_FINEST = 3e-14  # that SciPy takes without a warning
_FINER = 0.1  # a path that others follow: its errors shall not look like steps to them


class Level:
    """z' = slope(earlier levels and z, t, *args) from the first time to the last (sign 1) or back (−1)."""

    def __init__(
        self,
        slope: Callable[..., Any],
        size: int,
        sign: int = 1,
        until_compiled: int = _UNTIL_COMPILED_HELD,
        held_slope: Callable[..., Any] | Exception | None = None,
    ):
        # Of derivatives: a Program, for what it closes over may be another then; or why there is none.
        self._held = slope if held_slope is None else held_slope
        self.size = size
        self.sign = sign
        self._fast = slope
        self._left = until_compiled
        self._is_compiled = False

    def __call__(self, z: Any, t: float, *args: Any) -> Any:
        """The slope at plain numbers, compiled as soon as that pays."""
        self._left -= 1
        if self._left == 0:
            self._fast, self._is_compiled = compiled(self._fast), True
        found = self._fast(z, t, *args)
        if isinstance(found, Tensor):
            raise DroppedDerivativeError(
                "`odeint`: the slope depends on a tensor that is not among its arguments; pass it by args=(…)"
            )
        return found

    def hold(self) -> None:
        """From here on by the slope as it was when the flow began."""
        if not self._is_compiled and callable(self._held) and self._fast is not self._held:
            self._fast, self._left = self._held, _UNTIL_COMPILED_HELD

    @property
    def slope(self) -> Callable[..., Any]:
        if isinstance(self._held, Exception):
            raise self._held
        return self._held


class Flow:
    """Levels, side by side in the columns of one array, and how exactly SciPy shall solve them."""

    def __init__(self, levels: Sequence[Level], options: dict[str, Any], is_derived: bool = False):
        self.levels = tuple(levels)
        self.options = options
        steps = options.get("mxstep") or _STEPS  # they sufficed for what this is derived from
        self.patient = {**options, "mxstep": _PATIENCE * steps} if is_derived else options
        ends = np.cumsum([0, *[level.size for level in levels]]).tolist()
        self.columns = list(itertools.pairwise(ends))
        self.size = ends[-1]
        self.signs = np.repeat([level.sign for level in levels], [level.size for level in levels])
        self._joint: dict[int, Level] = {0: self.levels[0]}
        self._number = next(_numbers)  # no two are one, in a Program's text either

    def hold(self) -> None:
        self.levels[0].hold()

    def slope(self, z: Any, t: Any, *args: Any) -> Any:
        return self._slope(len(self.levels), z, t, *args)

    def _slope(self, count: int, z: Any, t: Any, *args: Any) -> Any:
        parts = zip(self.levels[:count], self.columns, strict=False)
        found = [level.slope(z[:end], t, *args) for level, (_, end) in parts]
        return found[0] if count == 1 else np.concatenate(found)

    def joint(self, k: int) -> Level:
        """The levels up to k as one, along level k."""
        if k not in self._joint:
            slope = lambda z, t, *args: self._slope(k + 1, z, t, *args)
            self._joint[k] = Level(slope, self.columns[k][1], self.levels[k].sign)
        return self._joint[k]

    def ends(self, rows: int) -> tuple[Any, Any]:
        """1 where a column has its first time, and where it has its last; 0 elsewhere."""
        first, last = np.zeros((rows, self.size)), np.zeros((rows, self.size))
        if rows:
            for side, k in ((first, 0), (last, -1)):
                side[k] += self.signs > 0
                side[-1 - k] += self.signs < 0
        return first, last

    def sides(self, w: Any, restarts: Any) -> tuple[Any, Any]:
        """Before and after every time, of the whole state: w on the side of arrival, the start on the other."""
        first, _ = self.ends(w.shape[0])
        starts = (1 - first) * w + restarts
        on, back = self.signs > 0, self.signs < 0
        return on * w + back * starts, on * starts + back * w

    def woven(self, x: Any, dx: Any) -> Any:
        """The columns of x and dx side by side, level by level."""
        parts = [y[..., a:b] for a, b in self.columns for y in (x, dx)]
        return np.concatenate(parts, axis=-1)

    def unwoven(self, both: Any, end: int | None = None) -> tuple[Any, Any]:
        columns = [(a, b) for a, b in self.columns if end is None or b <= end]
        x = [both[..., 2 * a : a + b] for a, b in columns]
        dx = [both[..., a + b : 2 * b] for a, b in columns]
        return np.concatenate(x, axis=-1), np.concatenate(dx, axis=-1)

    def __repr__(self) -> str:
        return f"Flow({self._number})"

    def derived(self, levels: Sequence[Level]) -> Flow:
        """A larger system, of which nothing is known component by component."""
        smallest = {k: float(np.min(v)) for k, v in self.options.items() if k in ("rtol", "atol")}
        return Flow(levels, {**self.options, **smallest}, is_derived=True)


def solve(restarts: Any, t: Any, known: Any, *args: Any, flow: Flow) -> Any:
    """The rows w; their first columns are those known."""
    if not len(t):
        return np.zeros(restarts.shape)
    w = np.zeros(restarts.shape)
    w[:, : known.shape[1]] = known
    paths = _Paths(flow, restarts, t, args)
    for k, (a, b) in enumerate(flow.columns):
        if b <= known.shape[1]:
            continue
        found = _carried(flow, k, w, restarts, t, args) if paths.are_unused else None
        w[:, a:b] = paths.rows(k) if found is None else found
    return w


def _carried(flow: Flow, k: int, w: Any, restarts: Any, t: Any, args: Any) -> Any:
    """The rows of level k, with the earlier ones carried along; None if these do not arrive where they are."""
    (a, b), sign, joint = flow.columns[k], flow.levels[k].sign, flow.joint(k)
    order = range(len(t))[::sign]
    r = restarts[:, a:b]

    def slope(z: Any, time: float) -> Any:
        return joint(z, time, *args)

    options = flow.options if k else flow.patient
    if not k and not r[1:].any():
        return _solved(slope, r[0], t, options)
    found = np.empty(r.shape)
    found[order[0]] = y = r[order[0]]
    before, after = (side[:, :a] for side in flow.sides(w, restarts))
    begins, ends = (after, before) if sign > 0 else (before, after)
    allowed = _AGREE * (_tolerance(options, "atol") + _tolerance(options, "rtol") * abs(ends))
    with np.errstate(all="ignore" if k else None):
        for i, j in itertools.pairwise(order):
            try:
                z = _solved(slope, np.concatenate([begins[i], y]), t[[i, j]], options)[1]
            except ArithmeticError:
                if not k:
                    raise
                return None
            if not (abs(z[:a] - ends[j]) <= allowed[j]).all():
                return None
            found[j] = z[a:]
            y = z[a:] + r[j]
    return found


def _tolerance(options: dict[str, Any], name: str) -> Any:
    given = options.get(name)
    return _TOLERANCE if given is None else given


class _Paths:
    """Levels of a flow in their own directions, beside the paths of the earlier ones."""

    def __init__(self, flow: Flow, restarts: Any, t: Any, args: Any):
        self.flow, self.restarts, self.t, self.args = flow, restarts, t, args
        self._paths: list[dict[int, Callable[[float], Any]]] = []  # by where they begin in t

    @property
    def are_unused(self) -> bool:
        return not self._paths

    def rows(self, k: int) -> Any:
        """Those of level k, and, if it is not the last, its paths between any two jumps."""
        while len(self._paths) < k:
            self.rows(len(self._paths))
        flow, t, level = self.flow, self.t, self.flow.levels[k]
        (a, b), is_last = flow.columns[k], k + 1 == len(flow.levels)
        jumps = np.flatnonzero(self.restarts[1:-1, :b].any(axis=1)) + 1
        r = self.restarts[:, a:b]
        w = np.empty(r.shape)
        y = w[0 if level.sign > 0 else -1] = r[0 if level.sign > 0 else -1]
        paths: dict[int, Callable[[float], Any]] = {}
        for i, j in list(itertools.pairwise([0, *jumps.tolist(), len(t) - 1]))[:: level.sign]:
            earlier = [known[_last_until(i, known)] for known in self._paths]

            def slope(y: Any, time: float, earlier: Any = earlier) -> Any:
                z = np.concatenate([*[path(time) for path in earlier], y])
                return level(z, time, *self.args)

            here = np.arange(i, j + 1)[:: level.sign]
            if is_last:
                found = _solved(slope, y, t[here], flow.patient, tcrit=[t[here[-1]]])
            else:
                most = (j - i) * flow.patient["mxstep"]
                paths[i] = _path(slope, y, t[here[0]], t[here[-1]], most, flow.patient)
                found = np.stack([paths[i](time) for time in t[here]])
            w[here[1:]] = found[1:]
            y = found[-1] + r[here[-1]]
        self._paths.append({i: paths[i] for i in sorted(paths)})
        return w


def _last_until(i: int, known: dict[int, Any]) -> int:
    places = list(known)
    return places[bisect_right(places, i) - 1]


def _path(
    slope: Any, y: Any, start: float, end: float, most: int, options: dict[str, Any]
) -> Callable[[float], Any]:
    """y as a function of the time from start to end, by so many steps at most."""
    if start == end:
        return lambda time: y
    first = options.get("h0") or None
    solver = _module("integrate").LSODA(
        lambda time, y: slope(y, time),
        start,
        y,
        end,
        first_step=first and min(abs(first), abs(end - start)),
        min_step=options.get("hmin") or 0.0,
        max_step=options.get("hmax") or np.inf,
        rtol=max(_FINER * _tolerance(options, "rtol"), _FINEST),
        atol=_FINER * _tolerance(options, "atol"),
    )
    pieces: list[Any] = []
    ends: list[float] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lsoda: ")  # an error tells
        while solver.status == "running":
            report = solver.step()
            if len(pieces) == most:
                report = f"more than {most} steps (mxstep allows more)"
            if report or not np.isfinite(solver.y).all():
                raise ArithmeticError(f"`odeint` did not arrive: {report or 'not finite'}")
            pieces.append(solver.dense_output())
            ends.append(solver.direction * solver.t)

    def path(time: float) -> Any:
        k = bisect_left(ends, solver.direction * time)
        return pieces[min(k, len(pieces) - 1)](time)

    return path


def _solved(slope: Any, y: Any, t: Any, options: dict[str, Any], tcrit: Any = None) -> Any:
    if np.all(t == t[0]):
        return np.repeat(y[None], len(t), 0)
    if options.get("h0"):  # as it was given, it is for one direction
        step = t[-1] - t[0]
        options = {**options, "h0": np.copysign(min(abs(options["h0"]), abs(step)), step)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _module("integrate").ODEintWarning)
        found, report = _module("integrate").odeint(
            slope, y, t, full_output=True, tcrit=tcrit, **options
        )
    if report["message"] != "Integration successful.":
        raise ArithmeticError(f"`odeint` did not arrive: {report['message']}")
    return found
