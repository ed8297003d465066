"""Which of NumPy's functions work on Tensors: every one is tried, and docs/numpy.md says what happened.

    python -m backsolve.testing.coverage > docs/numpy.md

A function is called with examples (`EXAMPLES`, or the common ones in `COMMON`) until one call gives a
result that varies with its arguments. The same call is then staged by `vmap`, as `jit` would do it.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy
from scipy import special

from .. import tree
from ..api import vmap
from ..errors import UnsupportedError
from ..numpy._register import OWN
from ..tensor import Tensor
from .coverage_examples import COMMON, EXAMPLES, VALUES, WHOLE, written
from .coverage_reasons import REASONS

DIFFERENTIABLE, CONSTANT, UNSUPPORTED = "differentiable", "constant", "unsupported"
HERE, ELSEWHERE = "in backsolve.numpy", "takes no tensors"
ROOMS = (("numpy", np), ("numpy.linalg", np.linalg), ("numpy.fft", np.fft))
_STATE = ("test", "info", "show_config", "show_runtime", "get_include")


def public(room: Any) -> dict[str, Any]:
    """The functions of a namespace: no classes, no constants."""
    found = {name: getattr(room, name) for name in dir(room) if not name.startswith("_")}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


def ufuncs(room: Any) -> dict[str, Any]:
    return {n: f for n, f in public(room).items() if isinstance(f, np.ufunc)}


def _asks(f: Any) -> bool:
    """Whether NumPy hands the call to the classes of its arguments."""
    return isinstance(f, np.ufunc) or type(f).__name__ == "_ArrayFunctionDispatcher"


def _run(text: str, f: Any, values: dict[str, Any]) -> Any:
    return eval(text, {"np": np, "f": f, "written": written, **values})


def _names(text: str) -> list[str]:
    used = compile(text, "example", "eval").co_names
    return [n for n in VALUES if n in used]


def _varies(result: Any) -> bool:
    return any(isinstance(y, Tensor) and y.row is not None for y in tree.flatten(result)[0])


def _outcome(text: str, f: Any) -> str | None:
    """What one call comes to; None if the arguments are none for this function."""
    tensors = {n: Tensor(VALUES[n], requires_grad=True) for n in _names(text)}
    tensors |= {n: Tensor(w) for n, w in WHOLE.items()}
    try:
        result = _run(text, f, tensors)
    except UnsupportedError as error:  # of the function, not of an option
        return UNSUPPORTED if "has no derivative here yet" in str(error) else None
    except Exception:
        return None
    return DIFFERENTIABLE if _varies(result) else CONSTANT


def _is_staged(text: str, f: Any) -> bool:
    names = _names(text)
    chosen = names or [n for n in WHOLE if n in compile(text, "example", "eval").co_names]
    batches = [np.asarray(VALUES[n] if names else WHOLE[n])[None] for n in chosen]

    def call(*args: Any) -> Any:
        result = _run(text, f, {**VALUES, **WHOLE, **dict(zip(chosen, args, strict=True))})
        return [y for y in tree.flatten(result)[0] if isinstance(y, Tensor)]

    try:
        vmap(call)(*batches)
    except Exception:
        return False
    return True


def status(name: str, f: Any) -> tuple[str, bool]:
    """(what it is on Tensors, whether it can be staged) of a function under its full name."""
    if name.rpartition(".")[2] in _STATE:
        return ELSEWHERE, False
    if not _asks(f):
        return (HERE, True) if name.removeprefix("numpy.") in OWN else (ELSEWHERE, False)
    seen: dict[str, str] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for text in (EXAMPLES[name],) if name in EXAMPLES else COMMON:
            seen.setdefault(_outcome(text, f) or "", text)
            if DIFFERENTIABLE in seen or UNSUPPORTED in seen:
                break
        for kind in (DIFFERENTIABLE, UNSUPPORTED, CONSTANT):
            if kind in seen:
                return kind, kind != UNSUPPORTED and _is_staged(seen[kind], f)
    return UNSUPPORTED, False


def table(room: str, functions: dict[str, Any]) -> list[str]:
    rows = []
    for name, f in sorted(functions.items()):
        kind, staged = status(f"{room}.{name}", f)
        if kind == UNSUPPORTED:
            kind = f"{kind}: {REASONS.get(name, 'not written yet')}"
        rows.append(f"| `{name}` | {kind} | {'yes' if staged else 'no'} |")
    return rows


HEAD = """# NumPy's functions on Tensors

Made by `python -m backsolve.testing.coverage > docs/numpy.md`, which tries them all;
with NumPy {numpy} and SciPy {scipy}.

- *differentiable*: the result varies with its arguments, in both modes and to every order.
- *constant*: it works, and its result has no derivative by nature (whole numbers, shapes, steps).
- *unsupported*: on a tensor that varies, an `UnsupportedError` that names it; and why.
- *in backsolve.numpy*: NumPy does not ask its arguments here; the function of the same name in
  `backsolve.numpy` takes and makes tensors.
- *takes no tensors*: about files, text, settings, dates, or sizes alone.

The last column says whether it can be staged, inside `jit` and `vmap`. Where it cannot, the length or dtype
of the result depends on values.
"""


def page() -> str:
    parts = [HEAD.format(numpy=np.__version__, scipy=scipy.__version__)]
    rooms = [(name, public(room)) for name, room in ROOMS]
    for name, functions in (*rooms, ("scipy.special", ufuncs(special))):
        what = "ufuncs" if name == "scipy.special" else "functions"
        parts.append(f"## {name}\n\n| {what} | on tensors | staged |\n|---|---|---|")
        parts[-1] += "".join(f"\n{row}" for row in table(name, functions)) + "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
