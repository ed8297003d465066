"""One process of many, for test_launch.py: `member.py <what>` after `backsolve launch -n 2`."""

from __future__ import annotations

import os
import signal
import sys
import threading


def tell_arguments() -> None:
    print("of", os.environ["BACKSOLVE_PROCESSES"], "given", sys.argv[2:])
    print("a warning", file=sys.stderr)


def wait_for_ctrl_c() -> None:
    try:
        print("ready")
        while True:
            threading.Event().wait(60)
    except KeyboardInterrupt:
        print("interrupted")


def lose_one(how: str, which: int) -> None:
    """All exchange numbers without end; one of them is lost."""
    import numpy as np

    import backsolve as bs
    from backsolve.distributed.together import largest

    me = bs.distributed.start()
    assert largest(me.index) == (me.count - 1,)
    parts = bs.distributed.gather(np.arange(3))
    assert parts.tolist() == [0, 1, 2]
    if me.index == which:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "raises":
            raise ValueError("no more numbers")
        sys.exit(3)
    while True:
        largest(1)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "arguments":
        tell_arguments()
    elif what == "ctrl-c":
        wait_for_ctrl_c()
    else:
        lose_one(what, int(rest[0]))
