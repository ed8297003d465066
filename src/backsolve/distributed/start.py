"""The start of one process of many, over JAX's runtime.

Who starts the processes says where process 0 listens, how many there are and which one this is: by arguments,
or by BACKSOLVE_COORDINATOR, BACKSOLVE_PROCESSES and BACKSOLVE_INDEX, as `backsolve launch` does.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.xla.library import jax
from .bond import tie

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_LONGEST_START = 300  # seconds to wait for the other processes


@dataclass(frozen=True)
class Place:
    """Which process of how many this is."""

    index: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, which shows, logs and writes."""
        return self.index == 0


_place = [Place()]


def place() -> Place:
    """Which process of how many this is, as `start` found it.

    >>> place()
    Place(index=0, count=1)
    """
    return _place[0]


def start(
    coordinator: str | None = None, processes: int | None = None, index: int | None = None
) -> Place:
    """Make this process one of many; all of them call it, before anything else that uses XLA.

    `coordinator` is "host:port" of process 0. What is not given is taken from the environment, where
    `backsolve launch` puts it; where there is nothing, this process is the only one, so that a script with
    `start()` runs by itself, too.

    From here on `jax.devices()`, and with it `bs.mesh`, has the devices of all processes. If one of them dies,
    all end within moments, with a message that names it.
    """
    given: dict[str, Any] = {
        "coordinator": coordinator or os.environ.get("BACKSOLVE_COORDINATOR"),
        "processes": processes if processes is not None else _number("BACKSOLVE_PROCESSES"),
        "index": index if index is not None else _number("BACKSOLVE_INDEX"),
    }
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        return place()
    if missing:
        raise ValueError(
            "one process of many needs coordinator, processes and index; "
            f"there is no {' and no '.join(missing)}: give it to start(), or take `backsolve launch`"
        )
    return _start(str(given["coordinator"]), int(given["processes"]), int(given["index"]))


def _start(coordinator: str, count: int, index: int) -> Place:
    host, colon, port = coordinator.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f'the coordinator is "host:port" of process 0, got {coordinator!r}')
    if not 0 <= index < count:
        raise ValueError(
            f"index={index} must be one of 0 … {count - 1}: there are {count} processes"
        )
    if place().count > 1:
        raise RuntimeError("start() was called before in this process: once is enough")
    if count == 1:
        return place()
    leave: list[Any] = []
    atexit.register(lambda: [f() for f in leave])  # after JAX's own, which waits for the others
    jax().config.update("jax_cpu_collectives_implementation", "gloo")
    local = _number("BACKSOLVE_LOCAL_INDEX")
    try:
        jax().distributed.initialize(
            coordinator,
            count,
            index,
            local_device_ids=local,
            cluster_detection_method="deactivate",
            coordinator_bind_address=coordinator if host in _LOCAL else None,
            initialization_timeout=_LONGEST_START,
        )
    except RuntimeError as error:
        if "must be called before" in str(error):
            raise RuntimeError(
                "start() comes first: something has used XLA's devices before it in this process"
            ) from error
        raise
    bond = tie(index, count, host, _from_first)
    leave.append(bond.leave)
    _place[0] = Place(index, count)
    return place()


def _from_first(number: int) -> int:
    from jax.experimental import multihost_utils

    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def _number(name: str) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise ValueError(f"{name}={text!r} in the environment must be a number")
    return int(text)
