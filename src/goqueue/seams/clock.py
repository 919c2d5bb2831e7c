"""Time, as the core sees it: wall time for stamps that are stored, monotonic time for durations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Returns the time; code waits through the event loop, never through the clock."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970; may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes back."""
        ...

    def boot_id(self) -> str:
        """Name the fixed moment of `monotonic`: programs with the same one can compare theirs; empty if unknown."""
        ...


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text("ascii").strip()
        except OSError:
            # Only Linux provides it.
            return ""
