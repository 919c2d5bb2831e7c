"""Spark's Java, started apart from the terminal of its driver.

Java and the Pythons that it starts would be in the process group of the driver. A Ctrl-C at the terminal then reaches
all of them, tasks under way fail, and each process prints how it was interrupted. In a group of their own they are
stopped by the driver alone; and when that is gone, whatever the reason, Java ends by itself.

While Java starts, that does not hold yet: it would not find where to tell its address, and stay without anybody to
work for. So a Ctrl-C waits for it, a few seconds at most; a second one does not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType


def launch_apart(settings: Mapping[str, str], output: int) -> None:
    """Start Java and a context in it, unless there is one already; what they print goes to a file descriptor."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for name, text in settings.items():
        conf.set(name, text)
    started = {"stdout": output, "stderr": output, "process_group": 0}
    with _interrupts_put_off():
        gateway = launch_gateway(conf, started)  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Keep the first Ctrl-C until this is left; only the main thread hears of any."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(number)
        del frame

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if kept:
        before(signal.SIGINT, None)
