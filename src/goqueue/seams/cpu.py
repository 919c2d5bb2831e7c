"""The CPU, which a loop that always has work shares with the kernel.

A sync that the kernel was asked for is begun and ended by a worker of the kernel on the CPU of the caller. While the
loop is busy, that worker waits until the time slice of the loop is over: replies that need the disk were 4 ms late
beside any heavy client. So long work gives the CPU away whenever it pauses, which costs less than a microsecond if
nothing else is ready.
"""

from __future__ import annotations

import os


def yield_cpu() -> None:
    """Let others run on this CPU that are ready to."""
    # Windows has no such call.
    if hasattr(os, "sched_yield"):
        os.sched_yield()
