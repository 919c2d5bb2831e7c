"""Spark sessions of commands: whether Spark is installed, a session for one run, and signals that end it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_spark() -> None:
    """Raise SparkNotInstalled if there is no PySpark."""
    from goqueue.spark.session import SparkNotInstalled

    try:
        import pyspark
    except ImportError as error:
        raise SparkNotInstalled(f"Spark is not installed here: {error}", hint="pip install 'goqueue[spark]'") from None
    del pyspark


@contextmanager
def job_session(name: str, master: str, *, has_logs: bool) -> Iterator[SparkSession]:
    """Start a Spark session for one job; an active session of this process is used instead, and not stopped."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from goqueue.spark.runs.output import spark_output
    from goqueue.spark.session import SessionRequest, is_remote, start_session

    if (there := SparkSession.getActiveSession()) is not None:
        yield there
        return
    with ExitStack() as stack:
        output = None if has_logs else stack.enter_context(spark_output())
        if not has_logs:
            stack.enter_context(quiet())
        session = start_session(SessionRequest(name, master or None, output=output))
        if not has_logs and not is_remote(session):
            # Commands report failures themselves, in a sentence.
            session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            # Spark may have ended already.
            with suppress(PySparkException, Py4JError, ConnectionError):
                session.stop()


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the log of PySpark: stack traces after Ctrl-C, or after Java has ended."""
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)
    try:
        yield
    finally:
        root.removeHandler(silence)


@contextmanager
def interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM as for Ctrl-C, also if the signal breaks a call to Java."""
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except Exception:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_signals(stops: SimpleQueue[str]) -> Iterator[None]:
    """Put an entry into `stops` at Ctrl-C and SIGTERM."""

    def wish(number: int, frame: FrameType | None) -> None:
        # SimpleQueue.put is reentrant, so a signal handler may call it.
        del number, frame
        stops.put("")

    before = {each: signal.signal(each, wish) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
