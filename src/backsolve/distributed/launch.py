"""Processes of one run on this machine: started, their lines told apart, ended together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from .bond import OTHERS_DIED

_PATIENCE = 10.0  # seconds for a process to end by itself, and again after SIGTERM
_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class Many:
    """`local` processes here, of `count` in all, the first of them number `first`."""

    local: int
    count: int
    first: int
    coordinator: str

    def __post_init__(self) -> None:
        if self.local < 1 or not 0 <= self.first <= self.count - self.local:
            raise ValueError(
                f"processes {self.first} … {self.first + self.local - 1} do not lie within 0 … {self.count - 1}"
            )


@contextmanager
def free_address() -> Iterator[str]:
    """An address on this machine that nobody else is given meanwhile.

    The port stays bound, and is shared with process 0 alone, which listens at it: JAX's server shares ports on
    Linux. Elsewhere it is let go again, and might be taken before process 0 listens.
    """
    with socket.socket() as held:
        if sys.platform == "linux":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        if sys.platform != "linux":
            held.close()
        yield address


def launch(many: Many, command: Sequence[str]) -> int:
    """Run a script with its arguments in these processes; the exit status of the first that failed, or 0."""
    began = time.monotonic()
    processes: dict[int, subprocess.Popen[str]] = {}
    readers: list[threading.Thread] = []
    asked: list[int] = []

    def forward(number: int, _frame: Any) -> None:
        asked.append(number)
        for p in processes.values():
            if p.poll() is None:
                p.send_signal(number)

    before = {s: signal.signal(s, forward) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        for k in range(many.first, many.first + many.local):
            processes[k] = _start(many, k, command)
            readers.append(_tell(processes[k], k))
        if asked:  # while some were not there yet to hear it
            forward(asked[0], None)
        culprit = _wait(processes)
        if culprit is not None:
            _end(processes, asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for p in processes.values():
            if p.poll() is None:
                p.kill()
        for reader in readers:
            reader.join(timeout=_PATIENCE)
    if asked:
        print(f"backsolve launch: stopped by {signal.Signals(asked[0]).name}", file=sys.stderr)
        return 128 + asked[0]
    if culprit is None:
        return 0
    status = processes[culprit].returncode
    if status == OTHERS_DIED:
        what = "ended because a process elsewhere did (its message is above)"
    else:
        what = described(status)
    seconds = time.monotonic() - began
    others = f"; the other {many.local - 1} here ended with it" if many.local > 1 else ""
    print(
        f"backsolve launch: process {culprit} of {many.count} {what} after {seconds:.0f} s{others}. "
        "The same command again goes on from the last checkpoint, if the script makes any",
        file=sys.stderr,
        flush=True,
    )
    return status if status > 0 else 128 - status


def described(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was ended by {signal.Signals(-status).name}"


def _start(many: Many, index: int, command: Sequence[str]) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "BACKSOLVE_COORDINATOR": many.coordinator,
        "BACKSOLVE_PROCESSES": str(many.count),
        "BACKSOLVE_INDEX": str(index),
        "PYTHONUNBUFFERED": "1",
    }
    if many.local > 1:  # each takes one of this machine's accelerators
        environment["BACKSOLVE_LOCAL_INDEX"] = str(index - many.first)
    return subprocess.Popen(
        [sys.executable, "-m", "backsolve.distributed", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C comes once, from here
    )


def _tell(process: subprocess.Popen[str], index: int) -> threading.Thread:
    def copy(source: IO[str], sink: IO[str]) -> None:
        for line in source:
            sink.write(f"[{index}] {line.rstrip()}\n")
            sink.flush()

    def both() -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        errors = threading.Thread(target=copy, args=(process.stderr, sys.stderr), daemon=True)
        errors.start()
        copy(process.stdout, sys.stdout)
        errors.join()

    reader = threading.Thread(target=both, daemon=True)
    reader.start()
    return reader


def _wait(processes: dict[int, subprocess.Popen[str]]) -> int | None:
    """Until all have ended well, or one has not: its number. Who ends because of others comes last."""
    others_since = None
    while True:
        ended = {k: p.returncode for k, p in processes.items() if p.poll() is not None}
        failed = [k for k, status in ended.items() if status not in (0, OTHERS_DIED)]
        if failed:  # who was killed comes before whoever missed it
            return min(failed, key=lambda k: (ended[k] > 0, k))
        if OTHERS_DIED in ended.values():
            others_since = others_since or time.monotonic()
            if len(ended) == len(processes) or time.monotonic() - others_since > _PATIENCE:
                return next(k for k, status in ended.items() if status == OTHERS_DIED)
        elif len(ended) == len(processes):
            return None
        time.sleep(_BETWEEN_LOOKS)


def _end(processes: dict[int, subprocess.Popen[str]], asked: Sequence[int]) -> None:
    """Let the others end by themselves (they say why), then ask them, then kill them."""
    for ask in (None, signal.SIGTERM, signal.SIGKILL):
        for p in processes.values():
            if ask is not None and p.poll() is None:
                p.send_signal(ask)
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if all(p.poll() is not None for p in processes.values()):
                return
            time.sleep(_BETWEEN_LOOKS)
