"""Metrics of groups and transactions: what is told agrees with what happened, and within bounds."""

from __future__ import annotations

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.groups.membership import commit_offsets
from goqueue.broker.topics.admin import create_topic
from goqueue.client import Client, NewMessage, PartitionOffset, groups, messages, topics, transactions
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.machines.groups.rebalance_kinds import RebalanceKind, kind_of_reason
from goqueue.model.topic import TopicPartition
from goqueue.observe.group_metrics import GROUPS_MAX
from goqueue.observe.metrics import Metrics
from goqueue.testing import Broker, Simulation, simulate
from tests.unit.observe.test_metrics import Door, Samples, core, samples, scrape, value


def test_how_far_groups_are_behind_is_told_by_topic() -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create("t", partitions=2))
        for partition in (0, 1):
            client.send(messages.publish("t", [NewMessage(str(number), partition=partition) for number in range(5)]))
        member = client.send(groups.join("g", ["t"]))
        found = scrape(broker)
        assert value(found, "goqueue_groups") == 1
        assert value(found, "goqueue_group_members", group="g") == 1
        assert not any("lag" in name for name, _ in found), "without an offset there is no lag"
        client.send(groups.commit("g", [PartitionOffset("t", 0, 2), PartitionOffset("t", 1, 5)], member=member))
        found = scrape(broker)
        assert value(found, "goqueue_group_lag_messages", group="g", topic="t") == 3
        assert 0 < value(found, "goqueue_group_lag_seconds", group="g", topic="t") < 60
        client.send(groups.commit("g", [PartitionOffset("t", 0, 5)], member=member))
        client.send(groups.leave("g", member.member_id))
        found = scrape(broker)
        assert value(found, "goqueue_group_members", group="g") == 0
        assert value(found, "goqueue_group_lag_messages", group="g", topic="t") == 0
        assert value(found, "goqueue_group_lag_seconds", group="g", topic="t") == 0


def test_rebalances_are_counted_by_what_made_them_necessary() -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create("t", partitions=1))
        member = client.send(groups.join("g", ["t", "later"]))
        client.send(topics.create("later", partitions=1))
        client.send(groups.leave("g", member.member_id))
        found = scrape(broker)
        told = {kind: value(found, "goqueue_group_rebalances_total", kind=kind) for kind in RebalanceKind}
        assert {kind for kind, count in told.items() if count} == {"joined", "topics", "left"}
        assert set(told.values()) == {0, 1}


def test_transactions_are_told_by_state_and_by_how_they_ended() -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create("t", partitions=1))
        client.send(transactions.init("one"))
        found = scrape(broker)
        assert value(found, "goqueue_transactions", state="Empty") == 1
        with client.transaction("two") as transaction:
            transaction.publish("t", [NewMessage("x")])
        found = scrape(broker)
        assert value(found, "goqueue_transactions_ended_total", cause="commit") == 1
        assert value(found, "goqueue_transactions_ended_total", cause="timeout") == 0
        assert value(found, "goqueue_transactions", state="CompleteCommit") == 1


def test_groups_beyond_a_number_are_only_counted_and_any_name_can_be_told() -> None:
    async def main(simulation: Simulation) -> Samples:
        broker = core(simulation)
        await broker.start()
        await create_topic(broker.topics, INSIDE, "t", partitions=1)
        zero = [NewOffset(TopicPartition("t", 0), CommittedOffset(0))]
        for name in ["\udc80", *(f"g{number}" for number in range(GROUPS_MAX + 2))]:
            await commit_offsets(broker.groups, INSIDE, CommitOffsets(group=name, offsets=zero))
        await commit_offsets(broker.groups, INSIDE, CommitOffsets(group="a\udc80", offsets=zero))
        text, _ = await Metrics(broker, Door()).expose("")
        await broker.stop()
        return samples(text.decode())

    found = simulate(main, 0)
    assert value(found, "goqueue_groups") == GROUPS_MAX + 4
    assert value(found, "goqueue_groups_omitted") == 4
    told = [dict(labels)["group"] for name, labels in found if name == "goqueue_group_members"]
    assert len(told) == GROUPS_MAX
    assert "a\\udc80" in told


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("member a joined", "joined"),
        ("member a came back as instance b", "joined"),
        ("member a left joined was silent for 30 s", "silent"),
        ("member a did not revoke t-0, and 3 more within 60 s", "kept"),
        ("member a left: my own words", "left"),
        ("member a left, and 2 more", "left"),
        ("member a subscribes to other topics", "subscribed"),
        ("member a asks for range, and so partitions are assigned by range", "assignor"),
        ("topic t got 3 more partitions, and 7 more", "topics"),
        ("topic t was re-created", "topics"),
        ("the broker restarted", "started"),
        ("member a what a client says", "other"),
    ],
)
def test_every_reason_has_a_word(reason: str, kind: str) -> None:
    assert kind_of_reason(reason) == kind
