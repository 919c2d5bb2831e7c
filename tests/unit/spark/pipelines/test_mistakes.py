"""Every kind of mistake in a pipeline file: what is said, and exactly where."""

from __future__ import annotations

import pytest

from tests.unit.spark.pipelines.pipelines_kit import SMALL, lines_of, reading

TOP = "pipeline: orders\nsources:\n  orders: {topic: orders}\n  users: {parquet: users}\n"
OUT = "sinks:\n  out: {from: it, console: true}\n"
PLACE_HINT = "add from: with the name of a source or step"
WATERMARK_HINT = "add watermark: {column: ..., delay: 10m} to this step, or to one before it"


def said(text: str) -> list[str]:
    return lines_of(reading(text))


def said_of_source(line: str) -> list[str]:
    """Return what is said of a source in line 3, from column 7 on."""
    return said(f"pipeline: p\nsources:\n  it: {line}\n{OUT}")


def said_of_step(line: str) -> list[str]:
    """Return what is said of a step in line 6, from column 7 on; nothing of sources that it leaves out."""
    return [line for line in said(f"{TOP}steps:\n  it: {line}\n{OUT}") if "is not used (" not in line]


def said_of_sink(line: str) -> list[str]:
    """Return what is said of a sink in line 5, from column 8 on."""
    return said(f"pipeline: p\nsources:\n  it: {{topic: it}}\nsinks:\n  out: {line}\n")


