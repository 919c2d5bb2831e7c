"""`goqueue group`: list, describe, explain, move and delete groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
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
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.tables import Column, Table, clean, print_facts
from goqueue.cli.terminal.times import age_text, moment_text, parse_moment_ms
from goqueue.errors import GroupNotEmpty, InconsistentProtocol, UnknownGroup
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.cli.groups.explain import Sentence
    from goqueue.client import (
        Call,
        Client,
        Group,
        GroupMember,
        GroupOffset,
        GroupPartition,
        GroupRebalance,
        GroupSummary,
        OffsetMove,
    )

app = typer.Typer(no_args_is_help=True, help="List, describe, explain, move and delete groups.")

FromGroupOption = Annotated[
    str | None,
    typer.Option(
        "--from-group",
        metavar="GROUP",
        help="With --to group: copy the offsets of this group.",
        autocompletion=complete_group,
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic; repeatable. Otherwise every topic that the group has offsets for.",
        autocompletion=complete_topic,
    ),
]
PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help="Only this partition of the topic; repeatable.")
]


class SeekTo(StrEnum):
    """Where the offsets of a group move to."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    GROUP = "group"


_WIRE = {SeekTo.START: "earliest", SeekTo.END: "latest"}


@dataclass(frozen=True, slots=True)
class _Seek:
    """A move of offsets; without topics it covers every topic that the group has offsets for."""

    to: SeekTo
    offset: int | None
    timestamp_ms: int | None
    from_group: str | None
    topics: Sequence[str]
    partitions: Sequence[int]

    def call(self, group: str, *, is_dry_run: bool) -> Call[Sequence[OffsetMove]]:
        """Return the request that makes the move, or only computes it."""
        from goqueue.client import GroupPartition, groups

        named = [GroupPartition(topic, index) for topic in self.topics for index in self.partitions]
        return groups.reset(
            group,
            _WIRE.get(self.to, self.to.value),
            offset=self.offset,
            timestamp_ms=self.timestamp_ms,
            other_group=self.from_group,
            topics=self.topics if self.topics and not named else None,
            partitions=named or None,
            is_dry_run=is_dry_run,
        )


def _row(value: object) -> dict[str, Value]:
    """Return a value as a row; its `kind` becomes `group_kind`, because every row has a `kind`."""
    return {"group_kind" if name == "kind" else name: each for name, each in fields(value).items()}


def _partitions_text(partitions: Sequence[GroupPartition]) -> str:
    from goqueue.cli.groups.explain import partitions_text

    return partitions_text(partitions)


def _member_name(member: GroupMember) -> str:
    return member.client_id or member.member_id


def _reads(member: GroupMember) -> str:
    reads = _partitions_text(member.assigned)
    return f"{reads}; to revoke: {_partitions_text(member.revoking)}" if member.revoking else reads


def _owner(offset: GroupOffset) -> str | None:
    owner = offset.owner
    return None if owner is None else owner.client_id or owner.member_id


def _move_error(move: OffsetMove) -> str:
    return move.error.message or move.error.code if move.error else ""


_GROUPS: Table[GroupSummary] = Table(
    "group",
    Column("group", lambda each: each.name),
    Column("kind", lambda each: each.kind, spared=2),
    Column("state", lambda each: each.state),
    Column("members", lambda each: each.members, is_number=True),
    Column("lag", lambda each: each.lag, is_number=True),
    row=_row,
    style=lambda each: "bold" if each.state == "rebalancing" else "",
)
_MEMBERS: Table[GroupMember] = Table(
    "member",
    Column("member", _member_name),
    Column("id", lambda each: each.member_id, spared=3),
    Column("host", lambda each: each.host, spared=2),
    Column("generation", lambda each: str(each.generation), is_number=True, spared=4),
    Column("state", lambda each: each.state, spared=1),
    Column("reads", _reads),
)
_QUEUE_MEMBERS: Table[GroupMember] = Table(
    "member",
    Column("member", _member_name),
    Column("id", lambda each: each.member_id, spared=3),
    Column("host", lambda each: each.host or None, spared=2),
    Column("holds", lambda each: each.in_flight or 0, is_number=True),
    # A consumer that receives by HTTP names topics with each receive.
    Column("looks at", lambda each: _partitions_text(each.assigned) if each.topics else None, spared=1),
)
_OFFSETS: Table[GroupOffset] = Table(
    "offset",
    Column("partition", lambda each: f"{each.topic}-{each.partition}"),
    Column("offset", lambda each: each.offset, is_number=True),
    Column("end", lambda each: each.end_offset, is_number=True, spared=3),
    Column("lag", lambda each: each.lag, is_number=True),
    Column("behind", lambda each: None if each.lag_seconds is None else age_text(each.lag_seconds), is_number=True),
    Column("last commit", lambda each: None if each.committed_at is None else moment_text(each.committed_at), spared=2),
    Column("owner", _owner, spared=1),
)
_REBALANCES: Table[GroupRebalance] = Table(
    "rebalance",
    Column("began", lambda each: moment_text(each.began_at)),
    Column(
        "took",
        lambda each: "not over yet" if each.duration_seconds is None else age_text(each.duration_seconds),
        is_number=True,
    ),
    Column("moved", lambda each: each.moves, is_number=True),
    Column("why", lambda each: each.reason),
)
_MOVES: Table[OffsetMove] = Table(
    "move",
    Column("partition", lambda each: f"{each.topic}-{each.partition}"),
    Column("now", lambda each: each.before, is_number=True),
    Column("then", lambda each: each.after, is_number=True),
    Column("skipped", lambda each: each.skipped, is_number=True),
    Column("read again", lambda each: each.read_again, is_number=True),
    Column("unread then", lambda each: each.unread, is_number=True, spared=1),
    Column("trouble", _move_error, is_hidden_if_empty=True),
)


