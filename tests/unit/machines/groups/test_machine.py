"""All groups of a shard: kinds that share names, offsets and who may set them, and what is forgotten when."""

from __future__ import annotations

import pytest

from goqueue.errors import Corrupt, GoQueueError
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.classic.values import ClassicGroup, Leave, Leaver, Sync
from goqueue.machines.groups.commands import DeleteGroup, DeleteOffsets, DropTopicOffsets, EndOffsets, Refresh, Sweep
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerReply
from goqueue.machines.groups.keys import GroupKeyKind, encode_key
from goqueue.machines.groups.machine import GroupMachine
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.groups_kit import DAY_MS, ORDERS, GroupsStage, alive, beat, commit, join

# -- who may commit


def test_a_name_without_members_takes_commits_of_anybody_but_members() -> None:
    stage = GroupsStage()
    assert stage.told(commit("g", (0, 5), (1, 6))) == ["ok", "ok"]
    assert stage.offsets() == {0: 5, 1: 6}
    assert stage.told(commit("g", (0, 7), member_id="a", epoch=1)) == "unknown_member"
    assert stage.told(commit("new", (0, 7), epoch=3)) == "unknown_member"
    assert (stage.offsets(), stage.groups.names()) == ({0: 5, 1: 6}, ["g"])


def test_a_classic_member_commits_in_its_generation_what_is_not_anothers() -> None:
    stage = GroupsStage()
    generation = stage.classic_member()
    assert stage.told(commit("g", (0, 5), member_id="a", epoch=generation)) == ["ok"]
    assert stage.told(commit("g", (0, 9), member_id="a", epoch=generation - 1)) == "stale_generation"
    assert stage.told(commit("g", (0, 9), member_id="z", epoch=generation)) == "unknown_member"
    assert stage.told(commit("g", (0, 9))) == "unknown_member"
    assert stage.offsets() == {0: 5}


def test_a_member_whose_broker_assigns_commits_in_its_epoch_what_it_has() -> None:
    stage = GroupsStage()
    reply = stage.told(beat("g", "a"))
    assert isinstance(reply, ConsumerReply)
    assert reply.assignment == frozenset(ORDERS)
    assert stage.told(commit("g", (0, 5), member_id="a", epoch=reply.epoch)) == ["ok"]
    assert stage.told(commit("g", (0, 5), (7, 1), member_id="a", epoch=reply.epoch)) == ["ok", "stale_member_epoch"]
    assert stage.told(commit("g", (0, 9), member_id="a", epoch=reply.epoch + 1)) == "stale_member_epoch"
    assert stage.told(commit("g", (0, 9), member_id="z", epoch=1)) == "unknown_member"
    assert stage.told(commit("g", (0, 9))) == "unknown_member"
    assert stage.offsets() == {0: 5}


def test_an_id_that_was_given_out_does_not_make_a_group() -> None:
    stage = GroupsStage()
    assert stage.told(join("g", "a", needs_known_id=True)) == "member_id_required"
    assert stage.told(commit("g", (0, 5))) == ["ok"]
    stage.pass_ms(10_000)
    assert stage.groups.find("g") is None
    assert stage.groups.names() == ["g"]


# -- transactions


def test_offsets_of_a_transaction_are_set_when_it_commits() -> None:
    stage = GroupsStage()
    stage.submit(commit("g", (0, 5)))
    assert stage.told(commit("g", (0, 9), (1, 3), producer_id=77)) == ["ok", "ok"]
    assert stage.offsets() == {0: 5}
    stage.submit(EndOffsets(78, is_commit=True))
    assert stage.offsets() == {0: 5}
    stage.restart()
    assert stage.told(EndOffsets(77, is_commit=True)) is None
    assert stage.offsets() == {0: 9, 1: 3}
    assert stage.told(EndOffsets(77, is_commit=True)) is None


def test_offsets_of_a_transaction_that_aborts_are_forgotten() -> None:
    stage = GroupsStage()
    stage.submit(commit("g", (0, 9), producer_id=77))
    stage.submit(EndOffsets(77, is_commit=False))
    assert (stage.offsets(), stage.groups.names()) == ({}, [])


def test_an_old_producer_commits_for_a_group_with_members_without_naming_one() -> None:
    stage = GroupsStage()
    generation = stage.classic_member()
    assert stage.told(commit("g", (0, 9), producer_id=77)) == ["ok"]
    assert stage.told(commit("g", (0, 9), producer_id=77, member_id="a", epoch=generation - 1)) == "stale_generation"


