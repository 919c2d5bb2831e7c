"""The CPU, which a loop that always has work shares with the kernel.

A sync that the kernel was asked for is begun and ended by a worker of the kernel on the CPU of whoever asked. Newer
kernels let a program go on until the next tick, 4 ms later, although that worker is ready; and until the worker has
run, everybody waits who waits for the disk. So long work gives the CPU away whenever it pauses. That costs less than a
microsecond if no one wants it.
"""

from __future__ import annotations

import os


def yield_cpu() -> None:
    """Let others run on this CPU that are ready to."""
    # Windows has no such call.
    if hasattr(os, "sched_yield"):
        os.sched_yield()
