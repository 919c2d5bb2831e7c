"""Values of share groups: groups, members, heartbeats and their replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.groups.values import KnownTopic

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
SESSION_TIMEOUT_MS = 45_000
"""Session timeout, as in Kafka."""


class SharedPartition(NamedTuple):
    """A partition by topic id, as members know it; a re-created topic has another id."""

    topic_id: UUID
    topic: str
    partition: int


ShareAssignment = frozenset[SharedPartition]
"""The partitions that a member reads."""


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A heartbeat: the member joins (epoch 0), stays or leaves (-1); without topics, its subscription stays."""

    group: str
    member_id: str
    epoch: int
    topics: frozenset[str] | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


class ShareReply(NamedTuple):
    """The reply to a heartbeat; without an assignment, the known one holds."""

    epoch: int
    heartbeat_interval_ms: int
    assignment: ShareAssignment | None = None


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member; `told` is the assignment of the last reply, in its `epoch`."""

    id: str
    topics: frozenset[str]
    rack_id: str | None
    client_id: str
    client_host: str
    heard_ms: int
    epoch: int = JOIN_EPOCH
    former_epoch: int = JOIN_EPOCH
    told: ShareAssignment = frozenset()


@dataclass(slots=True)
class ShareGroup:
    """The members of a group and their assignments; `seen` are their topics at that time.

    `revision` is that of all topics when the group last looked at them.
    """

    name: str
    epoch: int = 0
    revision: int = -1
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: Mapping[str, ShareAssignment] = field(default_factory=dict)
    seen: Mapping[str, KnownTopic] = field(default_factory=dict)