# -- two kinds under one name


def test_a_name_belongs_to_one_kind_while_it_has_members() -> None:
    stage = GroupsStage()
    generation = stage.classic_member()
    assert stage.told(beat("g", "c")) == "inconsistent_group_protocol"
    assert stage.told(alive("g", "a", generation)) is None
    stage.submit(beat("h", "c"))
    assert stage.told(join("h", "a")) == "inconsistent_group_protocol"
    assert stage.told(alive("h", "c", 1)) == "unknown_member"
    assert stage.told(Sync(group="h", member_id="c", generation=1)) == "unknown_member"
    assert isinstance(stage.told(beat("h", "c", 1)), ConsumerReply)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_empty_group_becomes_one_of_the_other_kind(is_compacted: bool) -> None:
    stage = GroupsStage()
    generation = stage.classic_member()
    stage.submit(commit("g", (0, 5), member_id="a", epoch=generation))
    stage.submit(Leave("g", (Leaver("a"),)))
    stage.submit(beat("g", "c"))
    assert isinstance(stage.groups.find("g"), ConsumerGroup)
    stage.restart(is_compacted=is_compacted)
    assert isinstance(stage.groups.find("g"), ConsumerGroup)
    assert stage.told(alive("g", "a", generation)) == "unknown_member"
    stage.submit(beat("g", "c", -1))
    stage.classic_member("g", "d")
    stage.restart(is_compacted=is_compacted)
    found = stage.groups.find("g")
    assert isinstance(found, ClassicGroup)
    assert set(found.members) == {"d"}
    assert stage.offsets() == {0: 5}


@pytest.mark.parametrize("epoch", [0, -1])
def test_leaving_as_a_stranger_changes_nothing(epoch: int) -> None:
    stage = GroupsStage()
    stage.submit(beat("h", "c"))
    stage.submit(beat("h", "c", epoch))
    before = stage.groups.find("h")
    for name in ("h", "nothing"):
        assert stage.told(Leave(name, (Leaver("d"), Leaver("", "two")))) == ["unknown_member"] * 2
    assert stage.groups.find("h") is before
    assert stage.groups.names() == ["h"]


def test_members_can_be_sent_away_whoever_assigns_their_partitions() -> None:
    stage = GroupsStage()
    stage.submit(beat("h", "c", instance_id="one"))
    stage.submit(beat("h", "d"))
    stage.submit(beat("h", "e", instance_id="two"))
    leavers = (Leaver("", "one", "an operator asked for it"), Leaver("d"), Leaver("c", "two"), Leaver("c", "three"))
    assert stage.told(Leave("h", leavers)) == ["ok", "ok", "instance_fenced", "unknown_member"]
    group = stage.groups.find("h")
    assert isinstance(group, ConsumerGroup)
    assert set(group.members) == {"e"}
    assert group.rebalances[-1].reason == "member c left: an operator asked for it, and 1 more"
    assert stage.told(beat("h", "c", 1, instance_id="one")) == "unknown_member"
    stage.restart()
    assert stage.told(Leave("h", (Leaver("", "two"),))) == ["ok"]
    assert stage.told(DeleteGroup("h")) is None


def test_one_who_gives_an_id_back_leaves_no_group() -> None:
    stage = GroupsStage()
    stage.submit(join("g", "a", needs_known_id=True))
    assert stage.told(Leave("g", (Leaver("a"),))) == ["ok"]
    assert stage.groups.names() == []
    assert stage.records == []


# -- deleting


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    stage = GroupsStage()
    stage.classic_member()
    stage.submit(commit("g", (1, 5), member_id="a", epoch=1))
    stage.submit(commit("g", (2, 5), producer_id=7))
    assert stage.told(DeleteGroup("g")) == "group_not_empty"
    stage.submit(Leave("g", (Leaver("a"),)))
    assert stage.told(DeleteGroup("g")) is None
    assert stage.told(DeleteGroup("g")) == "unknown_group"
    assert (stage.groups.names(), stage.groups.records()) == ([], [])
    stage.restart()
    assert stage.groups.names() == []
    assert stage.groups.deadline_ms() == stage.now.monotonic_ms + 600_000


