"""Where a reader may start, what it gets there, and how soon; partitions are assigned by hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, time

import pytest

from tests.clients.contract import (
    DEADLINE_S,
    Admin,
    Client,
    Edge,
    ErrorCode,
    Message,
    Place,
    Reader,
    Reading,
    Record,
    Reset,
)
from tests.clients.expect import refused

# In kafkajs this is the work of the consumer that joins a group.
_CLIENTS_THAT_RESET = ("confluent", "kcat", "aiokafka", "kafka-python")
# A process of kcat reads one topic.
_CLIENTS_OF_MANY_TOPICS = ("confluent", "aiokafka", "kafka-python", "kafkajs")


def test_a_reader_starts_at_the_beginning_or_at_an_offset(client: Client, new_topic: Callable[..., str]) -> None:
    place = Place(new_topic(), 0)
    client.send(place.topic, _numbered(0, 20))
    with client.reader([place]) as reader:
        assert _offsets(reader.take(20)) == list(range(20))
    # In the middle of a batch: clients get the whole batch and leave out what they did not ask for.
    with client.reader([place], Reading(start=13)) as reader:
        assert _offsets(reader.take(7)) == list(range(13, 20))


def test_a_reader_at_the_end_gets_only_what_comes_later(
    client: Client, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    client.send(place.topic, _numbered(0, 5))
    with client.reader([place], Reading(start=Edge.END)) as reader:
        first = _send_until_seen(clients["aiokafka"], place, reader)
    assert first.value is not None
    assert first.value.startswith(b"probe")
    assert first.offset >= 5


def test_a_waiting_reader_gets_a_record_as_soon_as_it_is_written(
    client: Client, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    writer = clients["confluent"]
    with client.reader([place], Reading(wait_ms_max=5000)) as reader, ThreadPoolExecutor(1) as elsewhere:
        writer.send(place.topic, [Message(b"the reader is in place")])
        assert len(reader.take(1)) == 1
        # There is no more; so the next fetch of the client is waiting at the broker.
        assert reader.take(1, within_s=0.3) == []
        waiting = elsewhere.submit(reader.take, 1)
        started_s = monotonic()
        writer.send(place.topic, [Message(b"soon")])
        assert [record.value for record in waiting.result()] == [b"soon"]
        # The test does not wait for the end of the fetch, after 5 s.
        assert monotonic() - started_s < 2.5


def test_a_reader_of_many_partitions_gets_all_of_them(client: Client, new_topic: Callable[..., str]) -> None:
    partitions = 24
    topic = new_topic(partitions)
    client.send(topic, [Message(b"%d" % partition, partition=partition) for partition in range(partitions)])
    with client.reader([Place(topic, partition) for partition in range(partitions)]) as reader:
        records = reader.take(partitions)
    assert {record.partition: record.value for record in records} == {p: b"%d" % p for p in range(partitions)}


@pytest.mark.parametrize("name", _CLIENTS_OF_MANY_TOPICS)
def test_a_reader_of_many_topics_gets_all_of_them(
    name: str, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    client = clients[name]
    places = [Place(topic, partition) for topic in (new_topic(3) for _ in range(12)) for partition in range(3)]
    for place in places:
        client.send(place.topic, [Message(repr(place).encode(), partition=place.partition)])
    with client.reader(places) as reader:
        records = reader.take(len(places))
    found = {Place(record.topic, record.partition): record.value for record in records}
    assert found == {place: repr(place).encode() for place in places}


@pytest.mark.parametrize("name", _CLIENTS_THAT_RESET)
@pytest.mark.parametrize("start", [3, 1000], ids=["below", "above"])
def test_a_reader_outside_of_the_log_goes_to_the_beginning_if_told_so(
    name: str, start: int, clients: dict[str, Client], shortened: Place
) -> None:
    with clients[name].reader([shortened], Reading(start=start, reset=Reset.EARLIEST)) as reader:
        assert _offsets(reader.take(10)) == list(range(10, 20))


@pytest.mark.parametrize("name", _CLIENTS_THAT_RESET)
@pytest.mark.parametrize("start", [3, 1000], ids=["below", "above"])
def test_a_reader_outside_of_the_log_goes_to_the_end_if_told_so(
    name: str, start: int, clients: dict[str, Client], shortened: Place
) -> None:
    with clients[name].reader([shortened], Reading(start=start, reset=Reset.LATEST)) as reader:
        assert _send_until_seen(clients[name], shortened, reader).offset >= 20


@pytest.mark.parametrize("start", [3, 1000], ids=["below", "above"])
def test_a_reader_outside_of_the_log_is_refused_otherwise(start: int, client: Client, shortened: Place) -> None:
    with (
        client.reader([shortened], Reading(start=start, reset=Reset.ERROR)) as reader,
        refused(ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        reader.take(1)


def test_both_ends_of_a_partition_are_known(client: Client, new_topic: Callable[..., str]) -> None:
    place = Place(new_topic(partitions=2), 1)
    assert client.bounds(place) == (0, 0)
    client.send(place.topic, [Message(b"x", partition=1)] * 3)
    assert client.bounds(place) == (0, 3)
    assert client.bounds(Place(place.topic, 0)) == (0, 0)


def test_records_are_found_by_their_time(
    client: Client, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    base_ms = int(time() * 1000) - 60_000
    for batch in range(3):
        stamps = [base_ms + batch * 1000 + i * 10 for i in range(10)]
        clients["confluent"].send(place.topic, [Message(b"x", timestamp_ms=stamp) for stamp in stamps])
    asked = {0: 0, 10: 1, 11: 2, 90: 9, 91: 10, 1000: 10, 2085: 29, 2090: 29, -5000: 0, 2091: None, 50_000: None}
    assert {after: client.offset_at(place, base_ms + after) for after in asked} == asked


@pytest.fixture
def shortened(admins: dict[str, Admin], clients: dict[str, Client], new_topic: Callable[..., str]) -> Place:
    """A partition that holds offsets 10 to 19: what was before is deleted."""
    place = Place(new_topic(), 0)
    clients["confluent"].send(place.topic, _numbered(0, 20))
    admins["confluent"].delete_records(place, 10)
    return place


def _numbered(start: int, end: int) -> list[Message]:
    return [Message(b"%d" % number) for number in range(start, end)]


def _offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def _send_until_seen(writer: Client, place: Place, reader: Reader) -> Record:
    """Write until the reader, which seeks at an unknown time, sees a record; return the first."""
    deadline = monotonic() + DEADLINE_S
    while monotonic() < deadline:
        writer.send(place.topic, [Message(b"probe")])
        if seen := reader.take(1, within_s=0.2):
            return seen[0]
    pytest.fail("the reader saw none of the records")
