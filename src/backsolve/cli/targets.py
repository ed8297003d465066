"""`module:function` and `path/to/file.py:function`: the user's function, loaded."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import location_of
from .names import functions


def load_function(target: str) -> Callable[..., Any]:
    """The function; what is wrong with `target` is a ValueError that says what to write instead."""
    place, colon, name = target.rpartition(":")
    if not colon or not place:
        raise ValueError(
            f"{target!r} names no function: write module:function or path/to/file.py:function"
            f"{_listed(target)}"
        )
    found: Any = _load(place)
    for part in (name or "?").split("."):
        if not hasattr(found, part):
            raise ValueError(f"{place} has no function {name!r}{_instead(part, _callables(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{target} is a {type(found).__name__}, not a function")
    return found


def near(name: str, names: Iterable[str]) -> str:
    """ " (did you mean 'loss'?)" if some name is near."""
    found = difflib.get_close_matches(name, list(names), 1, 0.5)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _load(place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if place.endswith(".py") or "/" in place or "\\" in place:
            return _load_file(Path(place).expanduser())
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        wanted = error.name or ""
        if place != wanted and not place.startswith(wanted + "."):
            raise ValueError(
                f"{place} imports {wanted!r}, which is not installed\n    at {location_of(error)}"
            ) from error
        modules = [p.stem for p in Path.cwd().glob("*.py")]
        raise ValueError(
            f"there is no module {wanted!r} in {here} or among the installed ones{near(wanted, modules)};"
            " a file elsewhere is named by its path: path/to/file.py:function"
        ) from error
    except SystemExit as error:
        raise ValueError(
            f"{place} ends the process when it is imported; put what runs it under "
            'if __name__ == "__main__":'
        ) from error
    except (FileNotFoundError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise ValueError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ValueError(
            f"importing {place} raised {type(error).__name__}: {error}\n    at {location_of(error)}"
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        parent = path.parent
        files = [p.name for p in parent.glob("*.py")] if parent.is_dir() else []
        raise FileNotFoundError(f"there is no file {path}{near(path.name, files)}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"{path.stem} of {folder}"  # no other module has such a name
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _callables(owner: Any) -> list[str]:
    own = getattr(owner, "__name__", None)
    return [
        name
        for name, value in vars(owner).items()
        if callable(value)
        and not name.startswith("_")
        and not isinstance(value, type)
        and getattr(value, "__module__", own) == own
    ]


def _instead(name: str, names: list[str]) -> str:
    guess = near(name, names)
    if guess or not names:
        return guess or ", nor any other"
    return f"; it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"


def _listed(target: str) -> str:
    path = Path(target) if target.endswith(".py") else Path(target.replace(".", "/") + ".py")
    names = functions(str(path))
    return f", such as {target}:{names[0]}" if names else ""
