"""Every public function of the namespace, called with garbage: it returns, or raises NumPy's kind of error."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp

EXPECTED = (  # with their subclasses: ours, AxisError, LinAlgError, DTypePromotionError
    *(TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, FloatingPointError),
    *(MemoryError, bs.errors.BacksolveError, np.exceptions.AxisError, np.linalg.LinAlgError),
    NotImplementedError,
)
UNEXPECTED = (RecursionError, bs.errors.ProgramError)
CALLS = 60  # of each function
# They read or write files, print, change settings for everybody, or look at memory.
LEFT_OUT = {
    *("fromfile", "genfromtxt", "load", "loadtxt", "save", "savetxt", "savez", "savez_compressed"),
    *("memmap", "fromregex", "test", "info", "show_config", "show_runtime", "get_include"),
    *("seterr", "seterrcall", "setbufsize", "set_printoptions", "printoptions", "errstate"),
    *("frompyfunc", "vectorize", "nested_iters", "frombuffer", "fromstring", "from_dlpack"),
}


def public(room: Any) -> dict[str, Any]:
    found = {n: getattr(room, n) for n in dir(room) if not n.startswith("_")}
    return {
        n: f
        for n, f in found.items()
        if callable(f) and not inspect.isclass(f) and n not in LEFT_OUT
    }


FUNCTIONS = [
    pytest.param(f, id=prefix + name)
    for prefix, room in (
        ("", bnp),
        ("linalg.", bnp.linalg),
        ("fft.", bnp.fft),
        ("random.", bs.random),
    )
    for name, f in sorted(public(room).items())
]
SPECIAL = (
    "logsumexp",
    "softmax",
    "log_softmax",
    "polygamma",
    "multigammaln",
    "zeta",
    "sinc",
    "softplus",
)
FUNCTIONS += [pytest.param(getattr(bnp.special, name), id=f"special.{name}") for name in SPECIAL]


def garbage(draw: np.random.Generator) -> Any:
    """One argument: most often a tensor, of any shape and dtype, sometimes nothing of the kind."""
    kind = draw.integers(20)
    if kind < 11:
        shape = tuple(draw.choice([0, 1, 2, 3], p=[0.1, 0.2, 0.3, 0.4], size=draw.integers(0, 4)))
        dtype = draw.choice(["f8", "f8", "f4", "c16", "i8", "i4", "u1", "?"])
        # Large numbers are too large to be sizes of anything, lest memory be filled.
        scale = draw.choice([1, 3, 1e300 if dtype in ("f8", "c16") else 1])
        v = np.asarray(draw.normal(size=shape) * scale)
        v = (np.abs(v) if dtype == "u1" else v).astype(dtype)
        if dtype == "i8" and draw.random() < 0.2:
            v = v + 2**62
        if v.dtype.kind in "fc" and v.size and draw.random() < 0.2:
            v = np.where(draw.random(v.shape) < 0.5, draw.choice([np.nan, np.inf, -np.inf]), v)
        if kind < 2:
            return v
        return bs.tensor(v, requires_grad=v.dtype.kind in "fc" and bool(draw.random() < 0.5))
    number = int(draw.integers(-3, 5))
    things: list[Any] = [
        *(number, number, float(draw.normal()), None, "no", b"no", (number, 1), [0, number]),
        *(True, 2**70, -(2**63), np.nan, [], {}, slice(None), 1 + 2j, object(), [None], Ellipsis),
        *(np.array(["a", "b"]), np.array([object()]), np.timedelta64(1), [[1.0], [2.0, 3.0]]),
        [bs.tensor(1.0), bs.tensor([1.0, 2.0])],
    ]
    return things[draw.integers(len(things))]


OPTIONS = ("axis", "keepdims", "dtype", "out", "where", "n", "mode", "order", "ord", "weights")


def arguments(f: Any, draw: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        names = list(inspect.signature(f).parameters)
    args = [garbage(draw) for _ in range(draw.integers(1, 4))]
    args[0] = args[0] if draw.random() < 0.3 else bs.tensor(draw.normal(size=(3, 3)))
    if f.__module__.startswith("backsolve.random") and draw.random() < 0.9:
        args[0] = bs.random.key(int(draw.integers(9)))
    if f.__name__ == "diff" and not isinstance(args[0], bs.Tensor):
        args[0] = bs.tensor([1.0, 2.0])  # of an array, NumPy itself takes 2**70 differences
    chosen = [n for n in OPTIONS if n in names and draw.random() < 0.2]
    return args, {n: garbage(draw) for n in chosen if n not in names[: len(args)]}


@pytest.mark.parametrize("f", FUNCTIONS)
def test_garbage_is_refused(f: Any, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    draw = np.random.default_rng([len(name), *name.encode()])
    for _ in range(CALLS):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            args, options = arguments(f, draw)
            try:
                f(*args, **options)
            except UNEXPECTED:
                raise
            except EXPECTED:
                pass
            except Exception as error:
                if not has_tensor([args, options]) or came_from_numpy(error):
                    continue
                raise AssertionError(f"{name}(*{args!r}, **{options!r})") from error


def has_tensor(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(has_tensor(e) for e in x)
    return any(map(has_tensor, x.values())) if isinstance(x, dict) else isinstance(x, bs.Tensor)


def came_from_numpy(error: BaseException) -> bool:
    """Whether no frame of ours stands between the call and the error."""
    step, ours = error.__traceback__, False
    while step is not None:
        ours = ours or "backsolve" in step.tb_frame.f_code.co_filename.replace("tests", "")
        step = step.tb_next
    return not ours
