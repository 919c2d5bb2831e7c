"""The demonstration goes on when a part of it dies, and says which one it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.cli.demo.parts import BrokerProcess
from goqueue.cli.demo.stage import Stage
from goqueue.cli.pipelines.run import SPARK_LOST_EXIT
from goqueue.client import Client, topics

ENDS = {
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "spark lost": f"raise SystemExit({SPARK_LOST_EXIT})",
    "failed": "raise SystemExit(1)",
    "well": "",
}


class StubBroker:
    """A broker of which only the end matters."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    @property
    def exit_code(self) -> int | None:
        return self.codes[0] if self.codes else None

    def start_again(self) -> None:
        self.codes.pop(0)


def watched(broker: StubBroker, *ends: str) -> tuple[int, list[str]]:
    """Run pipelines that end so, one after another; return the code, and what was said."""
    left = list(ends)
    said: list[str] = []

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", ENDS[left.pop(0)]])

    code = Stage(broker, start, pause_s=0.0).watch(said.append)
    assert left == []
    return code, said


def test_pipeline_that_is_killed_or_loses_its_spark_is_started_again() -> None:
    code, said = watched(StubBroker(), "killed", "spark lost", "well")
    assert code == 0
    assert len(said) == 2
    assert said[0].startswith("the pipeline was killed by SIGKILL; starting it again")
    assert said[1].startswith("the pipeline has lost its Spark; starting both again")


@pytest.mark.parametrize(("end", "code"), [("failed", 1), ("well", 0)])
def test_pipeline_that_ends_of_itself_ends_the_demonstration(end: str, code: int) -> None:
    assert watched(StubBroker(), end) == (code, [])


def test_broker_that_dies_is_named_and_started_again() -> None:
    code, said = watched(StubBroker(-signal.SIGKILL, 1), "spark lost", "well")
    assert code == 0
    assert said[0].startswith("the broker was killed by SIGKILL; starting it again")
    assert said[1] == "the broker is back"
    assert any(line.startswith("the broker has ended with exit code 1") for line in said)


def test_stopped_pipeline_is_not_restarted() -> None:
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    stage = Stage(StubBroker(), lambda: subprocess.Popen(waiting))
    stage.stop()
    said: list[str] = []
    assert (stage.watch(said.append), said) == (-signal.SIGTERM, [])


@pytest.mark.parametrize("is_late", [False, True])
def test_pipeline_that_was_killed_is_not_started_again_by_a_demonstration_that_ends(is_late: bool) -> None:
    """It is told to stop while it waits to start the pipeline again, or just as it starts it."""
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        if begun:
            stage.stop()
        code = "import signal; signal.pause()" if begun else ENDS["killed"]
        begun.append(subprocess.Popen([sys.executable, "-c", code]))
        return begun[-1]

    def say(_line: str) -> None:
        if not is_late:
            stage.is_stopping = True

    stage = Stage(StubBroker(), start, pause_s=0.0 if is_late else 600.0)
    assert stage.watch(say) == (-signal.SIGTERM if is_late else -signal.SIGKILL)
    assert len(begun) == 1 + is_late


def test_broker_of_the_demonstration_comes_back_at_the_same_addresses(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, kafka_port=0, http_port=0)
    try:
        before = dict(broker.ready())
        with Client(f"http://{before['http']}") as client:
            client.send(topics.create("orders"))
        broker._process.kill()
        broker._process.wait()
        assert broker.exit_code == -signal.SIGKILL
        broker.start_again()
        assert dict(broker.ready()) == before
        with Client(f"http://{before['http']}") as client:
            assert [each.name for each in client.send(topics.list_all())] == ["orders"]
    finally:
        broker.stop()
