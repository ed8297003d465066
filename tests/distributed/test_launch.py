"""`backsolve launch`: lines, exit status, Ctrl-C; and what remains of a run that loses a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from backsolve.cli import main
from backsolve.distributed import bond as bonds
from backsolve.distributed import place, start
from backsolve.distributed.bond import Bond
from backsolve.distributed.launch import Many, described, free_address

SCRIPT = str(Path(__file__).parent / "member.py")
LONGEST = 240  # seconds, on the slowest machine
HEARD = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
from backsolve.cli import main
sys.exit(main())"""


def launched(*words: str, count: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backsolve", "launch", "-n", str(count), SCRIPT, *words]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST, env=environment, check=False
    )


def test_lines_and_arguments() -> None:
    ended = launched("arguments", "--epochs", "3", "-n", "7")
    assert ended.returncode == 0, ended.stderr
    lines = sorted(ended.stdout.splitlines())
    assert lines == [f"[{k}] of 2 given ['--epochs', '3', '-n', '7']" for k in range(2)]
    assert sorted(ended.stderr.splitlines()) == ["[0] a warning", "[1] a warning"]


def test_ctrl_c_reaches_all() -> None:
    command = [sys.executable, "-c", HEARD, "launch", "-n", "2", SCRIPT, "ctrl-c"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    ready = {process.stdout.readline() for _ in range(2)}
    assert ready == {"[0] ready\n", "[1] ready\n"}
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=LONGEST)
    assert sorted(rest.splitlines()) == ["[0] interrupted", "[1] interrupted"]
    assert "stopped by SIGINT" in errors
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("how", "status", "told", "last"),
    [
        ("killed", 137, "process 1 died; process 0 of 2 ends", "1 of 2 was ended by SIGKILL"),
        (
            "raises",
            1,
            "process 1 failed: ValueError: no more numbers;",
            "1 of 2 ended with exit status 1",
        ),
        ("exits", 3, "process 1 failed: ended by sys.exit(3);", "1 of 2 ended with exit status 3"),
    ],
)
def test_one_process_is_lost(how: str, status: int, told: str, last: str) -> None:
    """The other, inside of a collective, says which one was lost; the last line says how."""
    ended = launched(how, "1")
    lines = ended.stderr.splitlines()
    assert ended.returncode == status, ended.stderr
    assert any(line.startswith(f"[0] backsolve: {told}") for line in lines), ended.stderr
    assert lines[-1].startswith(f"backsolve launch: process {last}"), ended.stderr
    if how == "raises":
        assert "[1] ValueError: no more numbers" in lines
        assert "runpy" not in ended.stderr


def test_the_first_process_is_lost() -> None:
    """It is the one that the others know each other by."""
    ended = launched("killed", "0", count=3)
    assert ended.returncode == 137, ended.stderr
    assert "backsolve launch: process 0 of 3 was ended by SIGKILL" in ended.stderr


def test_the_first_process_is_gone_before_it_is_reached() -> None:
    heard: list[str] = []
    bond = Bond(1, heard.append)
    with socket.socket() as silent:  # bound, so that nobody else comes to listen there
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        bond.join("127.0.0.1", port)
    assert bond.broken.is_set()
    assert heard[0].startswith(f"process 0 died before it could be reached at 127.0.0.1:{port}")


def test_who_failed_is_not_told_of_those_who_end_with_it() -> None:
    """They may be gone before it is: its own exit status tells what happened."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        bond = Bond(1, heard.append)
        bond.join("127.0.0.1", server.getsockname()[1])
        first, _ = server.accept()
        bond.fail("no more numbers")
        first.close()
        bond._thread.join(timeout=LONGEST)
        bond._mine.close()
    assert not heard
    assert not bond.broken.is_set()


@pytest.mark.parametrize("lost", [0, 2])
def test_the_first_process_ends_after_those_whom_it_tells(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who misses it before its message is read would be aborted by XLA, without a word of ours."""
    monkeypatch.setattr(bonds, "_PATIENCE", LONGEST)
    ended: list[str] = []
    bond = Bond(0, lambda _: ended.append("0"))
    port = bond.listen("127.0.0.1", 3)
    first, second = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
    first.sendall(b"hello 1\n")
    second.sendall(b"hello 2\n")
    while sorted(list(bond._peers.values())) != [0, 1, 2]:
        time.sleep(0.001)
    lose = second.close if lost else lambda: (bond.fail("no numbers"), ended.append("0"))
    losing = threading.Thread(target=lose)
    losing.start()
    assert first.recv(4096).startswith(f"ended process {lost} ".encode())
    ended.append("1")
    first.close()
    second.close()
    for thread in (losing, bond._thread):
        thread.join(timeout=LONGEST)
    for end in (bond._server, bond._mine, *bond._peers):
        end.close()
    assert ended == ["1", "0"]


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held where JAX's server shares them")
def test_the_address_of_a_run_is_nobody_elses() -> None:
    with free_address() as address:
        host, port = address.split(":")
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        with socket.socket() as first:  # as JAX's server does it
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            first.bind((host, int(port)))
            first.listen()
            socket.create_connection((host, int(port)), timeout=5).close()


def test_alone_there_is_nothing_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert start() == place()
    assert (place().index, place().count, place().is_first) == (0, 1, True)
    with pytest.raises(ValueError, match="there is no processes and no index"):
        start("here:1234")
    with pytest.raises(ValueError, match='"host:port"'):
        start("here", 2, 0)
    with pytest.raises(ValueError, match=r"index=2 must be one of 0 … 1"):
        start("here:1234", 2, 2)
    monkeypatch.setenv("BACKSOLVE_INDEX", "first")
    with pytest.raises(ValueError, match="BACKSOLVE_INDEX='first'"):
        start()


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "2", "nowhere.py"]) == 1
    assert "there is no script nowhere.py" in capsys.readouterr().err
    assert main(["launch", "--index", "2", SCRIPT]) == 1
    assert "--coordinator, --processes and --index" in capsys.readouterr().err
    assert main(["launch", "-n", "0", SCRIPT]) == 1
    with pytest.raises(ValueError, match=r"processes 3 … 4 do not lie within 0 … 3"):
        Many(2, 4, 3, "here:1")
    assert described(-9) == "was ended by SIGKILL"
    assert described(2) == "ended with exit status 2"
