"""What `verify` says about whole, torn and damaged logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest

from goqueue.log import names
from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.log.verify import verify
from goqueue.log.verify_segment import Finding, Severity
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, build_marker
from goqueue.testing import SimDisk

DIRECTORY = PurePath("data/topic-0")
SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=300)
NOW_MS = 1_700_000_000_000


def records(number: int) -> list[NewRecord]:
    return [NewRecord(NOW_MS + number - index, b"key", b"value %d" % number) for index in range(3)]


def idempotent(number: int) -> bytearray:
    return build_batch(records(number), codec=Codec.ZSTD, producer_id=7, producer_epoch=1, base_sequence=3 * number)


def transaction(producer_id: int, sequence: int, end: ControlType) -> list[bytearray]:
    data = build_batch(
        [NewRecord(NOW_MS, b"key", b"in a transaction")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    return [data, build_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)]


def varied_batches() -> list[bytearray]:
    """Return batches of all sorts: enough for several segments."""
    batches = []
    for number in range(6):
        batches.append(build_batch(records(number)))
        batches.append(idempotent(number))
        batches += transaction(8, number, ControlType.ABORT if number % 2 else ControlType.COMMIT)
    return batches


def append(log: Log, batches: list[bytearray]) -> None:
    for number, batch in enumerate(batches):
        log.append(check_batches(bytearray(batch), bytes_max=10_000), leader_epoch=max(log.epochs.latest, number // 5))


def flush(log: Log) -> None:
    work = log.flush()
    assert work is not None
    work.run()
    log.flushed(work)


@pytest.fixture
def disk() -> SimDisk:
    """A disk with a cleanly closed log of several segments."""
    disk = SimDisk(seed=1)
    log = Log(disk, DIRECTORY, SETTINGS)
    append(log, varied_batches())
    log.close()
    return disk


def findings(disk: SimDisk) -> list[Finding]:
    return list(verify(disk, DIRECTORY))


def worst(disk: SimDisk) -> Severity | None:
    return max((finding.severity for finding in findings(disk)), default=None)


def read(disk: SimDisk, name: str) -> bytes:
    file = disk.open(DIRECTORY / name, writable=False)
    return file.read_at(0, file.size())


def write(disk: SimDisk, name: str, data: bytes) -> None:
    file = disk.open(DIRECTORY / name, create=True)
    file.truncate(0)
    file.write_at(0, data)


def files(disk: SimDisk, suffix: str) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if name.endswith(suffix)]


def test_intact_log_has_no_findings(disk: SimDisk) -> None:
    assert len(files(disk, names.LOG)) > 2
    assert findings(disk) == []


def test_verify_changes_nothing_and_tells_how_far_it_is(disk: SimDisk) -> None:
    before = {name: read(disk, name) for name in disk.list_directory(DIRECTORY)}
    steps: list[int] = []
    assert list(verify(disk, DIRECTORY, progress=steps.append)) == []
    assert sum(steps) == sum(len(before[name]) for name in files(disk, names.LOG))
    assert {name: read(disk, name) for name in disk.list_directory(DIRECTORY)} == before


def test_intact_log_has_no_findings_after_its_start_was_deleted(disk: SimDisk) -> None:
    log = Log(disk, DIRECTORY, SETTINGS)
    log.delete_before(log.end_offset // 2)
    log.close()
    assert findings(disk) == []


def test_intact_log_has_no_findings_after_producers_were_forgotten() -> None:
    disk = SimDisk(seed=1)
    log = Log(disk, DIRECTORY, SETTINGS)
    append(log, varied_batches())
    assert [log.producers.expire(NOW_MS, 1), log.producers.expire(NOW_MS + 1, 1)][1] > 0
    append(log, varied_batches())
    log.close()
    assert findings(disk) == []


def compacted_disk(*, is_swap_finished: bool) -> SimDisk:
    """Return a disk with a log whose sealed segments were compacted, closed, or left before the swap."""
    disk = SimDisk(seed=1)
    log = Log(disk, DIRECTORY, replace(SETTINGS, cleanup=Cleanup.COMPACT))
    append(log, varied_batches())
    flush(log)
    settle(log)
    work = log.compaction(NOW_MS + 1_000_000)
    assert work is not None
    log.compacted(work, work.run())
    if is_swap_finished:
        settle(log)
        append(log, varied_batches())
        log.close()
    return disk


def settle(log: Log) -> None:
    work = log.upkeep()
    assert work is not None
    work.run()
    log.upkept(work)


def test_compacted_log_has_no_findings() -> None:
    assert findings(compacted_disk(is_swap_finished=True)) == []


def test_committed_swap_counts_as_the_segments_it_replaces() -> None:
    disk = compacted_disk(is_swap_finished=False)
    cleaned = files(disk, names.CLEANED)
    assert cleaned
    for name in cleaned:
        disk.rename(DIRECTORY / name, DIRECTORY / name.replace(names.CLEANED, names.SWAP))
    assert worst(disk) is Severity.NOTE
    for name in files(disk, names.LOG)[:-1]:
        disk.remove(DIRECTORY / name)
        assert worst(disk) is Severity.NOTE


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_every_flipped_byte_of_a_segment_is_damage(disk: SimDisk, mask: int) -> None:
    for name in files(disk, names.LOG):
        data = read(disk, name)
        for position in range(len(data)):
            write(disk, name, data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :])
            assert worst(disk) is Severity.DAMAGE, f"byte {position} of {name}"
        write(disk, name, data)


def test_damage_is_named_with_its_place(disk: SimDisk) -> None:
    name = files(disk, names.LOG)[1]
    data = bytearray(read(disk, name))
    data[100] ^= 1
    write(disk, name, bytes(data))
    (finding,) = findings(disk)
    assert finding.path.name == name
    assert finding.position <= 100
    assert finding.offset >= int(name.removesuffix(names.LOG))


def test_every_flipped_byte_of_an_index_is_a_defect(disk: SimDisk) -> None:
    for name in files(disk, names.INDEX):
        data = read(disk, name)
        for position in range(len(data)):
            write(disk, name, data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
            assert worst(disk) is Severity.DEFECT, f"byte {position} of {name}"
        write(disk, name, data)


def test_every_flipped_byte_of_the_checkpoint_is_a_defect(disk: SimDisk) -> None:
    data = read(disk, names.CHECKPOINT)
    for position in range(len(data)):
        write(disk, names.CHECKPOINT, data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        found = findings(disk)
        assert [finding.severity for finding in found] == [Severity.DEFECT], f"byte {position}"
        assert found[0].position == position // 512 * 512


def test_every_cut_of_a_cleanly_closed_segment_is_damage(disk: SimDisk) -> None:
    for name in files(disk, names.LOG):
        data = read(disk, name)
        for size in range(len(data)):
            write(disk, name, data[:size])
            assert worst(disk) is Severity.DAMAGE, f"{name} cut at {size}"
        write(disk, name, data)


def test_missing_segment_is_damage_wherever_it_was(disk: SimDisk) -> None:
    for name in files(disk, names.LOG):
        data = read(disk, name)
        disk.remove(DIRECTORY / name)
        assert worst(disk) is Severity.DAMAGE, name
        write(disk, name, data)
    assert findings(disk) == []


def test_torn_tail_beyond_the_durable_end_is_a_note() -> None:
    disk = SimDisk(seed=1)
    log = Log(disk, DIRECTORY, LogSettings())
    append(log, varied_batches()[:4])
    flush(log)
    (name,) = files(disk, names.LOG)
    durable_bytes = len(read(disk, name))
    append(log, varied_batches()[4:6])
    data = read(disk, name)
    assert worst(disk) is Severity.NOTE
    for size in range(durable_bytes + 1, len(data)):
        write(disk, name, data[:size])
        assert worst(disk) is Severity.NOTE, f"cut at {size}"
    for size in range(durable_bytes):
        write(disk, name, data[:size])
        assert worst(disk) is Severity.DAMAGE, f"cut at {size}"


def test_changed_offset_before_the_last_checkpoint_is_damage_without_an_index() -> None:
    disk = SimDisk(seed=1)
    log = Log(disk, DIRECTORY, LogSettings())
    append(log, varied_batches()[:4])
    flush(log)
    (name,) = files(disk, names.LOG)
    data = bytearray(read(disk, name))
    data[15] ^= 1
    write(disk, name, bytes(data))
    assert worst(disk) is Severity.DAMAGE


def test_damage_that_recovery_knows_of_is_reported_and_nothing_else(disk: SimDisk) -> None:
    name = files(disk, names.LOG)[-1]
    data = bytearray(read(disk, name))
    data[-1] ^= 1
    write(disk, name, bytes(data))
    disk.remove(DIRECTORY / name.replace(names.LOG, names.INDEX))
    log = Log(disk, DIRECTORY, SETTINGS)
    append(log, varied_batches())
    log.close()
    (finding,) = findings(disk)
    assert finding.severity is Severity.DAMAGE
    assert "known" in finding.what


def test_missing_index_and_foreign_and_unfinished_files_are_notes(disk: SimDisk) -> None:
    disk.remove(DIRECTORY / files(disk, names.INDEX)[0])
    write(disk, "notes.txt", b"mine")
    write(disk, f"{0:020d}.index.tmp", b"half")
    assert {finding.severity for finding in findings(disk)} == {Severity.NOTE}
    assert len(findings(disk)) == 3


def test_missing_checkpoint_is_a_defect(disk: SimDisk) -> None:
    disk.remove(DIRECTORY / names.CHECKPOINT)
    assert [finding.severity for finding in findings(disk)] == [Severity.DEFECT]


def test_index_of_another_segment_is_a_defect(disk: SimDisk) -> None:
    first, second, *_ = files(disk, names.INDEX)
    write(disk, second, read(disk, first))
    assert worst(disk) is Severity.DEFECT


def test_segment_of_another_log_is_damage(disk: SimDisk) -> None:
    other = SimDisk(seed=2)
    log = Log(other, DIRECTORY, SETTINGS)
    append(log, list(reversed(varied_batches())))
    log.close()
    name = files(disk, names.LOG)[0]
    write(disk, name, read(other, name))
    assert worst(disk) is Severity.DAMAGE
