"""Training steps of whole networks beside jax.jit, torch.compile and PyTorch eager.

    python benchmarks/training.py [--threads 1,2] [--without torch.compile] [word in a title …]

Every network (networks/) begins with the same weights, sees the same batch and takes steps of Adam on the
cross-entropy; the losses of three steps are compared before anything is timed. One process per number of
threads, peers in the same process, turns interleaved.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import (
    best_times,
    clock,
    environment,
    header,
    keep_to_cores,
    machine,
    text,
    versions,
)

rng = np.random.default_rng(0)


def images(batch: int, channels: int, size: int) -> tuple[Any, Any]:
    x = rng.normal(size=(batch, channels, size, size)).astype(np.float32)
    return x, rng.integers(0, 10, batch)


def vectors(batch: int, size: int, classes: int) -> tuple[Any, Any]:
    x = rng.normal(size=(batch, size)).astype(np.float32)
    return x, rng.integers(0, classes, batch)


def letters(batch: int, length: int, kinds: int) -> tuple[Any, Any]:
    text = rng.integers(0, kinds, (batch, length + 1))
    return text[:, :-1].copy(), text[:, 1:].copy()


# title: kind of network, its settings, its batch
NETWORKS: dict[str, tuple[str, tuple[Any, ...], Callable[[], tuple[Any, Any]]]] = {
    "MLP 2-16-16-2, batch 64": ("mlp", ((2, 16, 16, 2),), lambda: vectors(64, 2, 2)),
    "MLP 64-128-128-10, batch 32": ("mlp", ((64, 128, 128, 10),), lambda: vectors(32, 64, 10)),
    "MLP 784-512-256-10, batch 128": ("mlp", ((784, 512, 256, 10),), lambda: vectors(128, 784, 10)),
    "LeNet, 28 × 28, batch 64": ("lenet", (), lambda: images(64, 1, 28)),
    "ResNet-18, 32 × 32, batch 16": ("resnet18", (), lambda: images(16, 3, 32)),
    "LSTM 64→128, 100 letters, batch 16": ("lstm", (64, 64, 128), lambda: letters(16, 100, 64)),
    "GPT, 4 layers of 256, length 128, batch 8": (
        "gpt",
        (256, 128, 256, 4, 4),
        lambda: letters(8, 128, 256),
    ),
}
PEERS = {"jax": "jax.jit", "torch.compile": "torch.compile", "torch": "PyTorch eager"}


def contestants(threads: int, without: list[str]) -> dict[str, Callable[..., Any]]:
    """From a library to what makes its steps; ours first, whose cache begins empty."""
    os.environ["BACKSOLVE_CACHE_DIR"] = tempfile.mkdtemp(prefix="backsolve-bench-")
    import torch
    from networks import in_torch, ours

    import backsolve as bs

    bs.set_threads(threads)
    torch.set_num_threads(threads)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="torch")
    made: dict[str, Callable[..., Any]] = {"backsolve": ours.stepper}
    if "jax" not in without:
        from networks import in_jax

        made["jax"] = in_jax.stepper
    if "torch.compile" not in without:
        made["torch.compile"] = lambda *a: (torch.compiler.reset(), in_torch.stepper(*a, True))[1]
    made["torch"] = lambda *a: in_torch.stepper(*a, False)
    return made


def measure(threads: int, only: list[str], without: list[str]) -> None:
    keep_to_cores(threads)
    makers = contestants(threads, without)
    from networks import in_torch

    names = [name for name in PEERS if name in makers]
    print(f"{'one thread' if threads == 1 else f'{threads} threads'}\n")
    print(header("step of Adam", *(PEERS[n] for n in names), "ours", "first step: ours, peers"))
    for title, (kind, settings, batch) in NETWORKS.items():
        if only and not any(word in title for word in only):
            continue
        first, (x, y) = in_torch.state(kind, settings), batch()
        steps, compiling, losses = {}, {}, {}
        for name, make in makers.items():
            steps[name] = make(kind, settings, first, x, y)
            start = clock()
            losses[name] = [steps[name]()]
            compiling[name] = clock() - start
            losses[name] += [steps[name](), steps[name]()]
            np.testing.assert_allclose(losses[name], losses["backsolve"], rtol=1e-2, atol=1e-3)
        times = best_times(steps)
        ratios = " | ".join(f"{times[n] / times['backsolve']:.2f}×" for n in names)
        waits = ", ".join(f"{compiling[n]:.2f} s" for n in makers)
        print(f"| {title} | {ratios} | {text(times['backsolve'])} | {waits} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--without", action="append", default=[], choices=("jax", "torch.compile"))
    parser.add_argument("--worker", action="store_true", help="internal: measure in this process")
    options = parser.parse_args()
    if options.worker:
        measure(int(options.threads), options.only, options.without)
        return
    print(f"{machine()}; {versions(('numpy', 'scipy', 'llvmlite', 'jax', 'torch'))}\n", flush=True)
    for threads in dict.fromkeys(int(n) for n in options.threads.split(",")):
        flags = [f"--without={name}" for name in options.without]
        command = [sys.executable, __file__, "--worker", f"--threads={threads}", *flags]
        subprocess.run([*command, *options.only], env=environment(threads), check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
