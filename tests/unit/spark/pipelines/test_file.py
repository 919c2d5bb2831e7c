"""A pipeline file becomes the pipeline that it describes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.start_at import StartAt
from goqueue.spark.pipelines.spec.model import (
    Action,
    Aggregate,
    ArchiveSource,
    AvailableNow,
    BatchSink,
    ConsoleSink,
    Decode,
    DecodeFormat,
    Deduplicate,
    Expectation,
    FileFormat,
    FileSink,
    FileSource,
    Interval,
    JoinKind,
    JoinTransform,
    MessageColumn,
    Mode,
    OnBadValue,
    PythonFunction,
    PythonTransform,
    SqlTransform,
    TimeWindow,
    TopicSink,
    TopicSource,
    Watermark,
)
from tests.unit.spark.pipelines.pipelines_kit import SAMPLE, SMALL, reading, spec_of

EVERYTHING = """\
pipeline: all
trigger: available_now
checkpoint: checkpoints
spark: {spark.sql.shuffle.partitions: 4}
sources:
  clicks:
    topic: [web, app]
    start: 2030-01-31T08:00:00Z
    max_rows_per_batch: 1_000
    decode: {format: json, schema: "user STRING, at TIMESTAMP", keep: [offset, key], on_bad_value: fail}
  words: {topic: words, start: latest, decode: text}
  old: {archive: /archive/clicks}
  users: {csv: "s3a://bucket/users", options: {header: true}}
  arriving: {json: in, stream: true, schema: a INT}
steps:
  totals: {sql: SELECT * FROM Joined JOIN words JOIN old JOIN arriving}
  joined:
    from: seen
    join: {with: users, on: "seen.user = users.id", type: left}
  seen:
    from: clicks
    expect: {known: user IS NOT NULL}
    expect_or_drop: {recent: at > '2020-01-01'}
    watermark: {column: at, delay: 1h}
    deduplicate: [user]
    window: {column: at, size: 10m, slide: 5m}
    group_by: user
    aggregate: {clicks: count(*)}
  cleaned: {from: [seen, users], python: "t.py:clean"}
sinks:
  topic: {from: totals, topic: totals, key: user, value: body, mode: update}
  files: {from: totals, json: /out, partition_by: [user, day]}
  screen: {from: totals, console: {rows: 5}}
  code: {from: cleaned, foreach_batch: "package.sinks:store"}
