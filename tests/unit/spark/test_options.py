"""Options are understood once, and everything that is wrong with them is told at once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.kafka import Isolation, NamedOffset, TopicPartition
from goqueue.errors import InvalidSettings
from goqueue.spark.source.option_values import Assigned, AtOffsets, AtTimestamp, AtTimestamps, Matching, Named
from goqueue.spark.source.options import NAMES, ReadKind, ReadOptions, parse_options

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}


def parsed(kind: ReadKind = ReadKind.BATCH, **more: str) -> ReadOptions:
    return parse_options(NEEDED | {name.replace("__", "."): text for name, text in more.items()}, kind)


def mistakes(written: dict[str, str], kind: ReadKind = ReadKind.BATCH) -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        parse_options(written, kind)
    return [mistake.line for mistake in caught.value.mistakes]


def test_without_options_nothing_is_read() -> None:
    assert mistakes({}) == [
        "kafka.bootstrap.servers is missing: set the address of the broker, for example 127.0.0.1:9092",
        "subscribe, topic, subscribePattern or assign is missing: set the topics to read, for example topic=orders",
    ]


def test_defaults_are_those_of_sparks_kafka_source_but_only_committed_records_are_read() -> None:
    batch, stream = parsed(ReadKind.BATCH), parsed(ReadKind.STREAM)

    assert (batch.start, batch.end) == (NamedOffset.EARLIEST, NamedOffset.LATEST)
    assert stream.start is NamedOffset.LATEST
    assert batch.fails_on_data_loss
    assert not batch.includes_headers
    assert batch.isolation is Isolation.COMMITTED
    assert (batch.slices_min, batch.slice_records_max, stream.offsets_per_trigger_max, stream.group) == (None,) * 4


def test_names_may_be_written_in_any_case() -> None:
    written = {"KAFKA.bootstrap.SERVERS": "127.0.0.1:9092", "SUBSCRIBE": "b, a,b", "MINPARTITIONS": "7"}

    options = parse_options(written, ReadKind.BATCH)

    assert options.subscription == Named(("a", "b"))
    assert options.slices_min == 7


def test_what_to_read_can_be_said_in_four_ways() -> None:
    where = {"kafka.bootstrap.servers": "127.0.0.1:9092"}

    def subscription(**written: str) -> object:
        return parse_options(where | written, ReadKind.BATCH).subscription

    assert subscription(topic="orders") == Named(("orders",))
    assert subscription(subscribe="orders,returns") == Named(("orders", "returns"))
    assert subscription(subscribePattern="or.*") == Matching("or.*")
    assert subscription(assign='{"orders": [1, 0, 1]}') == Assigned({"orders": (0, 1)})


def test_boundaries_are_places_offsets_or_times() -> None:
    place = TopicPartition("orders", 0)
    exact = '{"orders": {"0": 23, "1": -2}}'

    assert parsed(startingOffsets="Earliest").start is NamedOffset.EARLIEST
    assert parsed(startingOffsets=exact).start == AtOffsets({place: 23, TopicPartition("orders", 1): -2})
    assert parsed(startingTimestamp="1000").start == AtTimestamp(1000)
    assert parsed(startingOffsetsByTimestamp='{"orders": {"0": 5}}').start == AtTimestamps({place: 5})
    assert parsed(endingOffsets='{"orders": {"0": -1}}').end == AtOffsets({place: -1})
    assert parsed(endingTimestamp="2000").end == AtTimestamp(2000)
    assert parsed(endingOffsetsByTimestamp='{"orders": {"0": 9}}').end == AtTimestamps({place: 9})


def test_a_stream_has_an_end_if_it_is_told_one_and_then_begins_with_the_earliest() -> None:
    endless, ending = parsed(ReadKind.STREAM), parsed(ReadKind.STREAM, endingTimestamp="2000")

    assert (endless.has_end, endless.start) == (False, NamedOffset.LATEST)
    assert (ending.has_end, ending.start, ending.end) == (True, NamedOffset.EARLIEST, AtTimestamp(2000))


def test_amounts_and_switches_are_read() -> None:
    options = parsed(
        ReadKind.STREAM,
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="2m",
        maxRecordsPerPartition="5",
        failOnDataLoss="False",
        includeHeaders="true",
        kafka__isolation__level="read_uncommitted",
        kafka__max__partition__fetch__bytes="1MiB",
        kafka__default__api__timeout__ms="5000",
        kafka__group__id="reports",
        goqueue__http__url="http://127.0.0.1:8080/",
    )

    assert (options.offsets_per_trigger_max, options.offsets_per_trigger_min) == (100, 10)
    assert (options.trigger_delay_ms_max, options.timeout_ms) == (120_000, 5000)
    assert options.slice_records_max == 5
    assert (options.fails_on_data_loss, options.includes_headers) == (False, True)
    assert options.isolation is Isolation.UNCOMMITTED
    assert options.fetch_bytes == 2**20
    assert (options.group, options.http_url) == ("reports", "http://127.0.0.1:8080")


def test_all_mistakes_are_told_at_once_each_with_its_option() -> None:
    written = {
        "kafka.bootstrap.servers": "here:99999",
        "topik": "orders",
        "maxOffsetsPerTrigger": "many",
        "failOnDataLoss": "perhaps",
        "startingOffsets": '{"orders": {"x": 1}}',
        "kafka.isolation.level": "none",
    }

    found = mistakes(written, ReadKind.STREAM)

    assert [line.split(":")[0].split(" is ")[0] for line in found] == [
        "kafka.bootstrap.servers",
        "subscribe, topic, subscribePattern or assign",
        "startingOffsets",
        "maxOffsetsPerTrigger",
        "failOnDataLoss",
        "kafka.isolation.level",
        "topik",
    ]
    assert found[-1].endswith("did you mean topic?")


@pytest.mark.parametrize(
    ("written", "kind", "line"),
    [
        ({"subscribe": "a"}, ReadKind.BATCH, "subscribe and topic contradict each other: keep one of them"),
        (
            {"startingTimestamp": "1", "startingOffsets": "earliest"},
            ReadKind.BATCH,
            "startingTimestamp and startingOffsets contradict each other: keep one of them",
        ),
        ({"groupId": "a", "kafka.group.id": "b"}, ReadKind.STREAM, "groupId and kafka.group.id contradict each other"),
        (
            {"startingOffsets": "latest", "endingTimestamp": "7"},
            ReadKind.STREAM,
            "startingOffsets is latest, where a stream with an end finds nothing",
        ),
        ({"endingOffsets": "earliest"}, ReadKind.STREAM, "endingOffsets is earliest, before which there is nothing"),
        ({"maxOffsetsPerTrigger": "7"}, ReadKind.BATCH, "maxOffsetsPerTrigger belongs to streams"),
        ({"groupId": "a"}, ReadKind.BATCH, "groupId belongs to streams"),
        ({"startingOffsets": "latest"}, ReadKind.BATCH, "startingOffsets is latest, where a batch read finds nothing"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, ReadKind.BATCH, "startingOffsets is latest"),
        ({"endingOffsets": "earliest"}, ReadKind.BATCH, "endingOffsets is earliest, before which there is nothing"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, ReadKind.BATCH, "endingOffsets is earliest"),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, ReadKind.BATCH, "endingTimestamp is 8, before"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            ReadKind.STREAM,
            "minOffsetsPerTrigger is 9, more",
        ),
        ({"maxTriggerDelay": "1m"}, ReadKind.STREAM, "maxTriggerDelay has no effect without minOffsetsPerTrigger"),
        ({"goqueue.http.url": "http://h:1"}, ReadKind.STREAM, "goqueue.http.url has no effect without groupId"),
        ({"goqueue.http.url": "http://h:1"}, ReadKind.BATCH, "goqueue.http.url belongs to streams"),
        (
            {"startingOffsetsByTimestampStrategy": "error"},
            ReadKind.STREAM,
            "startingOffsetsByTimestampStrategy has no effect without startingTimestamp",
        ),
        ({"minPartitions": "100001"}, ReadKind.BATCH, "minPartitions: '100001' is more than 100000"),
        (
            {"goqueue.max.decompressed.bytes": "2GiB"},
            ReadKind.BATCH,
            "goqueue.max.decompressed.bytes: '2GiB' is no size",
        ),
        ({"path": "orders"}, ReadKind.BATCH, "path is no option of a read: load() takes no path"),
        ({"minPartitions": "-1"}, ReadKind.BATCH, "minPartitions: '-1' is no number from 1 on"),
        (
            {"goqueue.http.url": "broker:8080", "groupId": "a"},
            ReadKind.STREAM,
            "goqueue.http.url: 'broker:8080' is no HTTP address",
        ),
        ({"kafka.max.partition.fetch.bytes": "0"}, ReadKind.BATCH, "kafka.max.partition.fetch.bytes: '0' is no size"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, ReadKind.STREAM, "startingOffsets: -3 cannot stand for partition 0"),
        ({"startingOffsetsByTimestamp": "{}"}, ReadKind.STREAM, "startingOffsetsByTimestamp: no partition is named"),
        ({"includeHeaders": "1"}, ReadKind.BATCH, "includeHeaders: '1' is neither true nor false"),
        ({"kafka.security.protocol": "SSL"}, ReadKind.BATCH, "kafka.security.protocol is no option of a read"),
    ],
)
def test_one_mistake_is_one_line(written: dict[str, str], kind: ReadKind, line: str) -> None:
    (found,) = mistakes(NEEDED | written, kind)
    assert found.startswith(line)


@pytest.mark.parametrize(
    "written",
    [
        {"assign": '{"t": []}'},
        {"assign": '{"t": [-1]}'},
        {"assign": "{}"},
        {"assign": "t"},
        {"subscribe": "a,,b"},
        {"subscribe": ""},
        {"topic": "a,b"},
        {"topic": " "},
        {"subscribePattern": "("},
    ],
)
def test_what_to_read_has_to_be_something(written: dict[str, str]) -> None:
    (found,) = mistakes({"kafka.bootstrap.servers": "127.0.0.1:9092"} | written)
    assert found.startswith(next(iter(written)) + ": ")


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(), st.text() | st.sampled_from(["{}", "true", "1"])))
def test_any_text_is_understood_or_refused_with_reasons(written: dict[str, str]) -> None:
    with suppress(InvalidSettings):
        parse_options(written, ReadKind.STREAM)