def test_what_is_written_comes_to_a_good_end() -> None:
    """Places that two write, circles, and dead letters that are never final or always new."""
    text = """\
pipeline: p
sources:
  a: {topic: [a, p.dlq], decode: {format: json, schema: "id STRING, at TIMESTAMP"}}
  b: {json: in, schema: "id STRING", stream: true}
  c: {archive: old, decode: {format: json, schema: "id STRING"}}
steps:
  counted: {from: a, aggregate: {group_by: id, n: count(*)}}
  checked: {from: counted, expect_or_dlq: {some: n > 0}}
  grouped: {sql: "SELECT id, count(*) AS n FROM b GROUP BY id", expect_or_dlq: {some: n > 0}}
sinks:
  one: {from: b, json: out/x}
  two: {from: b, json: ./out//x/}
  three: {from: b, json: in}
  four: {from: a, topic: a}
  five: {from: checked, topic: five, mode: update}
  six: {from: grouped, topic: six, mode: update}
  seven: {from: c, topic: seven}
"""
    assert [line.partition(" (")[0] for line in said(text)] == [
        "3:3 error: source a reads p.dlq, where dead letters go: they would be dead again, for ever",
        "5:3 error: c would make dead letters of a table, at every start anew, beside those of streams",
        "8:3 error: dead letters of step checked are never final: what it checks is aggregated without a watermark",
        "9:3 warning: dead letters of step grouped are never final: what it checks is aggregated without a watermark",
        "12:3 error: sinks one and two write to the same directory: one would lose its rows",
        "13:3 error: sink three writes to the directory that source b reads: rows go in a circle",
        "14:3 warning: sink four writes to a, which source a reads",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ["1:1 error: the file is empty (`goqueue pipeline init` writes a pipeline to begin with)"]),
        ("- a\n", ["1:1 error: the file has to be a mapping of keys and values, not a list"]),
        (
            "a: b: c\n",
            [
                (
                    "1:5 error: this is no YAML: mapping values are not allowed here "
                    '(put quotes around a value that has ": " in it)'
                )
            ],
        ),
        (
            "a:\n\tb: c\n",
            [
                (
                    "2:1 error: this is no YAML: while scanning for the next token found character '\\t' that "
                    "cannot start any token (YAML indents with spaces, never with tabs)"
                )
            ],
        ),
        ("a: \x00\n", ["1:4 error: this is no YAML: the character '\\x00'"]),
        (
            "a: 1\n---\nb: 2\n",
            [("2:1 error: this is no YAML: expected a single document in the stream but found another document")],
        ),
        (
            "pipeline: &a [*a]\n" + SMALL.split("\n", 1)[1],
            [
                "1:11 error: this anchor contains itself",
                "1:11 error: pipeline of the file has to be a text, not a list",
            ],
        ),
        (
            "pipeline: !!python/name:os.system x\n" + SMALL.split("\n", 1)[1],
            [
                "1:11 error: the tag tag:yaml.org,2002:python/name:os.system has no meaning here (leave it out)",
            ],
        ),
        (SMALL + "<<: {dlq: x}\n", ["6:1 error: merge keys (<<) are not used here (write the keys out)"]),
        (SMALL + "[a]: x\n", ["6:1 error: a key has to be a text"]),
        (SMALL + "pipeline: other\n", ["6:1 error: pipeline is there twice (first in line 1)"]),
        (SMALL + "triger: 5s\n", ["6:1 error: the file has no key 'triger' (did you mean trigger?)"]),
        (
            SMALL + "trigger: often\n",
            [("6:10 error: the trigger cannot be 'often' (write a duration such as 5s, or available_now)")],
        ),
        (
            SMALL + "trigger: 5\n",
            [("6:10 error: the trigger is '5', which is no duration (write 500ms, 30s, 5m, 1h, 7d)")],
        ),
        (
            SMALL + "dlq: a/b\n",
            [
                (
                    "6:6 error: 'a/b' cannot be the name of a topic (1 to 249 letters, digits, dots, "
                    "underscores and hyphens)"
                )
            ],
        ),
        (SMALL + "broker:\n", ["6:8 error: broker of the file is empty"]),
        (SMALL + "spark: [a]\n", ["6:8 error: spark of the file has to be a mapping of names to texts"]),
        (
            SMALL + "description: ${WHO}\n",
            [("6:14 error: the environment variable WHO is not set (set it, or write ${WHO:-default})")],
        ),
        (
            SMALL.replace("pipeline: orders", "pipeline: my orders"),
            [
                (
                    "1:11 error: 'my orders' cannot be the name of a pipeline (up to 100 letters, digits, dots, "
                    "underscores and hyphens)"
                )
            ],
        ),
        (
            "description: nothing\n",
            [
                "1:1 error: the file has no pipeline (add pipeline: orders)",
                "1:1 error: the pipeline has no sources (add sources: with at least one)",
                "1:1 error: the pipeline has no sinks (add sinks: with at least one)",
            ],
        ),
        (SMALL.replace("  out:", "  out-1:"), ["5:3 error: 'out-1' cannot be the name of a sink (write out_1)"]),
        (
            "pipeline: p\nsources: [a]\n",
            [
                "1:1 error: the pipeline has no sinks (add sinks: with at least one)",
                (
                    "2:10 error: sources has to be a mapping of names, not a list (write sources: with a name for each "
                    "source)"
                ),
            ],
        ),
    ],
)
def test_a_flaw_of_the_whole_file_is_told_with_its_place(text: str, told: list[str]) -> None:
    assert said(text) == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{topc: it}", "3:8 error: source it has no key 'topc' (did you mean topic?)"),
        ("{}", "3:7 error: source it does not say what it is (add one of topic, archive, parquet, json, csv)"),
        ("it", "3:7 error: source it has to be a mapping of keys and values, not a text"),
        ("{topic: it, json: it}", "3:19 error: source it has both topic and json (it can have one of them)"),
        (
            "{topic: [a, b/c]}",
            (
                "3:19 error: 'b/c' cannot be the name of a topic (1 to 249 letters, digits, dots, "
                "underscores and hyphens)"
            ),
        ),
        (
            "{topic: a, start: soon}",
            (
                "3:25 error: start of source it cannot be 'soon' (write earliest, latest or a "
                "time such as 2030-01-31T08:00:00Z)"
            ),
        ),
        (
            "{topic: a, max_rows_per_batch: many}",
            ("3:38 error: max_rows_per_batch of source it is 'many', not a whole number above 0"),
        ),
        (
            "{topic: a, decode: xml}",
            "3:26 error: decode of source it cannot be 'xml' (choose from json, text, raw, avro, protobuf)",
        ),
        (
            "{topic: a, decode: json}",
            (
                "3:26 error: source it needs a schema to read JSON (write decode: {format: json, "
                'schema: "id STRING, amount DOUBLE"})'
            ),
        ),
        (
            "{topic: a, decode: {format: json}}",
            (
                "3:26 error: source it needs a schema to read JSON (write decode: "
                '{format: json, schema: "id STRING, amount DOUBLE"})'
            ),
        ),
        ("{topic: a, decode: {format: text, schema: a INT}}", "3:41 error: a schema means nothing to the format text"),
        (
            "{topic: a, decode: {format: json, schema: 'a INT, b STRNG'}}",
            (
                "3:59 error: schema of decode of source it: STRNG is no type; did you mean STRING? (write columns "
                "and types: id STRING, amount DOUBLE, placed_at TIMESTAMP)"
            ),
        ),
        (
            "{topic: a, decode: {format: json, schema: 'key STRING', keep: [key]}}",
            "3:70 error: key is kept, but the schema has a column of that name, too",
        ),
        (
            "{topic: a, decode: {format: text, keep: [ofset]}}",
            "3:48 error: keep of decode of source it cannot be 'ofset' (did you mean offset?)",
        ),
        (
            "{json: in, stream: true}",
            ('3:18 error: source it needs a schema to be a stream (add schema: "id STRING, ...")'),
        ),
        ("{json: in, stream: maybe, schema: a INT}", "3:26 error: stream of source it is 'maybe', not true or false"),
        (
            "{json: in, start: latest}",
            (
                "3:18 error: source it has no key 'start' (choose from topic, archive, "
                "parquet, json, csv, schema, stream, options)"
            ),
        ),
    ],
)
def test_a_flaw_of_a_source_is_told_with_its_place(line: str, told: str) -> None:
    assert said_of_source(line) == [told]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "{from: order, deduplicate: id}",
            ("6:14 error: step it reads order, but there is no such source or step (did you mean orders?)"),
        ),
        (
            "{from: zebra, expect: {a: b}}",
            ("6:14 error: step it reads zebra, but there is no such source or step (choose from orders, users, it)"),
        ),
        (
            "{sql: SELECT * FROM ordrs}",
            ("6:27 error: step it reads ordrs, but there is no such source or step (did you mean orders?)"),
        ),
        ("{sql: SELECT 1}", "6:13 error: sql of step it reads no source or step (select FROM one)"),
        ("{sql: DROP TABLE orders}", "6:13 error: sql of step it: a query begins with SELECT or WITH, not with DROP"),
        ('{sql: "SELECT \'a FROM orders"}', "6:21 error: sql of step it: the quote ' is never closed"),
        ("{sql: SELECT (1 FROM orders}", "6:20 error: sql of step it: the bracket ( is never closed"),
        (
            "{sql: SELECT 1 FROM orders; SELECT 2}",
            ("6:33 error: sql of step it: a step has one query; this is a second one"),
        ),
        (
            "{from: users, sql: SELECT * FROM orders JOIN users}",
            (
                "6:40 error: sql of step it reads orders, which its from leaves out (add it, or leave from away: the "
                "query says it all)"
            ),
        ),
        (
            "{from: [users, orders], sql: SELECT * FROM orders}",
            "6:15 warning: step it names users, but its sql does not read it",
        ),
        ("{deduplicate: id}", f"6:7 error: step it reads nothing ({PLACE_HINT})"),
        (
            "{from: [users, orders], expect: {a: b}}",
            ("6:22 error: step it can read only one source or step (read several with sql, python or join)"),
        ),
        ("{from: users}", "6:7 warning: step it does nothing (add one of sql, python, join)"),
        (
            "{from: users, sql: SELECT 1 FROM users, python: a:b}",
            ("6:47 error: step it has both sql and python (it can have one of them)"),
        ),
        (
            "{from: users, python: clean}",
            (
                "6:29 error: python of step it is 'clean', which names no function (write "
                "transforms.py:clean, or package.module:clean)"
            ),
        ),
        (
            "{from: users, python: t.py:clean}",
            ("6:29 error: python of step it: there is no file dir/t.py (paths are relative to the pipeline file)"),
        ),
        ("{from: users, expect: {a: ''}}", "6:33 error: a in expect of step it is empty"),
        ("{from: users, expect: {a: '-- no'}}", "6:34 error: a in expect of step it: the condition is empty"),
        (
            "{from: users, expect_or_dlq: {a: 'b > (1'}}",
            ("6:45 error: a in expect_or_dlq of step it: the bracket ( is never closed"),
        ),
        ("{from: users, expect: {a: b}, expect_or_drop: {a: c}}", "6:54 error: step it has two rules with the name a"),
        (
            "{from: users, expects: {a: b}, deduplicate: a}",
            ("6:21 error: step it has no key 'expects' (did you mean expect?)"),
        ),
        (
            "{from: users, watermark: {column: at, delay: ten}}",
            ("6:52 error: delay of watermark of step it is 'ten', which is no duration (write 500ms, 30s, 5m, 1h, 7d)"),
        ),
        (
            "{from: users, watermark: {delay: 1m}}",
            ("6:32 error: watermark of step it has no column (add column: placed_at)"),
        ),
        (
            "{from: users, group_by: a, deduplicate: a}",
            ("6:21 error: step it has group_by but computes nothing (add aggregate: {total: sum(amount)})"),
        ),
        (
            "{from: users, window: {column: a, size: 1m, slide: 2m}, aggregate: {n: count(*)}}",
            "6:51 error: windows that slide by more than their size leave rows out",
        ),
        (
            "{from: users, window: {column: a, gap: 1m, slide: 2m}, aggregate: {n: count(*)}}",
            "6:50 error: the windows of a session have no slide",
        ),
        ("{from: users, join: {with: orders}}", "6:27 error: join of step it has no on (add on: [customer_id])"),
        (
            "{from: users, join: {with: order, on: id}}",
            ("6:34 error: step it reads order, but there is no such source or step (did you mean orders?)"),
        ),
        (
            "{from: users, join: {with: orders, on: id, type: outer}}",
            (
                "6:56 error: type of join of step it cannot be "
                "'outer' (choose from inner, left, right, full, "
                "semi, anti)"
            ),
        ),
        (
            "{from: orders, deduplicate: id}",
            (
                "6:3 warning: step it removes duplicates from a stream without a "
                f"watermark: it remembers every row for ever ({WATERMARK_HINT})"
            ),
        ),
    ],
)
def test_a_flaw_of_a_step_is_told_with_its_place(line: str, told: str) -> None:
    assert said_of_step(line) == [told]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{console: true}", f"5:8 error: sink out reads nothing ({PLACE_HINT})"),
        ("{from: [it, it2], console: true}", "5:20 error: sink out can read only one source or step"),
        (
            "{from: at, console: true}",
            ("5:15 error: sink out reads at, but there is no such source or step (choose from it)"),
        ),
        (
            "{from: it}",
            (
                "5:8 error: sink out does not say what it is (add one of topic, parquet, json, csv, delta, console, "
                "foreach_batch)"
            ),
        ),
        (
            "{from: it, topic: a b}",
            (
                "5:26 error: 'a b' cannot be the name of a topic (1 to 249 letters, digits, dots, "
                "underscores and hyphens)"
            ),
        ),
        (
            "{from: it, parquet: o, mode: update}",
            (
                "5:31 error: sink out writes files, which can only be appended to "
                "(leave mode away; a topic takes updates)"
            ),
        ),
        (
            "{from: it, topic: a, mode: upsert}",
            ("5:35 error: mode of sink out cannot be 'upsert' (choose from append, update, complete)"),
        ),
        (
            "{from: it, topic: a, mode: complete}",
            ("5:3 error: sink out writes complete results, but what it reads is not aggregated (leave mode away)"),
        ),
        ("{from: it, console: {row: 5}}", "5:29 error: console of sink out has no key 'row' (did you mean rows?)"),
        (
            "{from: it, console: false}",
            ("5:28 error: console is true or a mapping, or it is left away (write console: true)"),
        ),
        (
            "{from: it, console: true, partition_by: a}",
            (
                "5:34 error: sink out has no key 'partition_by' (choose from "
                "topic, parquet, json, csv, delta, console, foreach_batch, from, "
                "mode)"
            ),
        ),
    ],
)
def test_a_flaw_of_a_sink_is_told_with_its_place(line: str, told: str) -> None:
    assert told in said_of_sink(line)


