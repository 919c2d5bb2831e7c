"""Produce and Fetch are written by hand, and say what other implementations say, in every version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, cast

import pytest

from goqueue.broker.messages.fetch import Fetched
from goqueue.errors import DiskFull, GoQueueError, InvalidRecord, LogOffline, UnknownPartition
from goqueue.kafka_wire.decode import Cursor, decode_request
from goqueue.machines.producer import AbortedRange
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.messages.fetch import _reply as fetch_reply
from goqueue.protocols.kafka.api.messages.produce import parse, reply_body
from goqueue.protocols.kafka.apis import APIS, FETCH, PRODUCE
from goqueue.runtime.partition import Appended
from tests.protocols.kafka.generate import message
from tests.protocols.kafka.kafka_python import consumer, producer
from tests.protocols.kafka.messages import Plain, request_bytes, request_class, response_values
from tests.protocols.kafka.stub import NO_TOPICS

PRODUCE_VERSIONS = range(APIS[PRODUCE].first, APIS[PRODUCE].last + 1)
FETCH_VERSIONS = range(APIS[FETCH].first, APIS[FETCH].last + 1)
ERRORS: Sequence[GoQueueError] = (
    DiskFull("no room"),
    LogOffline("off", hint="hm"),
    InvalidRecord("日本"),
    UnknownPartition("x" * 200),
)


def produce_request(random: Random, version: int) -> Plain:
    """Return a random request that a broker without transactions can be sent."""
    values = message(random, request_class(PRODUCE, version))
    return values | {"acks": random.choice([-1, 1]), "transactional_id": None}


@pytest.mark.seeds(30, long_count=2_000)
def test_a_produce_request_has_the_parts_that_its_client_wrote(seed: int) -> None:
    random = Random(seed)
    for version in PRODUCE_VERSIONS:
        values = produce_request(random, version)
        request = parse(NO_TOPICS, version, Cursor(memoryview(bytearray(request_bytes(PRODUCE, version, values)))))
        assert request is not None
        parts = [part for topic in values["topic_data"] for part in topic["partition_data"]]
        assert request.acks == values["acks"]
        assert [index for topic in request.topics for index in topic.indexes] == [part["index"] for part in parts]
        assert [bytes(section.records) for section in request.sections] == [part["records"] or b"" for part in parts]


@pytest.mark.seeds(30, long_count=2_000)
def test_a_produce_reply_tells_each_outcome_in_its_place(seed: int) -> None:
    random = Random(seed)
    for version in PRODUCE_VERSIONS:
        values = produce_request(random, version)
        request = parse(NO_TOPICS, version, Cursor(memoryview(bytearray(request_bytes(PRODUCE, version, values)))))
        assert request is not None
        outcomes = [_outcome(random) for _ in request.sections]
        body = reply_body(request, version, outcomes)
        reply = response_values(PRODUCE, version, body)
        assert [topic["name"] for topic in reply["responses"]] == [topic["name"] for topic in values["topic_data"]]
        results = [result for topic in reply["responses"] for result in topic["partition_responses"]]
        indexes = [part["index"] for topic in values["topic_data"] for part in topic["partition_data"]]
        assert [result["index"] for result in results] == indexes
        for result, outcome in zip(results, outcomes, strict=True):
            assert _told(result) == _expected(outcome, version)
        theirs = producer.ProduceResponse.decode(body, version=version)
        assert [topic.name for topic in theirs.responses] == [topic["name"] for topic in values["topic_data"]]


def _outcome(random: Random) -> Appended | GoQueueError:
    if random.random() < 0.4:
        return random.choice(ERRORS)
    base = random.randrange(2**62)
    return Appended(base, base + 1, random.choice([-1, 1_700_000_000_000]))


def _told(result: Plain) -> tuple[Any, ...]:
    return (result["error_code"], result["base_offset"], result["log_append_time"], result.get("error_message"))


def _expected(outcome: Appended | GoQueueError, version: int) -> tuple[Any, ...]:
    if isinstance(outcome, GoQueueError):
        return fault_of(outcome).kafka, -1, -1, str(outcome) if version >= 8 else None
    return 0, outcome.base_offset, outcome.timestamp, None


@pytest.mark.seeds(30, long_count=2_000)
def test_a_fetch_reply_tells_each_result_in_its_place(seed: int) -> None:
    random = Random(seed)
    for version in FETCH_VERSIONS:
        values = message(random, request_class(FETCH, version))
        request = decode_request(FETCH, version, Cursor(request_bytes(FETCH, version, values)))
        parts = [part for topic in values["topics"] for part in topic["partitions"]]
        results = [_fetched(random) for _ in parts]
        body = b"".join(fetch_reply(version, request, results))
        reply = response_values(FETCH, version, body)
        name = "topic_id" if version >= 13 else "topic"
        assert [topic[name] for topic in reply["responses"]] == [topic[name] for topic in values["topics"]]
        told = [each for topic in reply["responses"] for each in topic["partitions"]]
        assert [each["partition_index"] for each in told] == [part["partition"] for part in parts]
        for each, result in zip(told, results, strict=True):
            _check_fetched(each, result, version)
        theirs = consumer.FetchResponse.decode(body, version=version)
        assert len(theirs.responses) == len(values["topics"])


def _fetched(random: Random) -> Fetched:
    if random.random() < 0.3:
        return Fetched(b"", random.choice(ERRORS))
    aborted = [AbortedRange(random.randrange(2**40), random.randrange(2**40), 5, 6) for _ in range(2)]
    data = random.randbytes(random.choice([0, 1, 126, 127, 128, 20_000]))
    high, stable, start = (random.randrange(2**62) for _ in range(3))
    return Fetched(data, None, high, stable, start, random.choice([None, [], aborted]))


def _check_fetched(told: Plain, result: Fetched, version: int) -> None:
    assert told["error_code"] == (fault_of(result.error).kafka if result.error else 0)
    assert told["records"] == result.data
    assert (told["high_watermark"], told["last_stable_offset"]) == (result.high_watermark, result.last_stable_offset)
    if version >= 5:
        assert told["log_start_offset"] == result.start_offset
    if version >= 11:
        assert told["preferred_read_replica"] == -1
    aborted = [(each["producer_id"], each["first_offset"]) for each in cast(list[Plain], told["aborted_transactions"])]
    assert aborted == [(each.producer_id, each.first_offset) for each in result.aborted or ()]
