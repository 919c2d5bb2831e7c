"""The cause of a failure, found in what Spark tells; the texts are Spark's own, shortened."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import StreamingQueryException

from goqueue.errors import Invalid, UnknownTopic
from goqueue.spark.failures import REASON_CHARACTERS_MAX, failure_of, reason_in

HEAD = "[STREAM_FAILED] Query [id = bd10-8a1e, runId = c662-bdc9] terminated with exception: "
TAIL = """ SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = bd10-8a1e, runId = c662-bdc9]
Current Committed Offsets: {}

Logical Plan:
WriteToMicroBatchDataSource noop-table
"""
IN_WORKER = f"""{HEAD}[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/srv/app/transforms.py", line 44, in clean
    raise ValueError("bad row\\nsecond line")
  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 9, in process
ValueError: bad row
second line
 SQLSTATE: 38000{TAIL}"""
IN_STANDARD_LIBRARY = f"""{HEAD}[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/srv/app/transforms.py", line 44, in clean
    return json.loads(text)
  File "/opt/python/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
 SQLSTATE: 38000{TAIL}"""
IN_OPTIONS = f"""{HEAD}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python data source goqueue is made:
goqueue.errors.InvalidSettings: 2 settings are wrong:
  topic: is missing
  minPartitions: 'few' is no number
 SQLSTATE: 38000{TAIL}"""
IN_SOURCE = f"""{HEAD}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when planning:
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/goqueue/spark/source/losses.py", line 60, in settle
    raise DataLost(text)
goqueue.spark.source.losses.DataLost: offsets 0 to 9 of topic 'orders' are gone (set failOnDataLoss to false)

\tat org.apache.spark.sql.errors.QueryCompilationErrors$.x(QueryCompilationErrors.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840){TAIL}"""
WHILE_HANDLING = f"""{HEAD}Traceback (most recent call last):
  File "/srv/first.py", line 1, in first
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/second.py", line 2, in second
    raise RuntimeError("second")
RuntimeError: second
{TAIL}"""
IN_JAVA = """An error occurred while calling o130.start.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] No data source: dd. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:766)
\t... 8 more
Caused by: java.lang.ClassNotFoundException: dd.DefaultSource
\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)
"""
MISFIT = (
    f"{HEAD}[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The checkpoint location file:/c/offsets should be empty.{TAIL}"
)


class Told(Exception):
    """An error as Spark raises it."""


Told.__module__ = "pyspark.errors.exceptions.captured"


class AnalysisException(Told):
    """A query that cannot be planned."""


AnalysisException.__module__ = Told.__module__


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_WORKER, "ValueError: bad row second line (line 44 of transforms.py, in clean)"),
        (
            IN_STANDARD_LIBRARY,
            "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (line 44 of transforms.py, in clean)",
        ),
        (IN_SOURCE, "DataLost: offsets 0 to 9 of topic 'orders' are gone (set failOnDataLoss to false)"),
        (
            IN_OPTIONS,
            "InvalidSettings: 2 settings are wrong: topic: is missing minPartitions: 'few' is no number",
        ),
        (WHILE_HANDLING, "RuntimeError: second (line 2 of second.py, in second)"),
        (IN_JAVA, "No data source: dd."),
        ("java.lang.RuntimeException: a\n\tat x.y(Z.java:1)\nCaused by: java.io.IOException: b", "IOException: b"),
        (f"{HEAD}batch 0 doesn't exist{TAIL}", "batch 0 doesn't exist"),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\na / 0", "Division by zero."),
        ("", ""),
    ],
    ids=["worker", "standard library", "source", "options", "chain", "java", "cause", "plain", "sql", "nothing"],
)
def test_the_cause_is_one_line_without_stacks(text: str, reason: str) -> None:
    assert reason_in(text) == reason


def test_a_reason_is_never_long() -> None:
    assert len(reason_in("x" * 10_000)) == REASON_CHARACTERS_MAX


def test_a_checkpoint_of_another_pipeline_is_told_with_the_way_out() -> None:
    failure = failure_of(Told(MISFIT), "ck/orders/sinks/out")
    assert failure.is_hopeless
    assert failure.reason.startswith("the checkpoint does not fit the pipeline, which has changed since: ")
    assert "remove ck/orders/sinks/out" in failure.hint


def test_what_passes_is_tried_again_and_what_comes_again_is_not() -> None:
    assert not failure_of(Told(IN_WORKER)).is_hopeless
    assert failure_of(AnalysisException("[UNRESOLVED_COLUMN] no column amuont")).is_hopeless
    assert failure_of(Invalid("no")).is_hopeless
    assert failure_of(Told(IN_WORKER.replace("ValueError", "TooLarge"))).is_hopeless
    assert not failure_of(UnknownTopic("there is no topic 'out'")).is_hopeless


def test_an_error_of_the_users_code_names_its_line() -> None:
    try:
        json.loads("oops")
    except ValueError as error:
        failure = failure_of(error)
    assert failure.reason.startswith("JSONDecodeError: Expecting value: line 1 column 1 (char 0) (line ")
    assert failure.reason.endswith("of test_run_failures.py, in test_an_error_of_the_users_code_names_its_line)")


def test_run_that_another_one_has_overtaken_is_not_tried_again() -> None:
    text = f"""{HEAD}Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/goqueue/spark/pipelines/write/attempts.py", line 48, in seal
    raise Overtaken(text)
goqueue.spark.pipelines.write.attempts.Overtaken: another run of this pipeline has begun (let only one of them run)
{TAIL}"""
    failure = failure_of(StreamingQueryException(text))
    assert failure.is_hopeless
    assert failure.reason.startswith("Overtaken: another run of this pipeline has begun")
