"""States and limits of redrives."""

from __future__ import annotations

from enum import StrEnum

REDRIVES_MAX = 3
"""How often a message is published again by default."""
RATE_MAX = 1_000_000
"""How many dead letters a redrive publishes a second at most."""


class RedriveState(StrEnum):
    """How a redrive is; the last three are its end."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing more will happen."""
        return self in {RedriveState.DONE, RedriveState.CANCELLED, RedriveState.FAILED}