def test_a_group_that_somebody_joins_is_not_deleted() -> None:
    stage = GroupsStage()
    stage.submit(join("g", "a"))
    assert stage.told(DeleteGroup("g")) == "group_not_empty"
    stage.submit(beat("h", "c"))
    assert stage.told(DeleteGroup("h")) == "group_not_empty"


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    stage = GroupsStage({"orders": 3, "audit": 1})
    audit = TopicPartition("audit", 0)
    assert stage.told(DeleteOffsets("g", ORDERS)) == "unknown_group"
    stage.submit(commit("g", (0, 5)))
    stage.classic_member()
    assert stage.told(DeleteOffsets("g", [ORDERS[0], audit])) == ["group_subscribed", "ok"]
    assert stage.offsets() == {0: 5}
    stage.submit(Leave("g", (Leaver("a"),)))
    assert stage.told(DeleteOffsets("g", [ORDERS[0], audit])) == ["ok", "ok"]
    assert stage.offsets() == {}


def test_offsets_of_a_group_that_only_its_members_understand_are_not_deleted() -> None:
    stage = GroupsStage()
    stage.submit(join("g", "worker", protocol_type="connect"))
    stage.pass_ms(200)
    assert stage.told(DeleteOffsets("g", [ORDERS[0]])) == "group_not_empty"


def test_a_topic_that_is_gone_takes_its_offsets_with_it() -> None:
    stage = GroupsStage()
    stage.submit(commit("g", (0, 5)))
    stage.submit(commit("h", (0, 5), producer_id=7))
    stage.submit(DropTopicOffsets("other"))
    assert stage.offsets() == {0: 5}
    stage.submit(DropTopicOffsets("orders"))
    stage.submit(EndOffsets(7, is_commit=True))
    assert stage.groups.names() == []


# -- what nobody uses any more


def test_offsets_that_nobody_used_for_a_week_are_forgotten() -> None:
    stage = GroupsStage()
    stage.submit(commit("g", (0, 5)))
    stage.pass_ms(6 * DAY_MS)
    stage.submit(commit("g", (1, 5)))
    stage.pass_ms(DAY_MS + 600_000)
    assert stage.offsets() == {1: 5}
    stage.pass_ms(6 * DAY_MS)
    assert stage.groups.names() == []


def test_a_group_and_its_offsets_stay_for_a_week_after_the_last_member_went() -> None:
    stage = GroupsStage()
    generation = stage.classic_member()
    stage.submit(commit("g", (0, 5), member_id="a", epoch=generation))
    stage.now = stage.now._replace(wall_ms=stage.now.wall_ms + 8 * DAY_MS)
    stage.submit(Sweep())
    assert stage.offsets() == {0: 5}
    stage.submit(Leave("g", (Leaver("a"),)))
    stage.pass_ms(7 * DAY_MS - 600_000)
    assert stage.offsets() == {0: 5}
    stage.pass_ms(2 * 600_000)
    assert stage.groups.names() == []
    stage.restart()
    assert stage.groups.names() == []


@pytest.mark.parametrize("is_classic", [True, False])
def test_a_group_that_never_committed_is_forgotten_a_week_after_it_became_empty(is_classic: bool) -> None:
    stage = GroupsStage()
    if is_classic:
        stage.submit(join("g", "a"))
        stage.pass_ms(15_000)
    else:
        stage.submit(beat("g", "a"))
        stage.submit(beat("g", "a", -1))
    assert stage.groups.names() == ["g"]
    stage.pass_ms(8 * DAY_MS)
    assert (stage.groups.names(), stage.groups.records()) == ([], [])


def test_an_old_offset_that_a_transaction_is_about_to_set_is_not_swept_away() -> None:
    stage = GroupsStage()
    stage.submit(commit("g", (0, 5)))
    stage.pass_ms(7 * DAY_MS - 1)
    stage.submit(commit("g", (0, 9), producer_id=7))
    stage.pass_ms(600_000)
    assert stage.offsets() == {0: 5}
    stage.submit(EndOffsets(7, is_commit=True))
    assert stage.offsets() == {0: 9}


# -- time and topics


def test_members_of_all_kinds_that_are_silent_are_given_up() -> None:
    stage = GroupsStage()
    stage.classic_member("g")
    stage.submit(beat("h", "c"))
    stage.pass_ms(30_000)
    assert [len(group.members) for group in stage.groups.groups.values()] == [0, 0]


def test_new_partitions_reach_the_groups_that_read_them() -> None:
    stage = GroupsStage()
    stage.submit(beat("h", "c"))
    stage.grow("orders", 5)
    stage.groups.topics_changed(["orders"])
    due = list(stage.groups.due(stage.now))
    assert due == [Refresh("h")]
    assert list(stage.groups.due(stage.now)) == due, "what was not done comes again"
    stage.look()
    assert list(stage.groups.due(stage.now)) == []
    group = stage.groups.find("h")
    assert isinstance(group, ConsumerGroup)
    assert group.topics == {"orders": 5}


