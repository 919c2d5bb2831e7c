"""Which dead letters are meant: by why they died, when, for which group, with which key, and where they were before."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from goqueue.errors import Invalid
from goqueue.model.dead_letters import DeadLetterCause

REASONS_MAX = 100


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a letter has to be like; what is not said does not matter.

    `since_ms` and `until_ms` (exclusive) are about when it died. `partition`, `first_offset` and `last_offset`
    (inclusive) are those of the message that died, in the topic `source`.
    """

    reasons: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    key: bytes | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    source: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def check(self) -> None:
        """Raise Invalid if no letter could ever be meant."""
        if len(self.reasons) > REASONS_MAX or len(self.groups) > REASONS_MAX:
            raise Invalid(f"at most {REASONS_MAX} reasons and groups can be named")
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            raise Invalid("the time at which letters begin is not before the one at which they end")
        if self.first_offset is not None and self.last_offset is not None and self.first_offset > self.last_offset:
            raise Invalid("the first offset is behind the last one")

    def means(self, cause: DeadLetterCause, key: bytes | None, died_ms: int) -> bool:
        """Tell whether a letter is meant."""
        return (
            (not self.reasons or cause.reason in self.reasons)
            and (not self.groups or cause.group in self.groups)
            and (self.key is None or self.key == key)
            and (self.since_ms is None or died_ms >= self.since_ms)
            and (self.until_ms is None or died_ms < self.until_ms)
            and (self.source is None or cause.topic == self.source)
            and (self.partition is None or cause.partition == self.partition)
            and self._has_offset(cause.offset)
        )

    def _has_offset(self, offset: int | None) -> bool:
        if self.first_offset is None and self.last_offset is None:
            return True
        if offset is None or (self.first_offset is not None and offset < self.first_offset):
            return False
        return self.last_offset is None or offset <= self.last_offset


class Order(StrEnum):
    """Which letters come first."""

    NEWEST = "newest"
    OLDEST = "oldest"
