"""Publishing single messages as part of a transaction, for those who count no sequences themselves.

Messages are sorted into partitions and packed as those of every publish of single messages (`messages`). The
partitions become part of the transaction first; then the batches get the sequences that the partitions expect next of
this producer, so that what is stored is what a Kafka client would have sent.

These sequences tell nothing of a request that comes twice: it would be stored twice. Whoever wants to send a request
again numbers the requests of a transaction instead, from 0 on. What became of the last one is kept until the
transaction ends or the broker stops; what is not known any more is refused, and then the transaction has to be aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.messages import (
    Fate,
    NewMessage,
    Share,
    Sorted,
    Turns,
    open_for_writing,
    publish_sections,
    sort_messages,
)
from goqueue.broker.produce import Acks, Section
from goqueue.broker.transactions import add_partitions, held_transaction, known
from goqueue.errors import GoQueueError, OutOfOrderSequence
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.transaction_values import ProducerIdentity
from goqueue.records.builder import build_batch
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker, OpenTopic
    from goqueue.broker.pipeline import Caller


class Writer(NamedTuple):
    """On whose behalf messages are published."""

    transactional_id: str
    identity: ProducerIdentity


class Batch(NamedTuple):
    """What one partition gets at once."""

    partition: Partition
    share: Share


async def publish_in_transaction(
    broker: Broker,
    caller: Caller,
    turns: Turns,
    writer: Writer,
    topic: str,
    messages: Sequence[NewMessage | GoQueueError],
) -> list[Fate]:
    """Publish messages as part of the writer's transaction, which this may begin; return the fate of each.

    At return they are as durable as those of any publish that waits for all. Raises what concerns all of them: then
    none was stored.
    """
    held_transaction(broker, *writer)
    opened = await open_for_writing(broker, caller, topic)
    found = await sort_messages(broker, turns, opened, messages)
    partitions = list(_existing(opened, found))
    if partitions:
        names = frozenset(TopicPartition(topic, partition.index) for partition in partitions)
        refused = await add_partitions(broker, caller, *writer, names)
        if refused:
            raise next(iter(refused.values()))
        await known(broker, writer.transactional_id)
    for batches in _rounds(opened, partitions, found):
        sections = [Section(batch.partition, _built(batch, writer.identity)) for batch in batches]
        outcomes = await publish_sections(broker, caller, Acks.ALL, sections, writer.transactional_id)
        for batch, outcome in zip(batches, outcomes, strict=True):
            found.settle(batch.partition.index, batch.share, outcome)
    return found.all_fates()


def _existing(opened: OpenTopic, found: Sorted) -> Iterator[Partition]:
    """Yield the partitions that get something; messages for those that cannot be used are told why."""
    for index, share in found.shares.items():
        try:
            yield opened.partition(index)
        except GoQueueError as error:
            found.settle(index, share, error)


def _rounds(opened: OpenTopic, partitions: Sequence[Partition], found: Sorted) -> Iterator[list[Batch]]:
    """Yield what is published at once: a producer sends one batch per partition, so much for one needs more rounds."""
    bytes_max = opened.settings.log.max_message_bytes
    queues = [
        [Batch(partition, part) for part in found.shares[partition.index].parts(bytes_max)] for partition in partitions
    ]
    for batches in zip_longest(*queues):
        yield [batch for batch in batches if batch is not None]


def _built(batch: Batch, identity: ProducerIdentity) -> bytearray:
    return build_batch(
        batch.share.records,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=batch.partition.log.producers.next_sequence(*identity),
        is_transactional=True,
    )


class _Numbered(NamedTuple):
    """The last numbered request of a transaction, and what became of its messages."""

    identity: ProducerIdentity
    number: int
    fates: list[Fate]


class Numbering:
    """The numbered requests of transactions, as far as they may come again.

    Of transactions that have ended elsewhere, at most `idle_max` are kept, or as many as are under way.
    """

    def __init__(self, idle_max: int = 1000) -> None:
        self._last: dict[str, _Numbered] = {}
        self._idle_max = idle_max
        self._prune_at = idle_max

    def __len__(self) -> int:
        return len(self._last)

    async def publish(
        self,
        broker: Broker,
        caller: Caller,
        turns: Turns,
        writer: Writer,
        number: int,
        topic: str,
        messages: Sequence[NewMessage | GoQueueError],
    ) -> list[Fate]:
        """Publish as `publish_in_transaction` does, unless that was done already; OutOfOrderSequence if in doubt.

        The requests of a transactional id are handled one after another, so one that comes again while the first is
        still under way waits for it. What is raised leaves its number to be used again: nothing was stored.
        """

        async def work() -> list[Fate]:
            last = self._known(writer)
            if last is not None and last.number == number:
                held_transaction(broker, *writer)
                return last.fates
            _check_number(broker, writer, number, last)
            fates = await publish_in_transaction(broker, caller, turns, writer, topic, messages)
            self._remember(broker, writer, _Numbered(writer.identity, number, fates))
            return fates

        return await broker.tasks.in_turn(f"publishing in transactions of {writer.transactional_id}", work)

    def forget(self, transactional_id: str) -> None:
        """Forget the requests of a transaction, which has ended."""
        self._last.pop(transactional_id, None)

    def _known(self, writer: Writer) -> _Numbered | None:
        last = self._last.get(writer.transactional_id)
        return last if last is not None and last.identity == writer.identity else None

    def _remember(self, broker: Broker, writer: Writer, numbered: _Numbered) -> None:
        self._last[writer.transactional_id] = numbered
        if len(self._last) > self._prune_at:
            kept = filter(partial(_is_under_way, broker), self._last.items())
            self._last = dict(kept)
            self._prune_at = max(self._idle_max, 2 * len(self._last))


def _is_under_way(broker: Broker, entry: tuple[str, _Numbered]) -> bool:
    transactional_id, numbered = entry
    try:
        held_transaction(broker, transactional_id, numbered.identity)
    except GoQueueError:
        # A new transaction has a new identity.
        return False
    return True


def _check_number(broker: Broker, writer: Writer, number: int, last: _Numbered | None) -> None:
    due = 0 if last is None else last.number + 1
    if number != due:
        raise OutOfOrderSequence(
            f"a request of {writer.transactional_id!r} has sequence {number}, but {due} was due",
            hint="abort the transaction unless you know what was published in it",
        )
    if last is None and _has_written(broker, writer):
        raise OutOfOrderSequence(
            f"the transaction of {writer.transactional_id!r} has messages, of which it is not known who sent them",
            hint="the broker may have been started again meanwhile; abort the transaction",
        )


def _has_written(broker: Broker, writer: Writer) -> bool:
    transaction = held_transaction(broker, *writer)
    for topic, index in transaction.partitions:
        opened = broker.topics.get(topic)
        partition = opened.partitions[index] if opened is not None and index < len(opened.partitions) else None
        if isinstance(partition, Partition) and partition.log.producers.has_open_transaction(transaction.producer_id):
            return True
    return False
