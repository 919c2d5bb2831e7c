"""`goqueue log verify` shows its progress on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.seams.disk import RealDisk

COMMAND = [sys.executable, "-m", "goqueue", "log", "verify"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A closed log of 20 MiB."""
    directory = tmp_path / "orders-0"
    opened = Log(RealDisk(), directory, LogSettings())
    batch = build_batch([NewRecord(0, None, os.urandom(512 * 1024))])
    for _ in range(40):
        opened.append(check_batches(batch, bytes_max=1024 * 1024), leader_epoch=0)
    opened.close()
    return directory


def test_a_terminal_gets_a_progress_bar(log: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([*COMMAND, str(log)], stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        # The terminal reports an error, not an end, once the other side is closed.
        with suppress(OSError):
            while data := os.read(ours, 4096):
                shown += data
    os.close(ours)
    assert process.returncode == 0
    assert b"MB" in shown


def test_a_pipe_gets_none(log: Path) -> None:
    done = subprocess.run([*COMMAND, str(log)], capture_output=True, check=True)
    assert done.stderr == b""
    assert b"damages" in done.stdout
