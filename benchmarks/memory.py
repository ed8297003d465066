"""Peak memory of large compiled steps: one process per library and step, three calls, ru_maxrss.

python benchmarks/memory.py [word in a title …]
"""

from __future__ import annotations

import resource
import subprocess
import sys

from harness import environment, header, machine, versions
from libraries import LIBRARIES
from workloads import LARGE, WORKLOADS

MB = (
    1 << 20 if sys.platform == "darwin" else 1 << 10
)  # ru_maxrss counts bytes there, else kilobytes


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB


def measure(name: str, title: str) -> None:
    """Megabytes: over what the imports took, and in all."""
    library = next(kind for kind in LIBRARIES if kind.name == name)(1)
    tiny = WORKLOADS["gelu·sigmoid gradient, 4 numbers"]()
    library.contestant(tiny)()  # loads the compiler
    before = peak()
    run = library.contestant(WORKLOADS[title]())
    for _ in range(3):
        run()
    print(peak() - before, peak())


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        measure(*sys.argv[2:])
        return
    only = sys.argv[1:]
    print(
        f"{machine()}, one thread; {versions(('numpy', 'jax', 'torch'))}. Peak over what the imports"
    )
    print("and the compiler took, arguments included; in brackets the whole process.\n")
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
            over, whole = (float(x) for x in done.stdout.split()[-2:])
            cells.append(f"{over:.0f} MB ({whole:.0f})")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
