"""The short way of produce requests makes no difference: what it takes, the long way would have read the same."""

from __future__ import annotations

import struct
from random import Random

import pytest

from goqueue.errors import DiskFull, GoQueueError, MalformedRequest
from goqueue.kafka_wire.decode import Cursor, skip_tags
from goqueue.protocols.kafka.api.messages.produce import ProduceRequest, parse, reply_body
from goqueue.protocols.kafka.api.messages.produce_plan import Plan, plan_of
from goqueue.protocols.kafka.apis import APIS, PRODUCE
from goqueue.runtime.partition import Appended
from tests.protocols.kafka.messages import Plain, request_bytes
from tests.protocols.kafka.raw import frame
from tests.protocols.kafka.stub import ONE_TOPIC

HEADER_BYTES = 10
VERSIONS = range(APIS[PRODUCE].first, APIS[PRODUCE].last + 1)
SIZES = [0, 1, 60, 125, 126, 127, 128, 129, 300, 16_382, 16_383, 16_384, 16_385, 70_000]


def read(data: memoryview) -> tuple[int, ProduceRequest]:
    """Read a whole frame the long way."""
    _, version, _, client_id_size = struct.unpack_from(">hhih", data)
    cursor = Cursor(data, HEADER_BYTES)
    if client_id_size > 0:
        cursor.take(client_id_size)
    if version >= APIS[PRODUCE].flexible_from:
        skip_tags(cursor)
    request = parse(ONE_TOPIC, version, cursor)
    assert request is not None
    return version, request


def plan_for(data: memoryview) -> Plan | None:
    """Return the plan that a frame leads to."""
    version, request = read(data)
    return plan_of(request, version, data, revision=1)


def framed(random: Random, version: int, values: Plain) -> memoryview:
    """Return a request as a frame without its size."""
    client_id = random.choice([b"", b"me", b"me", b"x" * 200])
    whole = frame(PRODUCE, version, random.getrandbits(31), request_bytes(PRODUCE, version, values), client_id)
    return memoryview(bytearray(whole[4:]))


def values_of(random: Random, *, is_simple: bool) -> Plain:
    """Return a request for `orders`; a simple one has one partition, as most have."""
    acks = random.choice([-1, 1])
    timeout = random.choice([0, 1000, 1000])
    count = 1 if is_simple else random.choice([0, 1, 2])
    parts = [{"index": random.choice([0, 0, 1, -1]), "records": random.randbytes(random.choice(SIZES))}] * count
    topics = [{"name": random.choice(["orders", "orders", "nowhere"]), "partition_data": parts}]
    transaction = None if is_simple else random.choice([None, "", "t"])
    repeated = topics if is_simple else topics * random.choice([0, 1, 2])
    return {"acks": acks, "timeout": timeout, "transactional_id": transaction, "topic_data": repeated}


def check(plan: Plan, data: memoryview) -> bool:
    """Compare the short way with the long one; tell whether the short way was taken."""
    records = plan.records_of(data)
    if records is None:
        return False
    version, request = read(data)
    assert version == plan.version
    assert bytes(data[8 : 8 + len(plan.prefix)]) == plan.prefix
    assert (request.acks, len(request.sections)) == (plan.request.acks, 1)
    assert request.sections[0].partition is plan.partition
    assert request.sections[0].records == records
    return True


@pytest.mark.seeds(40, long_count=2_000)
def test_what_matches_a_plan_reads_the_same_the_long_way(seed: int) -> None:
    random = Random(seed)
    for version in VERSIONS:
        for _ in range(6):
            plan = plan_for(framed(random, version, values_of(random, is_simple=True)))
            for _ in range(10 if plan else 0):
                assert plan is not None
                other = framed(random, version, values_of(random, is_simple=random.random() < 0.8))
                check(plan, other)


@pytest.mark.parametrize("version", range(8, APIS[PRODUCE].last + 1))
@pytest.mark.parametrize("size", SIZES)
def test_the_same_request_with_other_records_is_taken(version: int, size: int) -> None:
    frames = []
    for content in (b"first", b"x" * size):
        parts = [{"index": 3, "records": content}]
        values = {"acks": -1, "timeout": 5, "topic_data": [{"name": "orders", "partition_data": parts}]}
        frames.append(framed(Random(7), version, values))
    plan = plan_for(frames[0])
    assert plan is not None
    assert check(plan, frames[1])


@pytest.mark.seeds(40, long_count=2_000)
def test_what_is_malformed_is_not_taken(seed: int) -> None:
    random = Random(seed)
    for version in VERSIONS:
        original = framed(random, version, values_of(random, is_simple=True))
        plan = plan_for(original)
        for _ in range(60 if plan else 0):
            assert plan is not None
            damaged = bytearray(original)
            for _ in range(random.choice([1, 2])):
                damaged[random.randrange(4, len(damaged))] ^= 1 << random.randrange(8)
            cut = memoryview(damaged)[: random.choice([len(damaged), len(damaged), random.randrange(4, len(damaged))])]
            try:
                read(cut)
            except (MalformedRequest, IndexError, struct.error):
                assert plan.records_of(cut) is None
            else:
                check(plan, cut)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_go_the_long_way(version: int) -> None:
    random = Random(7)
    simple = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": b"abc"}]}]}
    plan = plan_for(framed(random, version, simple))
    if plan is not None:
        size = b"\x04" if version >= APIS[PRODUCE].flexible_from else struct.pack(">i", 3)
        null = b"\0" if version >= APIS[PRODUCE].flexible_from else struct.pack(">i", -1)
        whole = bytes(framed(Random(7), version, simple)).replace(size + b"abc", null)
        assert plan.records_of(memoryview(whole)) is None
        assert plan.records_of(memoryview(whole[:-1])) is None


@pytest.mark.seeds(10, long_count=500)
def test_its_replies_are_those_of_the_long_way(seed: int) -> None:
    random = Random(seed)
    for version in VERSIONS:
        data = framed(random, version, values_of(random, is_simple=True))
        plan = plan_for(data)
        if plan is None:
            continue
        _, request = read(data)
        start = random.randrange(2**62)
        outcomes: list[Appended | GoQueueError] = [
            Appended(random.randrange(2**62), 5, random.choice([-1, 1_700_000_000_000]), start),
            DiskFull("no room", hint="make some"),
        ]
        for outcome in outcomes:
            body = reply_body(request, version, [outcome])
            tag = b"\0" if version >= APIS[PRODUCE].flexible_from else b""
            expected = struct.pack(">ii", 4 + len(tag) + len(body), 77) + tag + body
            assert b"".join(plan.replies([77], [outcome])) == expected
