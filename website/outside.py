"""What stands outside docs/ and belongs to the site: the changelog, the examples, pages about the API.

A link out of docs/ (`../examples/vae.py`) leads to the file for who reads the repository, and to a page
with its text for who reads the site.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))  # MkDocs loads hooks by path, and takes this back when it has

import docstrings  # noqa: E402, F401 - at hand for reference
import functions  # noqa: E402, F401
import reference  # noqa: E402

_LINK = re.compile(r"\]\((\.\.?/[^)#\s]*)(#[^)\s]*)?\)")


def _pages() -> dict[str, tuple[str, str]]:
    """Path in the repository: path in the site, and text."""
    found = {
        name: (f"{Path(name).stem.lower()}.md", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("CHANGELOG.md", "CONTRIBUTING.md")
    }
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        text = f"# examples/{path.name}\n\n```python\n{code}```\n"
        found[f"examples/{path.name}"] = (f"examples/{path.stem}.md", text)
    return found


def on_config(config: Any) -> Any:
    """The navigation has the pages of the reference where it says so."""
    (place,) = (entry for entry in config.nav if isinstance(entry, dict) and "Reference" in entry)
    place["Reference"] = ["reference/index.md", *(p for p in reference.paths() if "index" not in p)]
    return config


def on_files(files: Files, config: Any) -> Files:
    for place, text in _pages().values():
        files.append(File.generated(config, place, content=text))
    for place, text in reference.pages().items():
        files.append(File.generated(config, place, content=text))
    for path in sorted((HERE / "assets").iterdir()):
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = PurePosixPath("docs") / page.file.src_uri
    outside = _pages()

    def lead(link: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / link[1])
        if target not in outside:
            return link[0]
        place = os.path.relpath(outside[target][0], PurePosixPath(page.file.src_uri).parent)
        return f"]({place}{link[2] or ''})"

    return _LINK.sub(lead, markdown)
