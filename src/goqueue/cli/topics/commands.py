"""`goqueue topic`: make, list, describe, change and delete topics of a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected
from goqueue.cli.terminal.confirm import DryRunOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.model.topic import PARTITIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cli.topics.output import Change
    from goqueue.client import Topic

app = typer.Typer(no_args_is_help=True, help="Make, list, describe, change and delete topics.")

NewTopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the new topic.")]
PartitionsOption = Annotated[
    int | None, typer.Option(min=1, max=PARTITIONS_MAX, help="How many partitions; the broker has a default.")
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="NAME=VALUE", help="A setting, such as retention.ms=7d or segment.bytes=64MiB; repeatable."
    ),
]


@app.command()
def create(
    topic: NewTopicArgument,
    *,
    partitions: PartitionsOption = None,
    config: ConfigOption = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Make a topic.

    Example: [bold]goqueue topic create orders --partitions 6 --config retention.ms=7d[/bold]
    """
    from goqueue.cli.topics import output as topic_output
    from goqueue.cli.topics.settings import parse_settings
    from goqueue.client import topics

    settings = parse_settings(config or [])
    with connected(server) as client:
        made = client.send(topics.create(topic, partitions=partitions, config=settings))
    topic_output.show_created(made, output_format)


@app.command("list")
def list_topics(
    *,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Also tell messages and bytes; one more request each.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Also list the broker's own topics.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List all topics.

    Example: [bold]goqueue topic list --sizes[/bold]

    Example: [bold]goqueue topic list --format json | jq -r .name[/bold]
    """
    from goqueue.cli.topics import output as topic_output
    from goqueue.client import topics

    with connected(server) as client:
        found = client.send(topics.list_all(with_internal=internal))
        parts = [client.send(topics.partitions(topic.name)) for topic in found] if sizes else []
    topic_output.show_list(found, parts, output_format)


@app.command()
def describe(
    topic: TopicArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a topic: its partitions with offsets and size, and each setting with its source.

    Example: [bold]goqueue topic describe orders[/bold]
    """
    from goqueue.cli.topics import output as topic_output
    from goqueue.client import topics

    with connected(server) as client:
        found = client.send(topics.describe(topic))
        parts = client.send(topics.partitions(topic))
    topic_output.show_topic(found, parts, output_format)


@app.command()
def alter(
    topic: TopicArgument,
    *,
    config: ConfigOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Go back to the broker's default of a setting; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=PARTITIONS_MAX, help="More partitions; there is no way back.")
    ] = None,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Change settings of a topic, or give it more partitions; what is not named stays as it is.

    With more partitions, new messages of a key may land in another partition than the old ones.

    Example: [bold]goqueue topic alter orders --config retention.ms=1d --unset segment.bytes --dry-run[/bold]
    """
    from goqueue.cli.topics import output as topic_output
    from goqueue.cli.topics.settings import parse_changes
    from goqueue.client import topics

    settings = parse_changes(config or [], unset or [])
    if not settings and partitions is None:
        raise typer.BadParameter("name what is to change: --config, --unset or --partitions")
    with connected(server) as client:
        before = client.send(topics.describe(topic))
        changes = topic_output.changes_of(before, settings, partitions)
        if dry_run:
            _check(before, changes)
        else:
            client.send(topics.alter(topic, partitions=partitions, config=settings))
    topic_output.show_changes(topic, changes, output_format, is_done=not dry_run)


@app.command()
def delete(
    topic: TopicArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Delete a topic with all its messages; you are asked to type its name.

    Example: [bold]goqueue topic delete orders --dry-run[/bold]

    Example: [bold]goqueue topic delete orders --yes[/bold]
    """
    from goqueue.cli.topics import output as topic_output
    from goqueue.client import topics

    with connected(server) as client:
        doomed = topic_output.Doomed(topic, client.send(topics.partitions(topic)))
        if not dry_run:
            if not yes:
                typer.echo(f"This deletes {doomed.summary()}, for good.", err=True)
                require_typed(doomed.topic, "the name of the topic", "nothing was deleted")
            client.send(topics.delete(topic))
    topic_output.show_deletion(doomed, output_format, is_done=not dry_run)


def _check(before: Topic, changes: Sequence[Change]) -> None:
    """Refuse what the broker would refuse, as far as that can be known without asking it to do it."""
    from goqueue.errors import InvalidPartitions
    from goqueue.model.topic_settings import TopicSettings, parse

    parse({change.name: change.new for change in changes if change.is_setting and change.new}, TopicSettings())
    for change in changes:
        if not change.is_setting and int(change.new or 0) < before.partitions:
            raise InvalidPartitions(
                f"topic {before.name!r} has {before.partitions} partitions, and cannot have fewer",
                hint="make a new topic and copy what you need",
            )
