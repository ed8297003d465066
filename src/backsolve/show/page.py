"""One self-contained page: the scene as JSON, and the code and style that draw it. It opens from disk."""

from __future__ import annotations

import base64
import html
import json
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

_FRAME = 640  # the height of a page inside of a notebook


@cache
def _static(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def write_page(title: str, kind: str, data: Any) -> str:
    """The text of a page that shows `data` by static/{kind}.js."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # Inside of a script element, "</" would end it, whatever string it stands in.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{html.escape(title)} · Backsolve</title>\n'
        f"<style>{_static(f'{kind}.css')}</style>\n</head>\n<body>\n"
        f'<div id="page"></div>\n<script type="application/json" id="scene">{safe}</script>\n'
        f"<script>{_static(f'{kind}.js')}</script>\n</body>\n</html>\n"
    )


class Page:
    """What `bs.show` gives: a file on disk, and in a notebook the page itself."""

    def __init__(self, title: str, text: str, about: str, path: Any = None):
        self.title, self.html, self._about = title, text, about
        self.path = self.save(path) if path is not None else None

    def save(self, path: Any) -> Path:
        """Write the page to a file; the file's path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html, encoding="utf-8")
        self.path = target
        return target

    def open(self) -> Page:
        """Show it in the browser; False is no error: there may be no screen."""
        import webbrowser

        if self.path is None:
            self.save(Path(tempfile.mkdtemp(prefix="backsolve-")) / f"{self.title}.html")
        assert self.path is not None
        webbrowser.open(self.path.resolve().as_uri())
        return self

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.html.encode()).decode()
        return (
            f'<iframe title="{html.escape(self.title)}" style="width:100%;height:{_FRAME}px;border:0" '
            f'src="data:text/html;base64,{data}"></iframe>'
        )

    def __repr__(self) -> str:
        where = f", {self.path}" if self.path is not None else ""
        return f"<Page {self.title}: {self._about}{where}>"
