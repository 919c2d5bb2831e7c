"""Health of a broker: a few active checks, and one status for all of them.

| check        | fails when                                                         | then the broker is |
|--------------|--------------------------------------------------------------------|--------------------|
| `draining`   | it is about to stop                                                | down               |
| `listeners`  | one of its ports is closed                                         | down               |
| `catalog`    | the log of topics takes no writes                                  | down               |
| `partitions` | the log of a partition cannot be opened or takes no writes         | degraded           |
| `disk`       | no file can be written to the data directory, or not within 5 s    | degraded           |
| `disk_space` | so little of the disk is free that writes are refused              | degraded           |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goqueue.broker.broker import Broker
from goqueue.broker.internal_topics import CATALOG_TOPIC
from goqueue.errors import GoQueueError

_PROBE_NAME = ".goqueue-probe"
_PROBE_TIMEOUT_S = 5.0
# More frequent requests get the same answer, so that they cost the disk nothing.
_PROBE_EVERY_S = 1.0
_NAMED_MAX = 10
_FATAL = frozenset({"draining", "listeners", "catalog"})


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; `detail` describes the fault."""

    name: str
    detail: str = ""

    @property
    def status(self) -> Literal["ok", "failed"]:
        """The outcome in a word."""
        return "failed" if self.detail else "ok"


@dataclass(frozen=True, slots=True)
class Health:
    """The results of all checks."""

    checks: Sequence[Check]

    @property
    def status(self) -> Literal["ok", "degraded", "down"]:
        """All outcomes in a word."""
        failed = {check.name for check in self.checks if check.detail}
        if not failed:
            return "ok"
        return "down" if failed & _FATAL else "degraded"


class HealthChecks:
    """Checks one broker; `listening` returns for each listener whether its port is open."""

    def __init__(self, broker: Broker, listening: Callable[[], Mapping[str, bool]]) -> None:
        self._broker = broker
        self._listening = listening
        self._probe: asyncio.Future[str] | None = None
        self._probed_at = 0.0

    async def examine(self) -> Health:
        """Run all checks now."""
        broker = self._broker
        closed = sorted(name for name, is_open in self._listening().items() if not is_open)
        broken = list(_broken(broker))
        return Health(
            [
                Check("draining", "the broker is about to stop" if broker.core.admission.is_draining else ""),
                Check("listeners", f"no port is open for {', '.join(closed)}" if closed else ""),
                Check("catalog", _fault_of_catalog(broker)),
                Check("partitions", _shown(broken)),
                Check("disk", await self._fault_of_disk()),
                Check(
                    "disk_space",
                    "the disk is nearly full, so writes are refused" if broker.core.admission.is_disk_guarded else "",
                ),
            ]
        )

    async def _fault_of_disk(self) -> str:
        now = self._broker.core.clock.monotonic()
        if self._probe is None or (self._probe.done() and now - self._probed_at >= _PROBE_EVERY_S):
            self._probed_at = now
            loop = asyncio.get_running_loop()
            self._probe = loop.run_in_executor(self._broker.core.threads, self._write_something)
        try:
            # One probe at a time: if the disk hangs, asking again must not take one thread after the other.
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return await asyncio.shield(self._probe)
        except TimeoutError:
            return f"the disk has not answered for {_PROBE_TIMEOUT_S:.0f} s"

    def _write_something(self) -> str:
        disk = self._broker.core.disk
        path = self._broker.core.directory / _PROBE_NAME
        try:
            file = disk.open(path, create=True)
            try:
                file.write_at(0, b"probe")
            finally:
                file.close()
            disk.remove(path)
        except OSError as error:
            return f"the data directory cannot be written to: {error.strerror or error}"
        return ""


def _fault_of_catalog(broker: Broker) -> str:
    found = next((partition for partition in broker.topics.partitions if partition.topic == CATALOG_TOPIC), None)
    return "it is not open" if found is None else found.log.fault


def _broken(broker: Broker) -> Iterator[str]:
    for name, opened in broker.topics.by_name.items():
        for index, partition in enumerate(opened.partitions):
            if isinstance(partition, GoQueueError):
                yield f"{name}-{index}: {partition.message}"
            elif partition.log.obstacle:
                yield f"{name}-{index}: {partition.log.obstacle}"


def _shown(broken: Sequence[str]) -> str:
    more = len(broken) - _NAMED_MAX
    return "; ".join(broken[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
