"""Functions of ours inside PyTorch: what a call costs, what is kept for backward, and three kernels beside
their best pure PyTorch.

    python benchmarks/interop.py [--compile]

Values and gradients agree before anything is timed. `--compile` has PyTorch compile its versions, too, which
takes minutes. One thread, and the time of this process alone.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any
from unittest import mock

import numpy as np
import torch
from harness import best_times, count_own_time, header, machine, show_row, text, versions

import backsolve as bs
from backsolve.interop import parted

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))
from ray_marcher import FAR, MOST, NEAR, camera, march
from soft_dtw import BORDER, series, soft_dtw
from soft_rank import soft_rank

function = bs.interop.torch.function
CENTRES, RADII = [[-0.6, 0.2, 3.0], [0.5, -0.3, 3.5], [0.4, 0.8, 4.0]], [0.7, 0.6, 0.5]


def both(f: Any, args: tuple[Any, ...]) -> Any:
    """Value and gradients, as a training step asks for them."""

    def run() -> Any:
        for x in args:
            x.grad = None
        y = f(*args)
        y.backward()
        return [y.detach(), *[x.grad for x in args if x.requires_grad]]

    return run


def variable(a: Any, dtype: Any = torch.float64) -> Any:
    return torch.as_tensor(a, dtype=dtype).clone().requires_grad_()


# ---- what a call costs


class ByHand(torch.autograd.Function):
    """What one writes without us, if NumPy computes."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return torch.from_numpy(
            np.asarray(np.sum(np.tanh(x.detach().numpy() * w.detach().numpy())))
        )

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        x, w = (t.detach().numpy() for t in ctx.saved_tensors)
        slope = (1 - np.tanh(x * w) ** 2) * seed.numpy()
        return torch.from_numpy(slope * w), torch.from_numpy(slope * x)


class Empty(torch.autograd.Function):
    """What PyTorch itself takes for an operator of somebody else's."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x.new_empty(())

    @staticmethod
    def backward(ctx: Any, seed: Any) -> Any:
        x, w = ctx.saved_tensors
        return w.detach(), x.detach()


def small(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(x * w))


def calls() -> None:
    print(header("sum(tanh(x w)) of 10 numbers, value and gradients", "time a call"))
    x, w = variable(np.linspace(0.0, 1.0, 10)), variable(np.linspace(1.0, 2.0, 10))
    native = bs.jit(bs.value_and_grad(small, argnums=(0, 1)))
    arrays = x.detach().numpy(), w.detach().numpy()
    operator, rows = function(small), function(lambda x, w: np.tanh(x * w))
    contestants = {
        "the native function alone": lambda: native(*arrays),
        "**ours in PyTorch**": both(operator, (x, w)),
        "ours, many results": both(lambda x, w: rows(x, w).sum(), (x, w)),
        "torch.autograd.Function by hand, with NumPy": both(ByHand.apply, (x, w)),
        "PyTorch": both(lambda x, w: torch.tanh(x * w).sum(), (x, w)),
        "a torch.autograd.Function that computes nothing": both(Empty.apply, (x, w)),
    }
    for run in contestants.values():
        run()  # compiles
    for name, seconds in best_times(contestants, turns=40).items():
        print(f"| {name} | {text(seconds)} |", flush=True)
    print()


# ---- functions of many results: what is kept for backward, beside computing it anew there


def soft_sort(x: Any) -> Any:
    away = -np.abs(np.sort(x)[:, None] - x) / 0.3
    weights = np.exp(away - away.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ x


def trajectory(start: Any, rates: Any) -> Any:
    """The states of an ODE, by Runge and Kutta's rule."""
    states, state, h = np.zeros((200, len(start))), start, 0.05
    slope = lambda y: np.tanh(rates @ y) - 0.1 * y
    for k in range(200):
        a = slope(state)
        b = slope(state + h / 2 * a)
        c = slope(state + h / 2 * b)
        state = state + h / 6 * (a + 2 * b + 2 * c + slope(state + h * c))
        states[k] = state
    return states


def march_together(centres: Any, radii: Any, rays: Any) -> Any:
    """All rays take as many steps: no `while`, of which nothing could be kept."""
    t = np.zeros(len(rays))
    for _ in range(32):
        apart = t[:, None, None] * rays[:, None, :] - centres
        distance = np.sqrt((apart**2).sum(-1)) - radii
        step = -np.log(np.exp(-8.0 * distance).sum(1)) / 8.0
        t = t + np.where(t < FAR, step, 0.0)
    return np.minimum(t, FAR)


def many_results() -> None:
    print(header("many results, value and gradients", "kept for backward", "computed anew"))
    rng = np.random.default_rng(0)
    rays, scene = torch.from_numpy(camera(64)), (variable(CENTRES), variable(RADII))
    soft_ranks = lambda x: soft_rank(x, 0.1)
    cases = {
        "soft sort of 300": (soft_sort, (variable(rng.normal(size=300)),)),
        "soft ranks of 1000": (soft_ranks, (variable(rng.normal(size=1000)),)),
        "ODE, 200 states of 20": (
            trajectory,
            (variable(rng.normal(size=20)), variable(rng.normal(size=(20, 20)) / 5)),
        ),
        "64 × 64 rays, 32 steps": (march_together, (*scene, rays)),
        "64 × 64 rays, early exit": (march, (*scene, rays)),
    }
    for name, (f, args) in cases.items():
        kept, anew = function(f), function(f)
        with mock.patch.object(parted, "_pays", return_value=False):
            anew(*args)  # compiles
        contestants = {
            "backsolve": both(lambda *xs, f=kept: f(*xs).sum(), args),
            "anew": both(lambda *xs, f=anew: f(*xs).sum(), args),
        }
        for a, b in zip(*[run() for run in contestants.values()], strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-8), name
        print(show_row(name, best_times(contestants)), flush=True)
    print()


