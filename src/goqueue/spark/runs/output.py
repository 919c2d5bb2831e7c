"""What Spark prints while pipelines run: handed on to standard error, without what nobody can act on.

Spark has helpers in Python, a process each. One that ends because its query has ended, or was not needed after all,
prints how that came about, as a stack trace; why a query fails is told by the query. What functions of users print is
handed on, and so are their stack traces.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

STDERR = 2
"""Where all of it goes if somebody wants to see all of it."""

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
    """Give a file descriptor to whose other end somebody listens, and hands on what is worth it."""
    reading, writing = os.pipe()
    # It ends when all who write have ended, Java for example, and that may be after this process.
    thread = threading.Thread(target=_hand_on, args=(reading,), name="spark-output", daemon=True)
    thread.start()
    is_well = False
    try:
        yield writing
        is_well = True
    finally:
        os.close(writing)
        if not is_well:
            # Why Java has ended may still be on its way.
            thread.join(_LAST_WORDS_S)


def _hand_on(reading: int) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in worth_reading(lines):
            sys.stderr.write(line)


def worth_reading(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without the stack traces of Spark's helpers, and without the frames of those of Java."""
    trace: list[str] = []
    is_behind_helper = False
    for line in lines:
        if trace:
            trace.append(line)
            # Its last line is the error, which is not indented.
            if not line.startswith((" ", "\t")):
                is_behind_helper = _is_of_helper(trace)
                yield from () if is_behind_helper else trace
                trace = []
        elif line.startswith(_TRACEBACK):
            trace = [line]
        elif is_behind_helper and (not line.strip() or line.startswith(_BETWEEN)):
            continue
        elif not line.startswith(_NOISE) and not _JAVA_FRAME.match(line):
            is_behind_helper = False
            yield line
    yield from trace


def _is_of_helper(trace: list[str]) -> bool:
    """Tell whether PySpark's own code was cut off from whoever it talks to; what else went wrong there is news."""
    files = _FILE.findall("".join(trace))
    is_spark_alone = all(_LIBRARY.search(file) for file in files) and any(_SPARK.search(file) for file in files)
    error = trace[-1].strip()
    # One that a busy machine starts too late finds that Spark does not wait for it any more.
    return is_spark_alone and (error.split(":")[0] in _CUT_OFF or "[CANNOT_OPEN_SOCKET]" in error)
