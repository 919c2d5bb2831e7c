"""`goqueue topic`: create, list, describe, change and delete topics.

A setting whose name ends with a unit may be written in other units (`retention.ms=7d`, `segment.bytes=64MiB`); the
broker gets the plain number, and decides which settings and values are valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.tables import Column, Table, print_facts, size_text
from goqueue.cli.terminal.times import moment_text
from goqueue.errors import Invalid, InvalidPartitions
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic import PARTITIONS_MAX
from goqueue.model.units import bytes_text, count_text, duration_text, parse_bytes, parse_duration_ms

if TYPE_CHECKING:
    from goqueue.client import Partition, Topic
    from goqueue.client.topics import TopicSetting

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, change and delete topics.")

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="NAME=VALUE", help="A setting, such as retention.ms=7d or segment.bytes=64MiB; repeatable."
    ),
]

_UNLIMITED = {"-1", str(LogSettings().max_compaction_lag_ms)}


@dataclass(frozen=True, slots=True)
class _Listed:
    """A topic, and its partitions if sizes were asked for."""

    topic: Topic
    partitions: Sequence[Partition] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a topic; `new` is None for the broker's default."""

    name: str
    old: str
    new: str | None
    is_setting: bool = True


def _topic_row(topic: Topic) -> dict[str, Value]:
    return fields(topic, "name", "id", "partitions", "is_internal", "created_at", "config")


def _messages(partitions: Sequence[Partition]) -> int:
    return sum(each.messages for each in partitions)


def _size_bytes(partitions: Sequence[Partition]) -> int:
    return sum(each.size_bytes for each in partitions)


def _own_settings(topic: Topic) -> str:
    return ", ".join(f"{name}={in_words(name, value) or value}" for name, value in topic.config.items())


def _worded(change: _Change, value: str | None) -> str:
    if value is None:
        return "the broker's default"
    words = in_words(change.name, value) if change.is_setting else ""
    return f"{value} ({words})" if words else value


def _trouble(partition: Partition) -> str:
    return partition.error.message or partition.error.code if partition.error else ""


_COUNTS: Sequence[Column[_Listed]] = (
    Column("topic", lambda each: each.topic.name),
    Column("partitions", lambda each: each.topic.partitions, is_number=True),
)
_SIZES: Sequence[Column[_Listed]] = (
    Column("messages", lambda each: _messages(each.partitions), is_number=True),
    Column("size", lambda each: size_text(_size_bytes(each.partitions)), is_number=True),
)
_ORIGIN: Sequence[Column[_Listed]] = (
    Column("created", lambda each: moment_text(each.topic.created_at), spared=2),
    Column("own settings", lambda each: _own_settings(each.topic), spared=3),
)
_TOPICS: Table[_Listed] = Table("topic", *_COUNTS, *_ORIGIN, row=lambda each: _topic_row(each.topic))
_TOPICS_WITH_SIZES: Table[_Listed] = Table(
    "topic",
    *_COUNTS,
    *_SIZES,
    *_ORIGIN,
    row=lambda each: {
        **_topic_row(each.topic),
        "messages": _messages(each.partitions),
        "size_bytes": _size_bytes(each.partitions),
    },
)
_PARTITIONS: Table[Partition] = Table(
    "partition",
    Column("partition", lambda each: each.partition, is_number=True),
    Column("start", lambda each: each.start_offset, is_number=True),
    Column("end", lambda each: each.end_offset, is_number=True),
    Column("messages", lambda each: each.messages, is_number=True),
    Column("size", lambda each: size_text(each.size_bytes), is_number=True),
    Column("segments", lambda each: each.segments, is_number=True, spared=2),
    Column("leader", lambda each: each.leader, is_number=True, spared=3),
    Column("epoch", lambda each: each.leader_epoch, is_number=True, spared=4),
    Column("trouble", _trouble, is_hidden_if_empty=True),
)
_CHANGES: Table[_Change] = Table(
    "change",
    Column("what", lambda each: each.name),
    Column("now", lambda each: _worded(each, each.old)),
    Column("then", lambda each: _worded(each, each.new)),
)


