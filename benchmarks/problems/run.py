"""The twelve problems beside JAX and PyTorch: times of the derivative, one thread, float64.

    python benchmarks/problems/run.py [--threads 1] [--sizes small,middle,large] [--data folder]
                                      [--without torch] [problem …]

Answers are compared before anything is timed; contestants take turns in one process, and their first calls,
which compile, are shown apart. With --data (the folder `evals` of the suite) the middle size of ba and ht
is the suite's own first file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.harness import (  # noqa: E402
    best_times,
    environment,
    header,
    keep_to_cores,
    machine,
    text,
    versions,
)
from benchmarks.problems import NAMES, load  # noqa: E402
from benchmarks.problems.data import read  # noqa: E402

TITLES = {"jax": "JAX", "torch": "PyTorch"}
LONGEST = 120.0  # seconds of a first call after which a contestant is measured no further


def contestants(name: str, function: str, message: Any, without: list[str]) -> dict[str, Any]:
    """Who can do this, ourselves first: name to a function that makes the timed one."""
    problem = load(name)
    runs: dict[str, Any] = {}

    def ours() -> Any:
        args, run = problem.prepare(message), problem.functions[function].run
        return lambda: run(*args)

    runs["backsolve"] = ours
    for peer in TITLES:
        if peer not in without:
            made = _peers(peer).get((name, function))
            if made is not None:
                runs[peer] = lambda made=made: made(message)
    return runs


def _peers(peer: str) -> Any:
    if peer == "jax":
        from benchmarks.problems.peers_jax import PEERS
    else:
        from benchmarks.problems.peers_torch import PEERS
    return PEERS


def flat(result: Any) -> np.ndarray:
    parts = result if isinstance(result, tuple | list) else [result]
    return np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts])


def measure_one(title: str, makers: dict[str, Any], notes: list[str]) -> str:
    runs, firsts, expected = {}, {}, None
    for who, make in makers.items():
        try:
            run = make()
            start = time.perf_counter()
            got = flat(run())
        except Exception as error:
            if who == "backsolve":
                raise
            notes.append(f"{TITLES[who]} fails on {title}: {str(error).strip().splitlines()[0]}")
            continue
        firsts[who] = time.perf_counter() - start
        runs[who] = run
        if expected is not None:
            np.testing.assert_allclose(
                got, expected, rtol=1e-6, atol=1e-8 * np.max(np.abs(expected))
            )
        expected = got if expected is None else expected
    slow = {who: t for who, t in firsts.items() if t > LONGEST}
    times = {**slow, **best_times({who: r for who, r in runs.items() if who not in slow})}
    mine = times["backsolve"]
    peers = [f"{text(times[p])} ({times[p] / mine:.2f}×)" if p in times else "–" for p in TITLES]
    compiling = [f"{firsts[p]:.2f}" if p in firsts else "–" for p in ("backsolve", "jax", "torch")]
    return f"| {title} | {text(mine)} | {' | '.join(peers)} | {' / '.join(compiling)} s |"


def measure(options: argparse.Namespace) -> None:
    keep_to_cores(options.threads)
    os.environ["BACKSOLVE_CACHE_DIR"] = tempfile.mkdtemp(prefix="backsolve-bench-")
    import backsolve as bs

    bs.set_threads(options.threads)
    if "torch" not in options.without:
        import torch

        torch.set_num_threads(options.threads)
    first = "first call: ours / JAX / PyTorch"
    print(header("problem", "ours", *TITLES.values(), first), flush=True)
    notes: list[str] = []
    for name in options.problems or NAMES:
        problem = load(name)
        for label, size in problem.sizes.items():
            if label not in options.sizes.split(","):
                continue
            rng = np.random.default_rng(zlib.crc32(f"{name} {label}".encode()))
            found = read(Path(options.data), name) if options.data and label == "middle" else None
            message = problem.generate(rng, **size) if found is None else found
            words = ", ".join(f"{k}={v}" for k, v in size.items())
            for function in problem.derivative:
                variant = f" {function}" if len(problem.derivative) > 1 else ""
                title = f"{name}{variant} {words}".strip()
                makers = contestants(name, function, message, options.without)
                print(measure_one(title, makers, notes), flush=True)
    for note in notes:
        print(f"\n{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", metavar="problem", help=", ".join(NAMES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", default="small,middle,large")
    parser.add_argument("--data", help="the suite's folder `evals`")
    parser.add_argument("--without", action="append", default=[], choices=list(TITLES))
    parser.add_argument("--worker", action="store_true", help="internal: measure in this process")
    options = parser.parse_args()
    if options.worker:
        measure(options)
        return
    names = ("numpy", "llvmlite", *[p for p in TITLES if p not in options.without])
    threads = "one thread" if options.threads == 1 else f"{options.threads} threads"
    print(f"{machine()}; {versions(names)}; {threads}\n", flush=True)
    command = [sys.executable, __file__, "--worker", *sys.argv[1:]]
    subprocess.run(command, env=environment(options.threads), check=True)


if __name__ == "__main__":
    main()
