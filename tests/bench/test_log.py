"""The log benchmark does its work, says on what, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue_bench.cli import results as bench_results
from goqueue_bench.log.append import MIB
from goqueue_bench.log.workloads import Scale, private_workspace, run
from goqueue_bench.machine import describe, file_system_of
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result, medians_of_rounds, require

TINY = Scale(
    rounds=1,
    append_bytes=2 * MIB,
    small_batches=100,
    commit_seconds=0.01,
    read_bytes=2 * MIB,
    log_bytes=8 * MIB,
    unchecked_bytes=(0, 2 * MIB),
)


def test_every_part_reports_work_that_was_done(tmp_path: Path) -> None:
    announced: list[str] = []
    results = {result.name: result for result in run(tmp_path, TINY, announced.append)}
    assert list(results) == [
        "append_large",
        "append_large_unchecked",
        "append_large_durable",
        "append_small",
        "group_commit",
        "group_commit_tasks",
        "read",
        "open_clean",
        "open_killed_0mb",
        "open_killed_2mb",
        "memory",
    ]
    assert all(result.value > 0 for name, result in results.items() if name != "memory")
    assert results["open_clean"].details["bytes_checked"] == 0
    assert results["open_killed_0mb"].details["bytes_checked"] == 0
    assert 0 < results["open_killed_2mb"].details["bytes_checked"] <= 2 * MIB
    assert len(announced) == 6


def test_command_prints_one_object_and_removes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue_bench.log.workloads.QUICK", TINY)
    data, stored = tmp_path / "data", tmp_path / "log.json"
    data.mkdir()
    arguments = ["bench", "log", "--quick", "--json", "--output", str(stored), "--data-dir", str(data)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document == json.loads(stored.read_text("utf-8"))
    assert set(document) == {"machine", "results"}
    assert document["results"]["read"]["goal"] == "at least 0.8"
    assert str(tmp_path) not in shown.stdout
    assert list(data.iterdir()) == []


def test_workspace_is_removed_on_interrupt(tmp_path: Path) -> None:
    def interrupted() -> None:
        with private_workspace(tmp_path) as workspace:
            (workspace / "log").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_machine_is_described_without_names_of_hosts_or_paths(tmp_path: Path) -> None:
    machine = describe(tmp_path)
    assert machine.cores > 0
    assert machine.memory_bytes > 0
    assert machine.file_system == file_system_of(tmp_path)
    assert "/" not in machine.file_system


def test_candidates_take_turns_and_the_first_one_changes() -> None:
    calls: list[str] = []

    def candidate(name: str, values: list[float]) -> float:
        calls.append(name)
        return values.pop()

    slow, fast = [9.0, 5.0, 4.0], [1.0, 2.0, 3.0]
    medians = medians_of_rounds(3, {"a": lambda: candidate("a", slow), "b": lambda: candidate("b", fast)})
    assert medians == {"a": 5.0, "b": 2.0}
    assert calls == ["a", "b", "b", "a", "a", "b"]


def test_goal_is_met_on_its_own_side_only() -> None:
    assert Goal(Aim.AT_LEAST, 0.8).is_met_by(0.8)
    assert not Goal(Aim.AT_LEAST, 0.8).is_met_by(0.79)
    assert Goal(Aim.AT_MOST, 1).is_met_by(1)
    assert not Goal(Aim.AT_MOST, 1).is_met_by(1.1)


def test_table_shows_goal_and_verdict_and_on_a_wide_terminal_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Result("read", "reads", 0.5, "x", Goal(Aim.AT_LEAST, 0.8), {"bytes_per_second": 5e8})
    monkeypatch.setenv("COLUMNS", "80")
    bench_results.show(describe(tmp_path), [slow])
    narrow = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    bench_results.show(describe(tmp_path), [slow])
    wide = capsys.readouterr().out
    assert "missed" in narrow
    assert "500 MB/s" not in narrow
    assert "500 MB/s" in wide


def test_work_that_was_not_done_is_a_failure() -> None:
    with pytest.raises(BenchmarkFailed, match="all records"):
        require(False, "all records can be read back")
