"""Whoever joins a classic group and is no member yet: nothing is heard of it while it waits, and it may be gone."""

from __future__ import annotations

from goqueue.machines.groups.classic.values import Protocol
from tests.unit.machines.groups.classic.classic_kit import REBALANCE_MS, SESSION_MS, stable
from tests.unit.machines.groups.classic.consumer_bytes import subscription

GRACE_MS = 5_000


def test_a_newcomer_is_given_up_if_a_round_lasts_longer_than_clients_wait() -> None:
    stage = stable("slow", rebalance_timeout_ms=600_000)
    lost = stage.join(new_id="gone")
    stage.join(new_id="known", needs_known_id=True)
    known = stage.join("known")
    for _ in range(4):
        stage.pass_ms((REBALANCE_MS + GRACE_MS) // 5)
        stage.heartbeat("slow")
    again = stage.join("known")
    assert stage.told(lost, known, again) == ["waits", "rebalance_in_progress", "waits"]
    stage.pass_ms((REBALANCE_MS + GRACE_MS) // 5)
    assert stage.told(lost, again) == ["unknown_member", "waits"]
    slow = stage.join("slow", rebalance_timeout_ms=600_000)
    assert stage.told(slow, again) == ["ok", "ok"]
    assert set(stage.known.members) == {"slow", "known"}


def test_newcomers_that_come_and_go_do_not_gather_while_a_round_lasts() -> None:
    stage = stable("slow", rebalance_timeout_ms=3_600_000)
    for number in range(300):
        stage.join(new_id=f"incarnation {number}")
        stage.pass_ms(SESSION_MS - 1)
        stage.heartbeat("slow")
        assert stage.known.round is not None
        assert len(stage.known.round.joiners) <= 1 + (REBALANCE_MS + GRACE_MS) // (SESSION_MS - 1)


def test_nobody_waits_longer_than_five_minutes_as_a_newcomer() -> None:
    stage = stable("slow", rebalance_timeout_ms=3_600_000)
    waiting = stage.join(new_id="patient", rebalance_timeout_ms=3_600_000)
    for _ in range(60):
        assert stage.told(waiting) == ["waits"]
        stage.pass_ms(5_000)
        stage.heartbeat("slow")
    assert stage.told(waiting) == ["unknown_member"]


def test_a_member_of_before_may_wait_for_as_long_as_the_round_lasts() -> None:
    stage = stable("slow", "a", rebalance_timeout_ms=600_000)
    waiting = stage.join("a", protocols=(Protocol("range", subscription("audit")),))
    for _ in range(100):
        stage.pass_ms(5_000)
        stage.heartbeat("slow")
    assert stage.told(waiting) == ["waits"]
    stage.join("slow", rebalance_timeout_ms=600_000)
    assert stage.told(waiting) == ["ok"]


def test_whoever_waits_and_sends_a_heartbeat_is_not_silent_later() -> None:
    stage = stable("slow", "a", rebalance_timeout_ms=600_000)
    waiting = stage.join("a", protocols=(Protocol("range", subscription("audit")),))
    assert stage.told(stage.heartbeat("a")) == ["rebalance_in_progress"]
    for _ in range(3):
        stage.pass_ms(SESSION_MS - 1)
        stage.heartbeat("slow")
    assert stage.told(waiting) == ["waits"]
