"""What a function of SciPy's that is at work wants of a Tensor, and what to write instead of it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from .errors import is_users

_OF_SCIPY = {
    f"scipy.{part}" for part in ("integrate", "linalg", "signal", "special")
}  # in bs.scipy too
_REFUSALS = (  # of SciPy's minimisers
    "objective function must return a scalar",
    "callable must be of the form f(func, iterable), returning a sequence of numbers",
)


def through_scipy() -> str:
    """A sentence about the function of SciPy's that the user has called, if one is at work."""
    found = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        package = ".".join(module_of(frame).split(".")[:2])
        if package.startswith("scipy."):
            name = frame.f_code.co_name
            public = not name.startswith("_") and hasattr(sys.modules.get(package), name)
            found = f"{package}.{name}" if public else found or package
        frame = frame.f_back
    return _instead(found) if found else ""


def _instead(found: str) -> str:
    """What to write for a function of SciPy's, or for one of a package of its that is not known by name."""
    package, name = found.rsplit(".", 1) if found.count(".") > 1 else (found, "")
    own: Any = sys.modules[
        __package__
    ]  # by name: it stands above, and is all there when something fails
    for part in found.split("."):
        own = getattr(own, part, None)
    if package in _OF_SCIPY and name and own is not getattr(sys.modules[package], name):
        return f". {found} takes plain arrays: write bs.{found}"
    if package == "scipy.optimize":
        return f". {found} takes plain arrays: bs.root, bs.argmin and bs.implicit have derivatives"
    if package == "scipy.sparse":
        return (
            f". {found} takes plain arrays: of sparse matrices, A @ x, x @ A and, where their "
            "numbers vary, A.toarray() have derivatives"
        )
    if package == "scipy._lib":  # which all packages use
        found = "This function of SciPy's"
    unnamed = not name and package in (*_OF_SCIPY, "scipy._lib")
    more = "see whether bs.scipy has it, or " if unnamed else ""
    return (
        f". {found} takes plain arrays: {more}write it in functions of NumPy's and scipy.special's, or "
        "give it a derivative of its own by bs.Function"
    )


def for_sparse_product() -> bool:
    """Whether a sparse matrix of SciPy's, to be multiplied, asks for an array."""
    asking = sys._getframe(2)
    by_name = asking.f_code.co_name in ("_matmul_dispatch", "_mul_dispatch")
    return by_name and module_of(asking).startswith("scipy.sparse")


def for_objective() -> bool:
    """Whether SciPy asks for the number of an objective function, and takes our error for a missing one."""
    asking: FrameType | None = sys._getframe(2)
    while asking is not None and module_of(asking).startswith("numpy"):
        asking = asking.f_back
    if asking is None or not module_of(asking).startswith("scipy."):
        return False
    texts = [text for text in asking.f_code.co_consts if isinstance(text, str)]
    return any(refusal in text for refusal in _REFUSALS for text in texts)


def module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))
