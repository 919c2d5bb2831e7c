"""`goqueue dlq`: browse dead letters, redrive them, and delete them."""

from __future__ import annotations

import sys
import time as clock
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.tables import Column, Table, clean, data_text, print_facts
from goqueue.cli.terminal.times import parse_moment_ms, time_text
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.api.dead_letters import RedriveMoves
    from goqueue.client import Client, DeadLetter, LetterPage, Letters, LettersOfTopic, Redrive, RedrivePreview

app = typer.Typer(no_args_is_help=True, help="Browse, redrive and delete dead letters.")

_POLL_S = 0.3
_INTERRUPTED = 130

ReasonOption = Annotated[list[str] | None, typer.Option("--reason", help="Only this reason of death; repeatable.")]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", help="Only dead letters of this queue group; repeatable.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Only messages with this key.")]
KeyBase64Option = Annotated[
    str | None, typer.Option("--key-base64", help="Only messages with this binary key, as --format json shows it.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only messages that died at or after this time: ISO 8601 or '2h ago'."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only messages that died before this time.")
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", min=0, help="The message's partition in its original topic.")
]
FirstOption = Annotated[int | None, typer.Option("--first-offset", min=0, help="The first original offset.")]
LastOption = Annotated[int | None, typer.Option("--last-offset", min=0, help="The last original offset, inclusive.")]
RedriveArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the redrive.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Show progress until the redrive ends; exit with 1 if any dead letter failed.")
]


def _cause_error(letter: DeadLetter) -> str | None:
    return data_text(letter.cause.error.encode("utf-8", "replace") or None)


def _origin(letter: DeadLetter) -> str | None:
    cause = letter.cause
    return f"{cause.topic}-{cause.partition}:{cause.offset}" if cause.topic else None


def _row(letter: DeadLetter) -> dict[str, Value]:
    from goqueue.client.messages import as_json

    return {**fields(as_json(letter.message)), "redriven": letter.is_redriven, "cause": fields(letter.cause)}


_TOPICS: Table[LettersOfTopic] = Table(
    "dead_letters",
    Column("topic", lambda each: each.topic),
    Column("letters", lambda each: count_text(each.letters) + ("+" if each.cut else ""), is_number=True),
    Column("redriven", lambda each: each.redriven, is_number=True),
    Column("newest", lambda each: None if each.newest is None else time_text(each.newest), spared=1),
    Column(
        "not redriven, by reason",
        lambda each: ", ".join(f"{reason}: {count:,}" for reason, count in each.by_reason.items()) or None,
    ),
)
_LETTERS: Table[DeadLetter] = Table(
    "dead_letter",
    Column("died", lambda each: time_text(each.message.timestamp)),
    Column("reason", lambda each: each.cause.reason + (" (redriven)" if each.is_redriven else "")),
    Column("error", _cause_error),
    Column("group", lambda each: each.cause.group or None, spared=2),
    Column(
        "attempts",
        lambda each: None if each.cause.attempts is None else str(each.cause.attempts),
        is_number=True,
        spared=1,
    ),
    Column("was at", _origin, spared=3),
    Column("key", lambda each: data_text(each.message.key or None), spared=4),
    Column("value", lambda each: data_text(each.message.value or None)),
    row=_row,
)
_REDRIVES: Table[Redrive] = Table(
    "redrive",
    Column("id", lambda each: each.id),
    Column("topic", lambda each: each.topic),
    Column("state", lambda each: each.state),
    Column("progress", lambda each: f"{each.progress:.0%}", is_number=True),
    Column("moved", lambda each: each.moves.moved, is_number=True),
    Column("skipped", lambda each: each.moves.skipped_redriven + each.moves.skipped_looping, is_number=True),
    Column("failed", lambda each: each.moves.failed, is_number=True),
    Column("began", lambda each: time_text(each.started), spared=1),
)