# ---- the three kernels, as one writes them in PyTorch


def dtw_of_torch(x: Any, y: Any, gamma: float) -> Any:
    """Along anti-diagonals, for pairs of series of one length at once: x and y are (pairs, n)."""
    pairs, n = x.shape
    before = x.new_full((pairs, n + 1), BORDER)
    last = torch.cat([x.new_zeros(pairs, 1), before[:, 1:]], 1)  # R[i, d − i] by i, for d = 0
    last, older = torch.cat([before[:, :1]] * (n + 1), 1), last
    for d in range(2, 2 * n + 1):
        low, high = max(1, d - n), min(n, d - 1)
        i = slice(low, high + 1)
        above = slice(low - 1, high)
        cost = (x[:, low - 1 : high] - y[:, d - high - 1 : d - low].flip(1)) ** 2
        ways = torch.stack([older[:, above], last[:, above], last[:, i]])
        new = cost - gamma * torch.logsumexp(-ways / gamma, 0)
        left, right = before[:, :low], before[:, high + 1 :]
        older, last = last, torch.cat([left, new, right], 1)
    return last[:, n].sum()


def rank_of_torch(values: Any, strength: float) -> Any:
    """The isotonic regression as a minimum of maxima of means: n² of them, no loop."""
    n = len(values)
    order = torch.argsort(values, descending=True)
    z = values[order] / strength
    y = z - torch.arange(n, 0, -1, dtype=values.dtype)
    sums = torch.cat([y.new_zeros(1), torch.cumsum(y, 0)])
    lengths = torch.arange(1, n + 1)[None, :] - torch.arange(n)[:, None]
    means = (sums[None, 1:] - sums[:-1, None]) / lengths.clamp(min=1)
    means = torch.where(lengths > 0, means, -torch.inf)
    highest = means.flip(1).cummax(1).values.flip(1)  # over ends k ≥ i
    highest = torch.where(lengths > 0, highest, torch.inf)
    return (z - highest.amin(0))[torch.argsort(order)]  # over beginnings j ≤ i


def march_of_torch(
    centres: Any, radii: Any, rays: Any, most: int = MOST, leaves: bool = True
) -> Any:
    """All rays at once; those that have arrived stand still, and the loop ends when all have."""
    t = rays.new_zeros(len(rays))
    moving = torch.ones(len(rays), dtype=torch.bool)
    for _ in range(most):
        apart = t[:, None, None] * rays[:, None, :] - centres
        distance = apart.square().sum(-1).sqrt() - radii
        step = -torch.logsumexp(-8.0 * distance, 1) / 8.0
        moving = moving & (step >= NEAR) & (t <= FAR)
        if leaves and not moving.any():
            break
        t = t + torch.where(moving, step, 0.0)
    return t.clamp(max=FAR)


def dtw_of_pairs(xs: Any, ys: Any, gamma: float) -> Any:
    total = 0.0
    for k in range(len(xs)):
        total += soft_dtw(xs[k], ys[k], gamma)
    return total


def kernels(compiles: bool) -> None:
    columns = ["Backsolve in PyTorch", "PyTorch"] + ["torch.compile"] * compiles
    print(header("value and gradients", *columns))
    dtw = function(dtw_of_pairs)
    for pairs, n in ((1, 100), (1, 400), (32, 100)):
        given = series(2 * pairs, n)
        args = variable(given[:pairs]), variable(given[pairs:])
        name = f"soft DTW, {pairs} × {n} steps" if pairs > 1 else f"soft DTW, {n} steps"
        compare(name, lambda x, y: dtw(x, y, 0.1), lambda x, y: dtw_of_torch(x, y, 0.1), args)
    rank, rank_in_graph = function(soft_rank), torch.compile(rank_of_torch)
    for n in (100, 1000, 2000):
        args = (variable(np.random.default_rng(0).normal(size=n)),)
        weights = torch.linspace(0.0, 1.0, n, dtype=torch.float64)
        ours = lambda x, w=weights: (rank(x, 0.1) * w).sum()
        theirs = lambda x, w=weights: (rank_of_torch(x, 0.1) * w).sum()
        faster = lambda x, w=weights: (rank_in_graph(x, 0.1) * w).sum()
        compare(f"soft ranks of {n}", ours, theirs, args, faster if compiles else None)
    depth, in_graph = function(march), torch.compile(march_of_torch)
    for size in (24, 64):
        rays = torch.from_numpy(camera(size))
        args = variable(CENTRES), variable(RADII)
        ours = lambda c, r, rays=rays: depth(c, r, rays).sum()
        theirs = lambda c, r, rays=rays: march_of_torch(c, r, rays).sum()
        faster = lambda c, r, rays=rays: in_graph(c, r, rays, MOST, False).sum()
        compare(
            f"ray marcher, {size} × {size} rays", ours, theirs, args, faster if compiles else None
        )


def compare(name: str, ours: Any, theirs: Any, args: Any, compiled: Any = None) -> None:
    contestants = {"backsolve": both(ours, args), "PyTorch": both(theirs, args)}
    if compiled is not None:
        contestants["torch.compile"] = both(compiled, args)
    results = {who: [r.clone() for r in run()] for who, run in contestants.items()}
    for found in results.values():
        for a, b in zip(results["backsolve"], found, strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-8), (name, (a - b).abs().max())
    print(show_row(name, best_times(contestants)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    torch.set_num_threads(1)
    bs.set_threads(1)
    count_own_time()
    print(f"{machine()}; {versions(('numpy', 'torch'))}, one thread\n")
    calls()
    many_results()
    kernels(parser.parse_args().compile)


if __name__ == "__main__":
    main()
