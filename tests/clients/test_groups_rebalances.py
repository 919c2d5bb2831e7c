"""Which partitions move when a group changes: static members, cooperative ones, new partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.clients.adapters.confluent_groups import BROKER_ASSIGNS, CLASSIC, COOPERATIVE, ConfluentMember
from tests.clients.adapters.kafka_python_groups import KafkaPythonMember
from tests.clients.contract import Admin, Client, NewTopic
from tests.clients.group_contract import Joining, Member, Together
from tests.clients.samples import numbered, values

PARTITIONS = 4

Settings = Mapping[str, str | int]


@pytest.fixture
def join_with(bootstrap: str, members: list[Member]) -> Callable[..., ConfluentMember]:
    """Let a member of confluent-kafka with these settings join a group."""

    def join(settings: Settings, group: str, topic: str) -> ConfluentMember:
        member = ConfluentMember(bootstrap, Joining(group=group, topics=(topic,)), settings)
        members.append(member)
        return member

    return join


@pytest.mark.parametrize("client", ["confluent", "confluent-broker-assigns", "kafka-python"])
def test_returning_static_member_keeps_its_partitions_without_a_rebalance(
    client: str,
    join_as: Callable[..., ConfluentMember | KafkaPythonMember],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    stays = join_as(client, group, topic, instance_id="stays")
    goes = join_as(client, group, topic, instance_id="goes")
    together = Together(stays, goes)
    together.share(topic, PARTITIONS)
    shares = [member.assigned() for member in together.members]
    stays.revoked.clear()
    together.members.remove(goes)
    goes.leave()
    back = join_as(client, group, topic, instance_id="goes")
    together.members.append(back)
    together.share(topic, PARTITIONS)
    clients["confluent"].send(topic, numbered(0, 40, PARTITIONS))
    assert values(together.take(40)) == values(numbered(0, 40, PARTITIONS))
    assert [member.assigned() for member in together.members] == shares
    assert stays.revoked == []


@pytest.mark.parametrize("settings", [COOPERATIVE, BROKER_ASSIGNS], ids=["cooperative", "broker-assigns"])
def test_only_what_moves_is_given_back(
    settings: Settings,
    join_with: Callable[..., ConfluentMember],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(PARTITIONS), new_name()
    first = join_with(settings, group, topic)
    # It commits the partitions that it gives back once it knows its new generation, which must be accepted.
    first.commits_at_revocation = True
    together = Together(first)
    together.share(topic, PARTITIONS)
    clients["confluent"].send(topic, numbered(0, 40, PARTITIONS))
    together.take(40)
    second = join_with(settings, group, topic)
    together.members.append(second)
    together.share(topic, PARTITIONS)
    assert set(first.revoked) == second.assigned()
    assert len(first.revoked) == PARTITIONS // 2
    clients["confluent"].send(topic, numbered(40, 80, PARTITIONS))
    # Their new member continues at the commit.
    assert values(together.take(40)) == values(numbered(40, 80, PARTITIONS))


@pytest.mark.parametrize(
    "settings",
    [{**CLASSIC, "topic.metadata.refresh.interval.ms": 200}, BROKER_ASSIGNS],
    ids=["classic", "broker-assigns"],
)
def test_new_partitions_reach_the_members(
    settings: Settings,
    join_with: Callable[..., ConfluentMember],
    admins: dict[str, Admin],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(2), new_name()
    together = Together(join_with(settings, group, topic), join_with(settings, group, topic))
    together.share(topic, 2)
    admins["confluent"].grow(topic, PARTITIONS)
    together.share(topic, PARTITIONS)
    clients["confluent"].send(topic, numbered(0, 40, PARTITIONS))
    assert values(together.take(40)) == values(numbered(0, 40, PARTITIONS))


def test_topics_that_match_a_pattern_reach_the_members(
    join_with: Callable[..., ConfluentMember],
    admins: dict[str, Admin],
    clients: dict[str, Client],
    new_name: Callable[[], str],
) -> None:
    prefix = new_name()
    topics = [f"{prefix}.a", f"{prefix}.b"]
    admins["confluent"].create([NewTopic(name=name) for name in topics])
    member = join_with(BROKER_ASSIGNS, new_name(), f"^{prefix}.*")
    for topic in topics:
        clients["confluent"].send(topic, numbered(0, 5, 1))
    assert values(Together(member).take(10)) == values(numbered(0, 5, 1) * 2)
    assert {place.topic for place in member.assigned()} == set(topics)


# The commit of positions must not delay giving back partitions.
@pytest.mark.parametrize("commits", [True, False], ids=["auto-commit", "no-commit"])
def test_recreated_topic_is_read_from_its_start(
    commits: bool,
    join_with: Callable[..., ConfluentMember],
    admins: dict[str, Admin],
    clients: dict[str, Client],
    new_topic: Callable[..., str],
    new_name: Callable[[], str],
) -> None:
    topic, group = new_topic(1), new_name()
    together = Together(join_with({**BROKER_ASSIGNS, "enable.auto.commit": str(commits).lower()}, group, topic))
    together.share(topic, 1)
    clients["confluent"].send(topic, numbered(0, 10, 1))
    assert values(together.take(10)) == values(numbered(0, 10, 1))
    admins["confluent"].delete([topic])
    admins["confluent"].create([NewTopic(name=topic)])
    clients["confluent"].send(topic, numbered(10, 13, 1))
    assert values(together.take(3)) == values(numbered(10, 13, 1))