def _settings_table(own: Mapping[str, str]) -> Table[TopicSetting]:
    """Return the table of settings; the topic's own ones are bold."""
    return Table(
        "setting",
        Column("setting", lambda each: each.name),
        Column("value", lambda each: each.value),
        Column("that is", lambda each: in_words(each.name, each.value), spared=1),
        Column("source", lambda each: each.source, spared=2),
        style=lambda each: "bold" if each.name in own else "",
    )


@app.command()
def create(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the new topic.")],
    *,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=PARTITIONS_MAX, help="Number of partitions; otherwise the broker's default."),
    ] = None,
    config: ConfigOption = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Create a topic.

    Example: [bold]goqueue topic create orders --partitions 6 --config retention.ms=7d[/bold]
    """
    from goqueue.client import topics

    settings = _parse_settings(config or [])
    with connected(server) as client:
        made = client.send(topics.create(topic, partitions=partitions, config=settings))
    if output_format is Format.TABLE:
        typer.echo(f"created topic {made.name} with {count_text(made.partitions, 'partition')}")
    else:
        show("topic", [_topic_row(made)], output_format)


@app.command("list")
def list_topics(
    *,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Show messages and bytes; takes one more request per topic.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Include the broker's internal topics.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List topics.

    Example: [bold]goqueue topic list --sizes[/bold]

    Example: [bold]goqueue topic list --format json | jq -r .name[/bold]
    """
    from goqueue.client import topics

    with connected(server) as client:
        found = [
            _Listed(each, client.send(topics.partitions(each.name)) if sizes else ())
            for each in client.send(topics.list_all(with_internal=internal))
        ]
    (_TOPICS_WITH_SIZES if sizes else _TOPICS).show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("there are no topics; `goqueue topic create NAME` creates one", err=True)


