"""Administrative commands of queue groups: settings, pauses, start and seek positions, deletion."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import assert_never

from msgspec.structs import replace

from goqueue.errors import Conflict, UnknownQueue
from goqueue.machines.decision import Decision, KeyedRecord, TicketReply
from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.commands import (
    Administration,
    BeginTopic,
    Configure,
    DeleteQueue,
    DropQueueTopic,
    PauseQueue,
    Retreat,
    Seek,
)
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.group import QueueGroup, QueueOutcome, chunk_tombstones, draft_records
from goqueue.machines.queues.records import (
    GroupValue,
    PartitionValue,
    group_record,
    letter_places_record,
    partition_record,
)
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.topic import TopicPartition

Groups = Mapping[str, QueueGroup]


def require(groups: Groups, name: str) -> QueueGroup:
    """Return a group; UnknownQueue if it does not exist."""
    found = groups.get(name)
    if found is None:
        raise UnknownQueue(f"there is no queue group {name!r}", hint="the first receive creates it").about(name)
    return found


def require_window(groups: Groups, group: str, partition: TopicPartition) -> QueueWindow:
    """Return the state of a partition of a group; UnknownQueue if there is none."""
    window = require(groups, group).windows.get(partition)
    if window is None:
        raise UnknownQueue(f"queue group {group!r} has not begun with {partition.topic}-{partition.partition}")
    return window


def administer(groups: Groups, command: Administration, ticket: int) -> Decision:
    """Return the decision on a command; raise what forbids it."""
    match command:
        case Configure(name, settings, is_made_only):
            known = groups.get(name)
            if known is None:
                return _changed(None, name, GroupValue(settings), ticket)
            if is_made_only:
                return _changed(known, name, known.value, ticket)
            return _changed(known, name, _configured(known, settings), ticket, _let_go(known, settings))
        case PauseQueue(name, reason):
            known = require(groups, name)
            return _changed(known, name, replace(known.value, paused=reason), ticket)
        case BeginTopic():
            return _open(require(groups, command.group), command, ticket)
        case Seek() | Retreat():
            draft = QueueDraft(require_window(groups, command.group, command.partition))
            if isinstance(command, Seek):
                draft.restart(command.offset)
                draft.epoch = command.epoch
            else:
                draft.retreat(command.end)
            records = draft_records(command.group, command.partition, draft)
            drafts = {command.partition: draft}
            return _decided(records, [QueueOutcome(command.group, groups[command.group].value, drafts)], ticket)
        case DeleteQueue(name):
            group = require(groups, name)
            records = [*_forgetting(group, list(group.windows)), group_record(name, None)]
            return _decided(records, [QueueOutcome(name, None)], ticket)
        case DropQueueTopic():
            return _drop_topic(groups, command, ticket)
        case _:
            assert_never(command)


def _decided(records: Sequence[KeyedRecord], outcomes: Sequence[QueueOutcome], ticket: int) -> Decision:
    return Decision(records, [TicketReply(ticket, None)], tuple(outcomes))


def _changed(
    known: QueueGroup | None,
    name: str,
    value: GroupValue,
    ticket: int,
    drafts: Mapping[TopicPartition, QueueDraft] = MappingProxyType({}),
) -> Decision:
    if known is not None and known.value == value:
        return _decided([], [], ticket)
    records = [record for each, draft in drafts.items() for record in draft_records(name, each, draft)]
    return _decided([*records, group_record(name, value)], [QueueOutcome(name, value, drafts)], ticket)


def _let_go(group: QueueGroup, settings: QueueSettings) -> Mapping[TopicPartition, QueueDraft]:
    """Return the drafts that release messages held for their key, if the new settings have no order by key."""
    if settings.ordering is Ordering.KEY:
        return {}
    drafts = {each: QueueDraft(window) for each, window in group.windows.items() if window.held}
    for draft in drafts.values():
        draft.let_all()
    return drafts


def _configured(group: QueueGroup, settings: QueueSettings) -> GroupValue:
    """Return the group with other settings; Conflict if it would consume its own dead letters."""
    if settings.dead_letters != group.settings.dead_letters:
        _check_letters(group.name, settings.dead_letters, {each.topic for each in group.windows})
    return replace(group.value, settings=settings)


def _open(group: QueueGroup, command: BeginTopic, ticket: int) -> Decision:
    known_ids = {(each.topic, window.topic_id) for each, window in group.windows.items()}
    begun = {each.topic for each in command.starts if (each.topic, command.topic_id) not in known_ids}
    _check_letters(group.name, group.settings.dead_letters, begun)
    records: list[KeyedRecord] = []
    opened = {}
    for partition, offset in command.starts.items():
        known = group.windows.get(partition)
        if known is not None and known.topic_id == command.topic_id:
            continue
        records += [] if known is None else _forgetting(group, [partition])
        value = PartitionValue(command.topic_id, offset, offset, command.epochs.get(partition, NO_EPOCH))
        records.append(partition_record(group.name, partition, value))
        window = opened[partition] = QueueWindow(value.topic_id, offset, offset, value.epoch)
        window.is_new = True
    return _decided(records, [QueueOutcome(group.name, group.value, opened=opened)], ticket)


def _check_letters(group: str, letters: str, topics: Collection[str]) -> None:
    """Raise Conflict if a group would consume its own dead letters."""
    if letters in topics:
        raise Conflict(
            f"queue group {group!r} sends its dead letters to {letters!r}, and would get them as messages that die",
            hint="name another topic for its dead letters (dead_letters), or consume it with another group",
        )


def _drop_topic(groups: Groups, command: DropQueueTopic, ticket: int) -> Decision:
    records: list[KeyedRecord] = []
    outcomes = []
    concerned = groups.values() if command.group is None else [require(groups, command.group)]
    for group in concerned:
        partitions = [each for each in group.windows if each.topic == command.topic]
        records += _forgetting(group, partitions)
        if partitions:
            outcomes.append(QueueOutcome(group.name, group.value, opened=dict.fromkeys(partitions)))
    return _decided(records, outcomes, ticket)


def _forgetting(group: QueueGroup, partitions: Sequence[TopicPartition]) -> list[KeyedRecord]:
    records: list[KeyedRecord] = []
    for each in partitions:
        for index in sorted(group.windows[each].chunks):
            records += chunk_tombstones(group.name, each, index)
        if group.windows[each].letter_places:
            records.append(letter_places_record(group.name, each, ()))
        records.append(partition_record(group.name, each, None))
    return records
