"""Flip any byte, cut at any byte: what is damaged is seen, and nothing else is lost.

Three states of one small log of three segments: closed cleanly (index files cover all of it), killed with everything
flushed (no index file yet), and killed after upkeep (index files of the sealed segments only).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from goqueue.errors import CorruptLog
from goqueue.log import names
from goqueue.log.events import DamageFound, TailCut
from goqueue.log.log import Log
from goqueue.log.verify import verify
from goqueue.log.verify_segment import Severity
from goqueue.records.layout import read_header
from goqueue.records.reader import Record
from goqueue.testing import RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    DIRECTORY,
    abort,
    append,
    append_segments,
    batch,
    files,
    flush,
    in_transaction,
    open_log,
    readable,
    reopen,
    settle,
    stored_batches,
)

STATES = ["closed", "flushed", "upkept"]
MASKS = [0x01, 0xFF]
BASES = [0, 4, 7]
END = 11
# Each kind of file in the state where most depends on it.
METADATA = [(names.INDEX, "closed"), (names.CHECKPOINT, "flushed")]


@cache
def disk_in(state: str) -> SimDisk:
    """Return the disk with the log in one of its states; for cloning only."""
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(
        log,
        [batch(b"0", b"1"), batch(b"2", producer=1, sequence=0), batch(b"3")],
        [in_transaction(b"4", producer=2, sequence=0), abort(2), batch(b"6")],
        [batch(b"7", b"8"), batch(b"9", producer=1, sequence=1), batch(b"10")],
    )
    if state == "closed":
        log.close()
    elif state == "upkept":
        settle(log)
    else:
        flush(log)
    disk.kill()
    return disk


@cache
def original() -> dict[int, Record]:
    """Return the records as they were appended."""
    return readable(open_log(disk_in("closed").clone(0)))


@cache
def batch_spans(name: str) -> list[tuple[int, int, range]]:
    """Return where the batches of a segment file lie: first byte, end, and offsets."""
    spans = []
    position = 0
    for header, data in stored_batches(open_log(disk_in("closed").clone(0))):
        holder = max(base for base in BASES if base <= header.base_offset)
        if name == f"{holder:020d}.log":
            spans.append((position, position + len(data), range(header.base_offset, header.next_offset)))
            position += len(data)
    return spans


def damaged_offsets(name: str, start: int, end: int) -> set[int]:
    """Return the offsets whose batches have bytes in [start, end) of a segment file."""
    return {offset for first, last, held in batch_spans(name) if first < end and start < last for offset in held}


def flips(state: str, suffix: str, mask: int) -> Iterator[tuple[str, int, SimDisk]]:
    """Yield a disk for each byte of the files of one kind, with that byte flipped."""
    for name in files(disk_in(state), suffix):
        for position in range(disk_in(state).size_of(DIRECTORY / name)):
            disk = disk_in(state).clone(0)
            disk.flip(DIRECTORY / name, position, mask)
            yield name, position, disk


def cuts(state: str, suffix: str) -> Iterator[tuple[str, int, SimDisk]]:
    """Yield a disk for each length to which a file of one kind can be cut."""
    for name in files(disk_in(state), suffix):
        data = disk_in(state).read_file(DIRECTORY / name)
        for size in range(len(data)):
            disk = disk_in(state).clone(0)
            disk.write_file(DIRECTORY / name, data[:size])
            yield name, size, disk


def assert_intact_but(log: Log, damaged: set[int], where: str) -> None:
    """Compare with the original: whatever is not damaged must be there, and nothing may differ."""
    found = readable(log)
    wrong = [offset for offset, record in found.items() if original().get(offset) != record]
    lost = [offset for offset in original() if offset not in found and offset not in damaged]
    assert (wrong, lost) == ([], []), where
    assert log.end_offset == END, where


def is_seen(disk: SimDisk, sink: RecordingSink) -> bool:
    """Tell whether opening the log has reported damage, or else checking its files does."""
    if any(isinstance(event, DamageFound | TailCut) for event in sink.events):
        return True
    return any(finding.severity is Severity.DAMAGE for finding in verify(disk, DIRECTORY))


def is_leader_epoch(name: str, position: int) -> bool:
    """Tell whether a byte of a segment file belongs to a batch's leader epoch."""
    return any(12 <= position - first < 16 for first, _, _ in batch_spans(name))


def test_small_log_is_what_these_tests_take_it_for() -> None:
    for state in STATES:
        assert len(files(disk_in(state), names.LOG)) == 3
        assert readable(open_log(disk_in(state).clone(0))) == original()
        assert not [found for found in verify(disk_in(state), DIRECTORY) if found.severity is not Severity.NOTE]
    assert [len(files(disk_in(state), names.INDEX)) for state in STATES] == [3, 0, 2]
    assert sorted(original()) == list(range(END))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("state", STATES)
def test_flipped_byte_of_a_segment_is_seen(state: str, mask: int) -> None:
    unseen = []
    for name, position, disk in flips(state, names.LOG, mask):
        sink = RecordingSink()
        open_log(disk, sink=sink)
        if not is_seen(disk, sink):
            unseen.append((name, position))
    # A leader epoch is outside of its batch's checksum. What guards it is the chain of the index file, which a sealed
    # segment gets with the first upkeep after it was flushed.
    assert [(name, at) for name, at in unseen if state != "flushed" or not is_leader_epoch(name, at)] == []


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("state", STATES)
def test_flipped_byte_of_a_segment_costs_its_batch_only(state: str, mask: int) -> None:
    for name, position, disk in flips(state, names.LOG, mask):
        damaged = damaged_offsets(name, position, position + 1)
        assert_intact_but(open_log(disk), damaged, f"byte {position} of {name}")


