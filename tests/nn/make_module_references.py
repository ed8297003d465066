"""Writes PyTorch's figures for modules into data/modules.npz; needs PyTorch, the tests do not."""

from __future__ import annotations

from typing import Any

from module_cases import MODULES, arrays_of, direction, inputs_of, kept, label_of, made, numbers
from references import save, weights_of


def figures(name: str, arguments: Any, settings: Any, shape: Any) -> dict[str, Any]:
    import torch
    from torch.nn.utils import parametrizations

    module = made(torch.nn, parametrizations, name, arguments, settings, torch.float64)
    for own, parameter in module.named_parameters():
        parameter.data = torch.tensor(numbers(own, tuple(parameter.shape)))
    for own, buffer in module.named_buffers():
        buffer.copy_(torch.tensor(direction(own, tuple(buffer.shape))))
    inputs = [torch.tensor(a, requires_grad=True) for a in inputs_of(shape)]
    results = arrays_of(module(*inputs))
    total = sum(
        (torch.sin(r) * torch.tensor(weights_of(tuple(r.shape), k))).sum()
        for k, r in enumerate(results)
    )
    total.backward()
    gradients = {own: p.grad for own, p in module.named_parameters()}
    return kept(
        [r.detach() for r in results],
        gradients | {f"input {k}": x.grad for k, x in enumerate(inputs)},
    )


if __name__ == "__main__":
    found = {
        f"{label_of(*case)}|{name}": figure
        for case in MODULES
        for name, figure in figures(*case).items()
    }
    print(save("modules", found), len(found))
