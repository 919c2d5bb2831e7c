"""A real process on a real disk, killed without warning, again and again: every acknowledged record is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from goqueue.log.events import DamageFound
from goqueue.log.log import Log
from goqueue.log.verify import verify
from goqueue.log.verify_segment import Severity
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from goqueue.seams.disk import RealDisk
from goqueue.testing.sink import RecordingSink
from tests.process import writer


def _run_and_kill(directory: Path, lines: int) -> list[int]:
    """Let a writer run until it has acknowledged so many records, kill it, and return all that it acknowledged."""
    command = [sys.executable, writer.__file__, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(lines)]
        process.kill()
        rest = process.stdout.read()
    # The last line may be cut short by the kill.
    return acknowledged + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


def _read_values(log: Log) -> dict[int, bytes | None]:
    values = {}
    offset = log.start_offset
    while data := log.read(offset, bytes_max=1024 * 1024):
        for position, header in headers(data):
            for record in read_records(data[position : position + header.size_bytes]):
                values[record.offset] = record.value
            offset = header.next_offset
    return values


@pytest.mark.seeds(3, long_count=100)
def test_a_killed_process_loses_nothing_that_it_acknowledged(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    directory = tmp_path / "topic-0"
    acknowledged: list[int] = []
    for _ in range(4):
        acknowledged += _run_and_kill(directory, random.randrange(1, 3000))
        sink = RecordingSink()
        log = Log(RealDisk(), directory, writer.SETTINGS, sink)
        values = _read_values(log)
        assert [offset for offset in acknowledged if values.get(offset) != b"%d" % offset] == []
        assert list(values) == list(range(log.end_offset))
        assert sink.of(DamageFound) == []
        log.close()
    assert [finding for finding in verify(RealDisk(), directory) if finding.severity is not Severity.NOTE] == []
    assert len(acknowledged) == len(set(acknowledged))
