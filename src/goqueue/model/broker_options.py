"""What the broker itself has to be told, whoever starts it; where values come from is the server's business."""

from __future__ import annotations

from dataclasses import dataclass, field

from goqueue.model.topic_settings import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Options of one broker; `topic_defaults` fill in what a topic does not set."""

    node_id: int = 1
    auto_create_topics: bool = True
    default_partitions: int = 3
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    partitions_max: int = 50_000
    fetch_bytes_max: int = 8 * 1024 * 1024
    disk_guard_free_fraction: float = 0.1
    upkeep_interval_ms: int = 1000
    retention_check_interval_ms: int = 60_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000

    @property
    def upkeep_every_s(self) -> float:
        """How often logs are looked after."""
        return self.upkeep_interval_ms / 1000
