"""Docstrings as Markdown: their `>>>` examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a line that begins with >>> to the next empty line, indented or not.
_EXAMPLE = re.compile(r"^( *)(>>> .*?)(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def fenced(text: str) -> str:
    parts, end = [], 0
    for example in _EXAMPLE.finditer(text):
        code = "\n".join(line.removeprefix(example[1]) for line in example[0].splitlines())
        code = code.replace("<BLANKLINE>", "")  # doctest's word for an empty line
        parts += [_prose(text[end : example.start()]), f"\n```pycon\n{code}\n```\n"]
        end = example.end()
    return "".join([*parts, _prose(text[end:])])


def _prose(text: str) -> str:
    return text.replace("][", "]\\[")  # a[i][j] is no link


class Examples(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