@app.command("list")
def list_letters(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List dead-letter topics, with counts and reasons.

    Example: [bold]goqueue dlq list[/bold]
    """
    from goqueue.client import dead_letters

    with connected(server) as client:
        found = client.send(dead_letters.list_all())
    _TOPICS.show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("there are no dead-letter topics", err=True)


@app.command("show")
def show_letters(
    topic: TopicArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of dead letters.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Continue from the cursor of an earlier page.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason of death.")] = None,
    group: Annotated[str | None, typer.Option(help="Only dead letters of this queue group.")] = None,
    key: KeyOption = None,
    key_base64: KeyBase64Option = None,
    since: SinceOption = None,
    until: UntilOption = None,
    partition: PartitionOption = None,
    first_offset: FirstOption = None,
    last_offset: LastOption = None,
    redriven: Annotated[bool, typer.Option("--redriven", help="Include dead letters that were redriven.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show dead letters of a topic, newest first: the message, why it died, and where it was.

    Example: [bold]goqueue dlq show orders --reason rejected --since '2h ago'[/bold]
    """
    from goqueue.client import dead_letters

    call = dead_letters.browse(
        topic,
        order="oldest" if oldest else "newest",
        limit=limit,
        cursor=cursor,
        reason=reason,
        group=group,
        key=_key(key, key_base64),
        since=_time(since, "--since"),
        until=_time(until, "--until"),
        partition=partition,
        first_offset=first_offset,
        last_offset=last_offset,
        redriven=redriven,
    )
    with connected(server) as client:
        page = client.send(call)
    _show_page(page, output_format)


@app.command()
def redrive(
    topic: TopicArgument,
    *,
    reason: ReasonOption = None,
    group: GroupOption = None,
    key: KeyOption = None,
    key_base64: KeyBase64Option = None,
    since: SinceOption = None,
    until: UntilOption = None,
    partition: PartitionOption = None,
    first_offset: FirstOption = None,
    last_offset: LastOption = None,
    target: Annotated[
        str | None, typer.Option(help="The topic to publish to; otherwise the one that each message came from.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Maximum dead letters per second.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of dead letters.")] = None,
    max_redrives: Annotated[int, typer.Option(min=0, help="Skip messages that were redriven this often already.")] = 3,
    force: Annotated[bool, typer.Option("--force", help="Ignore --max-redrives.")] = False,
    repeat: Annotated[bool, typer.Option("--repeat", help="Include dead letters that were redriven.")] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Republish a topic's current dead letters, each once. The broker does the work.

    Example: [bold]goqueue dlq redrive orders --reason rejected --rate 100 --wait[/bold]
    """
    from goqueue.client import dead_letters

    span = (_time(since, "--since"), _time(until, "--until"))
    letters = _letters(reason, group, _key(key, key_base64), span, (partition, first_offset, last_offset))
    with connected(server) as client:
        if dry_run:
            would = dead_letters.preview(
                topic, letters, target=target, limit=limit, max_redrives=max_redrives, force=force, repeat=repeat
            )
            _show_preview(client.send(would), output_format)
            return
        call = dead_letters.redrive(
            topic,
            letters,
            target=target,
            rate=rate,
            limit=limit,
            max_redrives=max_redrives,
            force=force,
            repeat=repeat,
        )
        job = _show(client, client.send(call), output_format, waits=wait)
    _exit_after(job, waits=wait)


@app.command()
def redrives(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List redrives, newest first.

    Example: [bold]goqueue dlq redrives[/bold]
    """
    from goqueue.client import dead_letters

    with connected(server) as client:
        found = client.send(dead_letters.list_redrives())
    _REDRIVES.show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("there are no redrives", err=True)


@app.command()
def status(
    redrive_id: RedriveArgument,
    *,
    wait: WaitOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show the progress and counts of a redrive, and what holds it up.

    Example: [bold]goqueue dlq status 1f0c2d7e5b6a4c3d9e8f7a6b5c4d3e2f --wait[/bold]
    """
    from goqueue.client import dead_letters

    with connected(server) as client:
        job = _show(client, client.send(dead_letters.find_redrive(redrive_id)), output_format, waits=wait)
    _exit_after(job, waits=wait)


@app.command()
def cancel(
    redrive_id: RedriveArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Cancel a redrive. Messages that it has published stay.

    Example: [bold]goqueue dlq cancel 1f0c2d7e5b6a4c3d9e8f7a6b5c4d3e2f[/bold]
    """
    from goqueue.client import dead_letters

    with connected(server) as client:
        job = _show(client, client.send(dead_letters.cancel_redrive(redrive_id)), output_format, waits=True)
    if job.state == "failed":
        raise typer.Exit(1)


@app.command()
def purge(
    topic: TopicArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Delete all dead letters of a topic. Asks you to type the name of the dead-letter topic.

    Example: [bold]goqueue dlq purge orders --dry-run[/bold]
    """
    from goqueue.client import dead_letters

    with connected(server) as client:
        page = client.send(dead_letters.browse(topic, limit=1, redriven=True, totals=True))
        if page.topic is None or page.totals is None:
            typer.echo(f"{topic} has no dead letters")
            return
        client.send(dead_letters.purge(topic, dry_run=True))
        at_least = "at least " if page.totals.cut else ""
        what = f"{at_least}{count_text(page.totals.letters, 'dead letter')} in {page.topic}"
        if dry_run:
            typer.echo(f"would delete {what}")
            return
        if not yes:
            typer.echo(f"This deletes {what}.", err=True)
            require_typed(page.topic, "the name of the dead-letter topic", "nothing was deleted")
        client.send(dead_letters.purge(topic))
    typer.echo(f"deleted {what}")


def _show(client: Client, job: Redrive, output_format: Format, *, waits: bool) -> Redrive:
    """Print a redrive, after it has ended if `waits`; return its last state."""
    from goqueue.client import dead_letters

    try:
        while waits and not job.is_over:
            _show_progress(job)
            clock.sleep(_POLL_S)
            job = client.send(dead_letters.find_redrive(job.id))
    except KeyboardInterrupt:
        typer.echo(f"redrive {job.id} continues; cancel it with `goqueue dlq cancel {job.id}`", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if output_format is Format.TABLE:
        print_facts(_facts(job), title=f"redrive {job.id}")
    else:
        _REDRIVES.show([job], output_format)
    return job


def _show_progress(job: Redrive) -> None:
    """Overwrite the progress line, if standard error is a terminal."""
    if sys.stderr.isatty():
        trouble = f", {clean(job.trouble)}" if job.trouble else ""
        sys.stderr.write(f"\r\x1b[K{job.progress:.0%}, {count_text(job.moves.moved)} republished{trouble}")
        sys.stderr.flush()


def _exit_after(job: Redrive, *, waits: bool) -> None:
    """Exit with 1 if a redrive that was waited for has failed, or some of its dead letters have."""
    if waits and (job.state == "failed" or job.moves.failed):
        raise typer.Exit(1)


def _show_page(page: LetterPage, output_format: Format) -> None:
    _LETTERS.show(page.letters, output_format)
    if not page.letters and page.cursor is None:
        typer.echo("no dead letters match", err=True)
    if page.unreadable:
        typer.echo(f"{count_text(page.unreadable, 'dead letter')} cannot be read", err=True)
    if page.is_cut:
        typer.echo("one request examines a limited number of dead letters", err=True)
    if page.cursor is not None:
        typer.echo(f"there may be more: --cursor {page.cursor}", err=True)


def _show_preview(preview: RedrivePreview, output_format: Format) -> None:
    if output_format is not Format.TABLE:
        show("preview", [fields(preview)], output_format)
        return
    cut = ", and perhaps more" if preview.cut else ""
    typer.echo(f"would republish {count_text(preview.moves.moved, 'dead letter')} of {preview.topic}{cut}")
    if skipped := _skipped(preview.moves):
        typer.echo(f"would skip {skipped}")
    if preview.moves.failed:
        typer.echo(f"{count_text(preview.moves.failed)} cannot be republished; last error: {clean(preview.error)}")


def _facts(job: Redrive) -> list[tuple[str, str]]:
    facts = [
        # A cancelled redrive has its state as its reason.
        ("state", job.state + (f": {job.reason}" if job.reason not in {"", job.state} else "")),
        ("letters", job.topic),
        ("target", job.target or "original topics"),
        ("progress", f"{job.progress:.0%}"),
        ("republished", count_text(job.moves.moved)),
        ("skipped", _skipped(job.moves) or "0"),
        ("failed", count_text(job.moves.failed) + (f", last error: {job.error}" if job.error else "")),
    ]
    if job.trouble:
        facts.append(("trouble", f"{job.trouble} (tried {count_text(job.failures, 'time')}, retries soon)"))
    return facts


def _skipped(moves: RedriveMoves) -> str:
    parts = []
    if moves.skipped_redriven:
        parts.append(f"{moves.skipped_redriven:,} that an earlier redrive republished")
    if moves.skipped_looping:
        parts.append(f"{moves.skipped_looping:,} whose messages were redriven too often")
    return ", ".join(parts)


def _letters(
    reasons: Sequence[str] | None,
    groups: Sequence[str] | None,
    key: bytes | str | None,
    span: tuple[int | None, int | None],
    place: tuple[int | None, int | None, int | None],
) -> Letters:
    from goqueue.client import Letters

    (since, until), (partition, first, last) = span, place
    return Letters(
        reasons=reasons or (),
        groups=groups or (),
        key=key,
        since=since,
        until=until,
        partition=partition,
        first_offset=first,
        last_offset=last,
    )


def _key(text: str | None, base64: str | None) -> bytes | str | None:
    if base64 is None:
        return text
    if text is not None:
        raise typer.BadParameter("give --key or --key-base64, not both")
    try:
        return b64decode(base64, validate=True)
    except ValueError:
        raise typer.BadParameter(f"{base64[:100]!r} is not base64", param_hint="--key-base64") from None


def _time(written: str | None, option: str) -> int | None:
    return None if written is None else parse_moment_ms(written, option)
