"""The frames of the raw client mean what they should to another implementation of the protocol, and back."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import patch
from goqueue_bench.kafka import wire
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.messages.replay import check_messages, follow
from tests.protocols.kafka import messages

TOPIC = "bench"


def body(frame: bytes, api: int, version: int, *, is_flexible: bool = False) -> dict[str, Any]:
    """Return the fields of a whole request frame."""
    length, found_api, found_version, _, client_bytes = struct.unpack_from(">ihhih", frame)
    assert length == len(frame) - 4
    assert (found_api, found_version) == (api, version)
    start = 14 + client_bytes
    assert frame[14:start] == b"goqueue-bench"
    return messages.read(messages.request_class(api, version), frame[start + is_flexible :])


def answer(api: int, version: int, values: dict[str, Any], *, header: bytes) -> memoryview:
    """Return a reply without its length."""
    return memoryview(header + messages.write(messages.build(messages.response_class(api, version), values)))


def batch(base_offset: int, count: int) -> bytearray:
    data = build_batch([NewRecord(1_700_000_000_000, None, b"x" * 100) for _ in range(count)])
    patch(data, base_offset=base_offset, leader_epoch=0)
    return data


def test_a_produce_request_carries_one_batch() -> None:
    data = bytes(batch(0, 3))
    frame = wire.produce_request(TOPIC, 2, data, acks=wire.ACKS_ALL, correlation_id=9)
    fields = body(frame, 0, 9, is_flexible=True)
    assert fields["acks"] == -1
    assert fields["transactional_id"] is None
    assert fields["topic_data"] == [{"name": TOPIC, "partition_data": [{"index": 2, "records": data}]}]
    assert struct.unpack_from(">i", frame, 8) == (9,)


@pytest.mark.parametrize("topic", [TOPIC, "t" * 200])
def test_a_produce_reply_tells_error_and_offset(topic: str) -> None:
    partition = {"index": 0, "error_code": 7, "base_offset": 123_456_789_012}
    values = {"responses": [{"name": topic, "partition_responses": [partition]}]}
    reply = wire.parse_produce_reply(answer(0, 9, values, header=struct.pack(">ib", 5, 0)), topic)
    assert reply == (5, 7, 123_456_789_012)


def test_a_fetch_request_asks_for_one_partition_without_a_session() -> None:
    fields = body(wire.fetch_request(TOPIC, 0, 77, bytes_max=1000, wait_ms=250), 1, 11)
    assert (fields["max_wait"], fields["min_bytes"], fields["max_bytes"]) == (250, 1, 1000)
    assert (fields["session_id"], fields["session_epoch"]) == (0, -1)
    (topic,) = fields["topics"]
    (partition,) = topic["partitions"]
    assert topic["topic"] == TOPIC
    assert (partition["fetch_offset"], partition["partition_max_bytes"]) == (77, 1000)


@pytest.mark.parametrize("aborted", [None, [], [{"producer_id": 1, "first_offset": 2}] * 3])
def test_a_fetch_reply_has_the_records_as_stored(aborted: list[dict[str, int]] | None) -> None:
    data = bytes(batch(77, 2))
    partition = {"partition_index": 0, "high_watermark": 79, "aborted_transactions": aborted, "records": data}
    values = {"responses": [{"topic": TOPIC, "partitions": [partition]}]}
    reply = wire.parse_fetch_reply(answer(1, 11, values, header=struct.pack(">i", 0)))
    assert (reply.error, reply.high_watermark, bytes(reply.records)) == (0, 79, data)


def test_a_fetch_that_failed_as_a_whole_has_no_records() -> None:
    reply = wire.parse_fetch_reply(answer(1, 11, {"error_code": 70}, header=struct.pack(">i", 0)))
    assert (reply.error, bytes(reply.records)) == (70, b"")


def test_the_end_of_a_partition_is_asked_for_and_told() -> None:
    fields = body(wire.end_offset_request(TOPIC, 3), 2, 1)
    assert fields["topics"] == [{"name": TOPIC, "partitions": [{"partition_index": 3, "timestamp": -1}]}]
    values = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 3, "error_code": 6, "offset": 42}]}]}
    assert wire.parse_end_offset_reply(answer(2, 1, values, header=b"\0" * 4)) == (6, 42)


def test_a_topic_is_made_with_settings_and_removed() -> None:
    fields = body(wire.create_topics_request([TOPIC], 3, {"goqueue.flush": "group"}), 19, 4)
    (topic,) = fields["topics"]
    assert (topic["name"], topic["num_partitions"], topic["replication_factor"]) == (TOPIC, 3, 1)
    assert topic["configs"] == [{"name": "goqueue.flush", "value": "group"}]
    values = {"topics": [{"name": TOPIC, "error_code": 36, "error_message": "there is one"}]}
    assert wire.parse_create_topics_reply(answer(19, 4, values, header=b"\0" * 4)) == {TOPIC: (36, "there is one")}
    assert body(wire.delete_topic_request(TOPIC), 20, 1)["topic_names"] == [TOPIC]
    values = {"responses": [{"name": TOPIC, "error_code": 3}]}
    assert wire.parse_delete_topic_reply(answer(20, 1, values, header=b"\0" * 4)) == 3


def test_batches_that_follow_each_other_lead_to_the_offset_behind_them() -> None:
    assert follow(memoryview(batch(10, 3) + batch(13, 2)), 10) == 15
    assert follow(memoryview(b""), 10) == 10


@pytest.mark.parametrize(
    "records", [batch(11, 3), batch(9, 3), batch(10, 3) + batch(14, 1), batch(10, 3) + batch(12, 1)]
)
def test_a_gap_or_a_repetition_fails_a_replay(records: bytearray) -> None:
    with pytest.raises(BenchmarkFailed, match="expected offset 1"):
        follow(memoryview(records), 10)


class Received:
    """A message as the stock client hands it out."""

    def __init__(self, offset: int, error: str | None = None) -> None:
        self._offset, self._error = offset, error

    def offset(self) -> int:
        return self._offset

    def error(self) -> str | None:
        return self._error


def test_messages_of_the_stock_client_have_to_be_complete_too() -> None:
    check_messages([Received(5), Received(6)], 5)
    with pytest.raises(BenchmarkFailed, match="from offset 5"):
        check_messages([Received(5), Received(7)], 5)
    with pytest.raises(BenchmarkFailed, match="went wrong"):
        check_messages([Received(5), Received(6, "went wrong")], 5)
