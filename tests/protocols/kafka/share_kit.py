"""Members of share groups as raw clients: what they send, what they hold, and error codes by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from goqueue.testing.clock import START_MS
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import PRODUCE, RawClient
from tests.protocols.kafka.requests import produce, produced

SHARE_HEARTBEAT, SHARE_DESCRIBE, SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_OFFSETS = 76, 77, 78, 79, 90
INVALID_RECORD_STATE, SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 121, 122, 123
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
JOIN, LEAVE, OPEN, FINAL = 0, -1, 0, -1

Where = tuple[UUID, int]
Acks = Mapping[Where, Sequence[tuple[int, int, Sequence[int]]]]


async def publish(client: RawClient, topic: str, *values: str, partition: int = 0, key: bytes | None = None) -> int:
    """Publish one batch, and return its first offset."""
    batch = build_batch([NewRecord(START_MS, key, value.encode()) for value in values])
    result = produced(await client.call(PRODUCE, 9, produce(topic, batch, partition=partition)))
    assert result["error_code"] == 0
    return int(result["base_offset"])


@dataclass
class ShareMember:
    """A member of a share group, which fetches by raw requests; epochs go on by themselves."""

    client: RawClient
    id: str = "m"
    group: str = "g"
    topics: tuple[str, ...] = ("t",)
    epoch: int = JOIN
    session_epoch: int = OPEN

    async def heartbeat(self, **changes: Any) -> Plain:
        """Say that the member is there, take what it is told, and return the reply."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "subscribed_topic_names": list(self.topics) if self.epoch == JOIN else None,
        }
        reply = await self.client.call(SHARE_HEARTBEAT, 1, {**request, **changes})
        if reply["error_code"] == 0:
            self.epoch = reply["member_epoch"]
        return reply

    async def fetch(
        self, *added: Where, acks: Acks | None = None, forgotten: Sequence[Where] = (), version: int = 1, **changes: Any
    ) -> Plain:
        """Fetch messages, and acknowledge others before that."""
        self.send_fetch(*added, acks=acks, forgotten=forgotten, version=version, **changes)
        return await self.reply()

    def send_fetch(
        self, *added: Where, acks: Acks | None = None, forgotten: Sequence[Where] = (), version: int = 1, **changes: Any
    ) -> None:
        """Send a ShareFetch request, without waiting for its reply."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session_epoch,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 2**20,
            "max_records": 500,
            "batch_size": 500,
            "topics": _topics({**dict.fromkeys(added, ()), **(acks or {})}),
            "forgotten_topics_data": [{"topic_id": topic, "partitions": [index]} for topic, index in forgotten],
        }
        self.client.send(SHARE_FETCH, version, {**request, **changes})

    async def reply(self) -> Plain:
        """Return the reply to a request of the session."""
        reply = await self.client.reply()
        if reply["error_code"] == 0:
            self.session_epoch += 1
        return reply

    async def acknowledge(self, acks: Acks, version: int = 1, **changes: Any) -> Plain:
        """Acknowledge messages."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session_epoch,
            "topics": _topics(acks),
        }
        self.client.send(SHARE_ACKNOWLEDGE, version, {**request, **changes})
        return await self.reply()

    async def take(self, *added: Where, **changes: Any) -> list[str]:
        """Fetch, and return what the messages say that were got."""
        return taken(await self.fetch(*added, **changes))

    async def close(self, acks: Acks | None = None) -> int:
        """Close the session, and return the error code."""
        return int((await self.acknowledge(acks or {}, share_session_epoch=FINAL))["error_code"])


def _topics(parts: Mapping[Where, Iterable[tuple[int, int, Sequence[int]]]]) -> list[Plain]:
    topics: dict[UUID, list[Plain]] = {}
    for (topic, index), batches in parts.items():
        acked = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": kinds} for first, last, kinds in batches
        ]
        topics.setdefault(topic, []).append({"partition_index": index, "acknowledgement_batches": acked})
    return [{"topic_id": topic, "partitions": found} for topic, found in topics.items()]


def parts(reply: Plain) -> dict[Where, Plain]:
    """Return what a reply says about partitions."""
    return {
        (topic["topic_id"], part["partition_index"]): part
        for topic in reply["responses"]
        for part in topic["partitions"]
    }


def acquired(reply: Plain) -> list[tuple[int, int, int]]:
    """Return the ranges that a reply gives away, with their delivery counts, of all partitions."""
    return [
        (each["first_offset"], each["last_offset"], each["delivery_count"])
        for part in parts(reply).values()
        for each in part["acquired_records"]
    ]


def taken(reply: Plain) -> list[str]:
    """Return what the messages say that a reply gives away."""
    assert reply["error_code"] == 0, reply["error_message"]
    found = []
    for part in parts(reply).values():
        assert part["error_code"] == 0, part["error_message"]
        mine = {
            offset
            for each in part["acquired_records"]
            for offset in range(each["first_offset"], each["last_offset"] + 1)
        }
        data = part["records"]
        records = [record for position, _ in headers(data) for record in read_records(memoryview(data)[position:])]
        assert mine <= {record.offset for record in records}
        found += [(record.value or b"").decode() for record in records if record.offset in mine]
    return found


def ack_errors(reply: Plain, field: str = "error_code") -> dict[Where, int]:
    """Return the codes of acknowledgements by partition; those of a fetch have another name."""
    return {where: part[field] for where, part in parts(reply).items()}
