"""Groups as administrators see them, through confluent-kafka's admin client: list, describe, delete, offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.adapters.confluent_group_admin import ConfluentGroupAdmin
from tests.clients.contract import Client, ErrorCode, Place
from tests.clients.expect import eventually, refused
from tests.clients.group_contract import Member, SeekingMember, Together
from tests.clients.samples import numbered, values

PARTITIONS = 4

_KINDS = [("confluent", "classic"), ("confluent-broker-assigns", "consumer")]


@pytest.fixture
def group_admin(bootstrap: str) -> ConfluentGroupAdmin:
    """The admin client that knows groups."""
    return ConfluentGroupAdmin(bootstrap)


@pytest.mark.parametrize(("client", "kind"), _KINDS, ids=[kind for _, kind in _KINDS])
def test_a_group_is_listed_and_described_with_its_members(
    client: str,
    kind: str,
    group_admin: ConfluentGroupAdmin,
    join_as: Callable[..., Member],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    together = Together(join_as(client, group, topic), join_as(client, group, topic))
    together.share(topic, PARTITIONS)
    together.until(lambda: group_admin.describe(group).state == "STABLE", "the group is stable")
    assert group_admin.listed()[group] == ("STABLE", kind.upper())
    assert group in group_admin.listed(state="STABLE", kind=kind)
    assert group not in group_admin.listed(state="EMPTY")
    described = group_admin.describe(group)
    assert described.kind == kind.upper()
    assert sorted(described.shares.values(), key=sorted) == sorted(
        (member.assigned() for member in together.members), key=sorted
    )
    assert {view.client_id for view in described.members} == {"confluent"}
    assert {view.host for view in described.members} == {"/127.0.0.1"}
    for member in together.members:
        member.leave()
    eventually(lambda: group_admin.describe(group).state == "EMPTY", "the group has no members")
    assert group_admin.describe(group).members == []


def test_a_group_that_is_not_there_is_dead(group_admin: ConfluentGroupAdmin, new_name: Callable[[], str]) -> None:
    group = new_name()
    assert group not in group_admin.listed()
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        group_admin.delete(group)
    assert group_admin.offsets(group) == {}


@pytest.mark.parametrize(("client", "kind"), _KINDS, ids=[kind for _, kind in _KINDS])
def test_a_group_can_be_deleted_when_its_members_have_left(
    client: str,
    kind: str,
    group_admin: ConfluentGroupAdmin,
    join_as: Callable[..., Member],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    clients["confluent"].send(topic, numbered(0, 20, PARTITIONS))
    member = join_as(client, group, topic)
    together = Together(member)
    together.take(20)
    member.commit()
    with refused(ErrorCode.NON_EMPTY_GROUP):
        group_admin.delete(group)
    assert group_admin.offsets(group) == {Place(topic, index): 5 for index in range(PARTITIONS)}
    member.leave()
    eventually(lambda: group_admin.describe(group).state == "EMPTY", "the group has no members")
    group_admin.delete(group)
    assert group not in group_admin.listed()
    assert group_admin.offsets(group) == {}
    # A new group of that name begins at the beginning.
    assert values(Together(join_as(client, group, topic)).take(20)) == values(numbered(0, 20, PARTITIONS))


@pytest.mark.parametrize(("client", "kind"), _KINDS, ids=[kind for _, kind in _KINDS])
def test_offsets_of_a_group_without_members_can_be_set(
    client: str,
    kind: str,
    group_admin: ConfluentGroupAdmin,
    join_as: Callable[..., SeekingMember],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    clients["confluent"].send(topic, numbered(0, 40, PARTITIONS))
    wanted = {Place(topic, index): 7 for index in range(PARTITIONS)}
    group_admin.set_offsets(group, wanted)
    assert group_admin.offsets(group) == wanted
    assert group_admin.offsets(group, [Place(topic, 1)]) == {Place(topic, 1): 7}
    assert group_admin.listed()[group] == ("EMPTY", "CLASSIC")
    member = join_as(client, group, topic)
    together = Together(member)
    assert {record.offset for record in together.take(12)} == {7, 8, 9}
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        group_admin.set_offsets(group, {Place(topic, 0): 1})
    member.commit()
    assert set(group_admin.offsets(group).values()) == {10}
    assert member.committed(Place(topic, 0)) == 10


def test_an_offset_for_a_partition_that_is_not_there_is_refused(
    group_admin: ConfluentGroupAdmin, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        group_admin.set_offsets(group, {Place(topic, PARTITIONS): 0})
    assert group_admin.offsets(group) == {}
    assert group_admin.offsets(group, [Place(topic, 0)]) == {Place(topic, 0): None}
