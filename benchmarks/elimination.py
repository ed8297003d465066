"""Jacobians by elimination on the public tasks: multiplications in every order, and the time they take.

    python benchmarks/elimination.py                     counts and times, with the orders that are kept
    python benchmarks/elimination.py counts
    python benchmarks/elimination.py search [words…]     search anew, for tasks with these words in the title

Counts by the published rule have one vertex for each operation as it is written and one multiplication for each
predecessor and successor of an eliminated vertex, ±1 included (of arrays: for each entry of a diagonal or a
matrix; slices and the like are free). The honest ones merge repeated rows and count what the operators
multiply, ±1 free. The best orders that a search met are kept in elimination_orders.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special
from harness import (
    best_times,
    count_own_time,
    header,
    machine,
    on_one_thread,
    text,
    versions,
)
from jacobian_tasks import TASKS, Task

import backsolve as bs
from backsolve.operators import Identity, OperatorSum, Scale
from backsolve.solve.annealing import anneal
from backsolve.solve.eliminate import Graph
from backsolve.solve.orders import ORDERS
from backsolve.solve.prices import cost
from backsolve.solve.skeleton import Skeleton

KEPT = Path(__file__).with_name("elimination_orders.json")
NAMES = ("sqrt", "abs", "cos", "sin", "arctan2", "exp", "log", "sum", "dot", "concatenate", "zeros")
OURS = SimpleNamespace(**{k: getattr(np, k) for k in NAMES}, erf=scipy.special.erf)
POINTS = 1_000


def function(task: Task, mathematics: Any = OURS) -> tuple[Callable[..., Any], tuple[int, ...]]:
    return partial(task.f, mathematics), tuple(range(len(task.at)))


def graph_of(task: Task, merge: bool) -> Graph:
    f, argnums = function(task)
    at = [np.array(x) if isinstance(x, list) else x for x in task.at]
    return Graph(bs.linearize(f, argnums, merge=merge)(*at))


def published(graph: Graph) -> Skeleton:
    """Signs and ones cost as much as anything; what only moves entries is free."""

    def is_free(block: Any) -> bool:
        is_sign = isinstance(block, Identity | Scale | OperatorSum)
        return not is_sign and block.cost.multiplications == 0

    return graph.skeleton(is_free)


def markowitz_of(skeleton: Skeleton, rows: Iterable[int]) -> list[int]:
    """Of rows with the least degree the first in `rows`."""
    left, waiting, found = skeleton.copy(), list(rows), []
    while waiting:
        found.append(min(waiting, key=left.pairs))
        waiting.remove(found[-1])
        left.eliminate(found[-1])
    return found


def kept() -> dict[str, dict[str, list[int]]]:
    """By task and rule, the rows' numbers from 1: as `print(system)` shows them and `jacobian` takes them."""
    found: dict[str, dict[str, list[int]]] = (
        json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    )
    return found


def keep(task: Task, rule: str, order: list[int]) -> None:
    now = kept()
    now.setdefault(task.title, {})[rule] = [k + 1 for k in order]
    lines = [
        f'"{title}": {{\n'
        + ",\n".join(f'  "{rule}": {json.dumps(rows)}' for rule, rows in of.items())
        + "\n}"
        for title, of in now.items()
    ]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def kept_rows(task: Task, rule: str) -> list[int]:
    return [k - 1 for k in kept().get(task.title, {}).get(rule, [])]


# ---- counts


def show_published() -> None:
    print("\nPublished rule; in brackets the published count\n")
    columns = ("forward", "reverse", "Markowitz, ties low", "ties high", "best found", "goal")
    print(header("task", "rows", *columns))
    for task in TASKS:
        graph = graph_of(task, merge=False)
        skeleton = published(graph)
        rows = range(skeleton.rows)
        orders = [
            rows,
            rows[::-1],
            markowitz_of(skeleton, rows),
            markowitz_of(skeleton, rows[::-1]),
            kept_rows(task, "published"),
        ]
        a, b, c, high, best = (skeleton.cost(o, "multiplications") for o in orders)
        theirs = task.published
        cells = [f"{n} ({t})" for n, t in zip((a, b, c), theirs, strict=False)]
        cells += [str(high), f"{best} ({theirs[3]})", f"≤ {task.goal}"]
        print(f"| {task.title} | {skeleton.rows} | {' | '.join(cells)} |", flush=True)


def show_honest() -> None:
    print(
        "\nWhat runs: repeated rows merged, ±1 free, multiplications of the operators themselves\n"
    )
    names = [name for name in ORDERS if name != "search"]
    print(header("task", "rows", *names, "best found"))
    for task in TASKS:
        graph = graph_of(task, merge=True)
        orders = [*[ORDERS[name](graph) for name in names], kept_rows(task, "honest")]
        cells = [str(cost(graph, list(o))) for o in orders]
        print(f"| {task.title} | {len(graph.rows)} | {' | '.join(cells)} |", flush=True)


# ---- times


def assembled(xp: Any, blocks: Any, sizes: Sequence[int], wide: bool) -> Any:
    """The blocks of a Jacobian as one matrix."""
    if not wide:
        return xp.stack([xp.stack(list(row)) for row in blocks])
    lines = [[xp.reshape(b, (-1, n)) for b, n in zip(row, sizes, strict=True)] for row in blocks]
    return xp.concatenate([xp.concatenate(line, axis=1) for line in lines])


