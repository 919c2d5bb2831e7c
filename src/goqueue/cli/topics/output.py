"""What `goqueue topic` prints: rows for programs, tables and sentences for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import typer

from goqueue.cli.terminal.output import Format, Value, show
from goqueue.cli.terminal.output import Row as OutputRow
from goqueue.cli.terminal.tables import Column, Row, count_text, print_facts, print_table, size_text
from goqueue.cli.topics.settings import in_words
from goqueue.client import Partition, Topic

_LIST = (
    Column("topic"),
    Column("partitions", is_number=True),
    Column("created", spared=2),
    Column("own settings", spared=3),
)
_SIZES = (Column("messages", is_number=True), Column("size", is_number=True))
_PARTITIONS = (
    Column("partition", is_number=True),
    Column("start", is_number=True),
    Column("end", is_number=True),
    Column("messages", is_number=True),
    Column("size", is_number=True),
    Column("segments", is_number=True, spared=2),
    Column("leader", is_number=True, spared=3),
    Column("epoch", is_number=True, spared=4),
    Column("trouble"),
)
_SETTINGS = (Column("setting"), Column("value"), Column("that is", spared=1), Column("source", spared=2))
_CHANGES = (Column("what"), Column("now"), Column("then"))


@dataclass(frozen=True, slots=True)
class Change:
    """Something about a topic that is to be another; `new` is None for the broker's default."""

    name: str
    old: str
    new: str | None
    is_setting: bool = True


@dataclass(frozen=True, slots=True)
class Doomed:
    """A topic that is to be deleted, and what goes with it."""

    topic: str
    partitions: Sequence[Partition]

    def summary(self) -> str:
        """Return what goes, in words."""
        return f"topic {self.topic}: {_amount(self.partitions)}"


def show_created(topic: Topic, output_format: Format) -> None:
    """Tell of a new topic."""
    if output_format is Format.TABLE:
        typer.echo(f"created topic {topic.name} with {count_text(topic.partitions, 'partition')}")
    else:
        show("topic", [_topic_row(topic)], output_format)


def show_list(topics: Sequence[Topic], parts: Sequence[Sequence[Partition]], output_format: Format) -> None:
    """Print topics; with what each holds if `parts` has their partitions."""
    if output_format is not Format.TABLE:
        amounts = [_amounts(partitions) for partitions in parts] or [{}] * len(topics)
        rows = [_topic_row(topic) | amount for topic, amount in zip(topics, amounts, strict=True)]
        show("topic", rows, output_format)
        return
    rows_of_cells = []
    for index, topic in enumerate(topics):
        name, partitions, *rest = topic.name, count_text(topic.partitions), _time(topic), _own_settings(topic)
        sizes = _size_cells(parts[index]) if parts else []
        rows_of_cells.append(Row([name, partitions, *sizes, *rest]))
    print_table([*_LIST[:2], *(_SIZES if parts else ()), *_LIST[2:]], rows_of_cells)
    if not topics:
        typer.echo("there are no topics; `goqueue topic create NAME` makes one", err=True)


def show_topic(topic: Topic, partitions: Sequence[Partition], output_format: Format) -> None:
    """Print all that is known of a topic."""
    if output_format is not Format.TABLE:
        show("topic", [_topic_row(topic) | _amounts(partitions)], output_format)
        show("partition", [{"topic": topic.name, **_partition_row(each)} for each in partitions], output_format)
        settings = [{"name": each.name, "value": each.value, "source": each.source} for each in topic.settings]
        show("setting", [{"topic": topic.name, **each} for each in settings], output_format)
        return
    facts = [("id", topic.id), ("created", _time(topic)), ("holds", _amount(partitions))]
    print_facts(facts, title=f"topic {topic.name}")
    typer.echo()
    has_trouble = any(each.error for each in partitions)
    columns = _PARTITIONS if has_trouble else _PARTITIONS[:-1]
    print_table(columns, [Row(_partition_cells(each)) for each in partitions])
    typer.echo()
    print_table(
        _SETTINGS,
        [
            Row(
                [each.name, each.value, in_words(each.name, each.value), each.source],
                style="bold" if each.name in topic.config else "",
            )
            for each in topic.settings
        ],
    )


