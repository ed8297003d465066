"""The forward and the backward pass as one Program of plain data, for a page to run again on other inputs.

A derivative is a Program like any other: staged, the run of a function gives all v_i, and the back substitution
after it all v̄_i. So the page needs no rule of calculus, only the values of primitives (web/src/run).
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from itertools import zip_longest
from typing import Any

import numpy as np

from ..errors import BacksolveError
from ..ir import Equation, Program, Var, type_of
from ..primitive import wrap
from ..rewrite.clean import drop_unused, merge_repeated
from ..rewrite.expand import expand
from ..row import Row
from ..system import System
from ..trace import evaluate, stage
from .numbers import array_data, number
from .path import Path
from .scene import Scene, all_adjoints, edges_of
from .wires import sent_back

_MOST_EQUATIONS = 4_000
_MOST_ENTRIES = 50_000
_RTOL, _ATOL = 1e-3, 1e-9  # beyond what rounding does


# What web/src/run/array.ts stores.
DTYPES = frozenset(["float64", "float32", "int64", "bool"])
DTYPES |= {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32)}


@cache
def runs_in_browser() -> frozenset[str]:
    """The primitives whose values the page can compute: a list that is written when the page is built."""
    text = resources.files(__package__).joinpath("static/primitives.json").read_text()
    return frozenset(json.loads(text))


def recomputation(scene: Scene) -> dict[str, Any]:
    """{"program": …}, or {"why": the reason for which the numbers of a page stay as they are}."""
    rows = len(scene.system.rows)
    if rows > _MOST_EQUATIONS // 2:
        return {"why": f"it is large: {rows:,} rows"}
    if scene.varied.points:
        return {"why": "an argument is declared on a manifold"}
    if any(scene.values.get(row) is None for row in scene.nodes):
        return {"why": "parts of it ran in another thread, or are calls with several results"}
    try:
        staged = _staged(scene)
    except BacksolveError as error:
        first = str(error).splitlines()[0].split(";")[0]
        return {"why": f"the program needs numbers while it is written down: {first}"}
    if isinstance(staged, str):
        return {"why": staged}
    program, path = staged
    strange = _strange(program)
    if strange:
        names = ", ".join(f"`{n}`" for n in sorted(strange))
        return {"why": f"the page has no code for {names}"}
    entries = sum(v.type.size for v in program.inputs) + sum(
        v.type.size for v, _ in program.constants
    )
    if len(program.equations) > _MOST_EQUATIONS or entries > _MOST_ENTRIES:
        return {"why": f"it is large: {len(program.equations):,} operations, {entries:,} numbers"}
    odd = {v.dtype.name for v in _variables(program)} - DTYPES
    if odd:
        return {"why": f"the page does not compute with {' and '.join(sorted(odd))}"}
    if not _says_the_same(program, scene):
        return {"why": "run once more it gives other numbers: does it draw random ones?"}
    return {"program": _data(program, scene, path)}


def _says_the_same(program: Program, scene: Scene) -> bool:
    """Whether the program, on what was given, gives the values that are shown."""
    given = [*[scene.values[p] for p in scene.system.parameters], *[s for _, s in _seeded(scene)]]
    with np.errstate(all="ignore"):
        found = evaluate(program, given)
        return all(
            np.allclose(
                np.asarray(getattr(y, "_v", y)), scene.values[row], _RTOL, _ATOL, equal_nan=True
            )
            for y, row in zip(found, scene.system.rows, strict=False)
        )


def _staged(scene: Scene) -> tuple[Program, Path] | str:
    """A Program of the values of all rows, the adjoints that the scene has, and what was asked on the way."""
    wanted = [row for row in scene.nodes if row in scene.adjoints]
    numbers = [scene.values[p] for p in scene.system.parameters]
    seeds = [s for _, s in _seeded(scene)]
    paths: list[Path] = []

    def run(*given: Any) -> list[Any]:
        path = Path(given, [*numbers, *seeds])
        paths.append(path)
        leaves = given[: len(numbers)]
        with path.followed():
            system = scene.run_again(scene.arguments(leaves))
        if [_form(r) for r in system.rows] != [_form(r) for r in scene.system.rows]:
            path.differs_at = _first_other(scene, system)
            return []
        ends = [row for row in system.outputs if row is not None]
        pairs = list(zip(ends, given[len(numbers) :], strict=True))
        adjoints = all_adjoints(system, pairs)
        again = dict(zip(scene.nodes, [*system.parameters, *system.rows], strict=True))
        values = [system.values[row] for row in system.rows]
        sent = sent_back(edges_of(system), adjoints, system.outputs) if scene.sent else {}
        if not sent.keys() >= scene.sent.keys():
            path.differs_at = 0
            return []
        wires = [sent[k] for k in scene.sent]
        found = [*values, *[adjoints[again[row]] for row in wanted], *wires]
        return [*[_tensor(v) for v in found], *path.asked]

    program, _ = stage(run, [type_of(x) for x in [*numbers, *seeds]])
    line = paths[0].differs_at
    if line is not None:
        where = f"what stands in line {line}" if line else "it"
        return f"written down, {where} is not the rows that ran"
    program = drop_unused(merge_repeated(program))
    if _strange(program):
        program = drop_unused(merge_repeated(expand(program)))
    return program, paths[0]


def _first_other(scene: Scene, system: System) -> int:
    """The line of the first row that is another one in `system`; 0 if none is known."""
    pairs = zip_longest(scene.system.rows, [_form(r) for r in system.rows])
    first = next((row for row, form in pairs if row is None or _form(row) != form), None)
    return scene.line[first][1] if first in scene.line else 0


def _seeded(scene: Scene) -> list[tuple[Row, Any]]:
    """The outputs that depend on parameters, and what goes back from them."""
    pairs = zip(scene.system.outputs, scene.seeds, strict=True)
    return [(row, seed) for row, seed in pairs if row is not None]


def _strange(program: Program) -> set[str]:
    return {e.primitive.name for e in program.equations} - runs_in_browser()


def _variables(program: Program) -> list[Var]:
    made = [v for e in program.equations for v in e.outputs]
    return [*program.inputs, *[v for v, _ in program.constants], *made]


def _form(row: Row) -> tuple[Any, ...]:
    return row.primitive, row.shape, row.dtype


def _tensor(v: Any) -> Any:
    return wrap(v, None) if type(v) is Var else v


def _data(program: Program, scene: Scene, path: Path) -> dict[str, Any]:
    data = program_data(program)
    atoms = iter(data.pop("outputs"))
    parameters = scene.system.parameters
    seeds = _seeded(scene)
    ids = {row: k for k, row in enumerate(scene.nodes)}
    given = [*[scene.values[row] for row in parameters], *[seed for _, seed in seeds]]
    data["inputs"] = [array_data(x) for x in given]
    data["seeded"] = [ids[row] for row, _ in seeds]
    data["values"] = [*range(len(parameters)), *[next(atoms) for _ in scene.system.rows]]
    data["adjoints"] = [next(atoms) if row in scene.adjoints else None for row in scene.nodes]
    data["sent"] = [[k, next(atoms)] for k in scene.sent]
    data["branches"] = [[next(atoms), truth, line] for truth, line in path.answers]
    return data


def program_data(program: Program) -> dict[str, Any]:
    """A Program as plain data. Its variables are numbered: inputs, constants, then one for each equation."""
    numbered = [*program.inputs, *[v for v, _ in program.constants]]
    places = {v: k for k, v in enumerate(numbered)}
    count = len(numbered)
    equations: list[list[Any]] = []

    def emit(name: str, inputs: list[Any], params: Any, shape: Any, dtype: np.dtype[Any]) -> int:
        equations.append([name, inputs, _plain(params), list(shape), dtype.name])
        return count + len(equations) - 1

    def atom(a: Any, single: bool = False) -> Any:
        if type(a) is not Var:
            return {"number": number(np.float32(a) if single else a)}
        if single and a.type.weak and a.dtype == np.float64:
            return emit("cast", [places[a]], {}, a.shape, np.dtype(np.float32))
        return places[a]

    for e in program.equations:
        single = _is_single(e)
        (out,) = e.outputs
        inputs = [atom(a, single) for a in e.inputs]
        places[out] = emit(e.primitive.name, inputs, e.params, out.shape, out.dtype)
    return {
        "inputs": [[list(v.shape), v.dtype.name] for v in program.inputs],
        "constants": [array_data(np.asarray(getattr(c, "_v", c))) for _, c in program.constants],
        "equations": equations,
        "outputs": [atom(a) for a in program.outputs],
    }


def _is_single(e: Equation) -> bool:
    """Whether bare numbers in it become float32, as beside arrays of it they do."""
    strong = [
        a.dtype for a in e.inputs if type(a) is Var and not a.type.weak and a.dtype.kind == "f"
    ]
    is_double = e.outputs[0].dtype == np.float64
    return bool(strong) and not is_double and all(dtype == np.float32 for dtype in strong)


def _plain(value: Any) -> Any:
    """Metadata as JSON has it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
