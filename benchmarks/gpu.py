"""Training steps, kernels and the twelve problems on a GPU, beside jax.jit and torch.compile on the same card.

    python benchmarks/gpu.py [part …] [--small] [--limit 300] [--tf32] [--without torch.compile] [--only ba,ht]

Parts: mlp, resnet, gpt (a step of SGD in bfloat16 on float32 parameters, and in float32), kernels (67M float32,
beside what the memory allows), structures (Jacobians and second derivatives, beside jax.jit), problems (large
sizes, float64, beside jax.jit). Each part is a process of its own that ends after `--limit` seconds. Results,
and losses after two steps, are compared; who differs is named.
`--small` runs the same, small, on whatever device is there. Needs jax and torch, no LLVM.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

Run = Callable[[], Any]
PARTS = ("mlp", "resnet", "gpt", "kernels", "structures", "problems")
LONGEST = 3.0  # seconds that a contestant may take for its turns; one call that takes longer is its only one
rng = np.random.default_rng(0)


# ---- timing


def wait(result: Any) -> Any:
    """The result, when the device has it."""
    import jax

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    return jax.block_until_ready(result)


def milliseconds(contestants: dict[str, Run], turns: int, target: float) -> dict[str, float]:
    """Of a call when calls follow one another; each contestant's best turn, turns interleaved."""
    counts, best = {}, {}
    for name, run in contestants.items():
        taken = inf
        for _ in range(3):  # the first also pays for what was let go before it
            start = time.perf_counter()
            wait(run())
            taken = min(taken, time.perf_counter() - start)
            if taken > LONGEST:
                break
        counts[name], best[name] = max(1, min(1000, int(target / taken))), 1e3 * taken
    spent = {name: t / 1e3 for name, t in best.items()}
    for _ in range(turns):
        for name, run in contestants.items():
            if spent[name] > LONGEST:
                continue
            start = time.perf_counter()
            for _ in range(counts[name]):
                result = run()
            wait(result)
            taken = time.perf_counter() - start
            spent[name] += taken
            best[name] = min(best[name], 1e3 * taken / counts[name])
    return best


def number(a: Any) -> Any:
    if type(a).__module__.startswith("torch"):
        a = a.detach().cpu().float().numpy() if a.dtype.itemsize == 2 else a.detach().cpu().numpy()
    return np.asarray(a, float)


class Table:
    """Rows of milliseconds, ours first; peers also as multiples of ours."""

    def __init__(self, options: Any, *more: str):
        self.options, self.names = options, ["backsolve", *options.peers]
        columns = ["", "ours", *options.peers, *more, "first calls, s"]
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)

    def row(
        self,
        title: str,
        makers: dict[str, Callable[[], Run]],
        tolerance: float,
        more: Callable[[dict[str, float]], list[str]] = lambda times: [],
    ) -> None:
        runs, firsts, wrong = {}, {}, {}
        expected: Any = None
        for name in self.names:
            if name not in makers:
                continue
            try:
                start = time.perf_counter()
                runs[name] = makers[name]()
                wait(runs[name]())
                firsts[name] = time.perf_counter() - start
                runs[name]()
                got = _flat(wait(runs[name]()))  # of steps, the loss that two have led to
            except Exception as error:
                runs.pop(name, None)
                wrong[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}"
                continue
            if expected is None:
                expected = got
            scale = max(float(np.max(np.abs(expected))), 1e-30)
            error_ = float(np.max(np.abs(got - expected))) / scale
            if not error_ <= tolerance:
                wrong[name] = f"differs by {error_:.1e} of the largest entry"
        times = milliseconds(runs, self.options.turns, self.options.target)
        mine = times.get("backsolve", float("nan"))
        cells = [f"{mine:.3f}"]
        for name in self.options.peers:
            t = times.get(name)
            cells.append("–" if t is None else f"{t:.3f} ({t / mine:.2f}×)")
        cells += more(times)
        cells.append(" / ".join(f"{firsts[n]:.1f}" if n in firsts else "–" for n in self.names))
        print(f"| {title} | {' | '.join(cells)} |", flush=True)
        for name, why in wrong.items():
            print(f"\n{name}, {title}: {why}\n", flush=True)


