"""What all commands share that run something on Spark: whether it is there, and how signals end it well."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType


def require_spark() -> None:
    """Raise SparkNotInstalled if there is no PySpark."""
    from goqueue.spark.session import SparkNotInstalled

    try:
        import pyspark
    except ImportError as error:
        raise SparkNotInstalled(f"Spark is not installed here: {error}", hint="pip install 'goqueue[spark]'") from None
    del pyspark


@contextmanager
def stop_signals(stops: SimpleQueue[str]) -> Iterator[None]:
    """Take Ctrl-C and SIGTERM as wishes to stop."""

    def wish(number: int, frame: FrameType | None) -> None:
        # The one queue that may be put to from a signal handler, whatever it interrupts.
        del number, frame
        stops.put("")

    before = {each: signal.signal(each, wish) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
