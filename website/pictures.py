"""The pictures that a page's own examples make, set below the examples that make them.

A `>>>` block that makes a picture (`bs.show.graph(…)`, a figure of matplotlib) or a page (`bs.show(…)`)
is followed by it. Pages that make none are not run: the tests run them all.
"""

from __future__ import annotations

import doctest
import io
import linecache
import re
import sys
from contextlib import redirect_stdout
from typing import Any

from mkdocs.structure.files import File

_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_MAKES = re.compile(r"bs\.show\b|plt\.|Figure\(")
_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    shown = _SESSION.sub("```pycon\n", _with_pictures(markdown, page, config, files))
    return shown.replace("\n<BLANKLINE>", "\n")  # doctest's word for an empty line


def _with_pictures(markdown: str, page: Any, config: Any, files: Any) -> str:
    if not any(_MAKES.search(block) and ">>>" in block for block in _BLOCK.findall(markdown)):
        return markdown
    runner = _Runner()
    count = 0

    def follow(block: re.Match[str]) -> str:
        nonlocal count
        text = block[0]
        for made in runner.run(block[1]):
            count += 1
            place = f"pictures/{page.file.src_uri.removesuffix('.md')}-{count}.{made.ending}"
            files.append(File.generated(config, place, content=made.content))
            up = "../" * page.file.src_uri.count("/")
            text += "\n" + made.shown(f"{up}{place}") + "\n"
        return text

    return _BLOCK.sub(follow, markdown)


class _Made:
    def __init__(self, ending: str, content: str, title: str):
        self.ending, self.content, self.title = ending, content, title

    @property
    def width(self) -> float:
        """Of an SVG, in pixels."""
        found = re.search(r'<svg[^>]*?\swidth="([\d.]+)(pt)?"', self.content)
        assert found is not None
        return float(found[1]) * (4 / 3 if found[2] else 1)

    def shown(self, place: str) -> str:
        if self.ending == "svg":
            # A wide picture is scrolled before it gets too small to be read.
            least = f"min-width: {0.7 * self.width:.0f}px"
            image = f'![{self.title}]({place}){{ style="{least}" }}'
            return f'<div class="picture" tabindex="0" markdown>\n{image}\n</div>\n'
        return (
            f'<iframe class="explorer" title="{self.title}" src="{place}" loading="lazy"></iframe>\n\n'
            f"[The page alone]({place})\n"
        )


class _Runner:
    """Runs the examples of a page one after another, as doctest would, and catches what they make."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.count = 0
        self.seen: set[int] = set()
        self.kept: list[Any] = []  # so that no identity is used twice

    def run(self, block: str) -> list[_Made]:
        made: list[_Made] = []

        def catch(value: Any) -> None:
            if value is None or id(value) in self.seen:
                return
            found = _made(value)
            if found is not None:
                self.seen.add(id(value))
                self.kept.append(value)
                made.append(found)

        shown = sys.displayhook
        sys.displayhook = catch
        try:
            for example in doctest.DocTestParser().get_examples(block):
                # Loops and writes into arrays are read from the text of a function.
                self.count += 1
                place, lines = f"<page {self.count}>", example.source.splitlines(True)
                linecache.cache[place] = (len(example.source), None, lines, place)
                with redirect_stdout(io.StringIO()):
                    try:
                        exec(compile(example.source, place, "single"), self.names)
                    except Exception:
                        if example.exc_msg is None:
                            raise
                for value in list(self.names.values()):
                    if not _is_figure(value):
                        catch(value)
        finally:
            sys.displayhook = shown
        for value in list(self.names.values()):  # a figure is finished at the end of a block
            catch(value)
        return made


def _is_figure(value: Any) -> bool:
    return type(value).__module__ == "matplotlib.figure"


def _made(value: Any) -> _Made | None:
    from backsolve.show.drawing import Picture
    from backsolve.show.page import Page

    if isinstance(value, Picture):
        return _Made("svg", value.svg, value.drawing.title)
    if isinstance(value, Page):
        return _Made("html", value.html, value.title)
    if _is_figure(value):
        out = io.StringIO()
        value.savefig(out, format="svg", metadata={"Date": None})
        return _Made("svg", out.getvalue(), value.get_suptitle() or "Figure")
    return None
