"""What is stored of a classic group: little for little changes, and enough to make the group again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.classic.records import changes, fold
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember, Protocol
from goqueue.machines.groups.keys import GroupKey, GroupKeyKind, decode_key, encode_key
from goqueue.machines.groups.values import Rebalance
from tests.unit.machines.compaction import compacted, compactions
from tests.unit.machines.groups.classic.classic_kit import NAME, Stage, folded, settle, stable

FULL = ClassicGroup(
    name="größe",
    generation=7,
    protocol_type="consumer",
    protocol="range",
    leader="a",
    is_assigned=True,
    members={
        "a": ClassicMember(
            id="a",
            instance_id="one",
            client_id="client ü",
            client_host="10.0.0.1",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocols=(Protocol("range", bytes(range(256))), Protocol("sticky", b"")),
            assignment=b"\x00\xff",
        ),
        "b": ClassicMember(id="b", protocols=(Protocol("range", b""),)),
    },
    rebalances=(Rebalance(6, "member b joined", 10, 20, 3), Rebalance(7, "member c left", 30)),
    rebalance_count=12,
    move_count=40,
    emptied_ms=5,
)


def kinds(records: list[KeyedRecord]) -> list[tuple[GroupKeyKind, bytes, bool]]:
    """Return what records are about, and whether they say that it is over."""
    return [(key.kind, key.rest, value is None) for key, value in ((decode_key(key), value) for key, value in records)]


def test_everything_comes_back() -> None:
    assert folded(changes(None, FULL)) == FULL
    assert list(changes(None, FULL)[:1]) == [
        record for record in changes(None, FULL) if not decode_key(record.key).rest
    ]


def test_nothing_is_stored_of_what_is_volatile() -> None:
    stage = stable("a", "b")
    count = len(stage.records)
    stage.heartbeat("a")
    stage.join(new_id="c")
    stage.join(new_id="d", needs_known_id=True)
    stage.join("a")
    assert len(stage.records) == count
    assert stage.state == "PreparingRebalance"


def test_a_group_that_never_had_a_generation_is_not_stored() -> None:
    stage = Stage()
    stage.join(new_id="a")
    stage.join(new_id="b", needs_known_id=True)
    assert stage.records == []
    assert changes(stage.group, None) == []


def test_only_members_that_changed_are_stored_again() -> None:
    changed = replace(FULL, members={**FULL.members, "b": replace(FULL.members["b"], assignment=b"new")})
    assert kinds(changes(FULL, changed)) == [(GroupKeyKind.MEMBER, b"b", False)]
    assert kinds(changes(FULL, replace(FULL, is_assigned=False))) == [(GroupKeyKind.GROUP, b"", False)]
    assert changes(FULL, replace(FULL)) == []


def test_members_that_are_gone_are_forgotten() -> None:
    less = replace(FULL, generation=8, members={"b": FULL.members["b"]})
    assert kinds(changes(FULL, less)) == [(GroupKeyKind.GROUP, b"", False), (GroupKeyKind.MEMBER, b"a", True)]
    assert folded(changes(FULL, less), FULL) == less


@pytest.mark.parametrize("is_from_nothing", [False, True])
def test_a_group_that_is_gone_leaves_nothing(is_from_nothing: bool) -> None:
    records = changes(FULL, None)
    assert kinds(records) == [
        (GroupKeyKind.GROUP, b"", True),
        (GroupKeyKind.MEMBER, b"a", True),
        (GroupKeyKind.MEMBER, b"b", True),
    ]
    assert folded(records, None if is_from_nothing else FULL) is None
    assert folded([*changes(None, FULL), *records]) is None


def test_records_may_come_in_the_order_that_compaction_leaves() -> None:
    stage = stable("a", "b", "c")
    stage.leave("c")
    stage.join("a")
    stage.join("b")
    settle(stage)
    latest = compacted(stage.records)
    assert folded(latest) == folded(reversed(latest)) == stage.known
    assert all(folded(left) == stage.known for left in compactions(stage.records))


def test_a_member_comes_back_under_an_id_that_was_forgotten() -> None:
    without_b = replace(FULL, members={"a": FULL.members["a"]})
    records = [*changes(None, FULL), *changes(FULL, without_b), *changes(without_b, FULL)]
    assert folded(records) == FULL


def test_keys_lead_to_their_group_and_member() -> None:
    (first, *others) = changes(None, FULL)
    assert decode_key(first.key) == GroupKey(GroupKeyKind.GROUP, "größe", b"")
    assert [decode_key(record.key) for record in others] == [
        GroupKey(GroupKeyKind.MEMBER, "größe", b"a"),
        GroupKey(GroupKeyKind.MEMBER, "größe", b"b"),
    ]
    assert decode_key(encode_key(GroupKeyKind.MEMBER, "", "ä".encode())) == GroupKey(
        GroupKeyKind.MEMBER, "", "ä".encode()
    )


@pytest.mark.parametrize("key", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x03ab", b"\x09\x00\x01a", b"cluster"])
def test_what_is_no_key_is_damage(key: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_key(key)


def test_what_is_no_group_is_refused() -> None:
    key = decode_key(encode_key(GroupKeyKind.GROUP, NAME))
    for value in (b"", b"{}", b"[]", b'{"kind":"consumer"}'):
        with pytest.raises(ValueError):
            fold(None, key, value)
