"""A filter between Spark's output and standard error, which drops what the user cannot act on.

Spark runs Python workers as processes. A worker that ends with its query prints a stack trace, which is dropped; the
error of the query has the reason. Output and stack traces of users' functions pass.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

STDERR = 2
"""The target of unfiltered output."""

_LAST_WORDS_S = 1.0
_TRACEBACK = "Traceback (most recent call last):"
_BETWEEN = ("During handling of the above exception,", "The above exception was the direct cause")
_CUT_OFF = ("EOFError", "BrokenPipeError", "ConnectionResetError", "KeyboardInterrupt", "SystemExit")
_FILE = re.compile(r'^  File "([^"]+)"', re.MULTILINE)
_SPARK = re.compile(r"(-packages|pyspark\.zip)/pyspark/")
_LIBRARY = re.compile(rf"{_SPARK.pattern}|/lib/python3[^/]*/(?!site-packages|dist-packages)|^<frozen ")
_NOISE = ("WARNING: Using incubator modules",)
_JAVA_FRAME = re.compile(r"^\s+(at [\w.$/<>@]+\(.*\)|\.\.\. \d+ more)$")


@contextmanager
def spark_output() -> Iterator[int]:
    """Yield a file descriptor; a thread filters what is written to it."""
    reading, writing = os.pipe()
    # It ends with the last writer, Java for example, which may outlive this process.
    thread = threading.Thread(target=_hand_on, args=(reading,), name="spark-output", daemon=True)
    thread.start()
    is_well = False
    try:
        yield writing
        is_well = True
    finally:
        os.close(writing)
        if not is_well:
            # The reason why Java ended may still arrive.
            thread.join(_LAST_WORDS_S)


def _hand_on(reading: int) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in worth_reading(lines):
            sys.stderr.write(line)


def worth_reading(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without stack traces of Spark's workers, and without Java frames."""
    trace: list[str] = []
    is_after_worker_trace = False
    for line in lines:
        if trace:
            trace.append(line)
            # Its last line is the error, which is not indented.
            if not line.startswith((" ", "\t")):
                is_after_worker_trace = _is_of_worker(trace)
                yield from () if is_after_worker_trace else trace
                trace = []
        elif line.startswith(_TRACEBACK):
            trace = [line]
        elif is_after_worker_trace and (not line.strip() or line.startswith(_BETWEEN)):
            continue
        elif not line.startswith(_NOISE) and not _JAVA_FRAME.match(line):
            is_after_worker_trace = False
            yield line
    yield from trace


def _is_of_worker(trace: list[str]) -> bool:
    """Return whether a trace only shows that PySpark's own code lost its connection."""
    files = _FILE.findall("".join(trace))
    is_spark_alone = all(_LIBRARY.search(file) for file in files) and any(_SPARK.search(file) for file in files)
    error = trace[-1].strip()
    # A worker that a busy machine starts too late finds its socket closed.
    return is_spark_alone and (error.split(":")[0] in _CUT_OFF or "[CANNOT_OPEN_SOCKET]" in error)
