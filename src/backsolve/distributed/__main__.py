"""`python -m backsolve.distributed script.py args…`: a script as one process of many (`backsolve launch`).

It runs as it would by itself, but if it ends by `sys.exit(3)` the others learn of it and do not wait.
"""

from __future__ import annotations

import os
import runpy
import sys

from .bond import tell_failure


def main() -> None:
    script, sys.argv = sys.argv[1], sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code in (None, 0):
            raise
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else 1
        tell_failure(f"ended by sys.exit({end.code!r})", status)
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != script:
            trace = trace.tb_next  # what runs the script is no part of it
        sys.excepthook(type(error), error.with_traceback(trace or error.__traceback__), trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