@app.command("list")
def list_groups(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List groups and their lag.

    Example: [bold]goqueue group list[/bold]

    Example: [bold]goqueue group list --format json | jq 'select(.lag > 1000)'[/bold]
    """
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.list_all())
    _GROUPS.show(found, output_format)
    if not found.is_complete:
        typer.echo(
            "there may be more groups: a log of __consumer_offsets is unusable; see the errors of the broker", err=True
        )
    elif not found and output_format is Format.TABLE:
        typer.echo("there are no groups; the first member or commit creates one", err=True)


@app.command()
def describe(
    group: GroupArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a group: members, owner and lag of each partition, and the last rebalances.

    Lag is the number of unread messages, and the age of the oldest of them.

    Example: [bold]goqueue group describe billing[/bold]
    """
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.describe(group))
    if output_format is not Format.TABLE:
        _show_rows(found, output_format)
        return
    print_facts(_facts(found), title=f"group {found.name}")
    if found.members:
        typer.echo()
        (_QUEUE_MEMBERS if found.kind == "queue" else _MEMBERS).print(found.members)
    if found.offsets:
        typer.echo()
        _OFFSETS.print(found.offsets)
    if found.rebalances:
        typer.echo()
        _REBALANCES.print(found.rebalances[::-1])


@app.command()
def explain(
    group: GroupArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Explain in sentences what a group is doing: who holds what, who is late, and why it was rebalanced.

    Example: [bold]goqueue group explain billing[/bold]
    """
    from goqueue.cli.groups.explain import explained
    from goqueue.client import groups

    with connected(server) as client:
        found = client.send(groups.describe(group))
    _show_sentences(explained(found), output_format)


@app.command()
def seek(
    group: GroupArgument,
    *,
    to: Annotated[SeekTo, typer.Option("--to", help="Where the offsets move to.")],
    offset: Annotated[int | None, typer.Option(min=0, help="With --to offset: the offset for each partition.")] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="WHEN", help="With --to time: 2026-01-31T10:00 or '10m ago'."),
    ] = None,
    from_group: FromGroupOption = None,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Move the committed offsets of a group that has no members.

    Shows which messages are skipped or read again, and asks you to type the
    name of the group. An offset outside of a partition becomes the nearest
    one inside. Times without a zone are local.

    Example: [bold]goqueue group seek billing --to time --time '1h ago' --dry-run[/bold]

    Example: [bold]goqueue group seek billing --to offset --offset 1200 --topic orders --partition 0 --yes[/bold]
    """
    wanted = _parse_seek(to, offset=offset, time=time, from_group=from_group, topics=topic, partitions=partition)
    with connected(server) as client:
        moves = client.send(wanted.call(group, is_dry_run=True))
        if not dry_run:
            _require_empty(client, group)
            if not yes:
                typer.echo(f"This moves {count_text(len(moves), 'offset')} of group {clean(group)}:\n", err=True)
                _MOVES.print(moves, is_aside=True)
                typer.echo(err=True)
                require_typed(group, "the name of the group", "nothing was moved")
            moves = client.send(wanted.call(group, is_dry_run=False))
    if output_format is Format.TABLE:
        done = "would move" if dry_run else "moved"
        typer.echo(f"{done} {count_text(len(moves), 'offset')} of group {clean(group)}\n")
        _MOVES.print(moves)
    else:
        show("move", [{"group": group, **fields(each), "is_done": not dry_run} for each in moves], output_format)
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
    """Delete a group without members, and its offsets. Asks you to type its name.

    Example: [bold]goqueue group delete billing --dry-run[/bold]

    Example: [bold]goqueue group delete billing --yes[/bold]
    """
    from goqueue.client import groups

    with connected(server) as client:
        doomed = client.send(groups.describe(group))
        _require_empty(client, group)
        summary = _summary(doomed)
        if not dry_run:
            if not yes:
                typer.echo(f"This permanently deletes {clean(summary)}.", err=True)
                require_typed(group, "the name of the group", "nothing was deleted")
            client.send(groups.delete(group))
    if output_format is Format.TABLE:
        typer.echo(f"{'would delete' if dry_run else 'deleted'} {clean(summary)}")
        return
    row: dict[str, Value] = {"group": group, "offsets": _committed(doomed), "lag": doomed.lag, "is_done": not dry_run}
    show("deletion", [row], output_format)


def _show_rows(group: Group, output_format: Format) -> None:
    parts = ("members", "offsets", "rebalances")
    show("group", [{name: each for name, each in _row(group).items() if name not in parts}], output_format)
    for kind, values in (("member", group.members), ("offset", group.offsets), ("rebalance", group.rebalances)):
        show(kind, [{"group": group.name, **_row(each)} for each in values], output_format)


def _show_sentences(sentences: Sequence[Sentence], output_format: Format) -> None:
    """Print sentences, with a paragraph per subject."""
    if output_format is not Format.TABLE:
        show("sentence", [each._asdict() for each in sentences], output_format)
        return
    about = ""
    for sentence in sentences:
        if about and sentence.about != about:
            typer.echo()
        about = sentence.about
        typer.secho(clean(sentence.text), bold=sentence.is_trouble)


def _facts(group: Group) -> list[tuple[str, str]]:
    from goqueue.cli.groups.explain import retention_line

    age = f", the oldest for {age_text(group.lag_seconds)}" if group.lag and group.lag_seconds is not None else ""
    facts = [
        ("state", group.state),
        ("kind", group.kind),
        ("generation", count_text(group.generation)),
        ("assigned by", group.assignor or "-"),
        ("topics", ", ".join(group.topics) if group.topics else "-"),
        ("lag", "-" if group.lag is None else f"{count_text(group.lag, 'message')}{age}"),
    ]
    at_risk = retention_line(group)
    if at_risk:
        facts.append(("retention", at_risk))
    if group.rebalances:
        latest = group.rebalances[-1]
        facts.append(("last rebalance", f"{moment_text(latest.began_at)}, because {latest.reason}"))
    return facts


def _summary(group: Group) -> str:
    unread = "lag unknown" if group.lag is None else f"{count_text(group.lag, 'message')} unread"
    return f"group {group.name}: {count_text(_committed(group), 'offset')}, {unread}"


def _committed(group: Group) -> int:
    return sum(each.offset is not None for each in group.offsets)


def _require_empty(client: Client, group: str) -> None:
    """Refuse what the broker would refuse, before the user is asked for confirmation."""
    from goqueue.client import groups

    # A seek may create the group.
    with suppress(UnknownGroup):
        found = client.send(groups.describe(group))
        if found.kind == "queue":
            raise InconsistentProtocol(f"{group!r} is a queue group", hint="see goqueue queue --help")
        if found.members:
            names = ", ".join(sorted(set(map(_member_name, found.members))))
            raise GroupNotEmpty(f"group {group!r} has members: {names}", hint="stop them first")


def _parse_seek(
    to: SeekTo,
    *,
    offset: int | None,
    time: str | None,
    from_group: str | None,
    topics: Sequence[str] | None,
    partitions: Sequence[int] | None,
) -> _Seek:
    """Return the move that the options describe; BadParameter if they contradict each other."""
    for needed, option, value in (
        (SeekTo.OFFSET, "--offset", offset),
        (SeekTo.TIME, "--time", time),
        (SeekTo.GROUP, "--from-group", from_group),
    ):
        if to is needed and value is None:
            raise typer.BadParameter(f"--to {needed} needs {option}", param_hint="--to")
        if to is not needed and value is not None:
            raise typer.BadParameter(f"needs --to {needed}", param_hint=option)
    if partitions and len(topics or ()) != 1:
        raise typer.BadParameter("needs exactly one --topic", param_hint="--partition")
    timestamp_ms = None if time is None else parse_moment_ms(time, "--time")
    return _Seek(to, offset, timestamp_ms, from_group, topics or (), partitions or ())
