"""Deleting the first records of a partition, and asking for the record with the highest timestamp."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import pytest

from tests.clients.adapters.confluent_admin import ConfluentAdmin
from tests.clients.adapters.kafka_python_admin import KafkaPythonAdmin
from tests.clients.contract import Admin, Client, ErrorCode, Message, Place
from tests.clients.expect import refused


def test_the_beginning_moves_when_records_are_deleted(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    clients["confluent"].send(place.topic, [Message(b"%d" % i) for i in range(20)])
    assert admin.delete_records(place, 7) == 7
    assert {name: client.bounds(place) for name, client in clients.items()} == dict.fromkeys(clients, (7, 20))
    for client in clients.values():
        with client.reader([place]) as reader:
            assert [record.offset for record in reader.take(13)] == list(range(7, 20))


def test_deleting_up_to_the_end_leaves_an_empty_partition_that_goes_on(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    writer = clients["confluent"]
    writer.send(place.topic, [Message(b"x")] * 5)
    # -1 stands for the end.
    assert admin.delete_records(place, -1) == 5
    assert writer.bounds(place) == (5, 5)
    assert writer.send(place.topic, [Message(b"next")]) == [5]


def test_deleting_what_is_not_there_is_refused(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    clients["confluent"].send(place.topic, [Message(b"x")] * 5)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        admin.delete_records(place, 6)
    assert clients["confluent"].bounds(place) == (0, 5)


@pytest.mark.parametrize("name", ["confluent", "kafka-python"])
def test_the_record_with_the_highest_timestamp_is_found(
    name: str, admins: dict[str, Admin], clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    admin = admins[name]
    assert isinstance(admin, ConfluentAdmin | KafkaPythonAdmin)
    place = Place(new_topic(), 0)
    base_ms = int(time() * 1000) - 60_000
    for stamps in ([5, 1], [3, 9, 7], [8]):
        clients["confluent"].send(place.topic, [Message(b"x", timestamp_ms=base_ms + stamp) for stamp in stamps])
    assert admin.newest(place) == (3, base_ms + 9)
