"""`goqueue group`: list, describe, explain, move and delete groups of a running broker."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import (
    DEFAULT_SERVER,
    GroupArgument,
    ServerOption,
    complete_group,
    complete_topic,
    connected,
)
from goqueue.cli.groups.seek import SeekTo, parse_seek
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.cli.terminal.tables import clean
from goqueue.errors import GroupNotEmpty, InconsistentProtocol, UnknownGroup

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(no_args_is_help=True, help="List, describe, explain, move and delete groups.")

FromGroupOption = Annotated[
    str | None,
    typer.Option(
        "--from-group",
        metavar="GROUP",
        help="With --to group: the one whose offsets to take.",
        autocompletion=complete_group,
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic; repeatable. Without it, all that the group has offsets for.",
        autocompletion=complete_topic,
    ),
]
PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help="Only this partition of the topic; repeatable.")
]


@app.command("list")
def list_groups(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List all groups, with how many messages each has not read.

    Example: [bold]goqueue group list[/bold]

    Example: [bold]goqueue group list --format json | jq 'select(.lag > 1000)'[/bold]
    """
    from goqueue.cli.groups import output as group_output
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.list_all())
    group_output.show_list(found, output_format)


@app.command()
def describe(
    group: GroupArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a group: its members, who reads which partition and how far behind, and its last rebalances.

    Lag is how many messages are unread, and how old the oldest of them is.

    Example: [bold]goqueue group describe billing[/bold]
    """
    from goqueue.cli.groups import output as group_output
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.describe(group))
    group_output.show_group(found, output_format)


@app.command()
def explain(
    group: GroupArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Tell in sentences what a group is doing now, who holds what, who is late, and why it was rebalanced.

    Example: [bold]goqueue group explain billing[/bold]
    """
    from goqueue.cli.groups import output as group_output
    from goqueue.cli.groups.explain import explained
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.describe(group))
    group_output.show_sentences(explained(found), output_format)


@app.command()
def seek(
    group: GroupArgument,
    *,
    to: Annotated[SeekTo, typer.Option("--to", help="Where the group goes on.")],
    offset: Annotated[
        int | None, typer.Option(min=0, help="With --to offset: the next offset of each partition.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="WHEN", help="With --to time: 2026-01-31T10:00, or '10m ago'."),
    ] = None,
    from_group: FromGroupOption = None,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Move the offsets of a group that has no members: what it reads next.

    You are shown what is skipped or read again, and asked to type the name of
    the group. An offset that a partition does not hold becomes the nearest one
    that it holds. A time without a zone is that of the clock here.

    Example: [bold]goqueue group seek billing --to time --time '1h ago' --dry-run[/bold]

    Example: [bold]goqueue group seek billing --to offset --offset 1200 --topic orders --partition 0 --yes[/bold]
    """
    from goqueue.cli.groups import output as group_output

    wanted = parse_seek(to, offset=offset, time=time, from_group=from_group, topics=topic, partitions=partition)
    with connected(server) as client:
        moves = client.send(wanted.call(group, is_dry_run=True))
        if not dry_run:
            _require_empty(client, group)
            if not yes:
                group_output.show_plan(group, moves)
                require_typed(group, "the name of the group", "nothing was moved")
            moves = client.send(wanted.call(group, is_dry_run=False))
    group_output.show_moves(group, moves, output_format, is_done=not dry_run)
    if any(move.error for move in moves):
        raise typer.Exit(1)


@app.command()
def delete(
    group: GroupArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Delete a group without members, and its offsets; you are asked to type its name.

    Example: [bold]goqueue group delete billing --dry-run[/bold]

    Example: [bold]goqueue group delete billing --yes[/bold]
    """
    from goqueue.cli.groups import output as group_output
    from goqueue.client import groups

    with connected(server) as client:
        doomed = client.send(groups.describe(group))
        _require_empty(client, group)
        if not dry_run:
            if not yes:
                typer.echo(f"This deletes {clean(group_output.summary(doomed))}, for good.", err=True)
                require_typed(group, "the name of the group", "nothing was deleted")
            client.send(groups.delete(group))
    group_output.show_deletion(doomed, output_format, is_done=not dry_run)


def _require_empty(client: Client, group: str) -> None:
    """Refuse what the broker would refuse, before anybody is asked."""
    from goqueue.client import groups

    # A group that is not there yet can be given offsets.
    with suppress(UnknownGroup):
        found = client.send(groups.describe(group))
        if found.kind == "queue":
            raise InconsistentProtocol(f"{group!r} is a queue group", hint="see goqueue queue --help")
        if found.members:
            names = ", ".join(sorted({member.client_id or member.member_id for member in found.members}))
            raise GroupNotEmpty(f"group {group!r} has members: {names}", hint="stop them first")
