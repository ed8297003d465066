"""Completion scripts in real shells; a shell that is not installed is skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from backsolve.cli import main, make_parser
from backsolve.cli.completion import commands_of
from backsolve.cli.names import functions, targets

COMMANDS = {
    *("explore", "explain", "check", "bench", "export"),
    *("train", "predict", "show", "dashboard", "launch", "completion"),
}
CASES = [
    ("", COMMANDS),
    ("ch", {"check"}),
    ("check --mo", {"--mode"}),
    ("check --mode f", {"forward"}),
    ("explain model.py:loss --what r", {"rounding"}),
    ("train --model ", {"linear", "mlp", "cnn"}),
    ("completion z", {"zsh"}),
    ("check model.py:lo", {"model.py:loss"}),
    ("check model:", {"model:loss", "model:wave", "model:steps"}),
    ("explore mod", {"model:", "model.py:"}),
    ("check model:loss --args w", {"weights.npy"}),
    ("show ru", {"runs"}),
]
BASH = """
source ./script
COMP_LINE="backsolve $1"; COMP_POINT=${#COMP_LINE}
_backsolve
typed="${COMP_LINE##* }"; head=""
[[ "$typed" == *:* ]] && head="${typed%:*}:"
printf '%s\\n' "${COMPREPLY[@]/#/$head}"
"""
# The completion system of zsh works inside of its line editor only: what it would be told is printed instead.
ZSH = """
compdef() { : }
compadd() { while [[ "$1" != -- ]]; do shift; done; shift; print -rl -- "$@" }
_files() { print -rl -- *(N) }
source ./script
line="backsolve $1"
words=(${=line}); [[ "$line" == *' ' ]] && words+=('')
CURRENT=$#words
_backsolve
"""
FISH = "source ./script; complete -C 'backsolve '$argv[1]"
RUN = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", FISH],
}


@pytest.fixture(params=list(RUN))
def shell(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def test_scripts_complete_in_their_shells(
    shell: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "weights.npy").touch()
    (folder / "runs").mkdir()
    assert main(["completion", shell]) == 0
    (folder / "script").write_text(capsys.readouterr().out, encoding="utf-8")
    for line, expected in CASES:
        run = subprocess.run(
            [*RUN[shell], line], capture_output=True, text=True, cwd=folder, check=False
        )
        assert run.stderr == "", line
        start = line.rpartition(" ")[2]
        offered = {text.partition("\t")[0].rstrip("/") for text in run.stdout.splitlines()}
        found = {word for word in offered if word.startswith(start) and not word.startswith("-")}
        if start.startswith("-"):
            found = {word for word in offered if word.startswith(start)}
        assert found == expected, line


def test_every_option_of_every_command_is_known() -> None:
    commands = {c.name: c for c in commands_of(make_parser())}
    assert set(commands) == COMMANDS
    mode = next(o for o in commands["check"].options if "--mode" in o.flags)
    assert (mode.takes, mode.values) == ("values", ("forward", "reverse", "both"))
    assert {c.name for c in commands.values() if c.positional and c.positional.takes == "functions"} == {
        *("explore", "explain", "check", "bench", "export")
    }  # fmt: skip


def test_names_are_read_without_running_the_file(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("def inside(x): ...\n")
    (folder / "pack" / "part.py").write_text(
        "raise SystemExit(3)\ndef f(x): ...\ng = lambda x: x\ndef _hidden(): ...\nclass C: ...\n"
    )
    (folder / "broken.py").write_text("def f(:\n")
    assert functions(str(folder / "pack" / "part.py")) == ["f", "g"]
    assert targets("pack.part:") == ["pack.part:f", "pack.part:g"]
    assert targets("pack:i") == ["pack:inside"]
    assert targets("pack/p") == ["pack/part.py:"]
    assert targets("pa") == ["pack/"]
    assert targets("broken.py:") == []
    assert targets("gone:") == []
    assert targets("no/where") == []
