"""`goqueue dlq`: look at dead letters, publish them again, and delete them."""

from __future__ import annotations

import time as clock
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected
from goqueue.cli.terminal.confirm import require_typed
from goqueue.cli.terminal.output import Format, FormatOption

if TYPE_CHECKING:
    from goqueue.client import Client, Letters, Redrive

app = typer.Typer(no_args_is_help=True, help="Look at dead letters, publish them again, and delete them.")

_LOOK_S = 0.3
_INTERRUPTED = 130

ReasonOption = Annotated[
    list[str] | None, typer.Option("--reason", help="Only letters that died for this reason; repeatable.")
]
GroupOption = Annotated[list[str] | None, typer.Option("--group", help="Only letters of this queue group; repeatable.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="Only letters of messages with this key.")]
KeyBase64Option = Annotated[
    str | None, typer.Option("--key-base64", help="The same for a key that is no text, as --format json shows it.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only letters from then on: ISO 8601, or '2h ago'.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only letters from before then.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, help="The partition the message was in.")]
FirstOption = Annotated[int | None, typer.Option("--first-offset", min=0, help="The first offset the message had.")]
LastOption = Annotated[int | None, typer.Option("--last-offset", min=0, help="The last offset the message had.")]
RedriveArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the redrive.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Show progress until it has ended; exits with 1 if letters have failed.")
]


@app.command("list")
def list_letters(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List the topics for dead letters: how many there are, and why they died.

    Example: [bold]goqueue dlq list[/bold]
    """
    from goqueue.cli.dead_letters import output as dlq_output
    from goqueue.client import dead_letters

    with connected(server) as client:
        found = client.send(dead_letters.list_all())
    dlq_output.show_topics(found, output_format)


@app.command()
def show(
    topic: TopicArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many letters at most.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Go on where an earlier look has ended.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only letters that died for this reason.")] = None,
    group: Annotated[str | None, typer.Option(help="Only letters of this queue group.")] = None,
    key: KeyOption = None,
    key_base64: KeyBase64Option = None,
    since: SinceOption = None,
    until: UntilOption = None,
    partition: PartitionOption = None,
    first_offset: FirstOption = None,
    last_offset: LastOption = None,
    redriven: Annotated[bool, typer.Option("--redriven", help="Also those that were published again.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show dead letters of a topic, the newest first: the message, why it died, and where it was.

    Example: [bold]goqueue dlq show orders --reason rejected --since '2h ago'[/bold]
    """
    from goqueue.cli.dead_letters import output as dlq_output
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
    dlq_output.show_letters(page, output_format)


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
    target: Annotated[str | None, typer.Option(help="Where to; otherwise each goes to where it came from.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="How many letters a second.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many letters at most.")] = None,
    max_redrives: Annotated[
        int, typer.Option(min=0, help="Skip messages that were published again so often already.")
    ] = 3,
    force: Annotated[bool, typer.Option("--force", help="However often a message was published again.")] = False,
    repeat: Annotated[bool, typer.Option("--repeat", help="Also letters that were published again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")] = False,
    wait: WaitOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Publish the dead letters of a topic again that are there now, each once, as a job of the broker.

    Example: [bold]goqueue dlq redrive orders --reason rejected --rate 100 --wait[/bold]
    """
    from goqueue.cli.dead_letters import output as dlq_output
    from goqueue.client import dead_letters

    span = (_time(since, "--since"), _time(until, "--until"))
    letters = _letters(reason, group, _key(key, key_base64), span, (partition, first_offset, last_offset))
    with connected(server) as client:
        if dry_run:
            would = dead_letters.preview(
                topic, letters, target=target, limit=limit, max_redrives=max_redrives, force=force, repeat=repeat
            )
            dlq_output.show_preview(client.send(would), output_format)
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
    """List redrives, the one that began last first.

    Example: [bold]goqueue dlq redrives[/bold]
    """
    from goqueue.cli.dead_letters import output as dlq_output
    from goqueue.client import dead_letters

    with connected(server) as client:
        found = client.send(dead_letters.list_redrives())
    dlq_output.show_redrives(found, output_format)


@app.command()
def status(
    redrive_id: RedriveArgument,
    *,
    wait: WaitOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Tell how a redrive is: how far, what became of letters, and what keeps it from going on.

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
    """Cancel a redrive; what it has published stays.

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
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Delete all dead letters of a topic; you are asked to type the name of the topic where they are.

    Example: [bold]goqueue dlq purge orders --dry-run[/bold]
    """
    from goqueue.cli.dead_letters import output as dlq_output
    from goqueue.client import dead_letters

    with connected(server) as client:
        page = client.send(dead_letters.browse(topic, limit=1, redriven=True, totals=True))
        if page.topic is None or page.totals is None:
            typer.echo(f"{topic} has no dead letters")
            return
        client.send(dead_letters.purge(topic, dry_run=True))
        what = f"{dlq_output.letters_text(page.totals)} in {page.topic}"
        if dry_run:
            typer.echo(f"would delete {what}")
            return
        if not yes:
            typer.echo(f"This deletes {what}.", err=True)
            require_typed(page.topic, "the name of that topic", "nothing was deleted")
        client.send(dead_letters.purge(topic))
    typer.echo(f"deleted {what}")


def _show(client: Client, job: Redrive, output_format: Format, *, waits: bool) -> Redrive:
    """Print a redrive: as it is, or once it has ended, with its progress beside; return it as it was then."""
    from goqueue.cli.dead_letters import output as dlq_output
    from goqueue.client import dead_letters

    try:
        while waits and not job.is_over:
            dlq_output.show_progress(job)
            clock.sleep(_LOOK_S)
            job = client.send(dead_letters.find_redrive(job.id))
    except KeyboardInterrupt:
        typer.echo(f"redrive {job.id} goes on; `goqueue dlq cancel {job.id}` ends it", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    dlq_output.show_redrive(job, output_format)
    return job


def _exit_after(job: Redrive, *, waits: bool) -> None:
    """Tell by the exit code whether a redrive that was waited for has done all that it was to do."""
    if waits and (job.state == "failed" or job.moves.failed):
        raise typer.Exit(1)


def _letters(
    reasons: list[str] | None,
    groups: list[str] | None,
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
        raise typer.BadParameter("a key is given by --key or --key-base64, not by both")
    try:
        return b64decode(base64, validate=True)
    except ValueError:
        raise typer.BadParameter(f"{base64[:100]!r} is no base64", param_hint="--key-base64") from None


def _time(written: str | None, option: str) -> int | None:
    from goqueue.cli.terminal.moments import parse_moment_ms

    return None if written is None else parse_moment_ms(written, option)
