"""Lives of a broker with its clients, on a disk and a network that fail; one seed decides everything.

A life starts the broker on what the one before has left, compares all that it holds with what was promised, and lets
the clients work until the power fails, the process is killed, or it is stopped. The clients outlive it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine, Sequence
from enum import Enum
from typing import Any

from goqueue.broker.events import PartitionUnavailable, UnknownDirectory
from goqueue.errors import GoQueueError
from goqueue.log.events import DamageFound
from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.runtime.tasks import TaskFailed
from goqueue.testing import PowerLoss, SeededEntropy, SimDisk, Simulation, simulate
from goqueue.testing.disk_faults import Fault
from goqueue.testing.loop import Unhandled
from tests.protocols.kafka.raw import DESCRIBE_CONFIGS, RawClient
from tests.protocols.kafka.requests import EARLIEST, fetch, fetched, metadata, offset_at
from tests.protocols.kafka.server import HOST, SimServer
from tests.simulation.broker_clients import Consumer, IdempotentProducer, Life, PlainProducer, records_of
from tests.simulation.broker_ledger import Ledger, Place, Stored
from tests.simulation.broker_owner import FLUSH, PASSING, STABLE, Owner
from tests.simulation.broker_topics import Present, Topics

_UNEXPECTED = (DamageFound, UnknownDirectory, PartitionUnavailable, RequestFailed, TaskFailed)
_LIFE_SECONDS = 1.0
_FLUSH_SECONDS = 60
_LIFE_SECONDS_MAX = 200


class Ending(Enum):
    """How a life ends."""

    POWER_LOSS = "power loss"
    KILL = "kill"
    STOP = "stop"


USUAL_ENDINGS = (Ending.POWER_LOSS, Ending.POWER_LOSS, Ending.KILL, Ending.STOP)


class BrokerWorld:
    """A disk, a broker on it, its clients, and all that they were promised."""

    def __init__(self, seed: int, endings: Sequence[Ending] = USUAL_ENDINGS) -> None:
        self.seed = seed
        self.endings = endings
        self.entropy = SeededEntropy(f"{seed}/world")
        self.disk = SimDisk(seed)
        self.ledger = Ledger()
        self.owner = Owner(Topics())
        self.idempotent = [IdempotentProducer(f"i{number}") for number in range(2)]
        self.plain = [PlainProducer(f"p{number}") for number in range(2)]
        self.consumers = [Consumer(Place("orders", 0)), Consumer(Place("events", 1)), Consumer(Place("clicks", 0))]
        self.faults: list[Fault] = []
        self.server: SimServer | None = None

    @property
    def violations(self) -> list[str]:
        """What is wrong so far."""
        return self.ledger.violations + self.owner.topics.violations

    def run(self, lives: int) -> list[str]:
        """Live several times, and once more in peace; return the violations of the first life that has any."""
        for number in range(lives):
            self._live(number, self.entropy.choice(self.endings))
            if self.violations:
                return self.violations
        self._live(lives, Ending.STOP, is_peaceful=True)
        return self.violations

    def _live(self, number: int, ending: Ending, *, is_peaceful: bool = False) -> None:
        if ending is Ending.POWER_LOSS:
            self.disk.crash_after(1 + self.entropy.below(self.entropy.choice([20, 60, 150, 400])))
        if not is_peaceful and self.entropy.chance(0.15):
            # A start on a disk that is not well.
            operation = self.entropy.choice(["open", "read", "write", "sync", "list", "rename", "sync_directory"])
            self._fail(errno.EIO, operation, "*", 1, after=self.entropy.below(20))

        async def main(simulation: Simulation) -> None:
            life = asyncio.create_task(self._main(simulation, ending, is_peaceful=is_peaceful), name="life")
            # A task that meets the end of the power ends alone; here it is everybody's.
            while not life.done() and self.disk._gate.is_powered:
                await asyncio.wait([life], timeout=0.01)
            if life.done():
                await life

        try:
            simulate(main, f"{self.seed}/{number}", may_leak=True, seconds_max=_LIFE_SECONDS_MAX)
        except PowerLoss:
            pass
        except Unhandled as end:
            if not isinstance(end.__cause__, PowerLoss):
                raise
        self._end(ending)

    def _end(self, ending: Ending) -> None:
        has_lost_pages = any(fault.hits and fault.operation == "sync" for fault in self.faults)
        self._look_for_reports()
        self.faults.clear()
        self.disk.heal()
        if ending is Ending.POWER_LOSS or not self.disk._gate.is_powered:
            self.disk.crash()
        else:
            self.disk.kill()
        if ending is Ending.POWER_LOSS or has_lost_pages:
            self.ledger.power_failed()

    def _look_for_reports(self) -> None:
        assert self.server is not None
        for event in self.server.sink.events:
            is_explained = isinstance(event, PartitionUnavailable) and self.faults
            is_end = "PowerLoss" in str(event)
            if isinstance(event, _UNEXPECTED) and not is_explained and not is_end:
                self.ledger.violations.append(f"reported: {event}")

    async def _main(self, simulation: Simulation, ending: Ending, *, is_peaceful: bool) -> None:
        interval_ms = self.entropy.choice([20, 100, 1000])
        server = self.server = SimServer(
            simulation, self.disk, auto_create_topics=False, upkeep_interval_ms=interval_ms
        )
        try:
            await server.start()
        except (GoQueueError, OSError):
            if not self.faults:
                raise
            return
        client = await server.client("checker")
        if not self.faults:
            await self._compare(client)
        if self.violations:
            return
        owner = self._life(simulation, "owner")
        await self.owner.prepare(owner, client)
        client.close()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work, name=name) for name, work in self._work(simulation).items()]
            if is_peaceful:
                await self._settle()
            else:
                await self._disturb(simulation)
            for task in tasks:
                task.cancel()
        if ending is Ending.STOP:
            simulation.network.heal_all()
            await server.stop()

    def _work(self, simulation: Simulation) -> dict[str, Coroutine[Any, Any, None]]:
        clients: list[IdempotentProducer | PlainProducer] = [*self.idempotent, *self.plain]
        work = {each.name: each.run(self._life(simulation, each.name, each)) for each in clients}
        for number, consumer in enumerate(self.consumers):
            work[f"c{number}"] = consumer.run(self._life(simulation, f"c{number}"))
        work["owner"] = self.owner.run(self._life(simulation, "owner"))
        return work

    def _life(self, simulation: Simulation, host: str, client: object = None) -> Life:
        assert self.server is not None
        server = self.server
        names = STABLE[:2] if isinstance(client, IdempotentProducer) else (*STABLE, *PASSING)

        def places() -> list[Place]:
            found = []
            for name in names:
                counts = [state.partitions for state in self.owner.topics.of(name) if state is not None]
                found += [Place(name, index) for index in range(min(counts, default=0))]
            return found

        entropy = simulation.entropy.fork(host)
        return Life(
            connect=lambda: server.client(host),
            entropy=entropy,
            ledger=self.ledger,
            is_group=lambda name: FLUSH.get(name) == "group",
            places=places,
            sleep=asyncio.sleep,
        )

    async def _disturb(self, simulation: Simulation) -> None:
        """Hurt the network and the disk for a while."""
        chance = simulation.entropy.fork("chaos")
        hosts = ["owner", "i0", "i1", "p0", "p1", "c0", "c1", "c2"]
        end = simulation.clock.monotonic() + chance.fraction() * _LIFE_SECONDS
        while simulation.clock.monotonic() < end:
            await asyncio.sleep(chance.fraction() * 0.1)
            host = chance.choice(hosts)
            match chance.below(10):
                case 0 | 1 | 2:
                    simulation.network.cut(host, HOST)
                case 3:
                    simulation.network.drop(*chance.choice([(host, HOST), (HOST, host)]))
                case 4 | 5:
                    simulation.network.heal_all()
                case 6:
                    self._fail(errno.ENOSPC, "write", "*.log", 1 + chance.below(3))
                case 7 if chance.chance(0.3):
                    topic = chance.choice([*STABLE, *PASSING, "__catalog"])
                    self._fail(errno.EIO, chance.choice(["write", "sync"]), f"{topic}-0/*.log", 1)

    def _fail(self, number: int, operation: str, path: str, times: int, after: int = 0) -> None:
        fault = self.disk.fail(number, operation=operation, path=path, times=times, after=after)  # type: ignore[arg-type]
        self.faults.append(fault)

    async def _settle(self) -> None:
        """Let every idempotent producer have its acknowledgements."""
        for producer in self.idempotent:
            producer.is_flushing = True
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                while not all(producer.is_idle for producer in self.idempotent):  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.01)
        except TimeoutError:
            stuck = {producer.name: producer.unacknowledged for producer in self.idempotent}
            self.ledger.violations.append(f"never acknowledged: {stuck}")

    async def _compare(self, client: RawClient) -> None:
        """Compare all topics and records with what was promised."""
        actual = {}
        stored = {}
        for name, topic in (await metadata(client)).items():
            partitions = len(topic["partitions"])
            actual[name] = Present(topic["topic_id"], partitions, await _config(client, name))
            for index in range(partitions):
                stored[Place(name, index)] = await _stored(client, Place(name, index), topic["topic_id"])
        self.owner.topics.compare(actual)
        self.ledger.compare(stored)


async def _config(client: RawClient, name: str) -> tuple[tuple[str, str], ...]:
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    reply = await client.call(DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    configs = reply["results"][0]["configs"]
    return tuple(sorted((each["name"], each["value"]) for each in configs if each["config_source"] == 1))


async def _stored(client: RawClient, place: Place, topic_id: object) -> Stored:
    """Read a partition from its start to its high watermark."""
    records: list[tuple[int, bytes]] = []
    start = position = await _offset(client, place)
    while True:
        result = fetched(await client.call(1, 11, fetch(place.topic, position, partition=place.partition)))
        found = [(offset, value) for offset, value in records_of(result["records"]) if offset >= position]
        if not found:
            return Stored(topic_id, start, result["high_watermark"], records)  # type: ignore[arg-type]
        records += found
        position = found[-1][0] + 1


async def _offset(client: RawClient, place: Place) -> int:
    return int((await offset_at(client, place.topic, EARLIEST, partition=place.partition))["offset"])
