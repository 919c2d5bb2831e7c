"""The life of a server: start, serve, drain, stop.

Composes the broker with its listeners. Listeners open only when the broker is ready, so every accepted connection can
be served. At the end no new request is accepted, waiting ones are answered, and the logs are closed last; a second stop
is harmless.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from goqueue.broker.broker import Broker
from goqueue.errors import PortInUse
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.topic_settings import TopicSettings
from goqueue.observe.health import HealthChecks
from goqueue.observe.metrics import Metrics
from goqueue.protocols.connection_limiter import ConnectionLimiter, ConnectionLimits
from goqueue.protocols.http.wire.hosts import HostPolicy
from goqueue.protocols.http.wire.listener import HttpListener
from goqueue.protocols.kafka.wire.listener import KafkaListener
from goqueue.seams.clock import Clock
from goqueue.seams.disk import Disk, RealDisk, lock_directory
from goqueue.seams.entropy import Entropy
from goqueue.seams.network import Address, Listener, Network
from goqueue.seams.sink import Event, Severity, Sink
from goqueue.seams.syncs import Syncs
from goqueue.server.settings import SETTINGS, Settings


@dataclass(frozen=True, slots=True)
class ServerStarted(Event):
    """The server accepts requests; `flush` is the default flush policy of topics."""

    data_dir: str
    topics: int
    flush: str


@dataclass(frozen=True, slots=True)
class DrainTimedOut(Event):
    """Requests were still under way when the time to stop was over; they were cut off."""

    severity: ClassVar[Severity] = Severity.WARNING
    timeout_ms: int


class Server:
    """One broker with its listeners."""

    def __init__(
        self,
        settings: Settings,
        *,
        disk: Disk,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        sink: Sink,
        threads: Executor | None = None,
        syncs: Syncs | None = None,
    ) -> None:
        self.settings = settings
        self.addresses: dict[str, Address] = {}
        self.limiter = ConnectionLimiter(_limits(settings), sink)
        self._sink = sink
        self._disk = disk
        self._network = network
        self._listeners: dict[str, Listener] = {}
        self._held = ExitStack()
        self.broker = Broker(
            disk,
            settings.data_dir,
            _options(settings),
            clock=clock,
            entropy=entropy,
            sink=sink,
            threads=threads,
            syncs=syncs,
        )
        self._kafka = KafkaListener(
            self.broker,
            self.limiter,
            advertised=(settings.advertised_host, settings.advertised_kafka_port),
            listeners=self.addresses,
        )
        self._http = HttpListener(
            self.broker,
            self.limiter,
            health=HealthChecks(self.broker, self._listening).examine,
            metrics=Metrics(self.broker, self.limiter).expose,
            hosts=_hosts(settings, network.host_name()),
        )

    async def start(self) -> None:
        """Open the data directory and the ports.

        DataDirectoryLocked or PortInUse if another process has them, DataDirectoryUnusable if it cannot be made.
        """
        settings = self.settings
        if isinstance(self._disk, RealDisk):
            self._held.enter_context(lock_directory(Path(settings.data_dir)))
        try:
            await self.broker.start()
            await self._listen("kafka", settings.kafka_port, self._kafka.connection)
            await self._listen("http", settings.http_port, self._http.connection)
        except BaseException:
            await self.stop()
            raise
        self._sink.emit(
            ServerStarted(str(settings.data_dir), len(self.broker.topics.by_name), settings.default_flush.value)
        )

    async def _listen(self, name: str, port: int, connection: Callable[[], asyncio.BaseProtocol]) -> None:
        try:
            listener = await self._network.listen(self.settings.host, port, connection)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            free_port = await self._free_port()
            raise PortInUse(SETTINGS[f"{name}_port"].flag, port, free_port=free_port) from error
        self._listeners[name] = listener
        self.addresses[name] = listener.address

    async def _free_port(self) -> int:
        """Return a port that could be listened on a moment ago."""
        listener = await self._network.listen(self.settings.host, 0, asyncio.Protocol)
        listener.close()
        return listener.address[1]

    def _listening(self) -> Mapping[str, bool]:
        return {name: name in self._listeners for name in ("kafka", "http")}

    async def stop(self) -> None:
        """Drain, within the time that the settings give, then close everything."""
        self.broker.core.admission.is_draining = True
        self.broker.release()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.close()
        try:
            async with asyncio.timeout(self.settings.drain_timeout_ms / 1000):
                await asyncio.gather(self._kafka.drain(), self._http.drain())
        except TimeoutError:
            self._sink.emit(DrainTimedOut(self.settings.drain_timeout_ms))
        try:
            await self._kafka.close()
            await self._http.close()
            self.limiter.close()
            await self.broker.stop()
        finally:
            self._held.close()


def _options(settings: Settings) -> BrokerOptions:
    return BrokerOptions(
        node_id=settings.node_id,
        auto_create_topics=settings.auto_create_topics,
        default_partitions=settings.default_partitions,
        topic_defaults=TopicSettings(log=settings.default_log_settings()),
        fetch_bytes_max=settings.reply_buffer_bytes_max,
        disk_guard_free_fraction=settings.disk_guard_free_fraction,
        upkeep_interval_ms=settings.upkeep_interval_ms,
        retention_check_interval_ms=settings.retention_check_interval_ms,
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
    )


def _hosts(settings: Settings, own_name: str) -> HostPolicy:
    names = ("localhost", settings.host, own_name, settings.advertised_host, *settings.http_hosts)
    return HostPolicy(names, settings.http_origins)


def _limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        connections_max=settings.connections_max,
        connections_per_address_max=settings.connections_per_address_max,
        frame_bytes_max=settings.frame_bytes_max,
        request_elements_max=settings.request_elements_max,
        first_byte_timeout_ms=settings.first_byte_timeout_ms,
        idle_timeout_ms=settings.idle_timeout_ms,
        slow_reader_timeout_ms=settings.slow_reader_timeout_ms,
        reply_buffer_bytes_max=settings.reply_buffer_bytes_max,
        http_body_bytes_max=settings.http_body_bytes_max,
    )
