"""The shell lines of docs/cli.md print what stands below them."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from backsolve.cli import main

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LINES = [
    pytest.param(*line, id=line[0])
    for block in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    for line in COMMAND.findall(block)
]


@pytest.mark.parametrize(("command", "expected"), LINES)
def test_a_line_prints_what_is_said(
    command: str, expected: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = shlex.split(command)
    assert name == "backsolve"
    status = main(arguments)
    out, err = capsys.readouterr()
    is_wrong = expected.startswith("backsolve ") or "\nwrong:" in expected
    assert status == (1 if is_wrong else 0)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    assert checker.check_output(expected, out + err, options), f"{out}{err}"


def test_there_are_lines() -> None:
    assert len(LINES) > 10