"""


def test_every_key_of_a_file_is_in_its_pipeline() -> None:
    spec = spec_of(EVERYTHING, t="def clean(a, b): ...\n")
    assert (spec.name, spec.trigger, spec.checkpoint) == ("all", AvailableNow(), "dir/checkpoints")
    assert spec.spark == {"spark.sql.shuffle.partitions": "4"}
    decode = Decode(
        DecodeFormat.JSON,
        "user STRING, at TIMESTAMP",
        (MessageColumn.OFFSET, MessageColumn.KEY),
        OnBadValue.FAIL,
    )
    assert spec.sources == (
        TopicSource("clicks", ("web", "app"), decode, datetime(2030, 1, 31, 8, tzinfo=UTC), 1000),
        TopicSource("words", ("words",), Decode(DecodeFormat.TEXT), StartAt.LATEST),
        ArchiveSource("old", "/archive/clicks", Decode()),
        FileSource("users", FileFormat.CSV, "s3a://bucket/users", options={"header": "true"}),
        FileSource("arriving", FileFormat.JSON, "dir/in", "a INT", is_stream=True),
    )
    steps = {step.name: step for step in spec.steps}
    assert steps["seen"].expectations == (
        Expectation("known", "user IS NOT NULL", Action.KEEP),
        Expectation("recent", "at > '2020-01-01'", Action.DROP),
    )
    assert steps["seen"].watermark == Watermark("at", 3_600_000)
    assert steps["seen"].deduplicate == Deduplicate(("user",))
    assert steps["seen"].aggregate == Aggregate({"clicks": "count(*)"}, ("user",), TimeWindow("at", 600_000, 300_000))
    assert steps["joined"].transform == JoinTransform(JoinKind.LEFT, condition="seen.user = users.id")
    assert steps["cleaned"].transform == PythonTransform(PythonFunction("dir/t.py:clean"))
    assert spec.sinks == (
        TopicSink("topic", "totals", "totals", "user", "body", Mode.UPDATE),
        FileSink("files", "totals", FileFormat.JSON, "/out", ("user", "day")),
        ConsoleSink("screen", "totals", 5),
        BatchSink("code", "cleaned", PythonFunction("package.sinks:store")),
    )


def test_steps_stand_behind_what_they_read_with_names_as_they_were_given() -> None:
    spec = spec_of(EVERYTHING, t="def clean(a, b): ...\n")
    assert [(step.name, step.inputs) for step in spec.steps] == [
        ("seen", ("clicks",)),
        ("joined", ("seen", "users")),
        ("totals", ("joined", "words", "old", "arriving")),
        ("cleaned", ("seen", "users")),
    ]


def test_what_a_file_leaves_out_has_defaults() -> None:
    spec = spec_of(SMALL)
    assert (spec.trigger, spec.dead_letters, spec.checkpoint, spec.broker) == (Interval(5000), "orders.dlq", "", "")
    assert spec.sources == (TopicSource("orders", ("orders",), Decode(), StartAt.EARLIEST),)
    assert spec.sinks == (ConsoleSink("out", "orders", 20, Mode.APPEND),)


def test_the_sample_has_no_mistakes_and_what_it_promises() -> None:
    spec = spec_of(SAMPLE)
    assert [step.name for step in spec.steps] == ["valid", "recent", "enriched", "per_minute"]
    assert isinstance(spec.steps[2].transform, SqlTransform)


@pytest.mark.parametrize(
    ("written", "environ", "value"),
    [
        ("${WHO}", {"WHO": "me"}, "me"),
        ("a ${WHO} b ${WHO}", {"WHO": "me"}, "a me b me"),
        ("${WHO:-you}", {}, "you"),
        ("${WHO:-you}", {"WHO": ""}, "you"),
        ("${WHO:-you}", {"WHO": "me"}, "me"),
        ("x${WHO:-}", {}, "x"),
        ("$${WHO}", {"WHO": "me"}, "${WHO}"),
        ("$WHO costs $5 ${not a name}", {"WHO": "me"}, "$WHO costs $5 ${not a name}"),
        ("${A}", {"A": "${B}", "B": "never"}, "${B}"),
    ],
)
def test_variables_are_filled_in(written: str, environ: dict[str, str], value: str) -> None:
    assert spec_of(SMALL + f"description: '{written}'\n", environ).description == value


def test_a_value_is_what_its_key_makes_of_it() -> None:
    # YAML itself would make a boolean, a number and a date of these.
    text = SMALL.replace("out: {from: orders,", "no: {from: orders, mode: append,")
    spec = spec_of(text.replace("pipeline: orders", "pipeline: 2030-01-31") + "description: 017\n")
    assert (spec.name, spec.description, spec.sinks[0].name) == ("2030-01-31", "017", "no")


KEYS = ["pipeline", "sources", "steps", "sinks", "from", "sql", "topic", "decode", "schema", "expect", "window"]
VALUES = ["SELECT * FROM a", "a", "b", "true", "${X}", "5s", "é", "字"]
SIGNS = [":", ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ", ", '"', "'", "|", ">", "&a ", "*a", "!!x "]
ODDITIES = ["#", "\t", "\\", "\u2028", "\x85", "---\n", "...\n", "? ", "<<"]
WORDS = st.sampled_from([*KEYS, *VALUES, *SIGNS, *ODDITIES])


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=60).map("".join)))
def test_any_text_is_a_pipeline_or_has_mistakes(text: str) -> None:
    _check_report(text)


@settings(max_examples=200, deadline=None)
@given(start=st.integers(0, len(SAMPLE)), length=st.integers(0, 60), put=st.one_of(WORDS, st.text(max_size=8)))
def test_any_damage_to_a_good_file_is_survived(start: int, length: int, put: str) -> None:
    _check_report(SAMPLE[:start] + put + SAMPLE[start + length :])


def _check_report(text: str) -> None:
    read = reading(text)
    assert (read.pipeline is None) == any(mistake.severity == "error" for mistake in read.mistakes)
    places = [mistake.place for mistake in read.mistakes]
    assert places == sorted(places)
    # The end of a text that ends with a line break is the line behind it.
    lines = len(text.splitlines()) + 1
    assert all(1 <= place.line <= lines and place.column >= 1 for place in places)
