"""The arithmetic of `goqueue bench spark`, whom it takes for a worker, and what it says where Spark is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue_bench.cpu import Usage
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.spark.batches import overhead
from goqueue_bench.spark.memory import MIB, growth, largest_worker_bytes
from goqueue_bench.spark.rounds import Pass, passes_of_rounds, rate, ratio
from goqueue_bench.spark.workloads import results_of
from tests.bench.test_cpu import stat

CASES = ("read", "parquet_read", "group_by", "keys", "parquet_keys", "stream_read", "write", "stream_write")


def passes(*seconds: float, rows: int = 1_000) -> list[Pass]:
    """Return passes of some durations, on two cores that had nothing else to do."""
    return [Pass(rows, each, 2 * each, 0.0) for each in seconds]


def test_a_rate_is_the_median_of_its_rounds_with_their_range() -> None:
    result = rate("read", "read", passes(4, 1, 2), at_least=400)
    assert (result.value, result.unit, result.is_met) == (500, "rows/s", True)
    assert result.details["min_rows_per_second"] == 250
    assert result.details["max_rows_per_second"] == 1_000
    assert result.details["rounds"] == 3
    assert result.details["cpu_us_per_row"] == 4_000


def test_a_rate_below_its_goal_misses_it() -> None:
    assert rate("read", "read", passes(2), at_least=501).is_met is False
    assert rate("parquet_read", "read", passes(2)).is_met is None


def test_a_ratio_is_that_of_the_medians_and_its_range_that_of_the_rounds() -> None:
    result = ratio("against", "against", passes(2, 4, 8), passes(2, 1, 1), at_least=0.5)
    assert (result.value, result.is_met) == (0.25, False)
    assert (result.details["min_ratio"], result.details["max_ratio"]) == (0.125, 1)
    assert (result.details["rows_per_second"], result.details["parquet_rows_per_second"]) == (250, 1_000)


def test_half_the_rate_of_parquet_is_enough() -> None:
    assert ratio("against", "against", passes(2), passes(1), at_least=0.5).is_met is True


def test_a_pass_costs_what_all_processes_below_took() -> None:
    usage = Usage()
    usage.seconds, usage.server_cpu_seconds, usage.other_cores = 2.0, 3.5, 0.25
    assert Pass.of(100, usage) == Pass(100, 2.0, 3.5, 0.25)


def test_each_case_runs_once_in_every_round() -> None:
    ran: list[str] = []

    def case(name: str) -> Callable[[], Pass]:
        def run() -> Pass:
            ran.append(name)
            return Pass(1, len(ran), 0.0, 0.0)

        return run

    said: list[str] = []
    found = passes_of_rounds(3, {name: case(name) for name in CASES}, said.append)
    rounds = [ran[first : first + len(CASES)] for first in range(0, len(ran), len(CASES))]
    assert [sorted(each) for each in rounds] == [sorted(CASES)] * 3
    assert len(said) == len(ran)
    assert said[-1].startswith("round 3 of 3: ")
    # A case keeps what it took round by round, whatever the order was.
    assert all(
        [each.seconds for each in found[name]] == [1 + n for n, it in enumerate(ran) if it == name] for name in CASES
    )


def test_every_case_has_a_result_and_those_of_parquet_a_comparison() -> None:
    found = {result.name: result for result in results_of({name: passes(1, 2, 3) for name in CASES})}
    assert set(found) == {*CASES, "read_against_parquet", "keys_against_parquet"}
    assert [name for name, result in found.items() if result.goal is None] == ["parquet_read", "parquet_keys"]
    assert found["read_against_parquet"].value == 1


def test_the_first_batches_of_a_query_do_not_count() -> None:
    result = overhead([9.0, 9.0, 0.5, 0.4, 0.6], [8.0, 8.0, 0.1, 0.3, 0.2])
    assert result.value == pytest.approx(0.3)
    assert result.details["batches"] == 3
    assert (result.details["batch_seconds"], result.details["floor_seconds"]) == (0.5, 0.2)


def test_memory_that_grows_with_the_rows_misses_its_goal() -> None:
    flat = growth(1_000, 100 * MIB, 4_000, 120 * MIB)
    assert (flat.value, flat.unit, flat.is_met) == (20, "MiB", True)
    assert "4 times as many rows" in flat.what
    assert growth(1_000, 100 * MIB, 4_000, 151 * MIB).is_met is False


def test_the_largest_worker_below_this_process_is_found(tmp_path: Path) -> None:
    me = os.getpid()
    java, daemon, worker, stranger = range(me + 1, me + 5)
    for pid, parent, command, peak_kb in (
        (me, 1, b"goqueue\0bench", 90_000),
        (java, me, b"java", 900_000),
        (daemon, java, b"python\0-m\0pyspark.daemon", 50),
        (worker, daemon, b"python\0-m\0pyspark.daemon", 70),
        (stranger, 1, b"python\0-m\0pyspark.daemon", 80_000),
    ):
        process = tmp_path / str(pid)
        process.mkdir()
        (process / "stat").write_text(stat(pid, parent, own=(1, 1)), "utf-8")
        (process / "cmdline").write_bytes(command)
        (process / "status").write_text(f"Name:\tx\nVmHWM:\t{peak_kb} kB\nVmRSS:\t1 kB\n", "utf-8")
    assert largest_worker_bytes(proc=tmp_path) == 70 * 1024


def test_a_read_without_workers_fails_the_benchmark(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFailed, match="Python workers"):
        largest_worker_bytes(proc=tmp_path)


def test_without_spark_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    shown = CliRunner().invoke(app, ["bench", "spark", "--quick", "--data-dir", str(tmp_path)])
    assert shown.exit_code == 1
    assert "goqueue[spark]" in shown.stderr
    assert list(tmp_path.iterdir()) == []
