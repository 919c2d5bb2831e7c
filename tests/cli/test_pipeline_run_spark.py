"""What Spark prints, as it reaches those who run pipelines."""

from __future__ import annotations

from goqueue.spark.runs.output import worth_reading

OF_A_HELPER = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/opt/pyspark/python/lib/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 280, in main
EOFError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 313, in <module>
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
"""
OF_A_USER = """\
Traceback (most recent call last):
  File "/srv/orders/transforms.py", line 3, in clean
    return 1 / 0
ZeroDivisionError: division by zero
"""


def shown(text: str) -> str:
    return "".join(worth_reading(iter(text.splitlines(keepends=True))))


def test_stack_traces_of_helpers_are_left_out_wherever_they_are() -> None:
    assert shown(OF_A_HELPER) == ""
    assert shown(f"before\n{OF_A_HELPER}after\n{OF_A_HELPER}{OF_A_HELPER}end\n") == "before\nafter\nend\n"


def test_output_and_stack_traces_of_users_are_kept() -> None:
    text = f"rows: 3\n\n  indented\n{OF_A_USER}next\n{OF_A_USER}"
    assert shown(text) == text
    assert shown(OF_A_USER + OF_A_HELPER + OF_A_USER) == OF_A_USER + OF_A_USER
    assert shown(OF_A_HELPER + "java.lang.OutOfMemoryError: Java heap space\n").startswith("java.lang.OutOf")


def test_other_errors_of_workers_are_kept() -> None:
    for news in ("OSError: [Errno 12] Cannot allocate memory", "ModuleNotFoundError: No module named 'goqueue'"):
        text = OF_A_HELPER.replace("BrokenPipeError: [Errno 32] Broken pipe", news)
        assert shown(text).endswith(f"{news}\n")
    own = OF_A_HELPER.replace("/opt/site-packages/pyspark/sql/streaming", "/srv/pyspark/orders")
    assert "/srv/pyspark/orders" in shown(own)


def test_module_warnings_of_java_are_dropped() -> None:
    assert shown("WARNING: Using incubator modules: jdk.incubator.vector\nWARNING: else\n") == "WARNING: else\n"


def test_error_of_java_is_kept_without_its_frames() -> None:
    told = [
        "Exception in thread main: Could not parse Master URL: 'nowhere'\n",
        "\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3378)\n",
        "Caused by: java.io.IOException: no\n",
        "\t... 12 more\n",
        "  at noon, a line of the user\n",
    ]
    assert list(worth_reading(told)) == [told[0], told[2], told[4]]


def test_trace_of_a_late_worker_is_dropped() -> None:
    late = (
        "Traceback (most recent call last):\n"
        '  File "/opt/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 313, in <module>\n'
        "    with get_sock_file_to_executor() as sock_file:\n"
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] Can not open socket: timed out\n"
    )
    assert list(worth_reading([*late.splitlines(keepends=True), "a line\n"])) == ["a line\n"]
