"""Time and chance in rules and steps: what could lose rows is refused, and what makes sinks differ is told."""

from __future__ import annotations

import pytest

from goqueue.spark.sql.nondeterminism import is_time, nondeterminism_in
from tests.unit.spark.pipelines.pipelines_kit import lines_of, reading

WHY = "sinks and dead letters look at rows separately, and a row could get lost between them"
MOVE = "check the rows in a step before it, or use expect_or_drop"
SAME = "write it to a topic, and let another pipeline read that, if they are to get the same rows"


def said(*steps: str, sinks: str = "  out: {from: last, topic: out}", schema: str = "id STRING") -> list[str]:
    """Return what is said of steps, the first of which is in line 5."""
    lines = "\n".join(f"  {step}" for step in steps)
    text = f"pipeline: p\nsources:\n  orders: {{json: in, schema: '{schema}'}}\nsteps:\n{lines}\nsinks:\n{sinks}\n"
    return lines_of(reading(text))


@pytest.mark.parametrize(
    ("sql", "chance"),
    [
        ("rand() < 0.5", "rand()"),
        ("x > RANDN (3)", "randn()"),
        ("placed_at < now()", "now()"),
        ("placed_at < current_timestamp - INTERVAL 1 DAY", "current_timestamp"),
        ("system.builtin.uuid() = id", "uuid()"),
        ("unix_timestamp( ) > at", "unix_timestamp()"),
        ("at > date 'Yesterday'", "date 'yesterday'"),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT)", "tablesample"),
        ("unix_timestamp(at) > 0", ""),
        ("at > DATE '2026-01-31'", ""),
        ("name = 'rand()' OR `now` = 1 OR now = 2 -- rand()", ""),
        ("o.current_date > 0", ""),
        ("SELECT at AS current_date FROM a", ""),
        ("'never closed rand()", ""),
    ],
)
def test_what_depends_on_time_or_chance_is_found_in_sql(sql: str, chance: str) -> None:
    assert nondeterminism_in(sql) == chance


def test_time_is_told_from_chance() -> None:
    assert [is_time(chance) for chance in ("now()", "date 'today'", "rand()", "tablesample")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_rule_for_dead_letters_that_may_change_its_mind_is_refused() -> None:
    time = "compare with the time of the message, keep: [timestamp], or use expect or expect_or_drop"
    chance = "decide by what is in the row, such as xxhash64(id) % 100 = 0, or use expect_or_drop"
    assert said("last: {from: orders, expect_or_dlq: {fresh: at > now(), few: rand() < 0.1, good: id <> ''}}") == [
        f"5:3 error: rule fresh of step last depends on now(): {WHY} ({time})",
        f"5:3 error: rule few of step last depends on rand(): {WHY} ({chance})",
    ]


def test_a_column_that_is_called_as_the_time_is_no_time() -> None:
    step = "last: {from: orders, expect_or_dlq: {fresh: current_date > 0}}"
    for schema in ("id STRING, Current_Date INT", "`current_date` INT"):
        assert said(step, schema=schema) == []
        assert len(said(step.replace("_date >", "_date() >"), schema=schema)) == 1
    (refused,) = said(step, schema="current_time INT")
    assert "depends on current_date: " in refused
    assert refused.endswith("; a column of that name is written in backticks)")


def test_rows_before_dead_letters_depend_on_neither_time_nor_chance() -> None:
    drawn = 'drawn: {sql: "SELECT *, rand() AS r FROM orders"}'
    between = "between: {from: drawn, deduplicate: [id]}"
    rule = "expect_or_dlq: {named: id <> ''}"
    refused = f"5:3 error: step drawn depends on rand(), and step last makes dead letters after it: {WHY} ({MOVE})"
    assert said(drawn, between, f"last: {{from: between, {rule}}}") == [
        refused,
    ]
    itself = refused.replace("step drawn", "step last")
    assert said(f'last: {{sql: "SELECT *, rand() AS r FROM orders", {rule}}}') == [itself]
    dropping = "drawn: {from: orders, expect_or_drop: {few: rand() < 0.1}}"
    assert said(dropping, f"last: {{from: drawn, {rule}}}") == [refused]
    adding = "drawn: {from: orders, group_by: [id], aggregate: {seen: max(rand())}}"
    assert said(adding, f"last: {{from: drawn, {rule}}}") == [refused]


def test_time_and_chance_behind_dead_letters_lose_nothing() -> None:
    rules = "expect_or_dlq: {named: id <> ''}, expect_or_drop: {few: rand() < 0.1}, expect: {fresh: at > now()}"
    assert said(f"first: {{from: orders, {rules}}}", 'last: {sql: "SELECT *, uuid() AS u FROM first"}') == []


def test_two_sinks_behind_time_or_chance_are_told_to_differ() -> None:
    sinks = "  out: {from: last, topic: out}\n  lake: {from: last, parquet: lake}\n  raw: {from: orders, topic: raw}"
    assert said('last: {sql: "SELECT *, uuid() AS u FROM orders"}', sinks=sinks) == [
        f"5:3 warning: step last depends on uuid(), and sinks out and lake each work it out for themselves ({SAME})"
    ]