def test_a_topic_that_is_made_anew_cannot_be_committed_to_by_who_read_the_former_one() -> None:
    stage = GroupsStage()
    epoch = stage.told(beat("g", "c")).epoch
    assert stage.told(commit("g", (0, 7), member_id="c", epoch=epoch)) == ["ok"]
    stage.submit(DropTopicOffsets("orders"))
    stage.make("orders", 3)
    stage.groups.topics_changed(["orders"])
    for _ in range(2):
        assert stage.told(commit("g", (0, 9), member_id="c", epoch=epoch)) == ["unknown_topic"]
        stage.look()
    assert stage.offsets() == {}


def test_a_topic_costs_only_the_groups_that_it_means_something_to() -> None:
    stage = GroupsStage({"orders": 1, "audit": 1})
    stage.submit(beat("named", "a"))
    stage.submit(beat("waiting", "b", topics=frozenset({"later"})))
    stage.submit(beat("matching", "c", topics=frozenset(), pattern="la.*|au.*"))
    stage.submit(beat("gone", "d", topics=frozenset({"later"})))
    stage.submit(beat("gone", "d", -1))
    stage.submit(DeleteGroup("gone"))

    def due(*topics: str) -> set[str]:
        stage.groups.topics_changed(topics)
        found: set[str] = set()
        while commands := [each for each in stage.groups.due(stage.now) if isinstance(each, Refresh)]:
            found |= {each.group for each in commands}
            for command in commands:
                stage.submit(command)
        return found

    assert due("orders") == {"named"}
    assert due("later") == {"waiting", "matching"}
    assert due("audit", "orders") == {"matching", "named"}
    assert due("nobody", "__later") == set()
    epoch = stage.told(beat("matching", "c", 1, pattern="or.*", topics=frozenset({"x"}), owned=frozenset())).epoch
    assert due("later", "orders", "x") == {"waiting", "named", "matching"}
    stage.submit(beat("matching", "c", epoch))
    assert due("audit") == set()
    stage.restart()
    assert due() == {"named", "waiting", "matching"}, "after a start, anything may have changed"
    assert due("orders") == {"named", "matching"}


def test_many_groups_are_not_refreshed_all_at_once() -> None:
    stage = GroupsStage()
    for number in range(23):
        stage.submit(beat(f"g{number}", "m"))
    stage.grow("orders", 4)
    stage.groups.topics_changed(["orders"])
    rounds = 0
    while (due := stage.groups.deadline_ms()) is not None and due <= stage.now.monotonic_ms:
        rounds += 1
        stage.look()
    assert rounds > 1
    assert {group.epoch for group in stage.groups.groups.values() if isinstance(group, ConsumerGroup)} == {2}


def test_a_topic_that_changed_while_the_broker_was_away_is_noticed() -> None:
    stage = GroupsStage()
    stage.submit(beat("h", "c"))
    stage.grow("orders", 4)
    stage.restart()
    stage.look()
    group = stage.groups.find("h")
    assert isinstance(group, ConsumerGroup)
    assert group.topics == {"orders": 4}


# -- what is stored


@pytest.mark.parametrize(
    "record",
    [
        KeyedRecord(b"", b"{}"),
        KeyedRecord(b"cluster", b"{}"),
        KeyedRecord(encode_key(GroupKeyKind.GROUP, "g"), b"{}"),
        KeyedRecord(encode_key(GroupKeyKind.GROUP, "g"), b'{"kind":"other"}'),
        KeyedRecord(encode_key(GroupKeyKind.GROUP, "g"), b'{"kind":"classic"}'),
        KeyedRecord(encode_key(GroupKeyKind.MEMBER, "g", b"a"), b"no json"),
        KeyedRecord(encode_key(GroupKeyKind.PENDING, "g", b"a"), b"[]"),
    ],
)
def test_what_is_none_of_ours_is_damage(record: KeyedRecord) -> None:
    with pytest.raises(Corrupt):
        GroupMachine({}).apply(record)


def test_a_refusal_is_an_answer_to_the_one_who_asked() -> None:
    stage = GroupsStage()
    ticket = stage.submit(join("g", "a", needs_known_id=True))
    assert isinstance(stage.answers[ticket], GoQueueError)
