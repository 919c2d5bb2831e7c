"""A broker that a benchmark has started ends when the benchmark is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from pathlib import Path
from goqueue_bench.broker_process import private_broker
with private_broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has gone")
def test_broker_of_a_killed_benchmark_ends(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watched = os.pidfd_open(child)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    # It can be read when the process has ended.
    has_ended = bool(select.select([watched], [], [], 60)[0])
    if not has_ended:
        os.kill(child, signal.SIGKILL)
    os.close(watched)
    assert has_ended
