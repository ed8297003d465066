"""Peak memory of large compiled steps: one process per library and step, three calls.

    python benchmarks/memory.py [word in a title …]

Linux tells the memory of a process now, and its peak since one asked it to forget the last one. So imports, the
compiler's own peaks and what making the arguments took are left out; arguments and results are not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import environment, header, machine, versions
from libraries import LIBRARIES
from workloads import LARGE, WORKLOADS

PROCESS = Path("/proc/self")


def memory(field: str) -> float:
    """Megabytes: VmRSS now, VmHWM at the highest."""
    lines = (PROCESS / "status").read_text().splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith(f"{field}:")) / 1024


def forget_peak() -> None:
    (PROCESS / "clear_refs").write_text("5")


def measure(name: str, title: str) -> None:
    """Megabytes over what was there before: of the first call, of later ones; and in all."""
    library = next(kind for kind in LIBRARIES if kind.name == name)(1)
    tiny = WORKLOADS["gelu·sigmoid gradient, 4 numbers"]()
    library.contestant(tiny)()  # loads the compiler
    before = memory("VmRSS")
    workload = WORKLOADS[title]()
    run = library.contestant(workload)
    forget_peak()
    run()
    first = memory("VmHWM") - before
    forget_peak()
    for _ in range(3):
        run()
    print(first, memory("VmHWM") - before, memory("VmHWM"))


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        measure(*sys.argv[2:])
        return
    if not PROCESS.exists():
        raise SystemExit("peak memory is asked of Linux, which this is not")
    only = sys.argv[1:]
    print(f"{machine()}, one thread; {versions(('numpy', 'jax', 'torch'))}. Peaks over what was")
    print("there before, arguments and results included: in the first call, then in later ones; in")
    print("brackets the whole process.\n")
    print(header("step", *[kind.title for kind in LIBRARIES]))
    for title in LARGE:
        if only and not any(word in title for word in only):
            continue
        cells = []
        for kind in LIBRARIES:
            command = [sys.executable, __file__, "--worker", kind.name, title]
            done = subprocess.run(command, env=environment(1), capture_output=True, text=True)
            if done.returncode:
                cells.append("fails")
                print(f"{kind.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            first, later, whole = (float(x) for x in done.stdout.split()[-3:])
            cells.append(f"{first:.0f}, {later:.0f} MB ({whole:.0f})")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
