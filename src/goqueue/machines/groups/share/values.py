"""Words of share groups: who is in one, what members say, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.groups.values import KnownTopic

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
SESSION_TIMEOUT_MS = 45_000
"""How long a silent member is kept, as in Kafka."""


class SharedPartition(NamedTuple):
    """A partition by the id of its topic, as members know it; a later topic of the same name is another one."""

    topic_id: UUID
    topic: str
    partition: int


ShareAssignment = frozenset[SharedPartition]
"""Where a member looks."""


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """What a member says: that it joins (epoch 0), stays or leaves (-1); without topics, those it has said before."""

    group: str
    member_id: str
    epoch: int
    topics: frozenset[str] | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


class ShareReply(NamedTuple):
    """What a member is told; without an assignment, the one that it knows holds."""

    epoch: int
    heartbeat_interval_ms: int
    assignment: ShareAssignment | None = None


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member; `told` is the assignment that it was told last, in its `epoch`."""

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
    """The members of a group, and where each of them is to look; `seen` are their topics as they were then.

    `revision` is that of all topics when the group looked at them last.
    """

    name: str
    epoch: int = 0
    revision: int = -1
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: Mapping[str, ShareAssignment] = field(default_factory=dict)
    seen: Mapping[str, KnownTopic] = field(default_factory=dict)
