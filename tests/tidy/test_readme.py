"""The figures in README.md and docs/benchmarks.md are the stored ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goqueue_bench.readme import (
    BENCHMARKS,
    BLOCKS,
    BROKER,
    COORDINATION,
    LOG,
    README,
    SPARK,
    Block,
    render_broker,
    render_headlines,
    renew,
    stored,
)

MACHINE = {
    "cpu": "A chip",
    "cores": 3,
    "memory_bytes": 2**33,
    "kernel": "Linux 1",
    "file_system": "xfs",
    "python": "CPython 3",
    "goqueue": "0.1",
}
FIGURES: Mapping[str, Any] = {"msgs_per_s": 1234, "broker_cpu_us_per_msg": 0.5, "p50_ms": None, "p99_ms": None}


def document(settings: Mapping[str, Any], *, cores: int = 3, **results: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored document of a broker's results."""
    usual = {"flush": "group", "size_bytes": 100}
    return {
        "machine": {**MACHINE, "cores": cores},
        "settings": {**usual, **settings},
        "results": {name: {**FIGURES, **figures} for name, figures in results.items()},
    }


def outside(text: str, blocks: tuple[Block, ...]) -> str:
    """Return what stands around some blocks."""
    for block in blocks:
        text = text.partition(block.begin)[0] + text.partition(block.end)[2]
    return text


@pytest.mark.parametrize("file", [README, BENCHMARKS], ids=lambda file: file.name)
def test_every_figure_comes_from_the_stored_results(file: Path) -> None:
    text = file.read_text("utf-8")
    if text != renew(file, text, stored()):
        pytest.fail(f"the figures in {file.name} are not those of bench/results: run `make readme`")


@pytest.mark.parametrize("name", [LOG, *BROKER, *COORDINATION, SPARK])
def test_another_result_changes_the_page(name: str) -> None:
    text = BENCHMARKS.read_text("utf-8")
    results = json.loads(json.dumps(stored()))
    if name not in results:
        pytest.skip(f"{name} was not measured yet")
    first = next(iter(results[name]["results"].values()))
    first["msgs_per_s" if name in BROKER else "value"] = 0.123
    changed = renew(BENCHMARKS, text, results)
    assert "| 0.123" in changed
    assert "| 0.123" not in text
    blocks = tuple(block for block in BLOCKS if block.file == BENCHMARKS)
    assert outside(changed, blocks) == outside(text, blocks)


@pytest.mark.parametrize("block", BLOCKS)
def test_page_without_a_place_for_the_figures_is_refused(block: Block) -> None:
    text = block.file.read_text("utf-8")
    with pytest.raises(ValueError, match="needs one line"):
        renew(block.file, text.replace(block.end, ""), stored())


def test_readme_shows_a_few_figures() -> None:
    latency = document({}, latency_confluent={"p50_ms": 0.25, "p99_ms": 12.345})
    assert render_headlines({"replay": document({}, replay_confluent={}), "latency": latency}).splitlines() == [
        "| measured | result |",
        "|---|---|",
        "| replay with confluent-kafka | 1,234 messages/s, broker CPU per message 0.5 us |",
        "| publish one message at a time, fsync before the reply | p50 0.25 ms, p99 12.3 ms |",
    ]


def test_row_names_workload_and_durability_of_its_reply() -> None:
    publish = document({"acks": "all"}, publish={})
    replay = document({"client": "raw"}, replay_raw={"broker_cpu_us_per_msg": None})
    latency = document({"acks": "1", "flush": "interval"}, some_day_new={"p50_ms": 0.25, "p99_ms": 12.345})
    lines = render_broker({"latency": latency, "replay": replay, "publish": publish}).splitlines()
    assert (
        lines[0] == "Messages of 100 bytes on A chip, 3 cores, 8 GiB of memory, xfs, Linux 1, CPython 3, GoQueue 0.1:"
    )
    assert lines[4:] == [
        "| publishing in bulk, confluent-kafka | acks=all, fsync first | 1,234 | 0.5 us |  |  |",
        "| replay, bare socket |  | 1,234 |  |  |  |",
        "| some day new | acks=1, fsync soon | 1,234 | 0.5 us | 0.25 ms | 12.3 ms |",
    ]


