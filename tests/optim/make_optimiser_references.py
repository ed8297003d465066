"""Writes what PyTorch's optimisers and schedules do into pytorch.npz; needs PyTorch, the tests do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from optimiser_cases import DATA, RATE, SCHEDULES, SETTINGS, START, STEPS, A, B, name_of


def trajectory(name: str, settings: dict[str, Any]) -> Any:
    import torch

    w, v = (torch.tensor(a, requires_grad=True) for a in START.values())
    optimiser = getattr(torch.optim, name)([w, v], **settings)
    path = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = ((torch.tensor(A) @ w - torch.tensor(B)) ** 2).sum() + torch.sin(v).sum()
        loss.backward()
        optimiser.step()
        path.append(torch.cat([w.detach().ravel(), v.detach()]).numpy())
    return np.stack(path)


def rates(name: str, settings: dict[str, Any]) -> Any:
    import torch

    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    schedule = getattr(torch.optim.lr_scheduler, name)(optimiser, **settings)
    found = []
    for _ in range(20):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if len(found) < 20:
            schedule.step()
    return np.array(found)


if __name__ == "__main__":
    kept = {name_of(n, s): trajectory(n, s) for n, s in SETTINGS}
    kept |= {ours: rates(theirs, settings) for ours, theirs, _, settings in SCHEDULES}
    np.savez_compressed(DATA, **kept)
    print(len(kept), DATA.stat().st_size)
