"""How one log stores, flushes, expires and compacts its records.

The names follow Kafka's topic settings with dots as underscores, so `segment.bytes` is `segment_bytes`;
`flush` is ours (`goqueue.flush`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from goqueue.errors import Invalid

_HOUR_MS = 3_600_000
_FOREVER = 2**63 - 1
# Settings of ours carry our name in front.
_KAFKA_NAMES = {"flush_interval_ms": "goqueue.flush.interval.ms"}


class FlushPolicy(StrEnum):
    """When written records become durable.

    GROUP: an fsync follows every append and is shared by all that wait for one; a power loss costs nothing that
    was acknowledged as durable. INTERVAL: an fsync at most `flush_interval_ms` after the write; a power loss costs
    up to that much of acknowledged records.
    """

    GROUP = "group"
    INTERVAL = "interval"


class Cleanup(StrEnum):
    """What happens to old records: deleted by age and size, compacted by key, or both."""

    DELETE = "delete"
    COMPACT = "compact"
    COMPACT_DELETE = "compact,delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Settings of one log; `retention_ms` and `retention_bytes` are unlimited at -1."""

    segment_bytes: int = 64 * 1024 * 1024
    segment_ms: int = 168 * _HOUR_MS
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024
    flush: FlushPolicy = FlushPolicy.GROUP
    flush_interval_ms: int = 1000
    checkpoint_interval_ms: int = 60_000
    cleanup: Cleanup = Cleanup.DELETE
    retention_ms: int = 168 * _HOUR_MS
    retention_bytes: int = -1
    delete_retention_ms: int = 24 * _HOUR_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    producer_expiration_ms: int = 24 * _HOUR_MS

    def __post_init__(self) -> None:
        faults = [
            f"{_KAFKA_NAMES.get(name, name.replace('_', '.'))} is {value}, but must lie between {low} and {high}"
            for name, value, low, high in (
                ("segment_bytes", self.segment_bytes, 1024, 2**31 - 1),
                ("segment_ms", self.segment_ms, 1, _FOREVER),
                ("index_interval_bytes", self.index_interval_bytes, 0, 2**31 - 1),
                ("max_message_bytes", self.max_message_bytes, 0, 2**31 - 1),
                ("flush_interval_ms", self.flush_interval_ms, 1, _FOREVER),
                ("checkpoint_interval_ms", self.checkpoint_interval_ms, 1, _FOREVER),
                ("retention_ms", self.retention_ms, -1, _FOREVER),
                ("retention_bytes", self.retention_bytes, -1, _FOREVER),
                ("delete_retention_ms", self.delete_retention_ms, 0, _FOREVER),
                ("min_compaction_lag_ms", self.min_compaction_lag_ms, 0, _FOREVER),
                ("max_compaction_lag_ms", self.max_compaction_lag_ms, 1, _FOREVER),
                ("producer_expiration_ms", self.producer_expiration_ms, 1, _FOREVER),
                ("min_cleanable_dirty_ratio", self.min_cleanable_dirty_ratio, 0, 1),
            )
            if not low <= value <= high
        ]
        if faults:
            raise Invalid("; ".join(faults))

    @property
    def deletes(self) -> bool:
        """Whether records expire by age and size."""
        return self.cleanup is not Cleanup.COMPACT

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is kept."""
        return self.cleanup is not Cleanup.DELETE
