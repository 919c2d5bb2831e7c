"""`goqueue serve` under its parent: closed streams, signals, and starts that cannot succeed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.protocols.kafka.process import WAIT_S, ServeProcess


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a broker answers that may have no stream to say that it is ready."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            httpx.get(url, timeout=WAIT_S).raise_for_status()
        except httpx.TransportError:
            assert process.poll() is None, "the broker has ended"
            assert time.monotonic() < deadline, "the broker does not answer"
        else:
            return


@contextmanager
def serving_with(redirections: str, data_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a broker whose streams a shell has redirected."""
    port = free_port()
    command = shlex.join([*ServeProcess(data_dir).command(), "--http-port", str(port)])
    process = subprocess.Popen(["sh", "-c", f"exec {command} {redirections}"])
    try:
        url = f"http://127.0.0.1:{port}"
        until_it_answers(process, f"{url}/livez")
        yield process, url
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(WAIT_S)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_broker_with_closed_streams_works_and_stops_with_0(closed: str, tmp_path: Path) -> None:
    with serving_with(f">/dev/null 2>/dev/null {closed}", tmp_path / "data") as (process, url):
        body = {"messages": [{"value": "x"}]}
        assert httpx.post(f"{url}/topics/t/messages", json=body, timeout=WAIT_S).status_code == 200
        streams = {str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in range(3)}
        assert not any(each.startswith(("socket:", "anon_inode:")) for each in streams)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0


def test_sighup_leaves_the_broker_running(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data") as broker:
        for _ in range(3):
            broker.process.send_signal(signal.SIGHUP)
        assert httpx.get(f"{broker.http}/livez", timeout=WAIT_S).status_code == 200
        assert broker.process.poll() is None
        assert broker.terminate() == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_banner_shows_commands_with_the_real_ports(host: str, tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--host", host, "--insecure") as broker:
        url = f"http://127.0.0.1:{broker.http.rpartition(':')[2]}"
        assert broker.terminate() == 0
        said = broker.reports()
    assert f"kcat -P -b 127.0.0.1:{broker.port} -t greetings" in said
    assert f"curl {url}/topics" in said
    assert f"goqueue produce greetings --server {url}\n" in said
    assert f"goqueue consume greetings --follow --server {url}\n" in said


def refused(*command: str) -> str:
    """Run a command that cannot succeed; return the one line that it says."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


@pytest.mark.parametrize("option", ["--kafka-port", "--http-port"])
def test_port_in_use_names_option_holder_and_a_free_port(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        line = refused(*ServeProcess(tmp_path / "data").command(), option, str(port))
    assert f"port {port} ({option}) is in use by process {os.getpid()} (" in line
    proposed = re.search(rf"for example {option} (\d+)", line)
    assert proposed is not None
    assert int(proposed[1]) not in {0, port}
    assert line.endswith("[port_in_use]")


def test_locked_data_directory_names_its_holder(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data") as broker:
        line = refused(*ServeProcess(tmp_path / "data").command())
        assert f"is in use by process {broker.process.pid} (" in line
        assert line.endswith("[data_directory_locked]")


def test_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refused(*ServeProcess(tmp_path / "file").command())
    assert f"the data directory {tmp_path / 'file'} cannot be used: it is a file" in line
    assert line.endswith("[data_directory_unusable]")
    line = refused(*ServeProcess(tmp_path / "file" / "data").command())
    assert f"cannot be made: {tmp_path / 'file'} is a file" in line
