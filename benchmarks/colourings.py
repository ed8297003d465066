"""Colourings of irregular patterns, beside asdex and networkx (which sparsejac colours by).

    python benchmarks/colourings.py [n]

A random matrix of n rows with five entries each, by columns; a mesh of triangles on n random points, whose
pattern is that of a Hessian of finite elements, by columns, star and acyclic. CPU time of one thread: ours the
best of three, and apart the first call, which compiles loops or finds them on disk; peers once. networkx
colours the graph of columns that meet, which scipy.sparse makes in its time.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import clock, count_own_time, header, machine, on_one_thread, text
from scipy.spatial import Delaunay

import backsolve as bs
from backsolve.solve.colouring import Pattern, coloured


def random_rows(n: int) -> Any:
    rng = np.random.default_rng(0)
    at = np.repeat(np.arange(n), 5), rng.integers(0, n, 5 * n)
    return _tidy(sp.csr_array((np.ones(5 * n), at), shape=(n, n)))


def mesh(n: int) -> Any:
    corners = Delaunay(np.random.default_rng(0).uniform(size=(n, 2))).simplices
    pairs = [(corners[:, a], corners[:, b]) for a in range(3) for b in range(3)]
    at = tuple(np.concatenate(x) for x in zip(*pairs, strict=True))
    return _tidy(sp.csr_array((np.ones(at[0].size), at), shape=(n, n)))


def _tidy(A: Any) -> Any:
    A.sum_duplicates()
    A.sort_indices()
    return A


def ours(A: Any, kind: str) -> Callable[[], int]:
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    pattern = Pattern(A.shape, rows, A.indices.astype(np.intp))
    return lambda: coloured(pattern, kind).count


def by_asdex(A: Any, kind: str) -> Callable[[], int]:
    import asdex

    at = A.tocoo().coords
    pattern = asdex.SparsityPattern.from_coo(*at, A.shape)
    if kind == "column":
        return lambda: asdex.jacobian_coloring_from_sparsity(pattern, mode="fwd").num_colors
    return lambda: asdex.hessian_coloring_from_sparsity(pattern).num_colors


def by_networkx(A: Any, kind: str) -> Callable[[], int]:
    import networkx as nx

    def run() -> int:
        meeting = (A.T @ A).tocsr()
        meeting.setdiag(0)
        meeting.eliminate_zeros()
        graph = nx.from_scipy_sparse_array(meeting)
        return 1 + max(nx.greedy_color(graph, "largest_first").values())

    return run


PEERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "asdex": (by_asdex, ("column", "star")),
    "networkx": (by_networkx, ("column",)),
}


def measured(run: Callable[[], int], turns: int = 3) -> tuple[list[float], int]:
    times, count = [], 0
    for _ in range(turns):
        start = clock()
        count = run()
        times.append(clock() - start)
    return times, count


def main(n: int) -> None:
    count_own_time()
    on_one_thread()
    bs.jit  # noqa: B018 – with it, loops are compiled
    print(machine(), f"{n} unknowns", sep=", ", end="\n\n")
    print(header("pattern", "kind", "colours", "time", "first", *PEERS))
    random, triangles = random_rows(n), mesh(n)
    problems = [("random", random, "column")]
    problems += [("mesh", triangles, kind) for kind in ("column", "star", "acyclic")]
    for name, A, kind in problems:
        times, count = measured(ours(A, kind))
        cells = [name, kind, str(count), text(min(times)), text(times[0])]
        for peer, (make, kinds) in PEERS.items():
            if kind in kinds and importlib.util.find_spec(peer):
                found, theirs = measured(make(A, kind), 1)
                cells.append(f"{text(min(found))} ({theirs} colours)")
            else:
                cells.append("–")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
