"""Rows for readers of committed records: aborted transactions are hidden, markers are never rows."""

from __future__ import annotations

import pytest

from goqueue.records.builder import NewRecord, build_batch, empty_batch
from goqueue.records.control import ControlType, build_marker
from goqueue.records.layout import CONTROL_BIT, read_header, write_header
from tests.unit.spark.codec_kit import decoded, values_of

ALICE, BOB = 1, 2


class Stage:
    """A partition in the making: each call appends a batch."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.end = 0

    def writes(self, producer_id: int, *values: bytes) -> int:
        first = self.end
        batch = build_batch(
            [NewRecord(0, None, value) for value in values],
            base_offset=first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        self._append(batch, len(values))
        return first

    def plainly_writes(self, producer_id: int, value: bytes) -> None:
        batch = build_batch(
            [NewRecord(0, None, value)],
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        self._append(batch, 1)

    def ends(self, producer_id: int, how: ControlType) -> None:
        marker = build_marker(how, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=self.end)
        self._append(marker, 1)

    def _append(self, batch: bytearray, count: int) -> None:
        self.log += batch
        self.end += count


def test_aborted_transaction_is_hidden_up_to_its_marker() -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone 1", b"gone 2")
    stage.writes(BOB, b"stays 1")
    stage.writes(ALICE, b"gone 3")
    stage.ends(ALICE, ControlType.ABORT)
    stage.ends(BOB, ControlType.COMMIT)
    stage.writes(ALICE, b"stays 2")
    stage.ends(ALICE, ControlType.COMMIT)
    rows, next_offset = decoded(stage.log, aborted=[(ALICE, first)])
    assert values_of(rows) == [b"stays 1", b"stays 2"]
    assert next_offset == stage.end


def test_two_aborted_transactions_of_one_producer_are_hidden() -> None:
    stage = Stage()
    aborted = []
    for turn in (b"1", b"2"):
        aborted.append((ALICE, stage.writes(ALICE, b"gone " + turn)))
        stage.ends(ALICE, ControlType.ABORT)
        stage.writes(ALICE, b"stays " + turn)
        stage.ends(ALICE, ControlType.COMMIT)
    assert values_of(decoded(stage.log, aborted=reversed(aborted))[0]) == [b"stays 1", b"stays 2"]


def test_without_a_list_of_aborted_ones_all_records_are_rows() -> None:
    stage = Stage()
    stage.writes(ALICE, b"1")
    stage.ends(ALICE, ControlType.ABORT)
    rows, next_offset = decoded(stage.log)
    assert (values_of(rows), next_offset) == ([b"1"], 2)


def test_records_outside_of_transactions_are_never_hidden() -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone")
    stage.plainly_writes(ALICE, b"stays")
    assert values_of(decoded(stage.log, aborted=[(ALICE, first)])[0]) == [b"stays"]


def test_transaction_that_began_before_the_reply_is_hidden() -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone 1")
    cut = len(stage.log)
    stage.writes(ALICE, b"gone 2")
    stage.ends(ALICE, ControlType.ABORT)
    stage.writes(ALICE, b"stays")
    assert values_of(decoded(stage.log[cut:], 1, aborted=[(ALICE, first)])[0]) == [b"stays"]


def test_marker_before_the_wanted_offsets_ends_its_transaction() -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone")
    stage.ends(ALICE, ControlType.ABORT)
    start = stage.writes(ALICE, b"stays")
    assert values_of(decoded(stage.log, start, aborted=[(ALICE, first)])[0]) == [b"stays"]


def test_hidden_batches_alone_move_on() -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone", b"gone")
    assert decoded(stage.log, aborted=[(ALICE, first)]) == ([], 2)
    assert decoded(stage.log, 0, 1, aborted=[(ALICE, first)]) == ([], 1)


@pytest.mark.parametrize("kind", ["of another type", "without its record"])
def test_control_batch_that_is_no_marker_ends_nothing(kind: str) -> None:
    stage = Stage()
    first = stage.writes(ALICE, b"gone 1")
    marker = build_marker(ControlType.ABORT, producer_id=ALICE, producer_epoch=0, timestamp=0, base_offset=1)
    if kind == "without its record":
        stage.log += empty_batch(read_header(marker))
    else:
        other = build_batch(
            [NewRecord(0, b"\0\0\0\x05", bytes(6))],
            base_offset=1,
            producer_id=ALICE,
            producer_epoch=0,
            base_sequence=-1,
        )
        header = read_header(other)
        write_header(other, header._replace(attributes=header.attributes | CONTROL_BIT))
        stage.log += other
    stage.end = 2
    stage.writes(ALICE, b"gone 2")
    assert decoded(stage.log, aborted=[(ALICE, first)]) == ([], 3)
