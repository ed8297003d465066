"""backsolve completion: a script for bash, zsh or fish that completes commands, options, files and functions.

It is written from the parsers themselves. Names of functions come from names.py, which reads files and runs
nothing.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import names
from .datasets import BUNDLED
from .explain import PARTS

HELP = "print a script that completes commands in your shell"
ABOUT = """\
Print a script for your shell; it completes commands, options, their values, files, and module:function.

  bash   eval "$(backsolve completion bash)"           in ~/.bashrc
  zsh    eval "$(backsolve completion zsh)"            in ~/.zshrc, below compinit
  fish   backsolve completion fish > ~/.config/fish/completions/backsolve.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="which shell")


def run(options: argparse.Namespace) -> int:
    from . import make_parser

    commands = commands_of(make_parser())
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](commands), end="")
    return 0


# ---- what can be completed

_VALUES = {"--what": (*PARTS, "all"), "--data": BUNDLED}  # beside choices of the parsers
_TAKES_FILES = ("--args", "--data")


@dataclass(frozen=True)
class Slot:
    """An option or a positional argument: what its value may be."""

    flags: tuple[str, ...]
    help: str
    takes: str  # "nothing", "values", "files", "functions" or "anything"
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    options: tuple[Slot, ...]
    positional: Slot | None


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    (choices,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    about = {a.dest: a.help or "" for a in choices._choices_actions}
    found = []
    for name, command in choices.choices.items():
        slots = [_slot(action) for action in command._actions]
        options = tuple([s for s in slots if s.flags])
        found.append(
            Command(name, about[name], options, next((s for s in slots if not s.flags), None))
        )
    return found


def _slot(action: argparse.Action) -> Slot:
    flags = tuple(action.option_strings)
    text = (action.help or "") % {"default": action.default}
    values = tuple(map(str, action.choices or _VALUES.get(flags[-1] if flags else "", ())))
    if action.nargs == 0:
        takes = "nothing"
    elif action.dest == "function":
        takes = "functions"
    elif action.type is Path or set(flags) & set(_TAKES_FILES):
        takes = "files"
    else:
        takes = "values" if values else "anything"
    return Slot(flags, text, takes, values)


def _reader() -> str:
    """The command that lists functions; `-I`: nothing of the folder it is called in is imported."""
    return f"{shlex.quote(sys.executable)} -I {shlex.quote(str(Path(names.__file__).resolve()))}"


# ---- bash and zsh: one case for what stands before the cursor


def _cases(commands: Iterable[Command]) -> list[str]:
    """Sets `kind` and `values` from `command`, `previous` and `current`."""
    lines = ['    case "$command" in']
    for c in commands:
        lines += [f"    {c.name})", '        case "$previous" in']
        for o in c.options:
            if o.takes != "nothing":
                flags = "|".join(o.flags)
                lines.append(
                    f"        {flags}) kind={o.takes}; values={shlex.quote(' '.join(o.values))};;"
                )
        first = c.positional
        kind, values = (first.takes, first.values) if first else ("anything", ())
        lines += [
            f"        *) kind={kind}; values={shlex.quote(' '.join(values))};;",
            "        esac",
            '        if [[ "$current" == -* ]]; then',
            f"            kind=values; values={shlex.quote(' '.join(_flags(c)))}",
            "        fi;;",
        ]
    every = " ".join([c.name for c in commands])
    lines += [
        f"    *) kind=values; values={shlex.quote(f'{every} --help --version')};;",
        "    esac",
    ]
    return lines


def _flags(command: Command) -> list[str]:
    return [flag for option in command.options for flag in option.flags if flag.startswith("--")]


def _bash(commands: Sequence[Command]) -> str:
    return "\n".join(
        [
            "# Completion of backsolve for bash.",
            "_backsolve() {",
            '    local line="${COMP_LINE:0:COMP_POINT}" current="" previous="" command="" kind values place',
            '    local -a typed; read -ra typed <<< "$line"',
            '    if [[ "$line" != *[[:space:]] ]]; then',
            '        current="${typed[${#typed[@]}-1]}"; unset "typed[${#typed[@]}-1]"',
            "    fi",
            "    if (( ${#typed[@]} > 1 )); then",
            '        command="${typed[1]}"; previous="${typed[${#typed[@]}-1]}"',
            "    fi",
            *_cases(commands),
            "    local IFS=$' \\t\\n'",
            '    if [[ "$kind" == functions && " ${typed[*]:2}" == *:* ]]; then kind=files; fi',
            "    COMPREPLY=()",
            '    if [[ -n "$values" ]]; then COMPREPLY=($(compgen -W "$values" -- "$current")); fi',
            "    IFS=$'\\n'",
            '    case "$kind" in',
            '    files) COMPREPLY+=($(compgen -f -- "$current")); compopt -o filenames 2>/dev/null;;',
            "    functions)",
            f'        COMPREPLY=($({_reader()} "$current" 2>/dev/null)); compopt -o nospace 2>/dev/null',
            '        if [[ "$COMP_WORDBREAKS" == *:* ]]; then  # then bash completes what is behind the colon',
            '            place="${current%"${current##*:}"}"; COMPREPLY=("${COMPREPLY[@]#"$place"}")',
            "        fi;;",
            "    esac",
            "}",
            "complete -F _backsolve backsolve",
            "",
        ]
    )


def _zsh(commands: Sequence[Command]) -> str:
    return "\n".join(
        [
            "#compdef backsolve",
            "# Completion of backsolve for zsh.",
            "_backsolve() {",
            '    local current="${words[CURRENT]}" previous="" command="" kind="" values="" found',
            '    if (( CURRENT > 2 )); then command="${words[2]}"; previous="${words[CURRENT-1]}"; fi',
            *_cases(commands),
            '    if [[ "$kind" == functions && "${words[3,CURRENT-1]}" == *:* ]]; then kind=files; fi',
            '    if [[ -n "$values" ]]; then compadd -- ${(s: :)values}; fi',
            '    case "$kind" in',
            "    files) _files;;",
            "    functions)",
            f'        found=("${{(@f)$({_reader()} "$current" 2>/dev/null)}}")',
            "        compadd -S '' -- $found;;",
            "    esac",
            "}",
            'if [[ "${funcstack[1]}" == _backsolve ]]; then _backsolve "$@"',
            "else compdef _backsolve backsolve; fi",
            "",
        ]
    )


# ---- fish: one line for each thing


def _fish(commands: Sequence[Command]) -> str:
    lines = ["# Completion of backsolve for fish.", "complete -c backsolve -f"]
    for c in commands:
        lines.append(
            f"complete -c backsolve -n __fish_use_subcommand -a {c.name} -d {_fish_quote(c.help)}"
        )
    for c in commands:
        here = f"complete -c backsolve -n '__fish_seen_subcommand_from {c.name}"
        for o in c.options:
            name = o.flags[-1].removeprefix("--")
            lines.append(f"{here}' -l {name} -d {_fish_quote(o.help)}{_fish_value(o)}")
        if c.positional is not None and c.positional.takes == "functions":
            unnamed = 'not string match -q "*:*" -- (commandline -opc)'
            reader = _fish_quote(f"({_reader()} (commandline -ct))")
            lines.append(f"{here}; and {unnamed}' -a {reader}")
        elif c.positional is not None:
            lines.append(f"{here}'{_fish_value(c.positional, of_option=False)}")
    return "\n".join(lines) + "\n"


def _fish_value(slot: Slot, of_option: bool = True) -> str:
    if slot.takes == "nothing":
        return ""
    values = f" -a {_fish_quote(' '.join(slot.values))}" if slot.values else ""
    files = slot.takes == "files"
    return f"{' -r' * of_option}{' -F' if files else ' -f' * of_option}{values}"


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
