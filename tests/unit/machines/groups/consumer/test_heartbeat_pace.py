"""How often members are told to come: often while there are few of them, or while partitions are on their way."""

from __future__ import annotations

import pytest

from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember
from goqueue.machines.groups.values import Rebalance
from goqueue.model.groups import SESSION_TIMEOUT_MS
from tests.unit.machines.groups.groups_kit import GroupsStage, beat

ENDED = (Rebalance(1, "", 0, 1),)
BEGUN = (Rebalance(1, "", 0),)


def group(count: int, rebalances: tuple[Rebalance, ...] = ENDED) -> ConsumerGroup:
    """Return a group with so many members."""
    members = {str(number): ConsumerMember(id=str(number)) for number in range(count)}
    return ConsumerGroup(name="g", members=members, rebalances=rebalances)


@pytest.mark.parametrize(
    ("members", "settled_ms", "rebalancing_ms"),
    [(3, 300, 300), (100, 300, 300), (300, 900, 300), (1_000, 3_000, 1_000), (5_000, 9_000, 5_000)],
)
def test_the_more_members_there_are_the_less_often_they_come(
    members: int, settled_ms: int, rebalancing_ms: int
) -> None:
    pace = HeartbeatPace()
    for _ in range(members // 2):
        pace.replaced(None, group(2, BEGUN))
    assert pace.interval_ms(group(3, BEGUN)) == rebalancing_ms
    assert pace.interval_ms(group(3)) == settled_ms
    for _ in range(members // 2):
        pace.replaced(group(2, BEGUN), group(2))
    assert pace.interval_ms(group(3, BEGUN)) == 300, "only those count that are being rebalanced"
    assert pace.interval_ms(group(3)) == settled_ms
    for _ in range(members // 2):
        pace.replaced(group(2), None)
    assert pace.interval_ms(group(3)) == 300


def test_two_heartbeats_can_be_lost_however_many_members_there_are() -> None:
    assert HeartbeatPace().interval_ms(group(20_000)) * 3 < SESSION_TIMEOUT_MS


def test_machines_share_a_pace_and_a_restart_counts_nobody_twice() -> None:
    stage = GroupsStage()
    for number in range(200):
        stage.submit(beat(f"g{number % 40}", f"m{number}"))
    stage.submit(beat("g0", "m0", -1))
    assert stage.pace.members == 199
    stage.restart()
    assert stage.pace.members == 199
    told = stage.told(beat("h", "x"))
    assert stage.told(beat("h", "x", told.epoch)).heartbeat_interval_ms == 600
    stage.pass_ms(60_000)
    assert (stage.pace.members, stage.pace.rebalancing) == (0, 0)


def test_a_heartbeat_without_news_stores_nothing_and_keeps_its_member_alive() -> None:
    stage = GroupsStage()
    epoch = stage.told(beat("g", "m")).epoch
    stored = len(stage.records)
    for _ in range(4):
        stage.pass_ms(20_000)
        told = stage.told(beat("g", "m", epoch))
        assert (told.epoch, told.assignment) == (epoch, None)
    assert len(stage.records) == stored
    stage.pass_ms(29_999)
    assert stage.told(beat("g", "m", epoch)).epoch == epoch
    stage.pass_ms(30_000)
    assert stage.told(beat("g", "m", epoch)) == "unknown_member"


def test_whoever_says_all_it_knows_is_told_all_it_has() -> None:
    stage = GroupsStage()
    epoch = stage.told(beat("g", "m")).epoch
    assert stage.told(beat("g", "m", epoch, is_full=True)).assignment is not None
    assert stage.told(beat("g", "m", epoch, client_id="other")).assignment is None
    found = stage.groups.find("g")
    assert isinstance(found, ConsumerGroup)
    assert found.members["m"].client_id == "other"
