"""Members of groups of both clients: what they read and commit, what they give back, and what if they are fenced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goqueue.client import (
    AssignmentChange,
    Client,
    GroupPartition,
    NewMessage,
    PartitionOffset,
    StartAt,
    groups,
    topics,
)
from goqueue.errors import Conflict, Invalid, UnknownMember
from goqueue.testing.broker import Broker, MovableClock
from tests.unit.client.consumer_kit import Made, committed, expelled, fill, making, read, values
from tests.unit.client.lossy_relay import lossy_relay


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(params=["sync", "async"])
def member(request: pytest.FixtureRequest, goqueue_session_broker: Broker, clock: MovableClock) -> Iterator[Made]:
    """Makes members of one of the clients, and lets all of them leave in the end."""
    with making(request.param, goqueue_session_broker.http, clock) as make:
        yield make


@pytest.fixture
def plain(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest, plain: Client) -> str:
    """A topic of two partitions that no other test uses; its name is that of a group as well."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    plain.send(topics.create(name, partitions=2))
    return name


def test_the_next_member_goes_on_where_the_last_one_has_left(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b", "c")
    first = member(topic, [topic])
    assert read(first, 2, limit=2) == ["a", "b"]
    first.close()
    assert committed(plain, topic) == {0: 2}
    assert read(member(topic, [topic]), 1) == ["c"]


def test_a_poll_commits_what_the_polls_before_have_brought_every_five_seconds(
    member: Made, plain: Client, topic: str, clock: MovableClock
) -> None:
    fill(plain, topic, "a", "b", "c")
    reader = member(topic, [topic])
    assert read(reader, 1, limit=1) == ["a"]
    assert read(reader, 1, limit=1) == ["b"]
    assert committed(plain, topic) == {}
    clock.advance(5)
    assert read(reader, 1, limit=1) == ["c"]
    assert committed(plain, topic) == {0: 2}


def test_without_auto_commit_nothing_is_committed_but_what_the_program_commits(
    member: Made, plain: Client, topic: str, clock: MovableClock
) -> None:
    fill(plain, topic, "a", "b", "c")
    reader = member(topic, [topic], auto_commit_s=None)
    assert read(reader, 2, limit=2) == ["a", "b"]
    clock.advance(60)
    assert read(reader, 1) == ["c"]
    assert committed(plain, topic) == {}
    reader.commit([PartitionOffset(topic, 0, 1)])
    assert committed(plain, topic) == {0: 1}
    reader.commit()
    assert committed(plain, topic) == {0: 3}
    fill(plain, topic, "d")
    assert read(reader, 1) == ["d"]
    reader.close()
    assert committed(plain, topic) == {0: 3}


def test_what_came_last_is_not_committed_if_it_is_not_done(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b")
    reader = member(topic, [topic])
    assert read(reader, 1, limit=1) == ["a"]
    assert read(reader, 1, limit=1) == ["b"]
    reader.close(is_done=False)
    assert committed(plain, topic) == {0: 1}


def test_an_exception_in_the_block_leaves_the_last_page_to_the_next_member(plain: Client, topic: str) -> None:
    def work() -> None:
        with plain.consumer(topic, [topic]) as reader:
            assert values(reader.poll(limit=1)) == ["a"]
            assert values(reader.poll(limit=1)) == ["b"]
            raise ValueError("broken")

    fill(plain, topic, "a", "b")
    with pytest.raises(ValueError, match="broken"):
        work()
    assert committed(plain, topic) == {0: 1}
    assert plain.send(groups.describe(topic)).members == ()


def test_a_seek_goes_back_and_forth_in_one_partition(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b", "c", "d")
    fill(plain, topic, "other", partition=1)
    reader = member(topic, [topic])
    assert sorted(read(reader, 5)) == ["a", "b", "c", "d", "other"]
    reader.seek(topic, 0, 1)
    assert read(reader, 1, limit=1) == ["b"]
    reader.seek(topic, 0, 3)
    assert read(reader, 1) == ["d"]
    reader.commit()
    assert committed(plain, topic) == {0: 4, 1: 1}
    with pytest.raises(Conflict, match="is not with this member"):
        reader.seek(topic, 2, 0)
    with pytest.raises(Invalid):
        reader.seek(topic, 0, -1)


def test_reading_can_begin_behind_what_is_there(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "old")
    reader = member(topic, [topic], start_at=StartAt.LATEST)
    assert reader.poll(wait_s=0) == []
    fill(plain, topic, "new")
    assert read(reader, 1) == ["new"]


def test_open_transactions_are_read_only_if_asked_for(member: Made, plain: Client, topic: str) -> None:
    with plain.transaction(topic) as transaction:
        transaction.publish(topic, [NewMessage("open", partition=0)])
        assert member(topic, [topic]).poll(wait_s=0) == []
        assert read(member(f"{topic}-all", [topic], is_committed_only=False), 1) == ["open"]


def test_a_subscription_can_be_replaced(member: Made, plain: Client, topic: str) -> None:
    other = f"{topic}-other"
    plain.send(topics.create(other, partitions=1))
    fill(plain, topic, "a")
    fill(plain, other, "z")
    reader = member(topic)
    with pytest.raises(Conflict, match="reads no topic yet"):
        reader.poll()
    reader.subscribe([topic])
    assert read(reader, 1) == ["a"]
    reader.subscribe([other])
    assert read(reader, 1) == ["z"]
    assert reader.assignment == (GroupPartition(other, 0),)
    assert committed(plain, topic) == {0: 1}


def test_a_member_that_was_sent_away_commits_nothing_and_joins_again(member: Made, plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b")
    changes: list[AssignmentChange] = []
    reader = member(topic, [topic])
    reader.listen(changes.append)
    assert read(reader, 2) == ["a", "b"]
    with expelled(plain, topic, reader):
        with pytest.raises(UnknownMember):
            reader.commit()
        with pytest.raises(UnknownMember):
            reader.commit()
        assert reader.assignment == ()
    assert committed(plain, topic) == {}
    # It begins where the group is, and not where it has been.
    assert read(reader, 2) == ["a", "b"]
    first, again = changes
    assert first.lost is None
    assert isinstance(again.lost, UnknownMember)
    assert again.revoked == again.assigned == again.assignment == first.assigned
    reader.commit()
    assert committed(plain, topic) == {0: 2}


def test_auto_commit_of_a_member_that_was_sent_away_sets_nothing(
    member: Made, plain: Client, topic: str, clock: MovableClock
) -> None:
    fill(plain, topic, "a")
    reader = member(topic, [topic])
    assert read(reader, 1) == ["a"]
    with expelled(plain, topic, reader):
        clock.advance(5)
        assert read(reader, 1) == ["a"]
    assert committed(plain, topic) == {}


def test_a_closed_consumer_says_so_and_closes_once(member: Made, plain: Client, topic: str) -> None:
    reader = member(topic, [topic])
    reader.poll(wait_s=0)
    reader.close()
    reader.close()
    with pytest.raises(Conflict, match="has left"):
        reader.poll()
    assert plain.send(groups.describe(topic)).members == ()


def test_a_partition_is_committed_before_it_is_given_to_another_member(plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b")
    fill(plain, topic, "y", "z", partition=1)
    with plain.consumer(topic, [topic]) as first:
        assert sorted(read(first, 4)) == ["a", "b", "y", "z"]
        with plain.consumer(topic, [topic]) as second:
            found: list[str] = []
            for _ in range(200):
                if len(second.assignment) == len(first.assignment) == 1:
                    break
                found += values(first.poll(wait_s=0.1)) + values(second.poll(wait_s=0.1))
            assert set(first.assignment).isdisjoint(second.assignment)
            assert found + values(second.poll(wait_s=0)) == []
            fill(plain, topic, "c")
            fill(plain, topic, "x", partition=1)
            assert sorted(read(first, 1) + read(second, 1)) == ["c", "x"]


def test_a_member_stays_one_while_its_program_works(topic: str, plain: Client, goqueue_session_broker: Broker) -> None:
    fill(plain, topic, "a", "b")
    with plain.consumer(topic, [topic]) as reader:
        assert values(reader.poll(limit=1)) == ["a"]
        heard: list[float] = []
        # Nobody polls here: only heartbeats in the background make the silence shorter.
        while len(heard) < 2 or heard[-1] >= heard[-2]:
            (seen,) = plain.send(groups.describe(topic)).members
            assert seen.silent_seconds is not None
            heard.append(seen.silent_seconds)
        assert values(reader.poll(limit=1)) == ["b"]


def test_replies_that_are_lost_cost_neither_messages_nor_the_membership(
    plain: Client, topic: str, goqueue_session_broker: Broker
) -> None:
    fill(plain, topic, "a", "b")
    changes: list[AssignmentChange] = []
    with (
        lossy_relay(goqueue_session_broker.http) as relay,
        Client(relay.address) as client,
        client.consumer(topic, [topic]) as reader,
    ):
        reader.on_change = changes.append
        relay.doomed += ["/join/cooperative", "after=0&wait=300ms"]
        assert read(reader, 2) == ["a", "b"]
        relay.doomed += ["/heartbeat/cooperative", "/offsets"]
        # Another one joins, so that heartbeats have something to tell, and leaves.
        with plain.consumer(topic, [topic]) as other:
            for _ in range(200):
                if len(other.assignment) == len(reader.assignment) == 1:
                    break
                assert reader.poll(wait_s=0.1) + other.poll(wait_s=0.1) == []
            assert len(other.assignment) == 1
        fill(plain, topic, "c")
        fill(plain, topic, "z", partition=1)
        assert sorted(read(reader, 2)) == ["c", "z"]
    assert relay.doomed == []
    assert [change.lost for change in changes] == [None, None, None]
    assert committed(plain, topic) == {0: 3, 1: 1}


def test_offsets_of_a_consumer_can_be_part_of_a_transaction(plain: Client, topic: str) -> None:
    fill(plain, topic, "a", "b")
    with plain.consumer(topic, [topic], auto_commit_s=None) as reader, plain.transaction(topic) as transaction:
        assert values(reader.poll()) == ["a", "b"]
        # Also where it would go on in a partition that has no messages yet.
        assert reader.positions == [PartitionOffset(topic, 0, 2), PartitionOffset(topic, 1, 0)]
        transaction.send_offsets(topic, reader.positions, member=reader.member)
        assert committed(plain, topic) == {}
    assert committed(plain, topic) == {0: 2}
