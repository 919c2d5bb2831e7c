"""Publishing single messages as part of a transaction, for those who count no sequences themselves.

Messages are sorted into partitions and packed as those of every publish of single messages (`messages`). The
partitions become part of the transaction first; then the batches get the sequences that the partitions expect next of
this producer, so that what is stored is what a Kafka client would have sent.

These sequences tell nothing of a request that comes twice: it would be stored twice. A client that repeats
requests numbers the requests of a transaction instead (`numbering`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.messages.produce import Acks, Publish, Section, publish, told_by_partition, writer_of
from goqueue.broker.messages.publish import (
    Fate,
    MessageLimits,
    NewMessage,
    PartitionShare,
    PartitionTurns,
    SortedMessages,
    moved_batch,
    open_for_writing,
    publish_sections,
    sort_messages,
)
from goqueue.broker.transactions.coordination import add_partitions, held_transaction, known
from goqueue.errors import GoQueueError
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import build_batch
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.admission import Caller
    from goqueue.broker.topics.open_topic import OpenTopic
    from goqueue.broker.transactions.service import TransactionService


class TransactionWriter(NamedTuple):
    """On whose behalf messages are published."""

    transactional_id: str
    identity: ProducerEpoch


class PartitionBatch(NamedTuple):
    """The messages that one partition gets at once."""

    partition: Partition
    share: PartitionShare


async def publish_when_known(
    transactions: TransactionService,
    caller: Caller,
    request: Publish,
    *,
    adds_partitions: bool,
) -> None:
    """Publish what belongs to a transaction, once it is durable that the coordinator knows of all its partitions.

    With `adds_partitions` they become part of the transaction on the way, otherwise they have to be already.
    """
    assert request.transactional_id is not None
    if adds_partitions:
        request.sections = await _with_partitions_added(
            transactions, caller, request.transactional_id, request.sections
        )
    # If the coordinator's log does not take it, publishing finds that again and returns the error.
    with suppress(GoQueueError):
        await known(transactions, request.transactional_id)
    publish(transactions.messages, caller, [request])


async def _with_partitions_added(
    transactions: TransactionService, caller: Caller, transactional_id: str, sections: Sequence[Section]
) -> Sequence[Section]:
    """Make the partitions of a request part of its producer's transaction.

    Returns the sections as they are to be published: where that was refused, with why in the place of the partition.
    """
    by_writer: dict[ProducerEpoch, dict[int, TopicPartition]] = {}
    for number, (partition, records) in enumerate(sections):
        if isinstance(partition, Partition) and not partition.is_internal:
            # If it is not a batch, publishing finds that again and returns the error.
            with suppress(GoQueueError):
                by_writer.setdefault(writer_of(records), {})[number] = partition.place
    added = list(sections)
    for writer, wanted in by_writer.items():
        refusals = await _add(transactions, caller, transactional_id, writer, frozenset(wanted.values()))
        for number, where in wanted.items():
            if where in refusals:
                added[number] = Section(refusals[where], sections[number].records)
    return added


async def _add(
    transactions: TransactionService,
    caller: Caller,
    transactional_id: str,
    writer: ProducerEpoch,
    partitions: frozenset[TopicPartition],
) -> Mapping[TopicPartition, GoQueueError]:
    """Add all partitions that can be, and return why the others cannot."""
    try:
        refused = await add_partitions(transactions, caller, transactional_id, writer, partitions)
    except GoQueueError as error:
        return dict.fromkeys(partitions, told_by_partition(error))
    others = partitions - refused.keys()
    if refused and others:
        return {**refused, **await _add(transactions, caller, transactional_id, writer, others)}
    return refused


async def publish_in_transaction(
    transactions: TransactionService,
    caller: Caller,
    turns: PartitionTurns,
    writer: TransactionWriter,
    topic: str,
    messages: Sequence[NewMessage | GoQueueError],
    limits: MessageLimits = MessageLimits.CLIENT,
) -> list[Fate]:
    """Publish messages as part of the writer's transaction, which this may begin; return the fate of each.

    At return they are as durable as those of any publish that waits for all. Raises what concerns all of them: then
    none was stored.
    """
    held_transaction(transactions, *writer)
    opened = await open_for_writing(transactions.messages, caller, topic)
    found = await sort_messages(transactions.messages, turns, opened, messages, limits)
    partitions = list(_existing(opened, found))
    if partitions:
        names = frozenset(TopicPartition(topic, partition.index) for partition in partitions)
        refused = await add_partitions(transactions, caller, *writer, names)
        if refused:
            raise next(iter(refused.values()))
        await known(transactions, writer.transactional_id)
    for batches in _rounds(opened, partitions, found):
        sections = [Section(batch.partition, _built(batch, writer.identity, limits)) for batch in batches]
        outcomes = await publish_sections(
            transactions.messages, caller, Acks.ALL, sections, writer.transactional_id, limits
        )
        for batch, outcome in zip(batches, outcomes, strict=True):
            found.settle(batch.partition.index, batch.share, outcome)
    return found.all_fates()


def _existing(opened: OpenTopic, found: SortedMessages) -> Iterator[Partition]:
    """Yield the partitions that get something; messages for unusable partitions get the error."""
    for index, share in found.shares.items():
        try:
            yield opened.partition(index)
        except GoQueueError as error:
            found.settle(index, share, error)


def _rounds(
    opened: OpenTopic,
    partitions: Sequence[Partition],
    found: SortedMessages,
) -> Iterator[list[PartitionBatch]]:
    """Yield what is published at once: a producer sends one batch per partition, so much for one needs more rounds."""
    bytes_max = opened.settings.log.max_message_bytes
    queues = [
        [PartitionBatch(partition, part) for part in found.shares[partition.index].parts(bytes_max)]
        for partition in partitions
    ]
    for batches in zip_longest(*queues):
        yield [batch for batch in batches if batch is not None]


def _built(batch: PartitionBatch, identity: ProducerEpoch, limits: MessageLimits) -> bytearray:
    bytes_max = batch.partition.settings.log.max_message_bytes
    build = build_batch if limits is MessageLimits.CLIENT else partial(moved_batch, batch_bytes_max=bytes_max)
    return build(
        batch.share.records,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=batch.partition.log.producers.next_sequence(*identity),
        is_transactional=True,
    )
