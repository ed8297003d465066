"""Writes PyTorch's figures for all calls into data/: python tests/nn/make_references.py [group …].

Needs PyTorch; the tests do not.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from calls import GROUPS
from references import Call, flattened, save, sketch, weights_of


def figures(call: Call) -> dict[str, Any]:
    """Value, gradients and a second derivative."""
    import torch
    import torch.nn.functional

    arrays = [torch.tensor(a) for a in call.drawn()]
    varying = [arrays[k].requires_grad_() for k in call.varying]
    find = lambda name: getattr(torch.nn.functional, name, None) or getattr(torch, name)
    results = flattened(call.of(find, arrays))
    kept = {f"value{k}": sketch(r.detach().numpy()) for k, r in enumerate(results)}
    kept["shape"] = np.array(results[0].shape, float)
    smooth = [r for r in results if r.requires_grad]
    if not smooth:
        return kept
    total = sum(
        (torch.sin(r) * torch.tensor(weights_of(tuple(r.shape), k))).sum()
        for k, r in enumerate(smooth)
    )
    gradients = torch.autograd.grad(total, varying, create_graph=call.second, allow_unused=True)
    for k, g in zip(call.varying, gradients, strict=True):
        kept[f"gradient{k}"] = sketch(np.zeros(arrays[k].shape) if g is None else g.detach())
    if call.second and any(g is not None and g.requires_grad for g in gradients):
        along = sum(
            (g * torch.tensor(weights_of(tuple(g.shape), 50 + k))).sum()
            for k, g in enumerate(gradients)
            if g is not None
        )
        for k, h in zip(
            call.varying, torch.autograd.grad(along, varying, allow_unused=True), strict=True
        ):
            kept[f"second{k}"] = sketch(np.zeros(arrays[k].shape) if h is None else h)
    return kept


def main(groups: list[str]) -> None:
    for group in groups or GROUPS:
        kept = {}
        for call in GROUPS[group]():
            for name, figure in figures(call).items():
                kept[f"{call.label}|{name}"] = figure
        path = save(group, kept)
        print(f"{path.name}: {len(kept)} figures, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
