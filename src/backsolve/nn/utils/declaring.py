"""Weights of a network on manifolds, by their names."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...declared import Point
from ...errors import StructureError
from ..module import Module
from ..on_manifolds import with_declarations


def declare(module: Module, manifolds: Mapping[str, Any]) -> Module:
    """Move parameters to the nearest points of manifolds and declare them there; the module itself is changed.

    Names are as in `optim.Groups`: the first pattern that fits, with * for anything.

    >>> import backsolve as bs
    >>> model = bs.nn.Sequential(bs.nn.Linear(4, 8), bs.nn.Tanh(), bs.nn.Linear(8, 8))
    >>> model = declare(model, {"*.weight": bs.manifolds.Stiefel()})
    >>> w = model[0].weight
    >>> bool(np.allclose(w.T @ w, np.eye(4), atol=1e-6))
    True
    """
    own = module.named_parameters()
    first: dict[str, str] = {}
    for name in own:
        fitting = [p for p in manifolds if fnmatch.fnmatchcase(name, p)]
        if fitting:
            first[name] = fitting[0]
    idle = [p for p in manifolds if p not in first.values()]
    if idle:
        raise StructureError(
            f"no parameter of the module is called {idle[0]!r}; there are {', '.join(own)}"
        )
    moved = {}
    for name, pattern in first.items():
        x = own[name].x if isinstance(own[name], Point) else own[name]
        moved[name] = np.asarray(manifolds[pattern].nearest(x), x.dtype)
    module.__dict__.update(vars(module.replace(moved)))
    owners = dict(module.modules())
    for name, pattern in first.items():
        steps = name.split(".")
        cut = max(k for k in range(len(steps)) if ".".join(steps[:k]) in owners)
        owner, path = owners[".".join(steps[:cut])], ".".join(steps[cut:])
        how = {path: Point(manifolds[pattern], moved[name]).declaration}
        owner.__dict__["_manifolds"] = with_declarations(owner._manifolds, path, how)
    return module