@pytest.mark.parametrize(("suffix", "state"), METADATA)
def test_flipped_byte_of_an_index_or_checkpoint_costs_nothing(suffix: str, state: str) -> None:
    for name, position, disk in flips(state, suffix, 0x01):
        assert_intact_but(open_log(disk), set(), f"byte {position} of {name}")


@pytest.mark.parametrize("state", STATES)
def test_cut_of_a_segment_is_reported_as_damage(state: str) -> None:
    unseen = []
    for name, size, disk in cuts(state, names.LOG):
        sink = RecordingSink()
        open_log(disk, sink=sink)
        if not sink.of(DamageFound):
            unseen.append((name, size))
    assert unseen == []


@pytest.mark.parametrize("state", STATES)
def test_cut_of_a_segment_costs_what_was_cut_and_no_offset_is_given_again(state: str) -> None:
    for name, size, disk in cuts(state, names.LOG):
        where = f"{name} cut to {size} bytes"
        damaged = damaged_offsets(name, size, disk_in(state).size_of(DIRECTORY / name))
        log = open_log(disk)
        assert_intact_but(log, damaged, where)
        assert append(log, batch(b"next"))[0].base_offset == END
        flush(log)
        assert set(readable(reopen(disk))) == {*original(), END} - damaged, where


@pytest.mark.parametrize(("suffix", "state"), METADATA)
def test_cut_index_or_checkpoint_costs_nothing(suffix: str, state: str) -> None:
    for name, size, disk in cuts(state, suffix):
        assert_intact_but(open_log(disk), set(), f"{name} cut to {size} bytes")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", [names.CHECKPOINT, *(f"{base:020d}.index" for base in BASES)])
def test_missing_index_or_checkpoint_costs_nothing(state: str, name: str) -> None:
    disk = disk_in(state).clone(0)
    if disk.exists(DIRECTORY / name):
        disk.remove(DIRECTORY / name)
    assert_intact_but(open_log(disk), set(), name)


def test_damaged_records_stay_damaged_and_the_rest_readable_after_more_restarts() -> None:
    disk = disk_in("flushed").clone(0)
    disk.flip(DIRECTORY / f"{BASES[1]:020d}.log", 65)
    for _ in range(3):
        log = open_log(disk)
        assert set(original()) - set(readable(log)) == {4}
        with pytest.raises(CorruptLog):
            log.read(4, bytes_max=1)
        log.close()


def test_reader_is_told_file_place_and_where_to_go_on() -> None:
    disk = disk_in("flushed").clone(0)
    disk.flip(DIRECTORY / f"{BASES[0]:020d}.log", 65)
    log = open_log(disk)
    with pytest.raises(CorruptLog, match="offset 2") as caught:
        log.read(1, bytes_max=1)
    assert caught.value.path.endswith(f"{BASES[0]:020d}.log")
    assert (caught.value.position, caught.value.offset) == (0, 1)
    assert read_header(log.read(2, bytes_max=1)).base_offset == 2


def test_record_behind_damage_is_readable_though_no_row_of_the_index_leads_there() -> None:
    disk = disk_in("closed").clone(0)
    path = DIRECTORY / f"{BASES[2]:020d}.log"
    disk.write_file(path, disk.read_file(path)[: batch_spans(path.name)[1][0] + 1])
    log = open_log(disk)
    append(log, batch(b"behind the damage"))
    assert read_header(log.read(END, bytes_max=1)).base_offset == END


def test_changed_offset_of_the_last_durable_batch_does_not_move_the_end_of_the_log() -> None:
    disk = disk_in("flushed").clone(0)
    path = DIRECTORY / f"{BASES[2]:020d}.log"
    disk.flip(path, batch_spans(path.name)[2][0] + 6, 0x01)
    log = open_log(disk)
    assert log.end_offset == END
    with pytest.raises(CorruptLog):
        log.read(END - 1, bytes_max=1)


def test_damage_in_a_sealed_segment_leaves_its_bytes_in_place() -> None:
    for state in STATES:
        disk = disk_in(state).clone(0)
        path = DIRECTORY / f"{BASES[0]:020d}.log"
        disk.flip(path, 65)
        data = disk.read_file(path)
        open_log(disk).close()
        assert disk.read_file(path) == data


@pytest.mark.parametrize("zeros", [1, 60, 61, 500, 5000])
@pytest.mark.parametrize("state", STATES)
def test_zeros_at_the_end_are_cut(state: str, zeros: int) -> None:
    disk = disk_in(state).clone(0)
    path = DIRECTORY / f"{BASES[2]:020d}.log"
    data = disk.read_file(path)
    disk.write_file(path, data + bytes(zeros))
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    assert [event.bytes_cut for event in sink.of(TailCut)] == [zeros]
    assert not sink.of(DamageFound)
    assert disk.read_file(path) == data
    assert_intact_but(log, set(), state)
    assert readable(reopen(disk)).keys() == set(original())


@pytest.mark.parametrize("state", STATES)
def test_torn_write_behind_the_durable_end_leaves_whole_batches_only(state: str) -> None:
    disk = disk_in(state).clone(0)
    log = open_log(disk)
    path = DIRECTORY / f"{BASES[2]:020d}.log"
    durable = disk.size_of(path)
    append(log, batch(b"first"))
    border = disk.size_of(path)
    append(log, batch(b"second"))
    data = disk.read_file(path)
    disk.kill()
    for size in range(durable, len(data)):
        copy = disk.clone(0)
        copy.write_file(path, data[:size])
        sink = RecordingSink()
        log = open_log(copy, sink=sink)
        assert not sink.of(DamageFound)
        end = END + (size >= border)
        assert append(log, batch(b"over it"))[0].base_offset == end
        assert set(readable(reopen(copy))) == set(range(end + 1))
