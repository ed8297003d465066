"""Layers without parameters: functions of `nn.functional` with their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from ..module import Module


class Applied(Module):
    """A function of nn.functional; the fields are its keyword arguments."""

    function: ClassVar[Callable[..., Any]]

    def __call__(self, *inputs: Any) -> Any:
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return type(self).function(*inputs, **settings)
