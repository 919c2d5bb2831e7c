"""Spark's Java, started apart from the terminal of its driver.

Java and the Pythons that it starts would be in the process group of the driver. A Ctrl-C at the terminal then reaches
all of them, tasks under way fail, and each process prints how it was interrupted. In a group of their own they are
stopped by the driver alone; and when that is gone, whatever the reason, Java ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping


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
    gateway = launch_gateway(conf, started)  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)
