"""What is stored of a group whose broker assigns: which records, in which order, and what is made of them."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.consumer.group import refresh
from goqueue.machines.groups.consumer.records import KIND, changes, fold
from goqueue.machines.groups.consumer.values import LEAVE_EPOCH, ConsumerGroup
from goqueue.machines.groups.keys import GroupKey, GroupKeyKind, decode_key
from tests.unit.machines.groups.consumer.consumer_kit import Coordinator

NEWER = {"topic_ids", "former"}


def described(records: list[KeyedRecord]) -> list[str]:
    found = []
    for record in records:
        key = decode_key(record.key)
        sign = "-" if record.value is None else "+"
        found.append(f"{sign}{key.kind.name} {key.rest.decode()}".rstrip())
    return found


def folded(records: list[KeyedRecord], group: ConsumerGroup | None = None) -> ConsumerGroup | None:
    for record in records:
        group = fold(group, decode_key(record.key), record.value)
    return group


def busy() -> Coordinator:
    broker = Coordinator({"orders": 4, "audit": 2})
    broker.join("a", "orders audit", instance_id="i", rack_id="r", client_id="c", client_host="h", assignor="uniform")
    broker.join("b", "orders", pattern="au.*", rebalance_timeout_ms=5)
    broker.beat("a")
    return broker


def test_the_record_of_the_group_comes_first_and_each_tells_its_kind() -> None:
    records = changes(None, busy().known)
    assert described(records) == ["+GROUP", "+MEMBER a", "+MEMBER b"]
    for record in records:
        assert record.value is not None
        assert record.value.startswith(b'{"kind":"consumer"')
        assert next(iter(msgspec.json.decode(record.value).items())) == ("kind", KIND)


def test_only_what_has_changed_is_stored() -> None:
    broker = busy()
    before = broker.known
    assert changes(before, before) == []
    broker.beat("a", "audit-0 orders-0 orders-1")
    assert described(changes(before, broker.known)) == ["+MEMBER a"]
    before = broker.known
    broker.beat("a", epoch=LEAVE_EPOCH)
    assert described(changes(before, broker.known)) == ["+GROUP", "-MEMBER a", "+MEMBER b"]


def test_records_that_know_no_ids_of_topics_are_taken_for_those_of_the_topics_that_are_there() -> None:
    broker = busy()
    broker.settle()
    older = []
    for record in changes(None, broker.known):
        assert record.value is not None
        value = {name: each for name, each in msgspec.json.decode(record.value).items() if name not in NEWER}
        older.append(KeyedRecord(record.key, msgspec.json.encode(value)))
    group = folded(older)
    assert group is not None
    assert group.topic_ids == {}
    refreshed = refresh(group, broker.known_topics, broker.now)
    assert refreshed == broker.known
    assert described(changes(group, refreshed)) == ["+GROUP"]


def test_a_group_that_goes_takes_everything_with_it() -> None:
    records = changes(busy().known, None)
    assert described(records) == ["-GROUP", "-MEMBER a", "-MEMBER b"]
    assert folded(records, busy().known) is None
    assert folded(records) is None
    assert changes(None, None) == []


def test_the_records_of_a_group_make_an_equal_one_in_any_order() -> None:
    group = busy().known
    records = changes(None, group)
    assert folded(records) == group
    assert folded(records[::-1]) == group
    assert folded(records[1:] + records[:1]) == group


@pytest.mark.parametrize("value", [b"", b"{}", b'{"kind":"classic"}', b'{"kind":"consumer"}', b"[]", b"\xff"])
@pytest.mark.parametrize("kind", [GroupKeyKind.GROUP, GroupKeyKind.MEMBER])
def test_a_record_of_another_kind_is_damage(kind: GroupKeyKind, value: bytes) -> None:
    with pytest.raises(Corrupt):
        fold(None, GroupKey(kind, "g", b"m"), value)


def test_fields_of_a_later_version_do_not_disturb() -> None:
    group = busy().known
    later = [
        KeyedRecord(record.key, record.value[:-1] + b',"colour":"red"}')
        for record in changes(None, group)
        if record.value
    ]
    assert folded(later) == group
