"""How long to wait before a query that has failed is started again. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Twice as long after each failure in a row, up to a limit; `failures_max` in a row are enough, 0 is no limit."""

    first_s: float = 1.0
    longest_s: float = 60.0
    failures_max: int = 0

    def delay_s(self, failures: int) -> float | None:
        """Return how long to wait after so many failures in a row, from 1 on; None if it is time to give up."""
        if self.failures_max and failures >= self.failures_max:
            return None
        # Beyond this, the limit has long been reached, and powers of two would become too large.
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s)
