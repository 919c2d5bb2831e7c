"""Who may commit offsets in a classic group, and how partitions that move are counted."""

from __future__ import annotations

import pytest

from goqueue.errors import GoQueueError
from goqueue.machines.groups.classic.group import check_commit
from goqueue.machines.groups.classic.values import Protocol
from goqueue.machines.groups.values import REBALANCES_KEPT
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.classic_kit import OPEN_MS, SESSION_MS, Stage, all_joined, settle, stable
from tests.unit.machines.groups.classic.consumer_bytes import assignment

PARTITIONS = [TopicPartition("orders", index) for index in range(3)]
FIRST, SECOND, THIRD = PARTITIONS


def allowed(
    stage: Stage,
    member: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    *,
    in_transaction: bool = False,
) -> list[int] | str:
    """Return which of three partitions a member may commit, or why none."""
    try:
        refusals = check_commit(
            stage.known, member, generation, instance_id, PARTITIONS, is_transactional=in_transaction
        )
    except GoQueueError as error:
        return error.code
    assert {refusal.code for refusal in refusals if refusal} <= {"stale_generation"}
    return [each.partition for each, refusal in zip(PARTITIONS, refusals, strict=True) if refusal is None]


def test_a_member_commits_what_no_other_member_is_assigned() -> None:
    stage = stable("a", "b")
    assert allowed(stage, "a", 1) == [0, 2]
    assert allowed(stage, "b", 1) == [1, 2]


def test_nobody_else_commits_while_there_are_members() -> None:
    stage = stable("a")
    assert allowed(stage) == "unknown_member"
    assert allowed(stage, "z", 1) == "unknown_member"
    assert allowed(stage, "a", 0) == "stale_generation"
    assert allowed(stage, "a", 2) == "stale_generation"
    assert allowed(stage, "a", -1) == "stale_generation"


def test_anybody_commits_while_there_are_no_members() -> None:
    stage = stable("a")
    stage.leave("a")
    assert allowed(stage) == [0, 1, 2]
    assert allowed(stage, "a", 1) == "unknown_member"


def test_a_zombie_cannot_commit() -> None:
    stage = stable("a", "b")
    stage.pass_ms(SESSION_MS - 1)
    stage.heartbeat("b")
    stage.pass_ms(1)
    assert allowed(stage, "a", 1) == "unknown_member"
    stage.join("b")
    settle(stage)
    assert allowed(stage, "a", 1) == "unknown_member"
    assert allowed(stage, "b", 1) == "stale_generation"
    assert allowed(stage, "b", 2) == [0, 1, 2]


def test_members_commit_before_they_join_again_but_not_before_they_are_assigned() -> None:
    stage = stable("a", "b")
    stage.join(new_id="c")
    assert allowed(stage, "a", 1) == [0, 2]
    stage.join("a")
    assert allowed(stage, "a", 1) == [0, 2]
    stage.join("b")
    assert allowed(stage, "a", 2) == "rebalance_in_progress"


def test_a_member_commits_what_it_is_about_to_give_back() -> None:
    stage = stable("a", "b")
    stage.join(new_id="c")
    stage.join("a")
    stage.join("b")
    stage.sync("a", {"a": assignment(THIRD), "b": assignment(SECOND)})
    assert allowed(stage, "a", 2) == [0, 2]
    assert allowed(stage, "b", 2) == [0, 1]
    stage.join("a")
    stage.join("b")
    stage.join("c")
    stage.sync("a", {"a": assignment(THIRD), "b": assignment(SECOND), "c": assignment(FIRST)})
    assert allowed(stage, "a", 2) == "stale_generation"
    assert allowed(stage, "a", 3) == [2]


def test_a_former_self_cannot_commit() -> None:
    stage = stable("a", instance_id="one")
    stage.join(new_id="a2", instance_id="one")
    assert allowed(stage, "a", 1, "one") == "instance_fenced"
    assert allowed(stage, "a2", 1, "one") == [0, 1, 2]
    assert allowed(stage, "a2", 1, "two") == "unknown_member"


def test_what_only_the_members_understand_is_not_checked() -> None:
    stage = stable("a", protocol_type="connect")
    assert allowed(stage, "a", 1) == [0, 1, 2]
    stage = Stage()
    all_joined(stage, "a")
    stage.sync("a", {"a": b"no assignment of Kafka's"})
    assert allowed(stage, "a", 1) == [0, 1, 2]


def test_a_transaction_may_commit_for_nobody_in_particular_but_not_for_a_zombie() -> None:
    stage = stable("a", "b")
    assert allowed(stage, in_transaction=True) == [0, 1, 2]
    assert allowed(stage, "a", 1, in_transaction=True) == [0, 2]
    assert allowed(stage, "a", 0, in_transaction=True) == "stale_generation"
    assert allowed(stage, "z", 1, in_transaction=True) == "unknown_member"


def test_a_transaction_may_commit_what_was_read_in_the_generation_before() -> None:
    stage = stable("a", "b")
    stage.join("a")
    stage.join("b")
    assert stage.state == "CompletingRebalance"
    assert allowed(stage, "a", 2) == "rebalance_in_progress"
    assert allowed(stage, "a", 2, in_transaction=True) == [0, 2]


# -- what is noted of rebalances


def test_a_rebalance_has_a_reason_a_duration_and_moves() -> None:
    stage = stable("a", "b")
    (begun,) = stage.known.rebalances
    assert (begun.epoch, begun.reason, begun.ended_ms - begun.began_ms) == (1, "member a joined", OPEN_MS)
    assert (begun.moves, stage.known.move_count) == (0, 0)
    stage.join(new_id="c")
    stage.join("a")
    stage.pass_ms(30)
    stage.join("b")
    assert stage.known.rebalances[-1].ended_ms == -1
    stage.pass_ms(4)
    stage.sync("a", {"a": assignment(SECOND), "b": assignment(THIRD), "c": assignment(FIRST)})
    latest = stage.known.rebalances[-1]
    assert (latest.epoch, latest.reason, latest.ended_ms - latest.began_ms) == (2, "member c joined", 34)
    assert (latest.moves, stage.known.move_count, stage.known.rebalance_count) == (2, 2, 2)


def test_a_group_that_becomes_empty_has_ended_its_rebalance() -> None:
    stage = stable("a")
    stage.pass_ms(7)
    stage.leave("a")
    latest = stage.known.rebalances[-1]
    assert (latest.reason, latest.ended_ms) == ("member a left", stage.now.wall_ms)
    assert stage.known.emptied_ms == stage.now.wall_ms
    all_joined(stage, "b")
    assert stage.known.emptied_ms == 0


def test_only_the_latest_rebalances_are_kept_and_all_are_counted() -> None:
    stage = stable("a")
    for _ in range(REBALANCES_KEPT + 3):
        stage.join("a")
        settle(stage)
    assert [each.epoch for each in stage.known.rebalances] == list(range(5, 15))
    assert stage.known.rebalance_count == 14


@pytest.mark.parametrize("length", [400, 100_000])
def test_a_long_reason_is_cut(length: int) -> None:
    stage = stable("a")
    stage.join("a", reason="x" * length, protocols=(Protocol("range", b"other"),))
    assert len(stage.known.rebalances[-1].reason) <= 500