def test_steps_that_read_each_other_are_told_once() -> None:
    steps = "steps:\n  it: {sql: SELECT * FROM b}\n  b: {sql: 'SELECT * FROM c, users'}\n  c: {sql: SELECT * FROM it}\n"
    told = said(f"{TOP}{steps}{OUT}".replace("  orders: {topic: orders}\n", ""))
    assert told == ["5:3 error: steps read each other in a circle: it <- b <- c <- it"]
    assert said_of_step("{sql: SELECT * FROM it}") == ["6:3 error: step it reads itself"]


def test_a_name_belongs_to_one_source_or_step() -> None:
    text = f"{TOP}steps:\n  USERS: {{sql: SELECT * FROM orders}}\n  it: {{sql: SELECT * FROM users}}\n{OUT}"
    assert said(text)[0] == (
        "6:3 error: step USERS has the name of a source (the source is in line 4; every source and step needs a name "
        "of its own)"
    )
    two = SMALL.replace("sinks:", "  Orders: {topic: b}\nsinks:")
    assert "4:3 error: Orders and orders are the same name (see line 3)" in said(two)


def test_what_nobody_reads_is_warned_of() -> None:
    steps = "steps:\n  it: {sql: SELECT * FROM orders}\n  idle: {sql: SELECT * FROM it}\n"
    assert said(f"{TOP}{steps}{OUT}") == [
        "4:3 warning: source users is not used (read it from a step or a sink, or remove it)",
        "7:3 warning: step idle is not used (read it from a step or a sink, or remove it)",
    ]


