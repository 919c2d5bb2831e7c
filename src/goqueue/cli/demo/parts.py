"""The three parts of the demonstration: a broker, a producer of orders, and the pipeline that reads them.

The broker has a session of its own, so that Ctrl-C in the terminal ends the pipeline first, which still needs it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from goqueue.cli.demo.orders import CUSTOMERS, TOPIC, OrderCounts, Orders
from goqueue.client import Client, messages
from goqueue.errors import GoQueueError, Unavailable
from goqueue.seams.children import dying_with_parent
from goqueue.seams.entropy import SystemEntropy
from goqueue.server.ready_line import parse_ready_line

PIPELINE_FILE = "orders.yaml"
_LOG = "broker.log"
_START_S_MAX = 30.0
_STOP_S_MAX = 30.0
_TICK_S = 0.25
_SHOWN_CHARS = 2000


class BrokerProcess:
    """A broker in a process of its own; it logs to a file beside its data."""

    def __init__(self, data_dir: Path, *, kafka_port: int, http_port: int) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        self.log = data_dir / _LOG
        self._data_dir = data_dir
        self._process = self._launch(kafka_port, http_port)

    def _launch(self, kafka_port: int, http_port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "goqueue", "serve", "--data-dir", str(self._data_dir / "broker")]
        command += ["--kafka-port", str(kafka_port), "--http-port", str(http_port)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 - it calls nothing but prctl
            )
        self._is_ready = threading.Event()
        self._addresses: Mapping[str, str] = {}
        threading.Thread(target=self._listen, args=(process,), name="broker's output", daemon=True).start()
        return process

    def ready(self) -> Mapping[str, str]:
        """Wait until it accepts connections; return its addresses by protocol. Unavailable if it does not start."""
        self._is_ready.wait(_START_S_MAX)
        if not self._addresses:
            self.stop()
            shown = self.log.read_text("utf-8", "replace")[-_SHOWN_CHARS:].strip()
            raise Unavailable(f"the broker did not start: {shown}", hint=f"see {self.log}")
        return self._addresses

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None if it runs."""
        return self._process.poll()

    def start_again(self) -> None:
        """Restart it at the same addresses, and wait until it accepts connections."""
        ports = {protocol: int(address.rpartition(":")[2]) for protocol, address in self._addresses.items()}
        self._process = self._launch(ports["kafka"], ports["http"])
        self.ready()

    def stop(self) -> None:
        """Stop it after current requests; does nothing if it has ended."""
        if not self.is_running:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        is_ready = self._is_ready
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._addresses = self._addresses or parse_ready_line(line.decode("utf-8", "replace")) or {}
                if self._addresses:
                    is_ready.set()
        # Its output is closed: it will not become ready.
        is_ready.set()


class Shop:
    """Publishes orders at a constant rate, from a thread."""

    def __init__(self, server: str, *, orders_per_second: float) -> None:
        self._server = server
        self._pace = orders_per_second
        self._is_over = threading.Event()
        # Numbers that no earlier run has used, because the pipeline drops duplicates.
        self._orders = Orders(SystemEntropy(), first=int(datetime.now(UTC).timestamp()) * 1000)
        self._thread = threading.Thread(target=self._publish, name="shop", daemon=True)
        self.orders_lost = 0
        self.trouble = ""

    def open(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def close(self) -> OrderCounts:
        """Stop publishing; return the counts."""
        self._is_over.set()
        self._thread.join()
        return self._orders.tally

    def _publish(self) -> None:
        owed = 0.0
        with Client(self._server) as client:
            while not self._is_over.wait(_TICK_S):
                owed += self._pace * _TICK_S
                batch = self._orders.take(int(owed), datetime.now(UTC))
                owed -= len(batch)
                try:
                    if batch:
                        client.send(messages.publish(TOPIC, batch))
                except GoQueueError as error:
                    # The broker may be restarting; the next orders try again.
                    self.orders_lost += len(batch)
                    self.trouble = str(error)


def write_files(directory: Path) -> Path:
    """Write the table of customers and, unless it exists, the pipeline; return the pipeline's file."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"id": name, "country": country}) for name, country in CUSTOMERS.items()]
    (directory / "customers.json").write_text("\n".join(rows) + "\n", "utf-8")
    pipeline = directory / PIPELINE_FILE
    if not pipeline.exists():
        sample = resources.files("goqueue.cli.demo").joinpath("orders.yaml").read_text("utf-8")
        pipeline.write_text(sample, "utf-8")
    return pipeline


def start_pipeline(pipeline: Path, *, bootstrap: str, server: str, master: str) -> subprocess.Popen[bytes]:
    """Run a pipeline in a process of its own, which prints its progress to this terminal."""
    command = [sys.executable, "-m", "goqueue", "pipeline", "run", str(pipeline), "--server", server]
    command += ["--checkpoint", str(pipeline.parent / "checkpoints")]
    if master:
        command += ["--master", master]
    return subprocess.Popen(
        command,
        env={**os.environ, "GOQUEUE_BOOTSTRAP": bootstrap},
        preexec_fn=dying_with_parent(),  # noqa: PLW1509 - it calls nothing but prctl
    )
