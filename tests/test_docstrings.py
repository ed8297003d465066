"""Every public name says what it is: no page of the API shows a signature alone."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import backsolve as bs
from backsolve.numpy import arguments
from backsolve.primitive import PRIMITIVES

MODULES = (
    "data", "errors", "interop.safetensors", "interop.scipy", "interop.scipy.integrate",
    "interop.onnx", "interop.scipy.signal", "interop.torch", "manifolds", "nn", "nn.functional", "nn.init",
    "nn.models", "nn.utils", "numeric", "numpy.special", "operators", "optim", "optim.schedules", "random",
    "sklearn", "symbolic", "testing", "training", "tree",
    "distributed", "interop.jax", "interop.stablehlo", "sharding",
)  # fmt: skip
WHOLE = (bs.Tensor, bs.System, bs.Function, bs.nn.Module, type(bs.show))
_OPTIONAL = {
    "sklearn": "sklearn",
    "interop.jax": "jax",
    "interop.onnx": "onnx",
    "interop.torch": "torch",
}


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


def imported(path: str) -> ModuleType:
    if path in _OPTIONAL:
        pytest.importorskip(_OPTIONAL[path])
    return importlib.import_module(f"backsolve.{path}")


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
    module = imported(path)
    names = offered(module)
    assert told(module, path)
    assert names
    assert [name for name, value in names.items() if not told(value, name)] == []


def methods_of(kind: type) -> list[str]:
    kinds = (property, classmethod, staticmethod)
    return [
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    ]


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.__name__)
def test_methods(kind: type) -> None:
    """Of these classes each has words of its own."""
    methods = methods_of(kind)
    assert methods
    assert [name for name in methods if not vars(kind)[name].__doc__] == []


@pytest.mark.parametrize("path", MODULES)
def test_methods_of_a_module(path: str) -> None:
    """Of all others their own, or those of the class whose promise they keep."""
    untold = [
        f"{name}.{method}"
        for name, kind in offered(imported(path)).items()
        if inspect.isclass(kind)
        for method in methods_of(kind)
        if not inspect.getdoc(getattr(kind, method))
    ]
    assert untold == []


def test_element_wise_functions_name_their_arguments() -> None:
    shown = {name: str(inspect.signature(getattr(bs.numpy, name))) for name in ("sigmoid", "jv")}
    assert shown == {"sigmoid": "(x, /)", "jv": "(v, z, /)"}
    for name in dir(bs.numpy):
        f = getattr(bs.numpy, name)
        if inspect.isfunction(f) and f.__module__ == "backsolve.numpy.elementwise":
            assert not str(inspect.signature(f)).startswith("(*"), name
    for name, words in arguments._NAMES_OF.items():
        assert len(words) == len(PRIMITIVES[name].blocks or ()), name


def test_the_array_namespace() -> None:
    names = [name for name in dir(bs.numpy) if not name.startswith("_")]
    functions = {
        name: getattr(bs.numpy, name) for name in names if callable(getattr(bs.numpy, name))
    }
    assert len(functions) > 400
    assert [name for name, value in functions.items() if not (value.__doc__ or "").strip()] == []
