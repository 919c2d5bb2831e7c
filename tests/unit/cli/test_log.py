"""The `goqueue` command and its `log` noun, on logs that lie in a real directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from goqueue import __version__
from goqueue.cli.main import app
from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, build_marker
from goqueue.seams.disk import RealDisk

NOW_MS = 1_700_000_000_000
SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=200)


def goqueue(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(*arguments: object, kind: str) -> list[dict[str, object]]:
    result = goqueue(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    parsed = [json.loads(line) for line in result.stdout.splitlines()]
    return [row for row in parsed if row["kind"] == kind]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A cleanly closed log of several segments: offsets 0 to 19 are plain, 20 and 21 an aborted transaction."""
    directory = tmp_path / "orders-0"
    opened = Log(RealDisk(), directory, SETTINGS)
    batches = [build_batch([record(2 * number), record(2 * number + 1)], codec=Codec.LZ4) for number in range(10)]
    batches.append(build_batch([record(20)], producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True))
    batches.append(build_marker(ControlType.ABORT, producer_id=5, producer_epoch=1, timestamp=NOW_MS))
    for batch in batches:
        opened.append(check_batches(batch, bytes_max=4096), leader_epoch=3)
    opened.close()
    return directory


def record(number: int) -> NewRecord:
    return NewRecord(NOW_MS + number, b"key", b"value %d" % number, [("trace", b"\xff\x00")])


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_version_is_shown() -> None:
    assert goqueue("--version").output == f"goqueue {__version__}\n"


def test_help_names_the_nouns_and_each_verb_has_an_example() -> None:
    assert {"log", "bench"} <= set(goqueue("--help").output.split())
    for verb in (("log", "dump"), ("log", "verify"), ("bench", "log")):
        assert "Example" in goqueue(*verb, "--help").output


def test_mistake_in_the_call_exits_with_2() -> None:
    assert goqueue("log", "dump").exit_code == 2
    assert goqueue("log", "verify", ".", "--format", "xml").exit_code == 2


def test_failure_is_one_line_on_stderr(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent"):
        result = goqueue("log", "verify", directory)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith("goqueue: ")
        assert result.stderr.count("\n") == 1


def test_help_imports_no_storage() -> None:
    code = "import sys, goqueue.cli.main; print([name for name in sys.modules if name.startswith('goqueue.log')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_dump_shows_checkpoint_and_segments(log: Path) -> None:
    (checkpoint,) = rows("log", "dump", log, kind="checkpoint")
    assert checkpoint["durable_end"] == 22
    segments = rows("log", "dump", log, kind="segment")
    assert len(segments) > 1
    assert segments[0]["base_offset"] == 0
    assert segments[-1]["next_offset"] == 22
    assert segments[-1]["aborted"] == ["5: 20-21"]
    assert all(segment["bytes"] == segment["covered_bytes"] for segment in segments)
    assert segments[0]["epochs"] == ["3 from 0"]
    assert segments[0]["first_time"] == "2023-11-14T22:13:20.000+00:00"


def test_dump_shows_batches_from_an_offset_up_to_a_limit(log: Path) -> None:
    found = rows("log", "dump", log, "--batches", "--from-offset", 17, "--limit", 3, kind="batch")
    assert [row["base_offset"] for row in found] == [16, 18, 20]
    assert [row["codec"] for row in found] == ["lz4", "lz4", "none"]
    assert found[-1]["kind"] == "batch"
    assert found[-1]["type"] == "transactional"
    assert all(row["is_crc_ok"] for row in found)
    (marker,) = rows("log", "dump", log, "--batches", "--from-offset", 21, kind="batch")
    assert marker["type"] == "abort"


def test_dump_shows_records_with_bytes_as_text_or_marked_base64(log: Path) -> None:
    found = rows("log", "dump", log, "--records", "--from-offset", 1, "--limit", 2, kind="record")
    assert [row["offset"] for row in found] == [1, 2]
    assert found[0]["value"] == "value 1"
    assert found[0]["timestamp"] == NOW_MS + 1
    assert found[0]["headers"] == [{"key": "trace", "value": {"base64": "/wA="}}]


def test_dump_shows_index_and_producers(log: Path) -> None:
    index = rows("log", "dump", log, "--index", kind="index")
    assert [row["offset"] for row in index][:2] == [0, 4]
    producers = rows("log", "dump", log, "--producers", kind="producer")
    assert [row["producer_id"] for row in producers] == [5]
    assert producers[0]["recent"] == ["sequence 0-0 at 20"]


def test_dump_shows_a_damaged_batch_and_goes_on(log: Path) -> None:
    first = min(log.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    found = rows("log", "dump", log, "--batches", kind="batch")
    assert [row["is_crc_ok"] for row in found] == [False] + [True] * 11
    assert "crc" in str(found[0]["fault"])
    records = rows("log", "dump", log, "--records", kind="record")
    assert records[0]["fault"]
    assert records[1]["offset"] == 2


@pytest.mark.parametrize("output_format", ["table", "yaml", "json"])
def test_dump_and_verify_change_nothing_in_any_format(log: Path, output_format: str) -> None:
    before = snapshot(log)
    options = ("--batches", "--records", "--index", "--producers", "--format", output_format)
    result = goqueue("log", "dump", log, *options)
    assert result.exit_code == 0
    assert "value 20" in result.output
    assert goqueue("log", "verify", log, "--format", output_format).exit_code == 0
    assert snapshot(log) == before


def test_yaml_has_the_same_as_json(log: Path) -> None:
    parsed = yaml.safe_load(goqueue("log", "dump", log, "--format", "yaml").stdout)
    assert parsed == [json.loads(line) for line in goqueue("log", "dump", log, "--format", "json").stdout.splitlines()]


def test_verify_exits_with_0_and_sums_up_many_logs(log: Path, tmp_path: Path) -> None:
    other = Log(RealDisk(), tmp_path / "deeper" / "payments-0", SETTINGS)
    other.append(check_batches(build_batch([record(0)]), bytes_max=4096), leader_epoch=0)
    other.close()
    (summary,) = rows("log", "verify", tmp_path, kind="summary")
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert summary == {"kind": "summary", "logs": 2, "bytes": size, "damages": 0, "defects": 0, "notes": 0}


def test_verify_exits_with_1_and_names_file_position_and_reason(log: Path) -> None:
    last = max(log.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    result = goqueue("log", "verify", log)
    assert result.exit_code == 1
    assert last.name in result.stdout
    assert "damage" in result.stdout
    finding, summary = map(json.loads, goqueue("log", "verify", log, "--format", "json").stdout.splitlines())
    assert finding["file"] == last.name
    assert finding["severity"] == "damage"
    assert summary["damages"] == 1


def test_verify_exits_with_1_at_a_bad_index_and_0_at_notes(log: Path) -> None:
    index = min(log.glob("*.index"))
    data = index.read_bytes()
    index.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert goqueue("log", "verify", log).exit_code == 1
    index.unlink()
    (log / "notes.txt").write_text("mine")
    assert goqueue("log", "verify", log).exit_code == 0
