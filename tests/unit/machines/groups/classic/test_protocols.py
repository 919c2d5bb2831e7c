"""Protocols of classic groups: which one is chosen, and who does not fit."""

from __future__ import annotations

from goqueue.machines.groups.classic.values import Protocol
from tests.unit.machines.groups.classic.classic_kit import OPEN_MS, RANGE, Stage, all_joined, stable
from tests.unit.machines.groups.classic.consumer_bytes import subscription

STICKY = Protocol("sticky", subscription("orders", user_data=b"sticky"))


def test_the_protocol_that_most_prefer_and_all_know_is_chosen() -> None:
    stage = Stage()
    stage.join(new_id="a", protocols=(Protocol("only-a", b""), *RANGE, STICKY))
    stage.join(new_id="b", protocols=(STICKY, *RANGE))
    stage.join(new_id="c", protocols=(STICKY, Protocol("only-c", b""), *RANGE))
    stage.pass_ms(OPEN_MS)
    assert stage.known.protocol == "sticky"


def test_a_member_without_a_protocol_that_all_know_is_refused() -> None:
    stage = stable("a", protocols=(*RANGE, STICKY))
    assert (
        stage.told(
            stage.join(new_id="b", protocols=(Protocol("other", b""),)),
            stage.join(new_id="b", protocols=()),
            stage.join(new_id="b", protocol_type=""),
            stage.join(new_id="b", protocol_type="connect"),
        )
        == ["inconsistent_group_protocol"] * 4
    )
    assert stage.state == "Stable"
    stage.join(new_id="b", protocols=(STICKY,))
    assert stage.told(stage.join(new_id="c", protocols=RANGE)) == ["inconsistent_group_protocol"]
    a = stage.join("a", protocols=(*RANGE, STICKY))
    assert stage.joined(a).protocol == "sticky"


def test_a_protocol_that_a_member_names_twice_counts_once() -> None:
    stage = Stage()
    a, b, c = Protocol("a", b""), Protocol("b", b""), Protocol("c", b"")
    stage.join(new_id="first", protocols=(a, a, b))
    stage.join(new_id="second", protocols=(b, c))
    assert stage.told(stage.join(new_id="third", protocols=(a,))) == ["inconsistent_group_protocol"]
    stage.join(new_id="fourth", protocols=(c, b, b, c))
    stage.pass_ms(OPEN_MS)
    assert (stage.known.protocol, list(stage.known.members)) == ("b", ["first", "second", "fourth"])


def test_an_empty_group_takes_another_type_of_protocol() -> None:
    stage = stable("a")
    stage.leave("a")
    (ticket,) = all_joined(stage, "worker", protocol_type="connect")
    assert stage.joined(ticket).protocol_type == "connect"


def test_a_round_that_everybody_has_left_takes_another_type_of_protocol() -> None:
    stage = Stage()
    stage.join(new_id="a")
    stage.leave("a")
    (ticket,) = all_joined(stage, "worker", protocol_type="connect")
    assert stage.joined(ticket).protocol_type == "connect"


def test_a_member_that_is_alone_may_change_its_type_of_protocol() -> None:
    stage = stable("a")
    ticket = stage.join("a", protocol_type="connect", protocols=(Protocol("default", b""),))
    assert (stage.joined(ticket).protocol_type, stage.joined(ticket).protocol) == ("connect", "default")


def test_a_sync_for_another_protocol_is_refused() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    assert stage.told(
        stage.sync("b", protocol="sticky"),
        stage.sync("b", protocol_type="connect"),
        stage.sync("b", protocol="range", protocol_type="consumer"),
    ) == ["inconsistent_group_protocol", "inconsistent_group_protocol", "waits"]
