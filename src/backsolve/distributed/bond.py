"""The bond between processes: if one dies, all end, at once, and say which one it was.

Each process holds a connection to process 0, which the system closes when a process dies, however it does. A
connection that ends without a farewell is a death; process 0 then tells all others. Collectives would wait for
minutes instead.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

OTHERS_DIED = 75  # the exit status of a process that ends because another one did
_PATIENCE = (
    5.0  # seconds in which the bond tells why a collective failed, and those who are told end
)


class Bond:
    """`hear` is called with a text, on a thread of its own, when another process has died."""

    def __init__(self, index: int, hear: Callable[[str], Any]):
        self.index, self.hear = index, hear
        self.broken = threading.Event()
        self._failed = False

    def listen(self, host: str, count: int) -> int:
        """Process 0: wait for the others at a port, which they must be told."""
        self._server = socket.create_server((host, 0))
        self._peers: dict[socket.socket, int] = {}
        self._gone: set[int] = set()
        self._mine, theirs = socket.socketpair()  # its own failures take the same way
        self._peers[theirs] = 0
        self._run(lambda: self._watch(count))
        port: int = self._server.getsockname()[1]
        return port

    def join(self, host: str, port: int) -> None:
        """All others: connect to process 0."""
        try:
            self._mine = socket.create_connection((host, port), timeout=60)
        except OSError as error:
            self._broken_by(f"process 0 died before it could be reached at {host}:{port} ({error})")
            return
        self._mine.settimeout(None)
        self._say(f"hello {self.index}")
        self._run(self._follow)

    def fail(self, text: str) -> None:
        """Tell the others that this process fails: that they end with it is no news to it."""
        self._failed = True
        self._say(f"failed {text}")
        if self.index == 0:
            self._thread.join(timeout=_PATIENCE)  # until the others have heard it

    def leave(self) -> None:
        """A farewell: this process has ended well."""
        self._say("done")
        if self.index == 0:
            self._thread.join(timeout=1)  # all have left, or will find the farewell in their mail

    # ---- how

    def _run(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, daemon=True, name="backsolve bond")
        self._thread.start()

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._mine.sendall((text.replace("\n", " ")[:2000] + "\n").encode())

    def _watch(self, count: int) -> None:
        """Process 0: take connections and messages until somebody dies or all have left."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            for peer in self._peers:
                selector.register(peer, selectors.EVENT_READ, peer)
            while len(self._gone) < count:
                for key, _ in selector.select():
                    if key.fileobj is self._server:
                        peer = self._server.accept()[0]
                        self._peers[peer] = -1
                        selector.register(peer, selectors.EVENT_READ, peer)
                        continue
                    peer = key.data
                    verdict = self._read(peer)
                    if verdict is not None:
                        self._end_all(verdict, besides=peer)
                        return
                    if peer not in self._peers:
                        selector.unregister(peer)

    def _read(self, peer: socket.socket) -> str | None:
        """What happened to the process at the other end, if it is bad."""
        try:
            given = peer.recv(4096).decode(errors="replace")
        except OSError:
            given = ""
        for line in given.splitlines():
            word, _, text = line.partition(" ")
            if word == "hello":
                self._peers[peer] = int(text)
            elif word == "failed":
                return f"process {self._peers[peer]} failed: {text}"
            elif word == "done":
                self._gone.add(self._peers[peer])
                if self._peers[peer] == 0:
                    self._tell("bye")
        if given:
            return None
        index = self._peers.pop(peer)
        peer.close()
        return None if index in self._gone or index < 0 else f"process {index} died"

    def _tell(self, text: str, besides: socket.socket | None = None) -> None:
        for peer, index in self._peers.items():
            if peer is not besides and index > 0:
                with contextlib.suppress(OSError):
                    peer.sendall((text + "\n").encode())

    def _end_all(self, verdict: str, besides: socket.socket) -> None:
        """Process 0 goes last: XLA aborts whoever misses it before its message is read."""
        if not self._failed:
            self.broken.set()
        self._tell(f"ended {verdict}", besides)
        until = time.monotonic() + _PATIENCE
        for peer, index in self._peers.items():
            if peer is not besides and index > 0:
                _wait_for_end(peer, until)
        self._broken_by(verdict)

    def _follow(self) -> None:
        """All others: wait for what process 0 has to tell."""
        while True:
            try:
                given = self._mine.recv(4096).decode(errors="replace")
            except OSError:
                given = ""
            for line in given.splitlines():
                word, _, text = line.partition(" ")
                if word == "bye":
                    return
                if word == "ended":
                    self._broken_by(text)
                    return
            if not given:
                self._broken_by("process 0 died")
                return

    def _broken_by(self, verdict: str) -> None:
        if self._failed:
            return
        self.broken.set()
        self.hear(verdict)


def _wait_for_end(peer: socket.socket, until: float) -> None:
    """Until the process at the other end is gone, or it is `until` o'clock."""
    with contextlib.suppress(OSError):
        while (left := until - time.monotonic()) > 0:
            peer.settimeout(left)
            if not peer.recv(4096):
                return


_bond: list[Bond] = []


def tie(index: int, count: int, host: str, broadcast: Callable[[int], int]) -> Bond:
    """Tie this process to the others; `broadcast` gives all of them the number that process 0 has."""
    bond = Bond(index, lambda verdict: end_with_others(index, count, verdict))
    port = broadcast(bond.listen(host, count) if index == 0 else 0)
    if index:
        bond.join(host, port)
    _bond.append(bond)
    before = sys.excepthook

    def failing(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> Any:
        if _is_of_collectives(error):
            bond.broken.wait(_PATIENCE)  # another process died: that is the message, not this error
        if bond.broken.is_set():
            threading.Event().wait()  # until the bond ends this process
        before(kind, error, trace)
        tell_failure(f"{kind.__name__}: {error}", 1)

    sys.excepthook = failing
    return bond


def end_with_others(index: int, count: int, verdict: str) -> NoReturn:
    sys.stderr.write(  # at once with its end of line: XLA's threads write there, too
        f"backsolve: {verdict}; process {index} of {count} ends with it. Start all of them again: with a "
        "checkpoint the run goes on where it was last saved\n"
    )
    _end(OTHERS_DIED)


def tell_failure(text: str, status: int) -> None:
    """End this process, and so the others, if it is tied to any: without waiting for them at the exit."""
    if _bond:
        _bond[0].fail(text)
        _end(status)


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def _is_of_collectives(error: BaseException) -> bool:
    """Whether an error may come of a peer that is gone: XLA's own kind, or what tells of the transport."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return "JaxRuntimeError" in names or "Gloo" in str(error) or "NCCL" in str(error)