@pytest.mark.parametrize(
    "window", ["sql: \"SELECT window(at, '1 minute') FROM orders\"", "from: orders, window: {column: at, size: 1m}"]
)
def test_windows_need_a_watermark_only_on_a_stream(window: str) -> None:
    def step(more: str) -> str:
        return f"{{{window}, {more}}}" if "from" in window else f"{{{window}}}"

    mode = OUT.replace("console: true", "console: true, mode: update")
    text = f"{TOP}steps:\n  it: {step('aggregate: {n: count(*)}')}\n{mode}".replace("  users: {parquet: users}\n", "")
    warning = f"has windows on a stream without a watermark: none of them ever ends ({WATERMARK_HINT})"
    assert said(text) == [f"5:3 warning: step it {warning}"]
    assert said(text.replace("{topic: orders}", "{parquet: orders}")) == []
    late = "steps:\n  late: {from: orders, watermark: {column: at, delay: 1m}}\n"
    assert said(text.replace("steps:\n", late).replace("FROM orders", "FROM late").replace(
        "it: {from: orders", "it: {from: late")) == []  # fmt: skip


def test_appending_what_is_never_final_is_refused_or_warned_of() -> None:
    grouped = said_of_step("{from: orders, group_by: a, aggregate: {n: count(*)}}")
    wording = (
        "sink out appends results that are never final: they are aggregated without a watermark (write mode: update, "
        "or add a watermark before the aggregation)"
    )
    assert grouped == [f"8:3 error: {wording}"]
    assert said_of_step("{sql: 'SELECT a, count(*) FROM orders GROUP BY a'}") == [f"8:3 warning: {wording}"]
    assert said_of_step("{from: users, group_by: a, aggregate: {n: count(*)}}") == []


