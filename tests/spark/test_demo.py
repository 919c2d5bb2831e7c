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
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer
from pyarrow import dataset

from goqueue.client import Client, Message, messages
from tests.protocols.kafka.process import ServeProcess

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


def test_the_demonstration_shows_results_outlives_its_pipeline_and_ends_when_told(
    demo: subprocess.Popen[bytes], tmp_path: Path
) -> None:
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
    assert {"orders", "revenue"} <= totals[0].keys()
    assert "goqueue-dlq-reason" in causes
    # The pipeline dies, without a chance to clean up; the demonstration says so, and goes on where it was.
    killed = pipeline_of(demo)
    killed.kill()
    wait_for(demo, tmp_path / "out", r"demo: the pipeline was killed by SIGKILL; starting it again")
    wait_for(demo, tmp_path / "out", r"starting it again(?s:.*)orders/lake batch(?s:.*)orders/revenue batch")
    assert pipeline_of(demo).pid != killed.pid
    # Ctrl-C, as the terminal sends it to all that run in front.
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0, (tmp_path / "out").read_text("utf-8", "replace")
    assert "published " in (tmp_path / "out").read_text("utf-8", "replace")
    require_rows_once(tmp_path / "demo")


def pipeline_of(demo: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the process that runs the pipeline."""
    (found,) = [each for each in psutil.Process(demo.pid).children() if "pipeline" in each.cmdline()]
    return found


def require_rows_once(directory: Path) -> None:
    """Check that each valid order is in the lake once, up to where the pipeline has noted that it got."""
    ids = dataset.dataset(directory / "lake").to_table()["order_id"].to_pylist()
    assert len(ids) == len(set(ids))
    checkpoint = directory / "checkpoints/orders/sinks/lake"
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    position = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[2])
    valid: set[str] = set()
    late: set[str] = set()
    with ServeProcess(directory / "broker") as broker, Client(broker.http) as client:
        for partition, end in position["topics"]["orders"]["offsets"].items():
            offset = 0
            while offset < end:
                page = client.send(messages.read("orders", int(partition), offset=offset, limit=1000))
                for message in (each for each in page.messages if each.offset < end):
                    note_order(message, valid, late)
                offset = page.next_offset
    # Late ones are left out, once there is a watermark.
    assert valid - late <= set(ids) <= valid


def note_order(message: Message, valid: set[str], late: set[str]) -> None:
    """Take note of an order that is valid, and whether it is late."""
    with suppress(json.JSONDecodeError):
        order = json.loads(message.value or b"")
        if order["order_id"] is not None and order["amount"] > 0:
            valid.add(order["order_id"])
            if datetime.fromisoformat(order["placed_at"]).timestamp() * 1000 < message.timestamp - 60_000:
                late.add(order["order_id"])


def wait_for_address(process: subprocess.Popen[bytes], output: Path) -> str:
    """Return where Kafka clients find the broker, once the command has said so."""
    return wait_for(process, output, r"find the same topics at (\S+)\.")[1]


def wait_for(process: subprocess.Popen[bytes], output: Path, pattern: str) -> re.Match[str]:
    """Return the match of what the command says, once it has said so."""
    while process.poll() is None:
        if found := re.search(pattern, output.read_text("utf-8", "replace")):
            return found
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    raise AssertionError(output.read_text("utf-8", "replace"))
