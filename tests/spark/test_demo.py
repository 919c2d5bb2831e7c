"""The demonstration, as somebody meets it who has just installed GoQueue: it runs, it can be looked into, it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

SECONDS_MAX = 600.0
REVENUE, DEAD = "orders.revenue", "orders.dlq"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, with its output in a file."""
    command = [sys.executable, "-m", "goqueue", "demo", "--data-dir", str(tmp_path / "demo"), "--rate", "100"]
    command += ["--kafka-port", "0", "--http-port", "0", "--master", "local[2]", "--seconds", str(SECONDS_MAX)]
    with (tmp_path / "out").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=tmp_path, start_new_session=True)
    yield process
    # It has a broker in a session of its own, which it stops itself.
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_the_demonstration_shows_results_and_ends_when_told(demo: subprocess.Popen[bytes], tmp_path: Path) -> None:
    kafka = wait_for_address(demo, tmp_path / "out")
    settings = {"bootstrap.servers": kafka, "group.id": "judge", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "topic.metadata.refresh.interval.ms": 500})
    consumer.subscribe([REVENUE, DEAD])
    totals: list[dict[str, Any]] = []
    causes: set[str] = set()
    while not (totals and causes):
        assert demo.poll() is None, (tmp_path / "out").read_text("utf-8", "replace")
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        if message.topic() == REVENUE:
            totals.append(json.loads(message.value() or b""))
        else:
            causes |= dict(message.headers() or {}).keys()
    consumer.close()
    assert {"orders", "revenue"} <= totals[0].keys()
    assert "goqueue-dlq-reason" in causes
    # Ctrl-C, as the terminal sends it to all that run in front.
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0, (tmp_path / "out").read_text("utf-8", "replace")
    assert "published " in (tmp_path / "out").read_text("utf-8", "replace")
    assert list((tmp_path / "demo" / "lake").glob("country=*/*.parquet"))


def wait_for_address(process: subprocess.Popen[bytes], output: Path) -> str:
    """Return where Kafka clients find the broker, once the command has said so."""
    while process.poll() is None:
        found = re.search(r"find the same topics at (\S+)\.", output.read_text("utf-8", "replace"))
        if found:
            return found[1]
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    raise AssertionError(output.read_text("utf-8", "replace"))