def test_what_is_only_known_at_its_end_cannot_be_updated() -> None:
    late = "late: {from: orders, watermark: {column: at, delay: 1m}}"
    once = "once: {from: late, window: {column: at, %s: 1m}, aggregate: {n: count(*)}}"
    twice = "it: {from: once, aggregate: {n: sum(n)}}"
    updated = OUT.replace("console: true", "console: true, mode: update")
    top = TOP.replace("  users: {parquet: users}\n", "")

    def told(*steps: str, sink: str = updated) -> list[str]:
        return said(top + "steps:\n" + "".join(f"  {step}\n" for step in steps) + sink)

    sessions = (once % "gap").replace("once", "it")
    wording = "8:3 error: sink out writes updates of sessions, which are only known when they end (leave mode away)"
    assert told(late, sessions) == [wording]
    assert told(late, sessions, sink=OUT) == []
    assert told(late, (once % "size").replace("once", "it")) == []
    wording = "9:3 error: sink out writes what is aggregated twice before it is final (leave mode away)"
    assert told(late, once % "size", twice) == [wording]
    assert told(late, once % "size", twice, sink=OUT) == []


def test_a_place_inside_of_a_block_is_that_of_the_word() -> None:
    step = "steps:\n  it:\n    sql: |\n      SELECT *\n      FROM orders o\n        JOIN user u ON true\n"
    assert said(f"{TOP}{step}{OUT}")[1:] == [
        "10:14 error: step it reads user, but there is no such source or step (did you mean users?)"
    ]


