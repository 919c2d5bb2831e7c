"""What `goqueue dlq` prints: rows for programs, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
import typer

from goqueue.cli.terminal.output import Format, Value, show
from goqueue.cli.terminal.tables import Column, Row, clean, count_text, print_facts, print_table, time_text
from goqueue.client import DeadLetter, LetterPage, LettersOfTopic, Redrive, RedrivePreview
from goqueue.client.dead_letters import LetterTotals, RedriveMoves
from goqueue.client.messages import as_json

_VALUE_CHARS_MAX = 60
_TOPICS = (
    Column("topic"),
    Column("letters", is_number=True),
    Column("redriven", is_number=True),
    Column("newest", spared=1),
    Column("not redriven, by reason"),
)
_LETTERS = (
    Column("died"),
    Column("reason"),
    Column("error"),
    Column("group", spared=2),
    Column("attempts", is_number=True, spared=1),
    Column("was at", spared=3),
    Column("key", spared=4),
    Column("value"),
)
_REDRIVES = (
    Column("id"),
    Column("topic"),
    Column("state"),
    Column("progress", is_number=True),
    Column("moved", is_number=True),
    Column("skipped", is_number=True),
    Column("failed", is_number=True),
    Column("began", spared=1),
)


def show_topics(found: Sequence[LettersOfTopic], output_format: Format) -> None:
    """Print topics for dead letters."""
    if output_format is not Format.TABLE:
        show("dead_letters", [_plain(each) for each in found], output_format)
        return
    rows = [
        Row(
            [
                each.topic,
                count_text(each.letters) + ("+" if each.cut else ""),
                count_text(each.redriven),
                "-" if each.newest is None else time_text(each.newest),
                ", ".join(f"{clean(reason)}: {count:,}" for reason, count in each.by_reason.items()) or "-",
            ]
        )
        for each in found
    ]
    print_table(_TOPICS, rows)
    if not found:
        typer.echo("there are no topics for dead letters", err=True)


def letters_text(totals: LetterTotals) -> str:
    """Return how many letters there are, in words."""
    more = "at least " if totals.cut else ""
    return more + count_text(totals.letters, "dead letter")


def show_letters(page: LetterPage, output_format: Format) -> None:
    """Print dead letters; where to go on goes to standard error."""
    if output_format is Format.TABLE:
        print_table(_LETTERS, [Row(_cells(each)) for each in page.letters])
    else:
        show("dead_letter", [_letter(each) for each in page.letters], output_format)
    if not page.letters and page.cursor is None:
        typer.echo("there are no such dead letters", err=True)
    if page.unreadable:
        typer.echo(f"{count_text(page.unreadable, 'dead letter')} cannot be read", err=True)
    if page.is_cut:
        typer.echo("only so many letters are looked at at once", err=True)
    if page.cursor is not None:
        typer.echo(f"there may be more: --cursor {page.cursor}", err=True)


def show_preview(preview: RedrivePreview, output_format: Format) -> None:
    """Print what a redrive would do."""
    if output_format is not Format.TABLE:
        show("preview", [_plain(preview)], output_format)
        return
    cut = ", and perhaps more" if preview.cut else ""
    typer.echo(f"would publish {count_text(preview.moves.moved, 'dead letter')} of {preview.topic} again{cut}")
    if skipped := _skipped(preview.moves):
        typer.echo(skipped)
    if preview.moves.failed:
        typer.echo(f"{count_text(preview.moves.failed)} can never be published, the last one: {clean(preview.error)}")


def show_redrives(found: Sequence[Redrive], output_format: Format) -> None:
    """Print redrives."""
    if output_format is not Format.TABLE:
        show("redrive", [_plain(each) for each in found], output_format)
        return
    rows = [
        Row(
            [
                each.id,
                each.topic,
                each.state,
                f"{each.progress:.0%}",
                count_text(each.moves.moved),
                count_text(each.moves.skipped_redriven + each.moves.skipped_looping),
                count_text(each.moves.failed),
                time_text(each.started),
            ]
        )
        for each in found
    ]
    print_table(_REDRIVES, rows)
    if not found:
        typer.echo("there are no redrives", err=True)


def show_redrive(job: Redrive, output_format: Format) -> None:
    """Print all that is known of a redrive."""
    if output_format is not Format.TABLE:
        show("redrive", [_plain(job)], output_format)
        return
    facts = [
        # Of one that was cancelled there is no more to say.
        ("state", job.state + (f": {clean(job.reason)}" if job.reason not in {"", job.state} else "")),
        ("letters", job.topic),
        ("target", job.target or "where each came from"),
        ("progress", f"{job.progress:.0%}"),
        ("published again", count_text(job.moves.moved)),
        ("skipped", _skipped(job.moves) or "0"),
        ("failed", count_text(job.moves.failed) + (f", the last one: {clean(job.error)}" if job.error else "")),
    ]
    if job.trouble:
        facts.append(("trouble", f"{clean(job.trouble)} (tried {count_text(job.failures, 'time')}, and again soon)"))
    print_facts(facts, title=f"redrive {job.id}")


def show_progress(job: Redrive) -> None:
    """Print how far a redrive is, over what was printed so before, if somebody watches."""
    if sys.stderr.isatty():
        trouble = f", {clean(job.trouble)}" if job.trouble else ""
        sys.stderr.write(f"\r\x1b[K{job.progress:.0%}, {count_text(job.moves.moved)} published again{trouble}")
        sys.stderr.flush()


def _skipped(moves: RedriveMoves) -> str:
    parts = []
    if moves.skipped_redriven:
        parts.append(f"{moves.skipped_redriven:,} that were published again by an earlier redrive")
    if moves.skipped_looping:
        parts.append(f"{moves.skipped_looping:,} whose messages were published again too often")
    return ", ".join(parts)


def _cells(letter: DeadLetter) -> list[str]:
    message, cause = letter.message, letter.cause
    return [
        time_text(message.timestamp),
        clean(cause.reason) + (" (redriven)" if letter.is_redriven else ""),
        _text(cause.error.encode("utf-8", "replace")),
        clean(cause.group) or "-",
        "-" if cause.attempts is None else str(cause.attempts),
        f"{clean(cause.topic)}-{cause.partition}:{cause.offset}" if cause.topic else "-",
        _text(message.key),
        _text(message.value),
    ]


def _letter(letter: DeadLetter) -> dict[str, Value]:
    return {**_plain(as_json(letter.message)), "redriven": letter.is_redriven, "cause": _plain(letter.cause)}


def _plain(fields: object) -> dict[str, Value]:
    plain: dict[str, Value] = msgspec.convert(msgspec.to_builtins(fields), dict)
    return plain


def _text(data: bytes | None) -> str:
    if not data:
        return "-"
    text = clean(data.decode("utf-8", "replace"))
    return text if len(text) <= _VALUE_CHARS_MAX else text[: _VALUE_CHARS_MAX - 3] + "..."
