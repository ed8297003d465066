"""Weights that were trained with PyTorch, into modules of ours. PyTorch itself is not needed.

>>> import numpy as np
>>> import backsolve as bs
>>> layer = bs.nn.Linear(3, 2)
>>> _ = load_state_dict(layer, {"weight": np.ones((2, 3)), "bias": np.zeros(2)})
>>> layer(np.ones(3, np.float32))
array([3., 3.], dtype=float32)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import StructureError
from ...nn.module import Module, _walk

_WRAPPERS = ("module.", "_orig_mod.", "model.")  # of DataParallel, of torch.compile, of trainers
_OLDER_NAMES = {  # of weight_norm and spectral_norm before PyTorch had parametrizations
    "original0": "{}_g",
    "original1": "{}_v",
    "original": "{}_orig",
    "0._u": "{}_u",
    "0._v": "{}_v",
}


def load_state_dict(module: Module, state: Any, strict: bool = True) -> Module:
    """The module, with arrays from a state_dict or safetensors files, under PyTorch's names.

    Values may be PyTorch's tensors or NumPy's arrays. Names may carry the prefix of a wrapper, or lack the
    one that ours have. With `strict`, what is missing, too many or misshapen is an error that lists it all.
    The states of random numbers are ours alone, and stay.
    """
    own = {".".join(path): array for path, array, _ in _walk(module, (), "parameter")}
    own = {name: array for name, array in own.items() if array.dtype.kind != "u"}
    skipped = getattr(type(module), "not_loaded", ())
    given = {
        name: _as_array(value)
        for name, value in _arrays_of(state).items()
        if not name.endswith(skipped)
    }
    given = _renamed(given, own)
    wrong = _merge(given, own, getattr(type(module), "also_named", {}))
    known = set(module.state_dict())
    canonical = {id(array): name for name, array in own.items() if name in known}
    new: dict[str, Any] = {}
    for name, array in own.items():
        value, first = given.get(name), canonical[id(array)]
        if value is None:
            continue
        if value.shape != array.shape:
            wrong.append(f"≠ {name}: {array.shape} here, {value.shape} there")
        elif first in new and not np.array_equal(new[first], value):
            wrong.append(f"≠ {name}: one array with {first} here, two that differ there")
        new.setdefault(first, value)
    if strict:
        wrong += _differences(own, given)
    if wrong:
        raise StructureError(
            f"these weights do not fit {type(module).__name__} (- missing, + unexpected, ≠ of another form):\n"
            + "\n".join(f"  {line}" for line in wrong)
        )
    module.load_state_dict(new, strict=False)
    return module


def _merge(given: dict[str, Any], own: dict[str, Any], names: Mapping[str, str]) -> list[str]:
    """Take away what is given under a second name; say where the two differ."""
    wrong = []
    for second, first in names.items():
        if second in given and second not in own:
            value = given.pop(second)
            if not np.array_equal(given.setdefault(first, value), value):
                wrong.append(f"≠ {second}: one array with {first} here, two that differ there")
    return wrong


def _differences(own: dict[str, Any], given: dict[str, Any]) -> list[str]:
    unexpected = [name for name in given if name not in own]
    loaded = {id(array) for name, array in own.items() if name in given}
    lines = []
    for name, array in own.items():
        # one array in two places is given by either name; PyTorch before 0.4 counted no batches
        if id(array) in loaded or name.endswith("num_batches_tracked"):
            continue
        near = difflib.get_close_matches(name, unexpected, 1, 0.8)
        lines.append(f"- {name} {array.shape}" + (f"; is it {near[0]}?" if near else ""))
    return lines + [f"+ {name} {given[name].shape}" for name in unexpected]


def _arrays_of(state: Any) -> Mapping[str, Any]:
    if isinstance(state, Mapping):
        return state
    if not isinstance(state, str | os.PathLike):
        raise TypeError(
            f"weights are a mapping of names to arrays, or a path, not {type(state).__name__}; "
            "of a PyTorch module pass module.state_dict()"
        )
    path = os.fspath(state)
    if not str(path).endswith((".safetensors", ".safetensors.index.json")) and not os.path.isdir(
        path
    ):
        raise ValueError(
            f"{path} is no .safetensors file. PyTorch's own format is a program that reading would run: "
            "write safetensors.torch.save_file(module.state_dict(), …) there, or pass "
            "torch.load(path, weights_only=True)"
        )
    from ..safetensors import load

    return load(path)


def _as_array(value: Any) -> Any:
    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # which NumPy does not have
            value = value.float()
        value = value.numpy()
    return np.asarray(value)


def _renamed(given: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The same arrays under our names, as far as they differ by a prefix or are older names."""
    for prefix in _WRAPPERS:
        of_all = given and all(name.startswith(prefix) for name in given)
        if of_all and not any(name.startswith(prefix) for name in own):
            given = {name[len(prefix) :]: a for name, a in given.items()}
    if not any(name in own for name in given):
        first = {name.partition(".")[0] for name in own}
        for prefix in sorted(first):
            longer = {f"{prefix}.{name}": a for name, a in given.items()}
            if any(name in own for name in longer):
                given = longer
    for name in own:
        before, found, behind = name.rpartition("parametrizations.")
        weight, _, part = behind.partition(".")
        if found and part in _OLDER_NAMES and name not in given:
            older = before + _OLDER_NAMES[part].format(weight)
            if older in given:
                given[name] = given.pop(older)
    return given
