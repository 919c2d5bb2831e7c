"""Makes dead letters of messages that cannot be processed, and takes note of it when that is done.

A letter is an ordinary publish, durable before its message is settled: so none is lost, whatever happens in between. If
the broker is killed just then, the letter is written once more at the next start. What cannot be written stays where it
is, and is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from goqueue.broker.events import DeadLettersFailed
from goqueue.broker.messages import publish_sections
from goqueue.broker.pipeline import INSIDE
from goqueue.broker.produce import Acks, Section
from goqueue.broker.queue_offers import find
from goqueue.broker.reminders import Reminders
from goqueue.broker.topics import create_topic
from goqueue.errors import GoQueueError, TopicExists
from goqueue.machines.deliveries import Deliveries
from goqueue.machines.delivery_commands import Bury
from goqueue.machines.delivery_group import QueueGroup
from goqueue.machines.delivery_values import Flight
from goqueue.machines.group_values import TopicPartition
from goqueue.model import dead_letters
from goqueue.model.dead_letters import dead_letters_of
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.reader import Record

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker, OpenTopic

_AT_ONCE_MAX = 100
# For what a letter says beside what its message said.
_HEADERS_BYTES = 64 * 1024


class Undertaker:
    """The dead of one partition and group are buried by one task at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._under_way: set[tuple[str, TopicPartition]] = set()
        self._reminders = Reminders()

    def look_at_all(self) -> None:
        """Begin to bury whatever is dead; what has failed before is tried again."""
        self._reminders.prune(self._broker.clock.monotonic())
        for machine in self._broker.queues.machines:
            self.look(machine)

    def look(self, machine: Deliveries) -> None:
        """Begin to bury the dead of the groups of a machine."""
        for group, partition in machine.dying():
            which = (group, partition)
            if which not in self._under_way:
                self._under_way.add(which)
                self._broker.tasks.start(self._bury_all(group, partition), f"dead letters of {group}")

    async def _bury_all(self, name: str, where: TopicPartition) -> None:
        try:
            while await self._bury_some(name, where):
                pass
        except GoQueueError as error:
            # The messages stay as they are; the next look tries again.
            if self._reminders.is_due((name, where), self._broker.clock.monotonic()):
                self._broker.sink.emit(DeadLettersFailed(name, where.topic, where.partition, str(error)))
        finally:
            self._under_way.discard((name, where))

    async def _bury_some(self, name: str, where: TopicPartition) -> bool:
        """Make letters of some dead messages of a partition; tell whether there were any."""
        # That they are dead has to be durable first: a letter of a message that is delivered again would be a lie.
        machine = await self._broker.queues.machine(name)
        group = machine.find(name)
        window = None if group is None else group.windows.get(where)
        if group is None or window is None or not window.dead:
            return False
        partition = self._broker.topic(where.topic).partition(where.partition)
        dead = list(islice(window.dead, _AT_ONCE_MAX))
        letters = []
        for offset in dead:
            record, flight = find(partition, offset), window.find(offset)
            if record is not None and flight is not None:
                letters.append(_letter(group, where, record, flight, self._broker.clock.now_ms()))
        if letters:
            await self._publish(await self._target(group, where), where, letters)
        await self._broker.queues.submit(name, Bury(name, where, dead))
        return True

    async def _target(self, group: QueueGroup, where: TopicPartition) -> OpenTopic:
        name = group.settings.dead_letters or dead_letters_of(where.topic)
        if name not in self._broker.topics:
            source = self._broker.topic(where.topic)
            config = {
                "retention.ms": str(dead_letters.RETENTION_MS),
                "max.message.bytes": str(source.settings.log.max_message_bytes + _HEADERS_BYTES),
            }
            with suppress(TopicExists):
                await create_topic(self._broker, INSIDE, name, partitions=len(source.partitions), config=config)
        return self._broker.topic(name)

    async def _publish(self, target: OpenTopic, where: TopicPartition, letters: Sequence[NewRecord]) -> None:
        partition = target.partition(where.partition % len(target.partitions))
        sections = [Section(partition, build_batch([letter])) for letter in letters]
        for outcome in await publish_sections(self._broker, INSIDE, Acks.ALL, sections):
            if isinstance(outcome, GoQueueError):
                raise outcome


def _letter(group: QueueGroup, where: TopicPartition, record: Record, flight: Flight, now_ms: int) -> NewRecord:
    cause = {
        dead_letters.REASON_HEADER: flight.reason,
        dead_letters.ERROR_HEADER: flight.error,
        dead_letters.ATTEMPTS_HEADER: flight.deliveries,
        dead_letters.FIRST_DELIVERY_HEADER: flight.first_ms,
        dead_letters.LAST_DELIVERY_HEADER: -1 if flight.lease is None else flight.lease.since_ms,
        dead_letters.CONSUMER_HEADER: "" if flight.lease is None else flight.lease.consumer,
        dead_letters.GROUP_HEADER: group.name,
        dead_letters.TOPIC_HEADER: where.topic,
        dead_letters.PARTITION_HEADER: where.partition,
        dead_letters.OFFSET_HEADER: record.offset,
        dead_letters.TIMESTAMP_HEADER: record.timestamp,
    }
    # A letter that died before says why it is here now; what it said then is of no use any more.
    kept = [(name, value) for name, value in record.headers if name not in cause]
    told = [(name, str(value).encode("utf-8", "surrogateescape")) for name, value in cause.items()]
    return NewRecord(now_ms, record.key, record.value, [*kept, *told])
