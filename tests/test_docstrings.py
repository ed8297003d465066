"""Every public name says what it is: no page of the API shows a signature alone."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import backsolve as bs

MODULES = (
    "data", "errors", "interop.safetensors", "interop.scipy", "interop.scipy.integrate",
    "interop.onnx", "interop.scipy.signal", "interop.torch", "manifolds", "nn", "nn.functional", "nn.init",
    "nn.models", "nn.utils", "numeric", "numpy.special", "operators", "optim", "optim.schedules", "random",
    "sklearn", "symbolic", "testing", "training", "tree",
)  # fmt: skip
WHOLE = (bs.Tensor, bs.System, bs.Function, bs.nn.Module, type(bs.show))


def told(value: Any, name: str) -> bool:
    """Words of its own: not its base's, no signature that Python wrote, no example alone."""
    words = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(words) and not words.strip().startswith((f"{name}(", ">>>"))


def offered(module: ModuleType) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith(module.__name__)
    }


def test_names_of_the_package() -> None:
    names = re.findall(r"import \w+ as ([A-Za-z]\w*)", inspect.getsource(bs))
    assert len(names) > 60
    untold = []
    for name in names:
        value = getattr(bs, name)
        known = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        if not told(value if known else type(value), name):
            untold.append(name)
    assert untold == []


@pytest.mark.parametrize("path", MODULES)
def test_names_of_a_module(path: str) -> None:
    if path == "sklearn":
        pytest.importorskip("sklearn")
    module = importlib.import_module(f"backsolve.{path}")
    names = offered(module)
    assert told(module, path)
    assert names
    assert [name for name, value in names.items() if not told(value, name)] == []


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.__name__)
def test_methods(kind: type) -> None:
    kinds = (property, classmethod, staticmethod)
    methods = {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }
    assert methods
    assert [name for name, value in methods.items() if not value.__doc__] == []


def test_the_array_namespace() -> None:
    names = [name for name in dir(bs.numpy) if not name.startswith("_")]
    functions = {
        name: getattr(bs.numpy, name) for name in names if callable(getattr(bs.numpy, name))
    }
    assert len(functions) > 400
    assert [name for name, value in functions.items() if not (value.__doc__ or "").strip()] == []