def test_all_mistakes_are_told_at_once_and_in_order() -> None:
    text = SMALL.replace("topic: orders", "topic: a/b").replace("console: true", "consol: true") + "x: y\n"
    assert [line.split()[0] for line in said(text)] == ["3:19", "5:23", "6:1"]


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert said(bomb) == ["1:1 error: the file has more than 10,000 nodes (aliases count as what they stand for)"]


def test_a_file_that_nests_too_deeply_or_is_too_long_is_refused() -> None:
    assert said("[" * 100_000) == ["1:1 error: the file nests too deeply"]
    assert said("#" * 2_000_000) == ["1:1 error: the file has more than 1,048,576 characters"]


def test_functions_are_looked_for_without_running_their_file() -> None:
    text = f"{TOP}steps:\n  it: {{from: [orders, users], python: 't.py:clean'}}\n{OUT}"
    raising = "import nothing_like_this\ndef clean(orders, users): ...\n"
    assert lines_of(reading(text, t=raising)) == []
    assert lines_of(reading(text.replace(":clean", ":claen"), t=raising)) == [
        "6:45 error: python of step it: dir/t.py has no function claen (did you mean clean?)"
    ]
    assert lines_of(reading(text, t="def clean(\n")) == [
        "6:39 error: python of step it: line 1 of dir/t.py is no Python"
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "{from: it, parquet: lake, partition_by: [.day]}",
            ["5:34 error: readers leave out directories such as .day=1 (rename the column)"],
        ),
        (
            "{from: it, parquet: lake, partition_by: [_day]}",
            ["5:34 warning: pandas and pyarrow leave out directories such as _day=1 (rename the column)"],
        ),
        ("{from: it, delta: lake, partition_by: [_day]}", []),
        ("{from: it, parquet: lake, partition_by: [day]}", []),
    ],
)
def test_partitions_that_readers_take_for_hidden_are_told(line: str, told: list[str]) -> None:
    assert said_of_sink(line) == told
