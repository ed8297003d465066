"""Run benchmarks and write their tables into docs/: what `make bench` does. Each kind of processor has a page.

    python benchmarks/report.py [part …] [-- arguments of the part]

A part is a file here that is named in PARTS; all by default. What it prints replaces the lines between
`<!-- begin: part -->` and `<!-- end: part -->`; the prose around is nobody's but the writer's. With arguments
(a selection of workloads) it only prints.
"""

from __future__ import annotations

import datetime
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PAGES = {"x86_64": "benchmarks-x86-64.md", "AMD64": "benchmarks-x86-64.md"}
PAGE = HERE.parent / "docs" / PAGES.get(platform.machine(), "benchmarks.md")
PARTS = (
    "eager",
    "dense",
    "compiled",
    "training",
    "digits",
    "loops",
    "memory",
    "starting",
    "mathematics",
    "arrays",
)


def run(part: str, arguments: list[str]) -> str:
    """What the part prints, shown as it comes."""
    command = [sys.executable, str(HERE / f"{part}.py"), *arguments]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(f"{part}.py failed with {process.returncode}; nothing was written")
    return "".join(lines).strip()


def replaced(page: str, part: str, table: str) -> str:
    begin, end = f"<!-- begin: {part} -->", f"<!-- end: {part} -->"
    if begin not in page or end not in page:
        raise SystemExit(f"{PAGE.name} has no place for {part}: add {begin} and {end}")
    before, rest = page.split(begin, 1)
    after = rest.split(end, 1)[1]
    today = datetime.date.today().isoformat()
    return f"{before}{begin}\nMeasured {today}. {table}\n{end}{after}"


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parts, arguments = words[:cut] or list(PARTS), words[cut + 1 :]
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise SystemExit(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    for part in parts:
        print(f"==> {part}", flush=True)
        table = run(part, arguments)
        if not arguments:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(replaced(page, part, table), encoding="utf-8")


if __name__ == "__main__":
    main()
