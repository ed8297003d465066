"""How many threads compiled code uses, and how it uses them.

A step that splits a long loop emits a function `i32 body(i8* context, i64 low, i64 high, i64 worker)` and

    code = b.call(threads.parallel(module), [body, context, n, most])

which runs the body over n indices in T even ranges, T = min(set_threads' number, most, n), worker k on
range k, worker 0 on the calling thread; it returns when all are done, with the first code that is not 0.
Inside another parallel body, or while another thread has the pool, the same T ranges run one after another on
the calling thread. Bodies touch no Python object and do not wait for each other; nobody needs the GIL.

- Where the caller must know T, for memory that each worker has to itself: `b.call(threads.workers(module),
  [n, most])` tells it, and `threads.ranges(module)`, called with T for `most`, makes just so many ranges,
  whatever another thread may set in between.
- Where the number of ranges does not matter: `threads.spread(module)` runs the body once, over all, if the
  pool is busy.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite import ir

    from .pool import Pool

MOST_THREADS = 1024
SYMBOLS = tuple(f"backsolve_{name}" for name in ("parallel", "ranges", "spread", "workers"))
VARIABLE = "BACKSOLVE_NUM_THREADS"

_lock = threading.Lock()
_chosen: int | None = None  # by set_threads or the environment
_pool: Pool | None = None
_wrapper: str | None = None  # the file of the module through which BLAS was loaded


def set_threads(n: int) -> None:
    """Let compiled code use `n` threads, the calling one included; products by BLAS, too.

    Without it: the environment variable BACKSOLVE_NUM_THREADS, or the number of cores that the process
    may use (and BLAS as it is set up by itself).
    """
    global _chosen
    chosen = _checked(n, f"`set_threads` needs a number of threads from 1 to {MOST_THREADS}")
    with _lock:
        _chosen = chosen
        _apply()


def get_threads() -> int:
    """The number of threads that compiled code uses."""
    return _chosen or _from_environment() or _cores()


def parallel(module: ir.Module) -> ir.Function:
    """`i32 backsolve_parallel(body, i8* context, i64 n, i64 most)`, declared in a module."""
    return _declared_run(module, "backsolve_parallel")


def ranges(module: ir.Module) -> ir.Function:
    """`i32 backsolve_ranges(body, i8* context, i64 n, i64 ranges)`, declared in a module."""
    return _declared_run(module, "backsolve_ranges")


def spread(module: ir.Module) -> ir.Function:
    """`i32 backsolve_spread(body, i8* context, i64 n, i64 most)`, declared in a module."""
    return _declared_run(module, "backsolve_spread")


def workers(module: ir.Module) -> ir.Function:
    """`i64 backsolve_workers(i64 n, i64 most)`, declared in a module."""
    from .pool_code import INT

    return _declared(module, "backsolve_workers", INT, [INT, INT])


def pool() -> Pool:
    """The pool, compiled when first asked for; its threads start with the first job."""
    global _pool
    with _lock:
        if _pool is None:
            from .pool import Pool

            _pool = Pool(get_threads())
            _apply()
        return _pool


def limit_blas(wrapper: str | None = None) -> None:
    """Bring SciPy's BLAS, loaded with that file, under the number of threads and under the pool."""
    global _wrapper
    with _lock:
        _wrapper = wrapper or _wrapper
        _apply()


def limits_blas() -> bool:
    """Whether products inside a job keep to one thread each (of OpenBLAS, which can be told so)."""
    return _blas() is not None


def _declared_run(module: Any, name: str) -> Any:
    from .pool_code import BODY, CODE, INT, POINTER

    return _declared(module, name, CODE, [BODY.as_pointer(), POINTER, INT, INT])


def _declared(module: Any, name: str, result: Any, args: Any) -> Any:
    from llvmlite import ir

    pool()
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, args), name)


def _apply() -> None:
    if _pool is not None:
        with _pool.paused():  # a job gives BLAS its threads back at its end
            _pool.set_threads(get_threads(), spin=get_threads() <= _cores(), blas=_blas())
            _set_blas()
    else:
        _set_blas()


def _set_blas() -> None:
    chosen, blas = _chosen or _from_environment(), _blas()
    if chosen and blas:
        blas[1](chosen)


def _checked(n: Any, need: str) -> int:
    advice = "1 computes on the calling thread alone"
    try:
        number = operator.index(n)
    except TypeError:
        raise TypeError(f"{need} (got {n!r}); {advice}") from None
    if isinstance(n, bool) or not 1 <= number <= MOST_THREADS:
        raise ValueError(f"{need} (got {n!r}); {advice}")
    return number


@cache
def _from_environment() -> int | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    need = f"the environment variable {VARIABLE} needs a number from 1 to {MOST_THREADS}"
    return _checked(int(text) if text.isdecimal() else text, need)


@cache
def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Blas = tuple[Callable[[], int], Callable[[int], None]]


def _blas() -> Blas | None:
    """How to get and set the threads of SciPy's BLAS; None as long as nobody has loaded it."""
    module = sys.modules.get("scipy.linalg.cython_blas")
    wrapper = _wrapper or (module.__file__ if module else None)
    return _find_blas(wrapper) if wrapper else None


@cache
def _find_blas(wrapper: str) -> Blas | None:
    """None for a BLAS other than OpenBLAS, such as Accelerate, which shares out the cores by itself.

    A library is asked for its own symbols and for those of the libraries it is linked with; on Windows
    for its own alone, so there the wheel's copy of OpenBLAS is asked itself.
    """
    places = [Path(wrapper)]
    if sys.platform == "win32":
        places = sorted((Path(wrapper).parents[2] / "scipy.libs").glob("*openblas*.dll"))
    names = [f"{p}openblas_%s_num_threads{s}" for p in ("scipy_", "") for s in ("", "64_")]
    for place in places:
        library = ctypes.CDLL(str(place))
        for name in names:
            if hasattr(library, name % "get") and hasattr(library, name % "set"):
                get, set_ = getattr(library, name % "get"), getattr(library, name % "set")
                get.restype, get.argtypes = ctypes.c_int, []
                set_.restype, set_.argtypes = None, [ctypes.c_int]
                return get, set_
    return None


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread, which is not here, may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
