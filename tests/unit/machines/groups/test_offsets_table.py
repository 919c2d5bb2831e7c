"""The table of offsets: what groups have committed, and what open transactions are about to commit."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.keys import GroupKeyKind, decode_key, encode_key
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset, OffsetTable, partition_key
from goqueue.model.topic import TopicPartition
from tests.unit.machines.compaction import compactions

ORDERS = TopicPartition("orders", 0)
AUDIT = TopicPartition("audit", 3)


def new(partition: TopicPartition, offset: int) -> NewOffset:
    """Return an offset to commit."""
    return NewOffset(partition, CommittedOffset(offset, 2, "märk", 1_000))


def table_of(*batches: Iterable[KeyedRecord]) -> OffsetTable:
    """Return a table that was told of records."""
    return told(OffsetTable(), *batches)


def told(table: OffsetTable, *batches: Iterable[KeyedRecord]) -> OffsetTable:
    """Tell a table of records."""
    for batch in batches:
        for record in batch:
            table.apply(record)
    return table


def offsets(table: OffsetTable, group: str = "g") -> dict[TopicPartition, int]:
    """Return the offsets of a group."""
    return {partition: value.offset for partition, value in table.of_group(group).items()}


def test_an_offset_comes_back_with_all_that_was_said() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5), new(AUDIT, 7)]))
    assert table.find("g", ORDERS) == CommittedOffset(5, 2, "märk", 1_000)
    assert table.of_group("g") == {ORDERS: new(ORDERS, 5).value, AUDIT: new(AUDIT, 7).value}
    assert table.find("g", TopicPartition("orders", 1)) is None
    assert table.find("other", ORDERS) is None
    assert table.of_group("other") == {}


def test_the_latest_offset_counts_also_if_it_is_smaller() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5)]), table.commit("g", [new(ORDERS, 3)]))
    assert offsets(table) == {ORDERS: 3}


def test_deciding_changes_nothing() -> None:
    table = table_of(
        OffsetTable().commit("g", [new(ORDERS, 5)]), OffsetTable().commit_pending("g", 9, [new(ORDERS, 8)])
    )
    before = list(table.records())
    table.commit("g", [new(AUDIT, 1)])
    table.commit_pending("g", 9, [new(AUDIT, 1)])
    table.end_pending(9, is_commit=True)
    table.forget("g")
    table.forget_topic("orders")
    assert list(table.records()) == before


def test_groups_do_not_see_each_other() -> None:
    table = OffsetTable()
    told(
        table,
        table.commit("g", [new(ORDERS, 5)]),
        table.commit("h", [new(ORDERS, 6)]),
        table.commit("g", [new(AUDIT, 1)]),
    )
    assert (offsets(table, "g"), offsets(table, "h")) == ({ORDERS: 5, AUDIT: 1}, {ORDERS: 6})
    told(table, table.forget("g"))
    assert (offsets(table, "g"), offsets(table, "h")) == ({}, {ORDERS: 6})


def test_names_of_groups_and_topics_are_not_confused() -> None:
    table = OffsetTable()
    told(
        table,
        table.commit("a", [new(TopicPartition("bc", 0), 1)]),
        table.commit("ab", [new(TopicPartition("c", 0), 2)]),
    )
    assert table.find("a", TopicPartition("bc", 0)) is not None
    assert table.find("ab", TopicPartition("bc", 0)) is None
    assert sorted(table.groups()) == ["a", "ab"]


def test_some_offsets_can_be_forgotten() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5), new(AUDIT, 7)]))
    assert table.forget("g", [TopicPartition("orders", 9)]) == []
    told(table, table.forget("g", [ORDERS, TopicPartition("orders", 9)]))
    assert offsets(table) == {AUDIT: 7}
    told(table, table.forget("g", [AUDIT]))
    assert not table.has("g")
    assert list(table.groups()) == []


def test_a_topic_that_is_gone_is_forgotten_by_all_groups() -> None:
    table = OffsetTable()
    told(
        table,
        table.commit("g", [new(ORDERS, 5), new(TopicPartition("orders", 7), 5), new(AUDIT, 7)]),
        table.commit("h", [new(ORDERS, 1), new(TopicPartition("orders2", 0), 1)]),
        table.commit_pending("h", 9, [new(ORDERS, 2), new(AUDIT, 2)]),
    )
    told(table, table.forget_topic("orders"))
    assert (offsets(table, "g"), offsets(table, "h")) == ({AUDIT: 7}, {TopicPartition("orders2", 0): 1})
    assert not table.is_pending("h", ORDERS)
    assert table.is_pending("h", AUDIT)


# -- transactions


def test_a_pending_offset_is_not_seen_before_its_transaction_commits() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5)]), table.commit_pending("g", 9, [new(ORDERS, 8), new(AUDIT, 1)]))
    assert offsets(table) == {ORDERS: 5}
    assert (table.is_pending("g", ORDERS), table.is_pending("g", AUDIT)) == (True, True)
    assert not table.is_pending("h", ORDERS)
    told(table, table.end_pending(9, is_commit=True))
    assert offsets(table) == {ORDERS: 8, AUDIT: 1}
    assert not table.is_pending("g", ORDERS)


def test_an_aborted_transaction_leaves_offsets_as_they_were() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5)]), table.commit_pending("g", 9, [new(ORDERS, 8), new(AUDIT, 1)]))
    told(table, table.end_pending(9, is_commit=False))
    assert offsets(table) == {ORDERS: 5}
    assert not table.is_pending("g", AUDIT)
    assert table.end_pending(9, is_commit=True) == []


def test_a_transaction_ends_for_all_its_groups_and_for_nobody_elses() -> None:
    table = OffsetTable()
    told(
        table,
        table.commit_pending("g", 9, [new(ORDERS, 1)]),
        table.commit_pending("h", 9, [new(ORDERS, 2)]),
        table.commit_pending("g", 10, [new(AUDIT, 3)]),
    )
    assert sorted(table.groups()) == ["g", "h"]
    told(table, table.end_pending(9, is_commit=True))
    assert (offsets(table, "g"), offsets(table, "h")) == ({ORDERS: 1}, {ORDERS: 2})
    assert table.is_pending("g", AUDIT)


def test_two_transactions_may_be_about_to_change_the_same_offset() -> None:
    table = OffsetTable()
    told(table, table.commit_pending("g", 9, [new(ORDERS, 1)]), table.commit_pending("g", 10, [new(ORDERS, 2)]))
    told(table, table.end_pending(10, is_commit=True))
    assert offsets(table) == {ORDERS: 2}
    assert table.is_pending("g", ORDERS)
    told(table, table.end_pending(9, is_commit=True))
    assert offsets(table) == {ORDERS: 1}


def test_an_offset_that_is_forgotten_is_not_set_by_a_transaction() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5)]), table.commit_pending("g", 9, [new(ORDERS, 8), new(AUDIT, 1)]))
    told(table, table.forget("g"))
    assert table.end_pending(9, is_commit=True) == []
    assert list(table.records()) == []


def test_a_group_with_pending_offsets_alone_has_no_offsets_but_is_known() -> None:
    table = table_of(OffsetTable().commit_pending("g", 9, [new(ORDERS, 1)]))
    assert (table.has("g"), list(table.groups()), offsets(table)) == (False, ["g"], {})


# -- what is stored


def test_a_table_is_made_again_from_its_records_also_if_they_are_compacted() -> None:
    table = OffsetTable()
    stored: list[KeyedRecord] = []
    for number in range(5):
        for batch in (
            table.commit("g", [new(ORDERS, number)]),
            table.commit_pending("h", number % 2, [new(AUDIT, number)]),
            table.end_pending(0, is_commit=number == 2),
        ):
            stored += batch
            told(table, batch)
    for again in map(table_of, [*compactions(stored), table.records()]):
        assert sorted(again.records()) == sorted(table.records())


def test_keys_say_what_they_are_about() -> None:
    (record,) = OffsetTable().commit("g", [new(ORDERS, 5)])
    key = decode_key(record.key)
    assert (key.kind, key.group, key.rest) == (GroupKeyKind.OFFSET, "g", b"\0\0\0\0orders")
    (record,) = OffsetTable().commit_pending("g", 258, [new(AUDIT, 5)])
    assert decode_key(record.key).rest == b"\0\0\0\0\0\0\1\2" + b"\0\0\0\3audit"


@pytest.mark.parametrize(
    "key",
    [b"", b"\0\0\5g", encode_key(GroupKeyKind.PENDING, "g", b"\0\0\0"), encode_key(GroupKeyKind.OFFSET, "g", b"\0\0")],
    ids=["no key", "cut off", "no producer", "no partition"],
)
def test_what_is_no_offset_is_damage(key: bytes) -> None:
    with pytest.raises(Corrupt):
        table_of([KeyedRecord(key, b"[1]")])


def test_a_tombstone_for_what_is_not_there_changes_nothing() -> None:
    table = table_of(
        [KeyedRecord(encode_key(GroupKeyKind.OFFSET, "g", b"\0\0\0\0orders"), None)],
        [KeyedRecord(encode_key(GroupKeyKind.PENDING, "g", b"\0\0\0\0\0\0\0\1\0\0\0\0orders"), None)],
    )
    assert (list(table.records()), list(table.groups())) == ([], [])


def test_what_partitions_are_called_is_forgotten_with_their_last_offset() -> None:
    table = OffsetTable()
    told(table, table.commit("staying", [new(ORDERS, 1)]))
    empty = sizes(table)
    for number in range(50):
        topic = f"passing-{number}"
        told(table, table.commit("g", [new(TopicPartition(topic, each), 5) for each in range(3)]))
        told(table, table.commit_pending("h", 7, [new(TopicPartition(topic, 0), 6)]))
        gone = list(table.forget_topic(topic))
        # Those who restart may find that it is gone twice, or without that it ever was there.
        told(table, gone, gone)
    assert sizes(table) == empty
    assert offsets(table, "staying") == {ORDERS: 1}


def sizes(table: OffsetTable) -> dict[str, int]:
    """Return how many things each part of a table holds."""
    return {name: len(part) for name, part in vars(table).items() if isinstance(part, dict) and name != "_table"}


def test_an_offset_is_pending_until_the_last_of_its_transactions_has_ended() -> None:
    table = OffsetTable()
    for producer_id in (7, 8):
        told(table, table.commit_pending("g", producer_id, [new(ORDERS, 5)]))
    told(table, table.commit_pending("g", 7, [new(ORDERS, 6)]))
    told(table, table.end_pending(7, is_commit=True))
    assert table.is_pending("g", ORDERS)
    assert not table.is_pending("h", ORDERS)
    assert not table.is_pending("g", AUDIT)
    told(table, table.end_pending(8, is_commit=False))
    assert not table.is_pending("g", ORDERS)
    assert offsets(table) == {ORDERS: 6}


def test_a_group_is_behind_if_any_of_its_offsets_lies_before_the_given_one() -> None:
    table = OffsetTable()
    told(table, table.commit("g", [new(ORDERS, 5), new(AUDIT, 7)]))
    for ends, is_behind in (
        ({ORDERS: 5}, False),
        ({ORDERS: 6}, True),
        ({ORDERS: 5, AUDIT: 8}, True),
        ({TopicPartition("orders", 1): 100}, False),
        ({}, False),
    ):
        by_key = {partition_key(each): end for each, end in ends.items()}
        assert table.is_behind("g", by_key) is is_behind
        assert table.is_behind("nobody", by_key) is False
