"""Special functions, through SciPy's ufuncs.

scipy.special takes longer to import than all else here, so it is loaded when a row first computes: until
then a row runs a stand-in, which loads it and then is gone. `when_loaded` is how others join in.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import know_dtype
from ..errors import NotDifferentiableError
from ..lanes import Binary, Unary
from ..operators import Diagonal
from ..primitive import UFUNCS, Primitive
from .complex_polygamma import complex_polygamma
from .elementwise import COSTLY, elementwise, exp_, is_complex
from .large import large

TWO_OVER_ROOT_PI = float(2 / np.sqrt(np.pi))
ROOT_TWO_PI = float(np.sqrt(2 * np.pi))

_lock = threading.RLock()
_waiting: list[tuple[str, Callable[[Any], Any]]] = []
_loaded: Any = None
NAMES: dict[str, str] = {}  # of the rows: what SciPy calls them
PARTS: dict[
    str, str
] = {}  # of the rows of one result: which function of SciPy's has it among several
FORMULAS: dict[str, Callable[..., Any]] = {}  # of rows, on float64 or Tensors of such


def load() -> Any:
    """scipy.special, loaded now at the latest."""
    global _loaded
    if _loaded is None:
        with _lock:
            module = importlib.import_module("scipy.special")
            while _waiting:
                name, receive = _waiting.pop()
                receive(getattr(module, name))
            _loaded = module
    return _loaded


def load_if_imported() -> None:
    """Whoever calls one of its ufuncs has imported it."""
    if _loaded is None and "scipy.special" in sys.modules:
        load()


def when_loaded(name: str, receive: Callable[[Any], Any]) -> None:
    """`receive(scipy.special.<name>)`, as soon as there is such a thing."""
    with _lock:
        if _loaded is None:
            _waiting.append((name, receive))
            return
    receive(getattr(_loaded, name))


def _row(name: str, kind: Any, blocks: Any, ufunc: str, code: str | None) -> Any:
    def stand_in(*args: Any) -> Any:
        load()
        return row.run(*args)

    smooth = None if blocks == (None,) else blocks
    row = elementwise(name, stand_in, smooth, kind=kind, ufunc=(), code=code)
    NAMES[name] = ufunc
    for real in ("float32", "float64"):  # so that staging needs no SciPy
        know_dtype(row, np.dtype(real), arity=len(blocks))

    def receive(found: Any) -> None:
        run = large(found, name) if name in COSTLY else found
        if isinstance(row, Unary | Binary):
            row.use(run)
        else:
            row.run = run
        UFUNCS[found] = getattr(row, "call", row)

    when_loaded(ufunc, receive)
    return row


def unary(name: str, block: Any, ufunc: str | None = None, *, code: str | None = None) -> Any:
    return _row(name, Unary, (block,), ufunc or name, code)


def binary(name: str, a: Any, b: Any) -> Any:
    return _row(name, Binary, (a, b), name, None)


def several(name: str, *blocks: Any) -> Any:
    """Of three arguments or more."""
    return _row(name, Primitive, blocks, name, None)


def also(ufunc: str, row: Any) -> None:
    """A ufunc of SciPy's that computes what a row of ours does."""
    when_loaded(ufunc, lambda found: UFUNCS.setdefault(found, getattr(row, "call", row)))


def undefined(name: str, argument: str) -> Any:
    """The block of an argument in which there is no derivative here."""

    def block(A: Any) -> Any:
        raise NotDifferentiableError(
            f"`{name}` has no derivative with respect to `{argument}` here; keep that argument constant, "
            f"for example by bs.stop_gradient({argument})"
        )

    return block


def formula(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A row's function by NumPy's, of what is in double precision; FORMULAS keeps it for compiled code."""

    def run(*args: Any, **params: Any) -> Any:
        with np.errstate(all="ignore"):
            return kept(compute(*[np.asarray(a, float) for a in args], **params), *args)

    FORMULAS[compute.__name__.removeprefix("_run_")] = compute
    return run


def kept(y: Any, *args: Any) -> Any:
    """In the precision of the arguments, though computed in double precision."""
    dtype = np.result_type(*[x if type(x) in (int, float) else np.asarray(x) for x in args])
    single = dtype in (np.float32, np.float16)
    return np.asarray(y).astype(np.float32 if single else np.float64)[()]


erf = unary("erf", lambda a: Diagonal(TWO_OVER_ROOT_PI * exp_(-a * a)))
erfc = unary("erfc", lambda a: Diagonal(-TWO_OVER_ROOT_PI * exp_(-a * a)))
erfinv = unary("erfinv", lambda y: Diagonal(np.exp(y * y) / TWO_OVER_ROOT_PI))
ndtr = unary("ndtr", lambda a: Diagonal(exp_(-0.5 * a * a) / ROOT_TWO_PI))
gammaln = unary("gammaln", lambda a: Diagonal(load().psi(a)))
gamma = unary("gamma", lambda y, a: Diagonal(y * load().psi(a)))
digamma = unary(
    "digamma", lambda a: Diagonal(polygamma(a, n=1)), "psi", code="special.digamma({0})"
)
sigmoid = unary("sigmoid", lambda y: Diagonal(y * (1 - y)), "expit", code="sigmoid({0})")
log_sigmoid = unary("log_sigmoid", lambda a: Diagonal(sigmoid(-a)), "log_expit")
softplus = elementwise(
    "softplus",
    lambda a: np.logaddexp(a, 0),
    (lambda a: Diagonal(sigmoid(a)),),
    kind=Unary,
    code="np.logaddexp({0}, 0)",
)
logit = unary("logit", lambda a: Diagonal(np.divide(1, a * (1 - a))))


def _run_polygamma(a: Any, *, n: int) -> Any:
    if is_complex(a):
        return complex_polygamma(n, a) if n else load().psi(a)
    y = load().polygamma(n, a)  # in double precision, whatever it gets
    return y.astype(np.float32) if getattr(a, "dtype", None) == np.float32 else y


polygamma: Any = elementwise(
    "polygamma", _run_polygamma, (lambda a, *, n: Diagonal(polygamma(a, n=n + 1)),)
)


# x log y and x log(1 + y). Where x = 0 meets log 0 the value is 0, and so are both derivatives: there
# alone, lest the mixed second derivative be lost where only x is 0.


def _log(a: Any, c: Any, log: Any) -> Any:
    both = np.equal(a, 0) & np.equal(c, 0)
    return Diagonal(np.where(both, 0, log))


def _over(a: Any, c: Any) -> Any:
    both = np.equal(a, 0) & np.equal(c, 0)
    return Diagonal(np.where(both, 0, a / np.where(both, 1, c)))


xlogy = binary("xlogy", lambda a, b: _log(a, b, np.log(b)), lambda a, b: _over(a, b))
xlog1py = binary("xlog1py", lambda a, b: _log(a, 1 + b, np.log1p(b)), lambda a, b: _over(a, 1 + b))