def _flat(result: Any) -> Any:
    parts = result if isinstance(result, tuple | list) else [result]
    return np.concatenate([np.ravel(number(a)) for a in parts])


# ---- parts: training steps


def networks(kind: str, small: bool) -> list[tuple[str, str, tuple[Any, ...], Any, Any]]:
    """Title, kind, settings, inputs, targets."""
    if kind == "mlp":
        width, batch = (64, 32) if small else (4096, 8192)
        x = rng.normal(size=(batch, width)).astype(np.float32)
        title = f"MLP, 4 layers of {width}, batch {batch}"
        return [(title, "mlp", ((width,) * 5,), x, rng.integers(0, width, batch))]
    if kind == "resnet":
        settings: tuple[Any, ...] = ((1,), 8) if small else ()
        found = []
        for batch, size in [(2, 32)] if small else [(64, 224), (256, 224)]:
            x = rng.normal(size=(batch, 3, size, size)).astype(np.float32)
            title = f"ResNet-50, {size} × {size}, batch {batch}"
            found.append((title, "resnet50", settings, x, rng.integers(0, 1000, batch)))
        return found
    letters, n, batch = (64, 16, 2) if small else (50257, 1024, 8)
    settings = (letters, n, 32, 2, 2) if small else (letters, n, 768, 12, 12)
    text = rng.integers(0, letters, (batch, n + 1))
    title = f"GPT-2-small-shaped, batch {batch} × {n}"
    return [(title, "gpt", settings, text[:, :-1].copy(), text[:, 1:].copy())]


def steps(kind: str, options: Any) -> None:
    from benchmarks.networks.in_torch import state
    from benchmarks.networks.mixed import MAKERS

    table = Table(options)
    precision = "tf32" if options.tf32 else "highest"
    for title, network, settings, x, y in networks(kind, options.small):
        first = state(network, settings)
        for low in (True, False):
            given = (network, settings, first, x, y, low, precision)
            makers = {name: partial(make, *given) for name, make in MAKERS.items()}
            words = "bfloat16" if low else ("TF32" if options.tf32 else "float32")
            table.row(f"{title}, {words}", makers, 2e-2 if low else 1e-3)


# ---- parts: kernels


def bandwidth(n: int) -> float:
    """Bytes a second in a copy of n float32 that computes next to nothing: what the memory allows."""
    import jax
    import jax.numpy as jnp

    x = jnp.ones(n, jnp.float32)
    run = jax.jit(lambda x: x + 1)
    wait(run(x))
    return 8 * n / (milliseconds({"copy": lambda: run(x)}, 10, 0.2)["copy"] / 1e3)


def kernels(options: Any) -> None:
    from benchmarks.kernels import KERNELS

    n = 1 << 16 if options.small else 1 << 26
    speed = bandwidth(n)
    print(f"copying: {speed / 1e9:.0f} GB/s\n")
    table = Table(options, "limit of the memory", "ours of it")
    for title, make in KERNELS.items():
        makers, nbytes = make(n)
        limit = 1e3 * nbytes / speed

        def of_limit(times: dict[str, float], limit: float = limit) -> list[str]:
            return [f"{limit:.3f}", f"{limit / times.get('backsolve', float('nan')):.0%}"]

        table.row(f"{title}, {n / 1e6:.0f}M", makers, 1e-4, of_limit)


# ---- parts: where derivatives have structure


def structures(options: Any) -> None:
    import jax

    from benchmarks.structures import STRUCTURES

    jax.config.update("jax_default_matmul_precision", "highest")  # as ours is
    options.peers = [p for p in options.peers if p == "jax.jit"]
    table = Table(options)
    for title, make in STRUCTURES.items():
        table.row(title, make(options.small), 1e-4)


