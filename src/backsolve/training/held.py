"""Whether the process that writes a log is still there.

It holds a lock on the file, and the system takes that away however a process ends. Locks are seen on the
machine where they are held, so a log says which one that is; elsewhere, only the age of its last line tells.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]  # the module, or its absence


_TRIES, _PAUSE = 100, 0.01


def hold(file: IO[Any]) -> str | None:
    """Lock a file while it is open here; the name of this machine, None where that cannot be done."""
    if fcntl is None:
        return None
    for _ in range(_TRIES):  # whoever looks has it, and is at once done
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:
            return None
        else:
            return socket.gethostname()
    return None


def news(path: Path) -> dict[str, Any] | None:
    """Whether a process of this `host` has a log `held` (None: unknown), and the `age` of its last line."""
    try:
        with open(path, "rb") as file:
            age = time.time() - path.stat().st_mtime
            return {
                "held": _is_held(file),
                "age": round(max(age, 0.0), 1),
                "host": socket.gethostname(),
            }
    except FileNotFoundError:
        return None


def _is_held(file: IO[Any]) -> bool | None:
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # freed as the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