def changes_of(topic: Topic, settings: Mapping[str, str | None], partitions: int | None) -> list[Change]:
    """Return what would change; nothing of what is so already."""
    now = {setting.name: setting.value for setting in topic.settings}
    # A setting that a topic does not have itself is None there, just as one that is to be unset.
    changes = [Change(name, now.get(name, ""), new) for name, new in settings.items() if new != topic.config.get(name)]
    if partitions is not None and partitions != topic.partitions:
        changes.append(Change("partitions", str(topic.partitions), str(partitions), is_setting=False))
    return changes


def show_changes(topic: str, changes: Sequence[Change], output_format: Format, *, is_done: bool) -> None:
    """Print what has changed, or would."""
    if output_format is not Format.TABLE:
        rows: list[OutputRow] = [
            {"topic": topic, "name": each.name, "old": each.old, "new": each.new, "is_done": is_done}
            for each in changes
        ]
        show("change", rows, output_format)
        return
    if not changes:
        typer.echo(f"topic {topic} is so already")
        return
    typer.echo(f"topic {topic} {'has been changed' if is_done else 'would be changed'}\n")
    print_table(_CHANGES, [Row([each.name, _worded(each, each.old), _worded(each, each.new)]) for each in changes])


def show_deletion(doomed: Doomed, output_format: Format, *, is_done: bool) -> None:
    """Tell what is gone, or would be."""
    if output_format is Format.TABLE:
        typer.echo(f"{'deleted' if is_done else 'would delete'} {doomed.summary()}")
        return
    row: OutputRow = {"topic": doomed.topic, "partitions": len(doomed.partitions), **_amounts(doomed.partitions)}
    show("deletion", [{**row, "is_done": is_done}], output_format)


def _topic_row(topic: Topic) -> dict[str, Value]:
    return {
        "name": topic.name,
        "id": topic.id,
        "partitions": topic.partitions,
        "is_internal": topic.is_internal,
        "created_at": topic.created_at,
        "config": topic.config,
    }


def _partition_row(partition: Partition) -> dict[str, Value]:
    error = partition.error
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "start_offset": partition.start_offset,
        "end_offset": partition.end_offset,
        "last_stable_offset": partition.last_stable_offset,
        "log_end_offset": partition.log_end_offset,
        "size_bytes": partition.size_bytes,
        "segments": partition.segments,
        "error": {"code": error.code, "message": error.message, "hint": error.hint} if error else None,
    }


def _partition_cells(partition: Partition) -> list[str]:
    numbers = (partition.partition, partition.start_offset, partition.end_offset, partition.messages)
    rest = (partition.segments, partition.leader, partition.leader_epoch)
    error = partition.error.message or partition.error.code if partition.error else ""
    return [*map(count_text, numbers), size_text(partition.size_bytes), *map(count_text, rest), error]


def _amounts(partitions: Sequence[Partition]) -> dict[str, Value]:
    return {
        "messages": sum(each.messages for each in partitions),
        "size_bytes": sum(each.size_bytes for each in partitions),
    }


def _size_cells(partitions: Sequence[Partition]) -> list[str]:
    messages = sum(each.messages for each in partitions)
    return [count_text(messages), size_text(sum(each.size_bytes for each in partitions))]


def _amount(partitions: Sequence[Partition]) -> str:
    messages = count_text(sum(each.messages for each in partitions), "message")
    size = size_text(sum(each.size_bytes for each in partitions))
    return f"{messages} ({size}) in {count_text(len(partitions), 'partition')}"


def _time(topic: Topic) -> str:
    return f"{datetime.fromisoformat(topic.created_at).astimezone():%Y-%m-%d %H:%M:%S}"


def _own_settings(topic: Topic) -> str:
    return ", ".join(f"{name}={in_words(name, value) or value}" for name, value in topic.config.items())


def _worded(change: Change, value: str | None) -> str:
    if value is None:
        return "the broker's default"
    words = in_words(change.name, value) if change.is_setting else ""
    return f"{value} ({words})" if words else value
