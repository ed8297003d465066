"""Compiled gradients and training steps beside jax.jit, torch.compile and PyTorch eager.

    python benchmarks/compiled.py [--threads 1,2] [--without torch.compile] [--own-time] [word in a title …]

Every workload (workloads/) is written once in NumPy's words and runs as `bs.jit` and as `jax.jit`
(results waited for), and by hand in PyTorch. Values are compared before anything is timed. One process per
number of threads, peers and limits in the same process, turns interleaved.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import numpy as np
from harness import (
    best_times,
    blas_speed,
    clock,
    copy_speed,
    count_own_time,
    environment,
    header,
    keep_to_cores,
    limit,
    machine,
    text,
    versions,
)
from libraries import LIBRARIES, Backsolve
from workloads import WORKLOADS, Workload

NEGLIGIBLE = 2e-6  # a limit below the time of any call says nothing


def flat(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(x) for x in parts]


def prepare(
    workload: Workload, libraries: list[Any]
) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    """Who takes part, the seconds of each first call, and why others do not."""
    runs, firsts, failed, expected = {}, {}, {}, None
    for library in libraries:
        try:
            run = library.contestant(workload)
            start = clock()
            got = run()
            firsts[library.name] = clock() - start
        except Exception as error:
            if isinstance(library, Backsolve):
                raise
            failed[library.name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            continue
        runs[library.name] = run
        if library.name in ("backsolve", "jax"):
            if expected is not None:
                for a, b in zip(flat(got), expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
            expected = flat(got)
    return runs, firsts, failed


def show(title: str, workload: Workload, times: dict[str, float], firsts: Any, names: Any) -> str:
    mine = times["backsolve"]
    peers = [f"{times[n] / mine:.2f}×" if n in times else "fails" for n in names]
    least, what = limit(workload.flops, workload.nbytes, workload.dtype)
    reached = f"{least / mine:.0%} of {what}" if least > NEGLIGIBLE else "–"
    compiling = [f"{firsts[n]:.2f} s" if n in firsts else "–" for n in ("backsolve", "jax")]
    return f"| {title} | {' | '.join(peers)} | {text(mine)} | {reached} | {', '.join(compiling)} |"


def measure(threads: int, only: list[str], without: list[str], own_time: bool) -> None:
    keep_to_cores(threads)
    if own_time:
        count_own_time()
    libraries = [kind(threads) for kind in LIBRARIES if kind.name not in without]
    names = [lib.name for lib in libraries[1:]]
    speeds = ", ".join(f"{blas_speed(d) / 1e9:.0f} GFlop/s {d}" for d in ("float32", "float64"))
    print(
        f"{'one thread' if threads == 1 else f'{threads} threads'}; BLAS {speeds}, "
        f"copy {copy_speed() / 1e9:.1f} GB/s\n"
    )
    titles = [lib.title for lib in libraries[1:]]
    print(header("workload", *titles, "ours", "of the limit", "first call: ours, jax.jit"))
    warm_up(libraries)
    notes = []
    for title, make in WORKLOADS.items():
        if only and not any(word in title for word in only):
            continue
        workload = make()
        runs, firsts, failed = prepare(workload, libraries)
        notes += [f"{name} fails on *{title}*: {why}" for name, why in failed.items()]
        print(show(title, workload, best_times(runs), firsts, names), flush=True)
    for note in notes:
        print(f"\n{note}")


def warm_up(libraries: list[Any]) -> None:
    """What a library loads when it first compiles is not the workload's."""
    tiny = WORKLOADS["gelu·sigmoid gradient, 4 numbers"]()
    prepare(Workload(tiny.args, lambda lib: lambda x: lib.np.cos(x), tiny.torch), libraries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--own-time", action="store_true", help="count the process's time alone")
    parser.add_argument("--worker", action="store_true", help="internal: measure in this process")
    options = parser.parse_args()
    if options.worker:
        measure(int(options.threads), options.only, options.without, options.own_time)
        return
    if options.own_time and options.threads != "1":
        parser.error("--own-time says something on --threads 1 only")
    print(f"{machine()}; {versions(('numpy', 'scipy', 'llvmlite', 'jax', 'torch'))}\n", flush=True)
    for threads in dict.fromkeys(int(n) for n in options.threads.split(",")):
        flags = [f"--without={name}" for name in options.without]
        flags += ["--own-time"] if options.own_time else []
        command = [sys.executable, __file__, "--worker", f"--threads={threads}", *flags]
        subprocess.run([*command, *options.only], env=environment(threads), check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