@app.command()
def describe(
    topic: TopicArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a topic: offsets and size of each partition, and each setting with its source.

    Example: [bold]goqueue topic describe orders[/bold]
    """
    from goqueue.client import topics

    with connected(server) as client:
        found = _Listed(client.send(topics.describe(topic)), client.send(topics.partitions(topic)))
    described, partitions = found.topic, found.partitions
    if output_format is not Format.TABLE:
        _TOPICS_WITH_SIZES.show([found], output_format)
        for kind, values in (("partition", partitions), ("setting", described.settings)):
            show(kind, [{"topic": described.name, **fields(each)} for each in values], output_format)
        return
    facts = [("id", described.id), ("created", moment_text(described.created_at)), ("holds", _amount(partitions))]
    print_facts(facts, title=f"topic {described.name}")
    typer.echo()
    _PARTITIONS.print(partitions)
    typer.echo()
    _settings_table(described.config).print(described.settings)


@app.command()
def alter(
    topic: TopicArgument,
    *,
    config: ConfigOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Reset a setting to the broker's default; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=PARTITIONS_MAX, help="New number of partitions; it cannot be reduced.")
    ] = None,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Change settings of a topic, or add partitions. Other settings stay.

    After partitions were added, new messages of a key may go to another partition than old ones.

    Example: [bold]goqueue topic alter orders --config retention.ms=1d --unset segment.bytes --dry-run[/bold]
    """
    from goqueue.client import topics

    settings = _parse_changes(config or [], unset or [])
    if not settings and partitions is None:
        raise typer.BadParameter("name a change: --config, --unset or --partitions")
    with connected(server) as client:
        before = client.send(topics.describe(topic))
        changes = _changes_of(before, settings, partitions)
        if dry_run:
            _check(before, changes)
        else:
            client.send(topics.alter(topic, partitions=partitions, config=settings))
    if output_format is not Format.TABLE:
        rows = [
            {"topic": topic, "name": each.name, "old": each.old, "new": each.new, "is_done": not dry_run}
            for each in changes
        ]
        show("change", rows, output_format)
    elif not changes:
        typer.echo(f"topic {topic} has these settings already")
    else:
        typer.echo(f"topic {topic} {'would be' if dry_run else 'has been'} changed\n")
        _CHANGES.print(changes)


@app.command()
def delete(
    topic: TopicArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Delete a topic and all its messages. Asks you to type its name.

    Example: [bold]goqueue topic delete orders --dry-run[/bold]

    Example: [bold]goqueue topic delete orders --yes[/bold]
    """
    from goqueue.client import topics

    with connected(server) as client:
        partitions = client.send(topics.partitions(topic))
        summary = f"topic {topic}: {_amount(partitions)}"
        if not dry_run:
            if not yes:
                typer.echo(f"This permanently deletes {summary}.", err=True)
                require_typed(topic, "the name of the topic", "nothing was deleted")
            client.send(topics.delete(topic))
    if output_format is Format.TABLE:
        typer.echo(f"{'would delete' if dry_run else 'deleted'} {summary}")
        return
    amounts = {"messages": _messages(partitions), "size_bytes": _size_bytes(partitions)}
    show(
        "deletion", [{"topic": topic, "partitions": len(partitions), **amounts, "is_done": not dry_run}], output_format
    )


def _amount(partitions: Sequence[Partition]) -> str:
    messages, size = count_text(_messages(partitions), "message"), size_text(_size_bytes(partitions))
    return f"{messages} ({size}) in {count_text(len(partitions), 'partition')}"


def _changes_of(topic: Topic, settings: Mapping[str, str | None], partitions: int | None) -> list[_Change]:
    """Return what would change; settings that have their value already are left out."""
    now = {setting.name: setting.value for setting in topic.settings}
    # `config` has no entry for a default, and None here means the default.
    changes = [_Change(name, now.get(name, ""), new) for name, new in settings.items() if new != topic.config.get(name)]
    if partitions is not None and partitions != topic.partitions:
        changes.append(_Change("partitions", str(topic.partitions), str(partitions), is_setting=False))
    return changes


def _check(before: Topic, changes: Sequence[_Change]) -> None:
    """Refuse a dry run of changes that the broker would refuse, as far as the command can tell."""
    from goqueue.model.topic_settings import TopicSettings, parse

    parse({change.name: change.new for change in changes if change.is_setting and change.new}, TopicSettings())
    for change in changes:
        if not change.is_setting and int(change.new or 0) < before.partitions:
            raise InvalidPartitions(
                f"topic {before.name!r} has {before.partitions} partitions, and cannot have fewer",
                hint="create a new topic and copy what you need",
            )


def in_words(name: str, value: str) -> str:
    """Return the value of a setting with a readable unit; empty if it has no unit."""
    if value in _UNLIMITED:
        return "unlimited" if name.endswith((".ms", ".bytes")) else ""
    if not value.isdecimal():
        return ""
    if name.endswith(".ms"):
        return duration_text(int(value))
    return bytes_text(int(value)) if name.endswith(".bytes") else ""


def _parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return settings by name; BadParameter if one is not NAME=VALUE, or is given twice."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--config")
        if name in settings:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--config")
        settings[name] = _plain(name, value)
    return settings


def _parse_changes(pairs: Sequence[str], unset: Sequence[str]) -> dict[str, str | None]:
    """Return changes by name; None resets a setting to its default."""
    changes: dict[str, str | None] = {**_parse_settings(pairs)}
    for name in unset:
        if name in changes:
            raise typer.BadParameter(f"{name} is also in --config", param_hint="--unset")
        changes[name] = None
    return changes


def _plain(name: str, value: str) -> str:
    if value.lstrip("-").isdecimal() or not name.endswith((".ms", ".bytes")):
        return value
    try:
        return str(parse_duration_ms(value) if name.endswith(".ms") else parse_bytes(value))
    except Invalid as error:
        raise typer.BadParameter(f"{name}: {error}", param_hint="--config") from None