def matrix_of(task: Task, jacobian: Callable[..., Any], xp: Any) -> tuple[Callable[..., Any], Any]:
    """x ↦ the Jacobian as a matrix, of all variables in one array; and such an array."""
    wide = isinstance(task.at[0], list)
    sizes = [len(x) if isinstance(x, list) else 1 for x in task.at]
    ends = np.cumsum(sizes)

    def parts(x: Any) -> list[Any]:
        if not wide:
            return [x[k] for k in range(len(sizes))]
        return [x[e - n : e] for e, n in zip(ends.tolist(), sizes, strict=True)]

    return lambda x: assembled(xp, jacobian(*parts(x)), sizes, wide), np.hstack(task.at)


def contestants(task: Task) -> tuple[dict[str, Callable[..., Any]], Any]:
    f, argnums = function(task)
    best = kept()[task.title]["honest"]
    ways: dict[str, Any] = {
        "best order": partial(bs.jacobian, f, argnums, "eliminate", best),
        "Markowitz": partial(bs.jacobian, f, argnums, "eliminate", "markowitz"),
        "forward": partial(bs.jacobian, f, argnums, "forward"),
        "reverse": partial(bs.jacobian, f, argnums, "reverse"),
    }
    made, x = {}, None
    for name, way in ways.items():
        made[name], x = matrix_of(task, way(), np)
    return made, x


def peers(task: Task) -> dict[str, Callable[..., Any]]:
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    theirs = SimpleNamespace(**{k: getattr(jnp, k) for k in NAMES}, erf=jax.scipy.special.erf)
    f, argnums = function(task, theirs)
    return {
        f"jax {name}": matrix_of(task, getattr(jax, name)(f, argnums), jnp)[0]
        for name in ("jacfwd", "jacrev")
    }


def show_times() -> None:
    bs.set_threads(1)
    count_own_time()
    for points, title in ((1, "at one point"), (POINTS, f"at {POINTS:,} points, by vmap")):
        print(f"\nTime of the compiled Jacobian {title}; multiples of the best order's\n")
        first = True
        for task in TASKS:
            functions, x = contestants(task)
            theirs = peers(task)
            if points > 1:
                x = x[:, None] * (1 + 0.01 * np.random.default_rng(0).random((x.size, points)))
            runs = {**_ours(functions, x, points), **_jax(theirs, x, points)}
            _same(runs)
            times = best_times(runs, turns=7)
            if first:
                print(header("task", *times))
                first = False
            base = times["best order"]
            cells = [text(base), *[f"{t / base:.2f}×" for t in list(times.values())[1:]]]
            print(f"| {task.title} | {' | '.join(cells)} |", flush=True)


def _ours(functions: dict[str, Any], x: Any, points: int) -> dict[str, Any]:
    if points > 1:
        functions = {k: bs.vmap(f, in_axes=-1, out_axes=-1) for k, f in functions.items()}
    return {name: partial(bs.jit(f), x) for name, f in functions.items()}


def _jax(functions: dict[str, Any], x: Any, points: int) -> dict[str, Any]:
    if not functions:
        return {}
    import jax

    if points > 1:
        functions = {k: jax.vmap(f, in_axes=-1, out_axes=-1) for k, f in functions.items()}

    def run(f: Any, x: Any) -> Any:
        return jax.block_until_ready(f(x))

    at = jax.numpy.asarray(x)
    return {name: partial(run, jax.jit(f), at) for name, f in functions.items()}


def _same(runs: dict[str, Callable[[], Any]]) -> None:
    expected, *others = [np.asarray(run()) for run in runs.values()]
    for other in others:
        np.testing.assert_allclose(other, expected, rtol=1e-8, atol=1e-8)


# ---- searching


def search(words: list[str], seeds: int = 4, steps: int = 40_000) -> None:
    """Anneal from what is kept and from the best of the other orders; keep what is better."""
    for task in TASKS:
        if words and not any(word in task.title for word in words):
            continue
        for rule in ("published", "honest"):
            graph = graph_of(task, merge=rule == "honest")
            skeleton = published(graph) if rule == "published" else graph.skeleton()
            price = _price(graph, skeleton, rule)
            known = [f(graph) for name, f in ORDERS.items() if name != "search"]
            if kept_rows(task, rule):
                known.append(kept_rows(task, rule))
            for seed in range(seeds):
                known.sort(key=price)
                start = known[seed % 2]
                found = anneal(skeleton, start, "multiplications", steps=steps, seed=seed)
                known.append(found)
                print(f"{task.title}, {rule}: {price(found)}, was {price(known[0])}", flush=True)
            keep(task, rule, min(known, key=price))


def _price(graph: Graph, skeleton: Skeleton, rule: str) -> Callable[[list[int]], int]:
    if rule == "published":
        return lambda order: skeleton.cost(order, "multiplications")
    return lambda order: cost(graph, order)


def main() -> None:
    on_one_thread()
    if sys.argv[1:2] == ["search"]:
        return search(sys.argv[2:])
    print(f"{machine()}; one thread; {versions(['numpy', 'llvmlite'])}")
    show_published()
    show_honest()
    if sys.argv[1:2] != ["counts"]:
        show_times()
    return None


if __name__ == "__main__":
    main()
