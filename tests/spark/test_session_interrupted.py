"""Ctrl-C while Spark starts, and while a job is at work: no Java is left behind, and nothing but a sentence is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from goqueue.seams.clock import SystemClock
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ
from tests.spark.read_kit import new_topic, publish

_START = """\
from goqueue.spark.session import SessionRequest, start_session
start_session(SessionRequest(master="local[1]", output=2))
"""
_WAIT_S = 600.0


def javas(pid: int) -> list[int]:
    """Return the children of a process that are Spark's Java; before, they are scripts that prepare its start."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in found if is_spark(Path(f"/proc/{child}/cmdline"))]


def is_spark(command: Path) -> bool:
    with suppress(OSError):
        words = command.read_text().split("\0")
        return words[0].endswith("java") and "org.apache.spark.deploy.SparkSubmit" in words
    return False


def is_there(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for is there in name only."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_program_that_is_interrupted_while_java_starts_leaves_none_behind() -> None:
    command = [sys.executable, "-c", _START]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        clock = SystemClock()
        deadline = clock.monotonic() + _WAIT_S
        try:
            while not (found := javas(run.pid)):
                assert run.poll() is None
                assert clock.monotonic() < deadline
            (java,) = found
            os.kill(run.pid, signal.SIGINT)
            assert run.wait(_WAIT_S) != 0
            while is_there(java):
                assert clock.monotonic() < deadline, "Java goes on without its program"
        finally:
            run.kill()
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_an_archive_job_that_is_stopped_says_so_and_the_next_run_goes_on(
    goqueue_session_broker: Broker, tmp_path: Path
) -> None:
    broker = goqueue_session_broker
    topic, path = new_topic(broker), tmp_path / "archive"
    for _ in range(3):
        publish(broker.bootstrap, topic, ["x" * 50] * 60_000)
    command = [INSTALLED, "job", "archive", topic, str(path), "--broker", broker.bootstrap, "--master", "local[1]"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=installed_environ(broker.http)
    ) as run:
        # The first directories are made by a task.
        while run.poll() is None and not any(path.glob("topic=*")):
            with suppress(subprocess.TimeoutExpired):
                run.wait(0.02)
        run.send_signal(signal.SIGTERM)
        out, errors = run.communicate(timeout=_WAIT_S)
    assert (run.returncode, out.count("\n")) == (130, 1), out + errors
    assert errors == "goqueue: stopped; committed work is kept, and the same command continues from there\n"
    assert Command(broker.http)("job", "archive", topic, path, "--broker", broker.bootstrap).exit_code == 0
    verified = Command(broker.http).done("job", "archive", topic, path, "--verify")
    assert "180,000 rows" in verified
    assert "no problems found" in verified
