"""Words and tables for people."""

from __future__ import annotations

import re

import pytest

from goqueue.cli.doctor.install import satisfies
from goqueue.cli.terminal.output import Format
from goqueue.cli.terminal.tables import Column, Table, print_facts, size_text
from goqueue.cli.terminal.times import time_text
from goqueue.cli.topics import in_words
from goqueue.model.units import count_text


def test_sizes_have_the_shortest_unit() -> None:
    sizes = [0, 1, 1023, 1024, 1536, 10 * 2**20, 3 * 2**30, 2**40, 5 * 2**50, 2**70]
    assert [size_text(size) for size in sizes] == [
        "0 B",
        "1 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "10.0 MiB",
        "3.0 GiB",
        "1.0 TiB",
        "5.0 PiB",
        "1048576.0 PiB",
    ]


def test_counts_have_commas_and_agree_with_their_noun() -> None:
    assert [count_text(1234567), count_text(0, "message"), count_text(1, "message")] == [
        "1,234,567",
        "0 messages",
        "1 message",
    ]


def test_times_are_local_and_invalid_ones_are_shown_as_numbers() -> None:
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d:20\.123", time_text(1_700_000_000_123))
    assert time_text(-1) == "-"
    assert time_text(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7d"),
        ("retention.ms", "-1", "unlimited"),
        ("segment.bytes", "67108864", "64MiB"),
        ("segment.bytes", "1000", "1000"),
        ("max.compaction.lag.ms", "9223372036854775807", "unlimited"),
        ("min.insync.replicas", "1", ""),
        ("cleanup.policy", "delete", ""),
    ],
)
def test_values_of_settings_have_readable_units(name: str, value: str, words: str) -> None:
    assert in_words(name, value) == words


def test_table_aligns_columns_and_trims_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table: Table[tuple[str, int | None, str]] = Table(
        "thing",
        Column("name", lambda each: each[0]),
        Column("size", lambda each: each[1], is_number=True),
        Column("note", lambda each: each[2], spared=1),
        Column("trouble", lambda each: "", is_hidden_if_empty=True),
    )
    table.print([("a", None, ""), ("[bold]long name[/bold]", 22222, ":smile: x")])
    assert capsys.readouterr().out.splitlines() == [
        "name                      size  note",
        "──────────────────────  ──────  ─────────",
        "a                            -",
        "[bold]long name[/bold]  22,222  :smile: x",
    ]


def test_table_prints_rows_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    table: Table[Column[str]] = Table("thing", Column("name", lambda each: each.heading), row=lambda each: {"a": 1})
    table.show([Column("x", str)], Format.JSON)
    assert capsys.readouterr().out == '{"kind": "thing", "a": 1}\n'


def test_narrow_terminal_shows_fewer_columns_and_whole_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    table: Table[str] = Table(
        "thing",
        Column("name", lambda _: "x" * 30),
        Column("first to go", lambda _: "y" * 11, spared=2),
        Column("second to go", lambda _: "z" * 12, spared=1),
    )

    def headings(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        table.print([""])
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert "x" * 30 in shown
        return re.split(r"\s{2,}", shown.splitlines()[0].strip())

    assert headings(57) == ["name", "first to go", "second to go"]
    assert headings(56) == ["name", "second to go"]
    assert headings(40) == ["name"]
    assert headings(20) == ["name"]


def test_facts_are_printed_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("id", "1"), ("created", "now")], title="topic x")
    assert capsys.readouterr().out == "topic x\n  id       1\n  created  now\n"


@pytest.mark.parametrize(
    ("version", "requirement", "is_fine"),
    [
        ("1.2.3", "x>=1.2,<2", True),
        ("2.0", "x>=1.2,<2", False),
        ("1.1.9", "x<2,>=1.2", False),
        ("0.6.5", "x==0.6.5", True),
        ("0.6.6", "x==0.6.5", False),
        ("2.9.post0", "x>=2.7,<3", True),
        ("10.0", "x>=9", True),
        ("1.2", "x>=1.2.0", True),
        ("unknown", "x", True),
    ],
)
def test_versions_are_compared_with_what_is_required(version: str, requirement: str, is_fine: bool) -> None:
    assert satisfies(version, requirement) is is_fine
