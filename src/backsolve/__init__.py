"""Backsolve differentiates Python programs by solving `(I − L) dx = D dp`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import numpy as numpy
from . import operators as operators
from . import tree as tree
from .api import backslash as backslash
from .api import grad as grad
from .api import hessian as hessian
from .api import hvp as hvp
from .api import jacobian as jacobian
from .api import jvp as jvp
from .api import linearize as linearize
from .api import stop_gradient as stop_gradient
from .api import value_and_grad as value_and_grad
from .api import vjp as vjp
from .api import vmap as vmap
from .debug import debug_nans as debug_nans
from .function import Function as Function
from .function import primitive as primitive
from .hooks import hooks as _hooks
from .operators import Block as Block
from .operators import I as I
from .pages import keep_pages as _keep_pages
from .show import show as show
from .solve import checkpoint as checkpoint
from .source import source as source
from .system import System as System
from .tensor import Tensor as Tensor
from .tensor import tensor as tensor
from .writers import writes_arrays as _writes_arrays

_keep_pages()

if TYPE_CHECKING:
    from . import data as data
    from . import distributed as distributed
    from . import interop as interop
    from . import manifolds as manifolds
    from . import nn as nn
    from . import numeric as numeric
    from . import optim as optim
    from . import random as random
    from . import sharding as sharding
    from . import sklearn as sklearn
    from . import symbolic as symbolic
    from . import testing as testing
    from . import training as training
    from .backends.native.threads import get_threads as get_threads
    from .backends.native.threads import set_threads as set_threads
    from .compiled import jit as jit
    from .compiled.defaults import set_default_backend as set_default_backend
    from .compiled.defaults import settle as settle
    from .control import cond as cond
    from .control import fori_loop as fori_loop
    from .control import map as map
    from .control import scan as scan
    from .control import while_loop as while_loop
    from .costs import explain_cost as explain_cost
    from .curvature import fisher as fisher
    from .curvature import gauss_newton as gauss_newton
    from .curvature import hessian_diagonal as hessian_diagonal
    from .curvature import hessian_operator as hessian_operator
    from .curvature import hessian_trace as hessian_trace
    from .curvature import laplacian as laplacian
    from .curvature import per_sample_grad as per_sample_grad
    from .curvature import per_sample_norms as per_sample_norms
    from .declared import on as on
    from .explaining import explain as explain
    from .explaining import rounding as rounding
    from .implicits import argmin as argmin
    from .implicits import fixed_point as fixed_point
    from .implicits import implicit as implicit
    from .implicits import linear_solve as linear_solve
    from .implicits import root as root
    from .interop import scipy as scipy
    from .jets import jet as jet
    from .nests import loops as loops
    from .recurrences import recurrence as recurrence
    from .sharding import mesh as mesh
    from .sparse import sparsity as sparsity
    from .training import fit as fit

__version__ = "0.1.0"

# Loaded when first asked for: the name, the module it lives in, and what to take from there.
_LATER = {
    "argmin": (".implicits", "argmin"),
    "cond": (".control", "cond"),
    "data": (".data", None),
    "distributed": (".distributed", None),
    "explain_cost": (".costs", "explain_cost"),
    "explain": (".explaining", "explain"),
    "fisher": (".curvature", "fisher"),
    "fit": (".training", "fit"),
    "fixed_point": (".implicits", "fixed_point"),
    "fori_loop": (".control", "fori_loop"),
    "gauss_newton": (".curvature", "gauss_newton"),
    "get_threads": (".backends.native.threads", "get_threads"),
    "hessian_diagonal": (".curvature", "hessian_diagonal"),
    "hessian_operator": (".curvature", "hessian_operator"),
    "hessian_trace": (".curvature", "hessian_trace"),
    "implicit": (".implicits", "implicit"),
    "interop": (".interop", None),
    "jet": (".jets", "jet"),
    "jit": (".compiled", "jit"),
    "laplacian": (".curvature", "laplacian"),
    "linear_solve": (".implicits", "linear_solve"),
    "loops": (".nests", "loops"),
    "manifolds": (".manifolds", None),
    "map": (".control", "map"),
    "mesh": (".sharding", "mesh"),
    "nn": (".nn", None),
    "numeric": (".numeric", None),
    "on": (".declared", "on"),
    "optim": (".optim", None),
    "per_sample_grad": (".curvature", "per_sample_grad"),
    "per_sample_norms": (".curvature", "per_sample_norms"),
    "random": (".random", None),
    "recurrence": (".recurrences", "recurrence"),
    "root": (".implicits", "root"),
    "rounding": (".explaining", "rounding"),
    "scan": (".control", "scan"),
    "scipy": (".interop.scipy", None),
    "set_default_backend": (".compiled.defaults", "set_default_backend"),
    "set_threads": (".backends.native.threads", "set_threads"),
    "settle": (".compiled.defaults", "settle"),
    "sharding": (".sharding", None),
    "sklearn": (".sklearn", None),
    "sparsity": (".sparse", "sparsity"),
    "symbolic": (".symbolic", None),
    "testing": (".testing", None),
    "training": (".training", None),
    "while_loop": (".control", "while_loop"),
}


def _kernel(name: str, dtype: Any) -> Any:
    """A compiled loop for large arrays in eager mode; LLVM is loaded when the first is wanted."""
    if name == "where":
        choice = importlib.import_module(".backends.native.mathematics.choice", __name__)
        return choice.choose(dtype)
    if name.startswith("cumsum"):
        running = importlib.import_module(".backends.native.mathematics.running", __name__)
        return running.running_sum(dtype, name == "cumsum_reverse")
    kernels = importlib.import_module(".backends.native.mathematics.kernels", __name__)
    return kernels.unary(name, dtype)


def _rewritten(f: Any) -> Any:
    """A function with its control flow staged; the rewriting is loaded when the first is wanted."""
    return importlib.import_module(".frontend", __name__).rewritten(f)


def _users(f: Any) -> Any:
    """A function that a transformation was given; rewritten if it writes into arrays."""
    if not _writes_arrays(f):
        return f
    return importlib.import_module(".frontend", __name__).users(f)


_hooks.kernel = _kernel
_hooks.rewritten = _rewritten
_hooks.users = _users
_hooks.body = _users


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _LATER[name]
    except KeyError:
        raise AttributeError(f"module 'backsolve' has no attribute {name!r}") from None
    loaded = importlib.import_module(module, __name__)
    found = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
