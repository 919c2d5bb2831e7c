"""Where reading begins if nobody says where."""

from __future__ import annotations

from enum import StrEnum


class StartAt(StrEnum):
    """Where a member begins in a partition in which its group has no offset, or one that is not there any more."""

    EARLIEST = "earliest"
    LATEST = "latest"
