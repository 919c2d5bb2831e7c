"""Transactional producers as raw clients: what they send, and what is kept of the replies; error codes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from tests.protocols.kafka.messages import Plain, request_bytes, response_values
from tests.protocols.kafka.raw import FETCH, INIT_PRODUCER_ID, PRODUCE, RawClient, frame
from tests.protocols.kafka.requests import create_topic, fetch, fetched, produce, produced

ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 24, 25, 26, 28
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66

INVALID_TOPIC, INVALID_GROUP_ID, OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE = 17, 24, 45, 47, 48
INVALID_MAPPING, INVALID_TIMEOUT, CONCURRENT, NOT_ATTEMPTED, INVALID_RECORD = 49, 50, 51, 55, 87
FENCED, UNKNOWN_ID, UNKNOWN_MEMBER, ILLEGAL_GENERATION, INVALID_REQUEST = 90, 105, 25, 22, 42

COMMITTED, UNCOMMITTED = 1, 0


@dataclass
class TxnProducer:
    """A producer that goes on with the identity it was given last."""

    client: RawClient
    id: str = "payments"
    producer_id: int = -1
    epoch: int = -1

    async def init(self, version: int = 5, *, timeout_ms: int = 60_000, is_known: bool = False) -> int:
        """Take the transactional id, or go on with it; return the error code."""
        request: Plain = {"transactional_id": self.id, "transaction_timeout": timeout_ms}
        if version >= 3:
            known = (self.producer_id, self.epoch) if is_known else (-1, -1)
            request |= dict(zip(("producer_id", "producer_epoch"), known, strict=True))
        reply = await self.client.call(INIT_PRODUCER_ID, version, request)
        if reply["error_code"] == 0:
            self.producer_id, self.epoch = reply["producer_id"], reply["producer_epoch"]
        return int(reply["error_code"])

    def named(self, **changes: Any) -> Plain:
        """Return the fields by which a producer names itself."""
        named = {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return {**named, **changes}

    async def add(self, *places: tuple[str, int], version: int = 3) -> list[int]:
        """Add partitions, a topic at a time; return the error codes in their order."""
        request = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [index]} for topic, index in places],
        }
        reply = await self.client.call(ADD_PARTITIONS, version, request)
        return [
            part["partition_error_code"]
            for topic in reply["results_by_topic_v3_and_below"]
            for part in topic["results_by_partition"]
        ]

    async def add_group(self, group: str = "g", version: int = 4) -> int:
        """Add a group; return the error code."""
        return int((await self.client.call(ADD_OFFSETS, version, self.named(group_id=group)))["error_code"])

    async def commit_offsets(
        self, offsets: Mapping[int, int], *, version: int = 5, group: str = "g", topic: str = "t", **changes: Any
    ) -> list[int]:
        """Send offsets; return the error codes."""
        parts = [
            {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1}
            for index, offset in offsets.items()
        ]
        member = {"generation_id": -1, "member_id": "", "group_instance_id": None} if version >= 3 else {}
        request = self.named(group_id=group, topics=[{"name": topic, "partitions": parts}], **member)
        reply = await self.client.call(COMMIT_OFFSETS, version, {**request, **changes})
        return [part["error_code"] for each in reply["topics"] for part in each["partitions"]]

    def batch(self, *values: bytes, sequence: int = 0, is_transactional: bool = True) -> bytearray:
        """Return a batch of the producer."""
        return build_batch(
            [NewRecord(1_700_000_000_000, None, value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    async def produce(
        self, *values: bytes, sequence: int = 0, topic: str = "t", partition: int = 0, version: int = 12, **kind: bool
    ) -> Plain:
        """Publish a batch in the transaction; return the result."""
        request = produce(topic, self.batch(*values, sequence=sequence, **kind), partition=partition)
        return produced(await self.client.call(PRODUCE, version, {**request, "transactional_id": self.id}))

    async def end(self, *, is_commit: bool, version: int = 5) -> int:
        """Commit or abort, and take the new identity if there is one; return the error code."""
        reply = await self.client.call(END, version, self.named(committed=is_commit))
        if reply["error_code"] == 0 and version >= 5:
            self.producer_id, self.epoch = reply["producer_id"], reply["producer_epoch"]
        return int(reply["error_code"])


async def producer_of(client: RawClient, *, partitions: int = 1, transactional_id: str = "payments") -> TxnProducer:
    """Return a producer that has its identity, and a topic to write to."""
    await create_topic(client, "t", partitions=partitions)
    producer = TxnProducer(client, transactional_id)
    assert await producer.init() == 0
    return producer


async def read(
    client: RawClient, *, isolation: int = COMMITTED, topic: str = "t", partition: int = 0, offset: int = 0
) -> list[bytes | None]:
    """Return the values that a reader sees: as clients do it, without those that the reply says are aborted."""
    result = await fetch_as(client, isolation=isolation, topic=topic, partition=partition, offset=offset)
    aborted = sorted(
        ((each["first_offset"], each["producer_id"]) for each in result["aborted_transactions"] or ()), reverse=True
    )
    hidden: set[int] = set()
    values: list[bytes | None] = []
    data = result["records"] or b""
    for position, header in headers(data):
        while aborted and aborted[-1][0] <= header.base_offset:
            hidden.add(aborted.pop()[1])
        if header.is_control:
            hidden.discard(header.producer_id)
        elif header.producer_id not in hidden or not header.is_transactional:
            batch = data[position : position + header.size_bytes]
            values += [record.value for record in read_records(batch)]
    return values


async def fetch_as(
    client: RawClient, *, isolation: int = COMMITTED, topic: str = "t", partition: int = 0, offset: int = 0
) -> Plain:
    """Return what is fetched of a partition."""
    request = {**fetch(topic, offset, partition=partition), "isolation_level": isolation}
    return fetched(await client.call(FETCH, 11, request))


async def describe(client: RawClient, *ids: str) -> list[Plain]:
    """Return what is told of transactional ids; times and producer ids of -1 are 0."""
    client.write(
        frame(DESCRIBE_TRANSACTIONS, 0, 0, request_bytes(DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ids}))
    )
    # kio does not take -1 for a time, which is what Kafka says if nothing has begun.
    data = (await client.raw_reply())[5:].replace(b"\xff" * 8, bytes(8))
    states: list[Plain] = response_values(DESCRIBE_TRANSACTIONS, 0, data)["transaction_states"]
    return states


async def stand(client: RawClient, transactional_id: str = "payments") -> tuple[str, int, Sequence[Plain]]:
    """Return state, epoch and partitions: what a refusal must leave as it is."""
    (found,) = await describe(client, transactional_id)
    return found["transaction_state"], found["producer_epoch"], found["topics"]


async def list_transactions(client: RawClient, version: int = 1, **filters: Any) -> Plain:
    """Return the whole reply of a list."""
    duration = {"duration_filter": -1} if version >= 1 else {}
    return await client.call(LIST_TRANSACTIONS, version, {**duration, **filters})
