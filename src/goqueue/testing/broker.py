"""A real broker inside of the test process: real ports, a directory of its own, a clock that the test moves.

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        ...
        broker.advance(8 * 86_400)      # retention has done its work when this returns

It runs on a thread of its own with its own event loop, so tests may block, be async, or neither. Nothing is shared
between two brokers, and nothing is left when one has ended.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.entropy import SystemEntropy
from goqueue.seams.network import RealNetwork
from goqueue.seams.sink import Event
from goqueue.seams.syncs import kernel_syncs
from goqueue.server.lifecycle import Server
from goqueue.server.settings import Settings
from goqueue.testing.sink import RecordingSink

T = TypeVar("T")

_WAIT_S = 60


class MovableClock:
    """The system's clock, moved by as much as a test wants."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._ahead_s = 0.0

    def now_ms(self) -> int:
        return self._real.now_ms() + round(self._ahead_s * 1000)

    def monotonic(self) -> float:
        return self._real.monotonic() + self._ahead_s

    def boot_id(self) -> str:
        return self._real.boot_id()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time passes forwards only, not by {seconds} s")
        self._ahead_s += seconds


class Broker:
    """An ephemeral broker; keyword arguments are settings of the server.

    Without a `data_dir` it uses a temporary directory and removes it at the end. By default it listens on free ports of
    127.0.0.1 and ignores how full the disk is.
    """

    def __init__(self, **settings: Any) -> None:
        self.clock = MovableClock()
        self.sink = RecordingSink()
        self._given = settings
        self._temporary: Path | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        if "data_dir" not in settings:
            self._temporary = Path(tempfile.mkdtemp(prefix="goqueue-"))
        self.data_dir = Path(settings.get("data_dir") or self._temporary or ".")

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect to, as HOST:PORT."""
        return self._shown("kafka")

    @property
    def http(self) -> str:
        """Where HTTP clients connect to, as http://HOST:PORT."""
        return f"http://{self._shown('http')}"

    @property
    def events(self) -> list[Event]:
        """The events of the broker so far."""
        return self.sink.events

    def start(self) -> Self:
        """Start the broker, or restart it on its stored data; it is ready at return."""
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="goqueue-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_WAIT_S):
            raise TimeoutError(f"the broker was not ready within {_WAIT_S} s")
        if self._failure is not None:
            self._thread = None
            raise self._failure
        return self

    def stop(self) -> None:
        """Stop the broker as SIGTERM does; its data stays until `close`. Harmless if it does not run."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_WAIT_S)
        self._thread = None
        if self._failure is not None:
            raise self._failure

    def restart(self) -> None:
        """Stop the broker and start it again on other ports, if it was given none."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker and remove its temporary directory."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def advance(self, seconds: float) -> None:
        """Advance the broker's clock, and wait for the maintenance of its logs at the new time."""
        self.clock.advance(seconds)
        self._await(self._require_server().broker.maintain)

    def _await(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(_WAIT_S)

    def _require_server(self) -> Server:
        if self._thread is None or self._server is None:
            raise RuntimeError("the broker is not running: use it as a context manager, or call start()")
        return self._server

    def _shown(self, listener: str) -> str:
        host, port = self._require_server().addresses[listener]
        return f"{host}:{port}"

    def _run(self, ready: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: told to whoever waits for it
            self._failure = error
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        with ThreadPoolExecutor(4, thread_name_prefix="goqueue-broker") as threads, kernel_syncs() as syncs:
            self._server = Server(
                self._settings(),
                disk=RealDisk(),
                network=RealNetwork(),
                clock=self.clock,
                entropy=SystemEntropy(),
                sink=self.sink,
                threads=threads,
                syncs=syncs,
            )
            await self._server.start()
            ready.set()
            await self._stopping.wait()
            await self._server.stop()

    def _settings(self) -> Settings:
        defaults: dict[str, Any] = {
            "data_dir": self.data_dir,
            "kafka_port": 0,
            "http_port": 0,
            "grpc_port": 0,
            "disk_guard_free_fraction": 0.0,
        }
        return Settings(**(defaults | self._given))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
