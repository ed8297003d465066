"""The tool of the GradBench suite: answers messages, one JSON object a line, from stdin on stdout.

    gradbench run --eval … --tool "python -m benchmarks.gradbench"

Messages are `start`, `define` (is there such a module?), `evaluate` (run a function of it) and `analysis`;
each is answered with its id. The first run of a function compiles and is reported as "compile".
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from typing import Any

import backsolve as bs
from benchmarks.problems import load


def define(message: dict[str, Any]) -> dict[str, Any]:
    load(message["module"])
    return {"success": True}


def evaluate(message: dict[str, Any]) -> dict[str, Any]:
    problem, given = load(message["module"]), message["input"]
    function = problem.functions[message["function"]]
    args = problem.prepare(given)
    runs = given if isinstance(given, dict) else {}
    least, seconds = runs.get("min_runs", 1), runs.get("min_seconds", 0)
    timings = [timed("compile", function.run, args)]
    spent = 0.0
    while len(timings) <= least or spent < seconds:
        timings.append(timed("evaluate", function.run, args))
        spent += timings[-1][1]["nanoseconds"] / 1e9
    return {
        "success": True,
        "output": function.answer(timings[-1][0]),
        "timings": [entry for _, entry in timings],
    }


def timed(name: str, run: Any, args: Any) -> tuple[Any, dict[str, Any]]:
    start = time.perf_counter_ns()
    result = run(*args)
    return result, {"name": name, "nanoseconds": time.perf_counter_ns() - start}


KINDS = {"start": lambda _: {"tool": "backsolve"}, "define": define, "evaluate": evaluate}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"id": message["id"], **KINDS.get(message["kind"], lambda _: {})(message)}
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return {"id": message["id"], "success": False, "error": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    bs.set_threads(parser.parse_args().threads)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
