"""The dashboard of runs that are under way: a server on this machine alone, which the page asks for new lines.

A place in a log is its offset and a checksum of what stands before it. So a log that was cut and written
anew, by a run that went on from a checkpoint or began again, is noticed, and read from its beginning.
"""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..show.page import write_page
from .board import described, shown, title_of
from .log import FILE, parsed

_BEFORE = 256  # bytes that a place is known by
_ASKS = 1.0  # seconds after which a page asks again (web/src/dashboard/live.ts)


class Live:
    """Serves the dashboard of folders, which need not exist yet: `with Live(folders) as live: live.url`."""

    def __init__(self, folders: Sequence[Any], port: int = 0):
        self.folders = [Path(folder) for folder in folders]
        if not self.folders:
            raise ValueError("a dashboard is about at least one folder of a run")

        class Handler(_Handler):
            live = self

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.asked = -math.inf  # when a page last asked for lines
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def page(self) -> str:
        runs = [{**described(folder), "rows": [], "every": {}} for folder in self.folders]
        title = title_of(self.folders)
        return write_page(title, "dashboard", {"title": title, "live": True, "runs": runs})

    def serve(self) -> None:
        """Until Ctrl-C."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()

    def __enter__(self) -> Live:
        self._thread = threading.Thread(target=self.serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if time.monotonic() - self.asked < 3 * _ASKS:
            time.sleep(1.5 * _ASKS)  # the page that looks on sees the end
        self._server.shutdown()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    live: Live

    def do_GET(self) -> None:
        if not self.headers.get("Host", "").startswith(("127.0.0.1", "localhost")):
            self.send_error(403)  # a page from elsewhere, under a name that leads here
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._answer(self.live.page(), "text/html; charset=utf-8")
            return
        query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        run = query.get("run", "")
        if asked.path != "/rows" or not run.isdecimal() or int(run) >= len(self.live.folders):
            self.send_error(404)
            return
        self.live.asked = time.monotonic()
        folder = self.live.folders[int(run)]
        found = {**described(folder), **new_rows(folder / FILE, query.get("at", ""))}
        self._answer(json.dumps(found, allow_nan=False), "application/json")

    def _answer(self, text: str, kind: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def new_rows(path: Path, at: str) -> dict[str, Any]:
    """The whole lines of a log after a place, and the place they end at; `anew`: forget what came before."""
    try:
        with open(path, "rb") as file:
            offset = _offset(at, file)
            file.seek(offset)
            content = file.read()
            end = offset + content.rfind(b"\n") + 1
            place = _place(file, end)
    except FileNotFoundError:
        return {"rows": [], "every": {}, "at": "", "anew": True}
    lines = content[: end - offset].decode("utf-8", "replace").splitlines()
    rows = [row for line in lines if (row := parsed(line)) is not None]
    return {**shown(rows), "at": place, "anew": offset == 0}


def _offset(at: str, file: Any) -> int:
    """Where to read on: at the place, if what stands before it is still there."""
    number = at.partition("-")[0]
    if number.isdecimal() and int(number) and _place(file, int(number)) == at:
        return int(number)
    return 0


def _place(file: Any, offset: int) -> str:
    begin = max(0, offset - _BEFORE)
    file.seek(begin)
    return f"{offset}-{zlib.crc32(file.read(offset - begin)):08x}"
