"""Pages of the API: of every public name the signature and docstring, which mkdocstrings reads."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

# Page: what it says, and the names of `bs` on it.
NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "derivatives": ("Derivatives", (
        "grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "hvp", "vmap", "jet",
        "stop_gradient", "checkpoint",
    )),
    "system": ("The system", (
        "linearize", "System", "backslash", "Block", "I", "explain_cost", "explain", "rounding", "source",
    )),
    "tensors": ("Tensors and derivatives of one's own", (
        "Tensor", "tensor", "Function", "primitive", "debug_nans",
    )),
    "compiled": ("Compiled code and control flow", (
        "jit", "mesh", "set_default_backend", "settle", "set_threads", "get_threads", "cond", "while_loop",
        "fori_loop", "scan", "map", "loops", "recurrence",
    )),
    "ways": ("Sparse, implicit, second order", (
        "sparsity", "implicit", "root", "fixed_point", "argmin", "linear_solve", "gauss_newton", "fisher",
        "hessian_operator", "hessian_diagonal", "hessian_trace", "laplacian", "per_sample_grad",
        "per_sample_norms", "on",
    )),
    "show": ("Pictures", ("show",)),
    "training": ("Training", ("fit",)),
}  # fmt: skip
# Modules of `bs` whose own pages list all that they offer.
MODULES: dict[str, str] = {
    "nn": "backsolve.nn",
    "nn.functional": "backsolve.nn.functional",
    "nn.init": "backsolve.nn.init",
    "nn.models": "backsolve.nn.models",
    "nn.utils": "backsolve.nn.utils",
    "optim": "backsolve.optim",
    "optim.schedules": "backsolve.optim.schedules",
    "data": "backsolve.data",
    "distributed": "backsolve.distributed",
    "sharding": "backsolve.sharding",
    "random": "backsolve.random",
    "manifolds": "backsolve.manifolds",
    "operators": "backsolve.operators",
    "scipy": "backsolve.interop.scipy",
    "sklearn": "backsolve.sklearn",
    "numeric": "backsolve.numeric",
    "symbolic": "backsolve.symbolic",
    "testing": "backsolve.testing",
    "tree": "backsolve.tree",
    "errors": "backsolve.errors",
    "interop.jax": "backsolve.interop.jax",
    "interop.onnx": "backsolve.interop.onnx",
    "interop.stablehlo": "backsolve.interop.stablehlo",
    "interop.torch": "backsolve.interop.torch",
    "interop.safetensors": "backsolve.interop.safetensors",
}
MORE = {"training": "backsolve.training"}  # joins the page of that name
# Classes whose methods are shown: what one holds, and the bases that say what their kinds can do.
_MEMBERS = {"System", "Tensor", "Function", "show"}
_MEMBERS |= {"Operator", "Manifold", "Optimizer", "Module", "Batches", "Mesh", "History", "Model"}


def paths() -> list[str]:
    return [f"reference/{page}.md" for page in (*NAMES, "numpy", *MODULES, "index")]


def pages() -> dict[str, str]:
    """Path in the site: Markdown."""
    import functions

    import backsolve

    found = {}
    listed = []
    for page, (title, names) in NAMES.items():
        text = [f"# {title}\n"]
        text += [_entry(f"bs.{name}", getattr(backsolve, name), name in _MEMBERS) for name in names]
        if page in MORE:
            text += _module(MORE[page])
        found[f"reference/{page}.md"] = "\n".join(text)
        listed.append((page, title, [f"bs.{name}" for name in names]))
    found["reference/numpy.md"] = functions.numpy_page()
    listed.append(("numpy", "bs.numpy", ["The array namespace: NumPy's names, differentiable."]))
    for name, path in MODULES.items():
        module = importlib.import_module(path)
        about = (module.__doc__ or "").split("\n\n")[0].strip()
        found[f"reference/{name}.md"] = "\n".join([f"# bs.{name}\n\n{about}\n", *_module(path)])
        if name == "scipy":
            found["reference/scipy.md"] += "\n".join(functions.scipy_tables())
        listed.append((name, f"bs.{name}", [about]))
    lines = [f"| [{title}]({page}.md) | {_names(about)} |" for page, title, about in listed]
    found["reference/index.md"] = "\n".join(
        ["# Reference\n", "| page | has |", "|---|---|", *lines, ""]
    )
    return found


def _names(about: list[str]) -> str:
    return ", ".join(f"`{a}`" if a.startswith("bs.") else a for a in about)


def public(module: ModuleType) -> dict[str, Any]:
    """What a module offers: its classes and functions, and those it takes from the modules below it."""
    root = module.__name__
    found = {}
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        home = getattr(value, "__module__", "")
        if home == root or (home.startswith(f"{root}.") and hasattr(module, "__path__")):
            found[name] = value
    return found


def _module(path: str) -> list[str]:
    module = importlib.import_module(path)
    offered = {name: value for name, value in public(module).items() if value.__doc__}
    if path == "backsolve.errors":
        offered = {name: value for name, value in offered.items() if inspect.isclass(value)}
    return [
        _entry(name, value, name in _MEMBERS)
        if name in _MEMBERS or not _is_generated(value)
        else _written(name, value)
        for name, value in offered.items()
    ]


def _is_generated(value: Any) -> bool:
    """Whether its signature stands in no source: that of a dataclass, or of the class it comes from."""
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return False
    own = vars(value).get("__init__")
    if own is None:
        return value.__init__ is not object.__init__
    return bool(own.__code__.co_filename == "<string>")


def _written(name: str, value: Any) -> str:
    import docstrings

    plain = [p.replace(annotation=p.empty) for p in inspect.signature(value).parameters.values()]
    signature = f"{name}{inspect.Signature(plain)}"
    return f"## {name}\n\n```python\n{signature}\n```\n\n{docstrings.fenced(inspect.getdoc(value) or '')}\n"


def _entry(heading: str, value: Any, members: bool) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        value = type(value)  # an object stands for its class: bs.show, bs.I
    options = [f"heading: {heading}", f"toc_label: {heading}"]
    if members:
        options += ["members: null", "filters: ['!^_[^_]', '!^__']", "inherited_members: false"]
    text = "\n      ".join(options)
    return f"::: {value.__module__}.{value.__qualname__}\n    options:\n      {text}\n"
