"""Processes that end with the process that started them, also if that is killed and can clean up nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dying_with_parent() -> Callable[[], None] | None:
    """Return a `preexec_fn` for `subprocess.Popen`: the child gets SIGTERM when its parent has gone.

    The kernel counts the thread that starts the child as its parent, so start it from one that lives as long as the
    child should. Only Linux knows this; elsewhere there is nothing to call (None).
    """
    if sys.platform != "linux":
        return None
    # Between fork and exec nothing may be loaded or allocated that another thread could hold a lock of.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # The parent may have gone before the line above, and then no signal comes.
        if os.getppid() != parent:
            os._exit(1)

    return before_exec
