"""A bar in the output of a notebook's cell that is replaced: plain HTML with its text, through IPython."""

from __future__ import annotations

import html
import sys
from typing import Any


class CellBar:
    """One output; the first `show` makes it."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, title: str, share: float | None, numbers: str) -> None:
        bundle = {"text/plain": f"{title}  {numbers}", "text/html": as_html(title, share, numbers)}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


def as_html(title: str, share: float | None, numbers: str) -> str:
    """
    >>> print(as_html("epoch 1/2", 0.5, "loss 0.3"))
    <div>epoch 1/2 <progress max="1" value="0.500" style="width:8em;vertical-align:middle"></progress>
    <code style="background:none;white-space:pre-wrap">loss 0.3</code></div>
    """
    value = "" if share is None else f' value="{share:.3f}"'
    return (
        f'<div>{html.escape(title)} <progress max="1"{value} style="width:8em;vertical-align:middle">'
        "</progress>\n"
        f'<code style="background:none;white-space:pre-wrap">{html.escape(numbers)}</code></div>'
    )


def is_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter
