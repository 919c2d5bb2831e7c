"""Groups with third-party clients: members share partitions, commit, join and leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.contract import Client, Place
from tests.clients.group_contract import Join, SeekingMember, Together
from tests.clients.samples import numbered, values

PARTITIONS = 4

Send = Callable[[str, int, int], list[bytes]]


@pytest.fixture
def send(clients: dict[str, Client]) -> Send:
    """Write numbered messages, evenly to the partitions of a topic, and return their values."""

    def write(topic: str, begin: int, end: int) -> list[bytes]:
        messages = numbered(begin, end, PARTITIONS)
        clients["confluent"].send(topic, messages)
        return values(messages)

    return write


def test_next_run_continues_at_the_commit(
    join: Join, new_topic: Callable[..., str], new_name: Callable[[], str], send: Send
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    first = send(topic, 0, 40)
    member = Together(join(group, topic))
    assert values(member.take(40)) == first
    member.members[0].commit()
    member.members[0].leave()
    second = send(topic, 40, 60)
    assert values(Together(join(group, topic)).take(20)) == second


def test_members_share_partitions_without_reading_twice(
    join: Join, new_topic: Callable[..., str], new_name: Callable[[], str], send: Send
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    together = Together(join(group, topic), join(group, topic))
    together.share(topic, PARTITIONS)
    sent = send(topic, 0, 80)
    records = together.take(80)
    assert values(records) == sent
    for partition in range(PARTITIONS):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(20))


def test_a_joiner_gets_its_share_and_the_share_of_a_leaver_goes_to_the_others(
    join: Join, new_topic: Callable[..., str], new_name: Callable[[], str], send: Send
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    first = join(group, topic)
    together = Together(first)
    together.share(topic, PARTITIONS)
    sent = send(topic, 0, 20)
    assert values(together.take(20)) == sent
    first.commit()
    second = join(group, topic)
    together.members.append(second)
    together.share(topic, PARTITIONS)
    sent = send(topic, 20, 60)
    assert values(together.take(40)) == sent
    for member in together.members:
        member.commit()
    together.members.remove(first)
    first.leave()
    together.share(topic, PARTITIONS)
    sent = send(topic, 60, 80)
    assert values(together.take(20)) == sent


@pytest.mark.parametrize("client", ["confluent", "confluent-broker-assigns", "aiokafka", "kafka-python", "kafkajs"])
def test_member_reads_from_a_seek_and_commits_its_position(
    client: str,
    join_as: Callable[..., SeekingMember],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
    send: Send,
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    place = Place(topic, 1)
    send(topic, 0, 40)
    member = join_as(client, group, topic)
    together = Together(member)
    together.take(40)
    assert member.committed(place) is None
    member.commit()
    assert [member.committed(Place(topic, partition)) for partition in range(PARTITIONS)] == [10] * PARTITIONS
    member.seek(place, 6)
    assert [(record.partition, record.offset) for record in together.take(4)] == [
        (1, offset) for offset in range(6, 10)
    ]
    assert member.committed(place) == 10
    member.seek(place, 3)
    # The last position is committed, even if it is before an earlier commit.
    together.until(lambda: any(record.offset == 3 for record in together.read), "offset 3 is read")
    member.commit()
    assert member.committed(place) == max(record.offset for record in together.read) + 1
