"""What `goqueue group` prints: rows for programs, tables and sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import typer

from goqueue.cli.groups.explain import Sentence
from goqueue.cli.groups.retention import retention_line
from goqueue.cli.groups.words import age_text, member_name, moment_text, partitions_text
from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.tables import Column, Row, clean, count_text, print_facts, print_table
from goqueue.client import Group, GroupMember, GroupOffset, GroupRebalance, GroupSummary, OffsetMove
from goqueue.client.groups import GroupList

_LIST = (
    Column("group"),
    Column("kind", spared=2),
    Column("state"),
    Column("members", is_number=True),
    Column("lag", is_number=True),
)
_MEMBERS = (
    Column("member"),
    Column("id", spared=3),
    Column("host", spared=2),
    Column("generation", is_number=True, spared=4),
    Column("state", spared=1),
    Column("reads"),
)
_QUEUE_MEMBERS = (
    Column("member"),
    Column("id", spared=3),
    Column("host", spared=2),
    Column("holds", is_number=True),
    Column("looks at", spared=1),
)
_OFFSETS = (
    Column("partition"),
    Column("offset", is_number=True),
    Column("end", is_number=True, spared=3),
    Column("lag", is_number=True),
    Column("behind", is_number=True),
    Column("last commit", spared=2),
    Column("owner", spared=1),
)
_REBALANCES = (
    Column("began"),
    Column("took", is_number=True),
    Column("moved", is_number=True),
    Column("why"),
)
_MOVES = (
    Column("partition"),
    Column("now", is_number=True),
    Column("then", is_number=True),
    Column("skipped", is_number=True),
    Column("read again", is_number=True),
    Column("unread then", is_number=True, spared=1),
    Column("trouble"),
)


def show_list(groups: GroupList, output_format: Format) -> None:
    """Print groups, one in a line; if there may be more, that is told beside them."""
    if output_format is Format.TABLE:
        rows = [Row(_summary_cells(each), "bold" if each.state == "rebalancing" else "") for each in groups]
        print_table(_LIST, rows)
    else:
        show("group", [_fields(each) for each in groups], output_format)
    if not groups.is_complete:
        typer.echo(
            "there may be more groups: a log of __consumer_offsets cannot be used, see what the broker reports",
            err=True,
        )
    elif not groups and output_format is Format.TABLE:
        typer.echo("there are no groups; one begins when somebody joins it, or sets its offsets", err=True)


def show_group(group: Group, output_format: Format) -> None:
    """Print all that is known of a group."""
    if output_format is not Format.TABLE:
        parts = ("members", "offsets", "rebalances")
        head = {name: value for name, value in _fields(group).items() if name not in parts}
        show("group", [head], output_format)
        for kind, rows in (("member", group.members), ("offset", group.offsets), ("rebalance", group.rebalances)):
            show(kind, [{"group": group.name, **_fields(each)} for each in rows], output_format)
        return
    print_facts(_facts(group), title=f"group {group.name}")
    if group.members:
        typer.echo()
        if group.kind == "queue":
            print_table(_QUEUE_MEMBERS, [Row(_queue_member_cells(each)) for each in group.members])
        else:
            print_table(_MEMBERS, [Row(_member_cells(each)) for each in group.members])
    if group.offsets:
        typer.echo()
        print_table(_OFFSETS, [Row(_offset_cells(each)) for each in group.offsets])
    if group.rebalances:
        typer.echo()
        print_table(_REBALANCES, [Row(_rebalance_cells(each)) for each in reversed(group.rebalances)])


def show_sentences(sentences: Sequence[Sentence], output_format: Format) -> None:
    """Print sentences, in paragraphs by what they are about."""
    if output_format is not Format.TABLE:
        show("sentence", [each._asdict() for each in sentences], output_format)
        return
    about = ""
    for sentence in sentences:
        if about and sentence.about != about:
            typer.echo()
        about = sentence.about
        typer.secho(clean(sentence.text), bold=sentence.is_trouble)


def show_plan(group: str, moves: Sequence[OffsetMove]) -> None:
    """Show whoever is asked what would be moved."""
    typer.echo(f"This moves {count_text(len(moves), 'offset')} of group {clean(group)}:\n", err=True)
    _print_moves(moves, is_aside=True)
    typer.echo(err=True)


def show_moves(group: str, moves: Sequence[OffsetMove], output_format: Format, *, is_done: bool) -> None:
    """Print what was moved, or would be."""
    if output_format is not Format.TABLE:
        show("move", [{"group": group, **_fields(each), "is_done": is_done} for each in moves], output_format)
        return
    typer.echo(f"{'moved' if is_done else 'would move'} {count_text(len(moves), 'offset')} of group {clean(group)}\n")
    _print_moves(moves, is_aside=False)


def _print_moves(moves: Sequence[OffsetMove], *, is_aside: bool) -> None:
    has_trouble = any(each.error for each in moves)
    columns = _MOVES if has_trouble else _MOVES[:-1]
    print_table(columns, [Row(_move_cells(each)) for each in moves], is_aside=is_aside)


def summary(group: Group) -> str:
    """Return what goes with a group, in words."""
    committed = [each for each in group.offsets if each.offset is not None]
    unread = "nobody knows what is unread" if group.lag is None else f"{count_text(group.lag, 'message')} unread"
    return f"group {group.name}: {count_text(len(committed), 'offset')}, {unread}"


def show_deletion(group: Group, output_format: Format, *, is_done: bool) -> None:
    """Tell what is gone, or would be."""
    if output_format is Format.TABLE:
        typer.echo(f"{'deleted' if is_done else 'would delete'} {clean(summary(group))}")
        return
    committed = sum(1 for each in group.offsets if each.offset is not None)
    row: dict[str, Any] = {"group": group.name, "offsets": committed, "lag": group.lag, "is_done": is_done}
    show("deletion", [row], output_format)


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    """Return what a row has; `kind` is taken by what every row says of itself."""
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return {"group_kind" if name == "kind" else name: each for name, each in fields.items()}


def _summary_cells(group: GroupSummary) -> list[str]:
    return [group.name, group.kind, group.state, count_text(group.members), _number(group.lag)]


def _facts(group: Group) -> list[tuple[str, str]]:
    behind = f", the oldest for {age_text(group.lag_seconds)}" if group.lag and group.lag_seconds is not None else ""
    facts = [
        ("state", group.state),
        ("kind", group.kind),
        ("generation", count_text(group.generation)),
        ("assigned by", group.assignor or "-"),
        ("topics", ", ".join(group.topics) if group.topics else "-"),
        ("lag", "-" if group.lag is None else f"{count_text(group.lag, 'message')}{behind}"),
    ]
    at_risk = retention_line(group)
    if at_risk:
        facts.append(("retention", at_risk))
    if group.rebalances:
        latest = group.rebalances[-1]
        facts.append(("last rebalance", f"{moment_text(latest.began_at)}, because {latest.reason}"))
    return facts


def _member_cells(member: GroupMember) -> list[str]:
    reads = partitions_text(member.assigned)
    if member.revoking:
        reads += f"; to give back: {partitions_text(member.revoking)}"
    return [member_name(member), member.member_id, member.host, str(member.generation), member.state, reads]


def _queue_member_cells(member: GroupMember) -> list[str]:
    # Whoever receives by HTTP says with each receive where.
    looks_at = partitions_text(member.assigned) if member.topics else "-"
    held = count_text(member.in_flight or 0)
    return [member_name(member), member.member_id, member.host or "-", held, looks_at]


def _offset_cells(offset: GroupOffset) -> list[str]:
    owner = offset.owner
    return [
        f"{offset.topic}-{offset.partition}",
        _number(offset.offset),
        _number(offset.end_offset),
        _number(offset.lag),
        "-" if offset.lag_seconds is None else age_text(offset.lag_seconds),
        "-" if offset.committed_at is None else moment_text(offset.committed_at),
        "-" if owner is None else owner.client_id or owner.member_id,
    ]


def _rebalance_cells(rebalance: GroupRebalance) -> list[str]:
    took = "not over yet" if rebalance.duration_seconds is None else age_text(rebalance.duration_seconds)
    return [moment_text(rebalance.began_at), took, count_text(rebalance.moves), rebalance.reason]


def _move_cells(move: OffsetMove) -> list[str]:
    error = move.error.message or move.error.code if move.error else ""
    numbers = (move.skipped, move.read_again, move.unread)
    name = f"{move.topic}-{move.partition}"
    return [name, _number(move.before), _number(move.after), *map(count_text, numbers), error]


def _number(value: int | None) -> str:
    return "-" if value is None else count_text(value)