# ---- parts: the twelve problems


def problems(options: Any) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    import backsolve as bs
    from benchmarks.problems import NAMES, load, peers_jax

    bs.set_default_backend("xla")
    peers_jax.wait = lambda result: result
    options.peers = [p for p in options.peers if p == "jax.jit"]
    if not options.small:  # many short turns: a call of 50 µs differs by a tenth from turn to turn
        options.turns, options.target = 20, 0.1
    table = Table(options)
    for name in options.only or NAMES:
        problem = load(name)
        label = "small" if options.small else list(problem.sizes)[-1]
        size = problem.sizes[label]
        message = problem.generate(rng, **size)
        measured = getattr(problem, "on_gpus", problem.derivative)
        for function in measured:
            makers = {"backsolve": partial(_ours, problem, function, message)}
            if (name, function) in peers_jax.PEERS:
                makers["jax.jit"] = partial(peers_jax.PEERS[name, function], message)
            words = ", ".join(f"{k}={v}" for k, v in size.items())
            variant = (
                f" {function}" if len(measured) > 1 or measured is not problem.derivative else ""
            )
            table.row(f"{name}{variant} {words}".strip(), makers, 1e-6)


def _ours(problem: Any, function: str, message: Any) -> Run:
    import jax

    args, run = problem.prepare(message), problem.functions[function].run
    place = lambda a: jax.device_put(a) if isinstance(a, np.ndarray) else a
    args = [jax.tree.map(place, a) for a in args]
    if len(args) == 1 and isinstance(args[0], float):  # a number in, a number out: that would wait
        args = [jax.device_put(args[0])]
    return lambda: run(*args)


# ---- one process for each part


def describe() -> str:
    import jax

    found = [f"jax {jax.__version__} on {jax.devices()[0].device_kind}", f"numpy {np.__version__}"]
    with contextlib.suppress(ImportError):
        import torch

        found.append(f"torch {torch.__version__}")
    return f"Python {sys.version.split()[0]}, {', '.join(found)}"


def work(part: str, options: Any) -> None:
    warnings.filterwarnings("ignore")
    if part in ("mlp", "resnet", "gpt"):
        steps(part, options)
    else:
        {"kernels": kernels, "structures": structures, "problems": problems}[part](options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a part")
    parser.add_argument(
        "--tf32", action="store_true", help="products of float32 in TF32 everywhere"
    )
    parser.add_argument("--only", default="", help="of the problems, these: ba,ht")
    parser.add_argument("--without", action="append", default=[], help="a peer to leave out")
    parser.add_argument("--worker", action="store_true", help="internal: this process measures")
    options = parser.parse_args()
    unknown = [p for p in options.parts if p not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    options.only = [name for name in options.only.split(",") if name]
    options.peers = [p for p in ("jax.jit", "torch.compile") if p not in options.without]
    options.turns, options.target = (2, 0.01) if options.small else (7, 0.4)
    if options.worker:
        work(options.parts[0], options)
        return
    # PyTorch needs memory beside JAX; without it, JAX would take three quarters.
    environment = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5", **os.environ}
    code = f"import sys; sys.path[:0] = {sys.path[:2]!r}; from benchmarks import gpu; print(gpu.describe())"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    flags = [a for a in sys.argv[1:] if a not in PARTS]
    for part in options.parts or PARTS:
        print(f"\n### {part}\n", flush=True)
        command = [sys.executable, __file__, part, "--worker", *flags]
        try:
            done = subprocess.run(command, env=environment, timeout=options.limit)
        except subprocess.TimeoutExpired:
            print(f"\n{part} was stopped after {options.limit:.0f} seconds", flush=True)
            continue
        if done.returncode:
            print(f"\n{part} ended with {done.returncode}", flush=True)


if __name__ == "__main__":
    main()
