"""Compiled code on disk, for the next process: a file each, in a folder that only its user can write.

    BACKSOLVE_CACHE_DIR    another folder; empty: nothing is kept

A file is its content behind a hash of them and of its name, keyed by a secret that lies in the
folder. What does not fit its hash (cut short, damaged, brought from elsewhere) is not loaded; a folder or a
secret that belongs to another user, or that others can write, is not used at all. Where there is no such
folder, the code is built again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import sys
import tempfile
from pathlib import Path

LIMIT = 256 << 20  # bytes of all files; the least recently used ones go first
SWEEP = 64  # files written between two looks at their size
_HASH = 32
CODE = ".object"


def folder() -> Path | None:
    """Where this user's files go, or None."""
    chosen = os.environ.get("BACKSOLVE_CACHE_DIR")
    if chosen is not None:
        return Path(chosen).absolute() if chosen else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):
            base = os.path.expanduser("~/.cache")
    return Path(base) / "backsolve" if os.path.isabs(base) else None


class Disk:
    """The files of one folder."""

    def __init__(self, path: Path):
        self.path = path
        self.writes = 0
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_unless_ours(path.stat(), 0o022, path)
        self.secret = self._secret()

    def _secret(self) -> bytes:
        path = self.path / "secret"
        if not path.exists():
            self._write(path, secrets.token_bytes(_HASH), replace=False)
        found = _read_ours(path)
        if len(found) != _HASH:  # damaged: with a new one, all files are built again
            self._write(path, secrets.token_bytes(_HASH))
            found = _read_ours(path)
        return found

    def read(self, key: str, suffix: str = CODE) -> bytes | None:
        path = self.path / (key + suffix)
        try:
            content = path.read_bytes()
            os.utime(path)  # used just now: among the last to go
        except OSError:
            return None
        seal, payload = content[:_HASH], content[_HASH:]
        return payload if hmac.compare_digest(seal, self._seal(key + suffix, payload)) else None

    def write(self, key: str, payload: bytes, suffix: str = CODE) -> None:
        try:
            path = self.path / (key + suffix)
            self._write(path, self._seal(key + suffix, payload) + payload)
            if self.writes % SWEEP == 0:
                self._sweep()
            self.writes += 1
        except OSError:  # full, or read-only by now
            return

    def _seal(self, name: str, payload: bytes) -> bytes:
        return hmac.digest(self.secret, name.encode() + b"\0" + payload, hashlib.sha256)

    def _write(self, path: Path, content: bytes, replace: bool = True) -> None:
        """All of it or nothing: others only ever see whole files. mkstemp's files are the user's alone."""
        handle, name = tempfile.mkstemp(dir=self.path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            if replace:
                os.replace(name, path)
            elif not path.exists():
                _link(name, path)
        finally:
            Path(name).unlink(missing_ok=True)

    def _sweep(self) -> None:
        found = []
        for path in self.path.glob("*.*"):
            try:
                status = path.stat()
            except OSError:  # another process was faster
                continue
            found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= LIMIT:
                break
            path.unlink(missing_ok=True)
            total -= size


def _link(name: str, path: Path) -> None:
    """Give a finished file its name unless another process has just given it to one of its own."""
    try:
        os.link(name, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        os.replace(name, path)


def _read_ours(path: Path) -> bytes:
    with path.open("rb") as file:
        _refuse_unless_ours(os.fstat(file.fileno()), 0o077, path)
        return file.read()


def _refuse_unless_ours(status: os.stat_result, forbidden: int, path: Path) -> None:
    if sys.platform == "win32":
        return  # its profile folders are closed to other users
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & forbidden:
        raise PermissionError(f"{path} belongs to another user, or others can write it")


_open: dict[Path, Disk | None] = {}


def disk() -> Disk | None:
    """The folder at this moment, or None where there is none that can be trusted."""
    path = folder()
    if path is None:
        return None
    if path not in _open:
        try:
            _open[path] = Disk(path)
        except OSError:
            _open[path] = None
    return _open[path]
