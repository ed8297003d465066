"""The staging core, loaded when the first branch or loop is staged."""

from __future__ import annotations

import importlib
from typing import Any


def cond(*args: Any) -> Any:
    return _core().cond(*args)


def while_loop(*args: Any) -> Any:
    return _core().while_loop(*args)


def fori_loop(*args: Any, **options: Any) -> Any:
    return _core().fori_loop(*args, **options)


def _core() -> Any:
    return importlib.import_module("backsolve.control")