def test_only_a_reply_to_acks_all_waits_for_the_disk() -> None:
    assert "| acks=1, fsync soon |" in render_broker({"publish": document({"acks": "1"}, publish={})})


def test_each_machine_and_message_size_has_its_own_table() -> None:
    results = {
        "publish": document({"acks": "all"}, publish={}),
        "replay": document({}, replay_raw={}, cores=64),
        "latency": document({"acks": "all", "size_bytes": 1000}, latency_raw={}),
        "requests": document({"acks": "all"}, requests={}),
    }
    tables = render_broker(results).split("\n\nMessages of ")
    assert [table.count("\n| ") - 1 for table in tables] == [2, 1, 1]
    assert "64 cores" in tables[1]
    assert tables[2].startswith("1,000 bytes")


def test_groups_and_transactions_have_a_table_with_goals() -> None:
    details = {"requests": 100, "connections": 16, "requests_per_second": 543.2, "broker_cpu_us_per_request": 45.67}
    commits = result("offsets committed", 5432.1, "offsets/s", ("at least 20000", False), **details)
    details = {"memory_bytes": 123_456_789, "empty_seconds": 0.5, "committed_per_second": 100_000}
    load = result("start with many", 1.5, "s", ("at most 5", True), **details)
    details = {"messages": 9, "seconds": 1.0, "mb_per_s": 2.5, "msgs_per_s": 32_100, "broker_cpu_us_per_msg": 4.0}
    ended = result("committed", 321.0, "transactions/s", (None, None), **details, p50_ms=1.25, p99_ms=2.5, p999_ms=9.0)
    results = {
        "publish": document({"acks": "all"}, publish={}),
        "transactions": {"machine": MACHINE, "settings": {}, "results": {"transactions": ended}},
        "groups": {"machine": MACHINE, "settings": {}, "results": {"commits": commits, "load": load}},
    }
    messages, coordination = render_broker(results).split("\n\nGroups and transactions on A chip, 3 cores, ")
    assert "| publishing in bulk, confluent-kafka |" in messages
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in coordination.splitlines()[4:]]
    assert [row[:4] for row in rows] == [
        ["offsets committed", "5,432 offsets/s", "at least 20000 offsets/s", "missed"],
        ["start with many", "1,500 ms", "at most 5 s", "met"],
        ["committed", "321 transactions/s", "", ""],
    ]
    assert [row[4] for row in rows] == [
        "requests 543/s, broker CPU per request 45.7 us",
        "memory 123 MB, empty 500 ms, committed 100,000/s",
        "messages 32,100/s, broker CPU per message 4 us, p50 1.25 ms, p99 2.5 ms",
    ]


def test_spark_table_names_its_settings() -> None:
    details = {"rows": 5_000_000, "rounds": 3, "min_rows_per_second": 900_000, "cpu_us_per_row": 1.5}
    read = result("batch read", 1_234_567.0, "rows/s", ("at least 1e+06", True), **details)
    details = {"batches": 20, "batch_seconds": 0.4, "floor_seconds": 0.15}
    batch = result("a micro-batch", 0.25, "s", ("at most 0.3", True), **details)
    settings = {"spark": "4.3.0", "master": "local[2]", "rows": 5_000_000, "size_bytes": 100, "codec": "none"}
    results = {"read": read, "batch": batch}
    text = render_broker({"spark": {"machine": MACHINE, "settings": settings, "results": results}})
    lines = text.splitlines()
    assert lines[0].startswith("Spark 4.3.0 with master local[2], 5,000,000 rows of 100 bytes, on A chip, 3 cores, ")
    assert lines[4:] == [
        "| batch read | 1,234,567 rows/s | at least 1e+06 rows/s | met | min rows 900,000/s, CPU per row 1.5 us |",
        "| a micro-batch | 250 ms | at most 0.3 s | met | batch 400 ms, floor 150 ms |",
    ]


def test_missing_result_of_spark_is_left_out() -> None:
    assert "Spark" not in render_broker({"publish": document({"acks": "all"}, publish={})})


def result(
    what: str, value: float, unit: str, goal: tuple[str | None, bool | None], **details: float
) -> dict[str, Any]:
    """Return a stored result with a goal and whether it is met, or none."""
    return {"what": what, "value": value, "unit": unit, "goal": goal[0], "is_met": goal[1], **details}
