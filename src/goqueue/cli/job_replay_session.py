"""One run of `goqueue job replay`: from what it was told to an exit code.

What can be wrong is told before anything is written, and, as far as possible, before Spark is started, which takes ten
seconds: the notes of the job first, then the broker, then Spark with the expression that chooses messages. Only then
is the target made, and the job begins.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from goqueue.cli.consume_start import AtTime
from goqueue.cli.job_replay import Partitions, ReplayOptions
from goqueue.cli.job_replay_bounds import Held, bounds_of
from goqueue.cli.job_replay_output import ReplayScreen, make_screen
from goqueue.cli.output import Format
from goqueue.cli.spark_run import job_session, stop_signals
from goqueue.client import Client, topics
from goqueue.errors import Conflict, NotFound, TopicExists, UnknownTopic
from goqueue.model.units import duration_text
from goqueue.seams.clock import SystemClock
from goqueue.spark.archive_lookup import PATH_SETTING, WrongArchive
from goqueue.spark.archive_store import ArchiveUnreachable
from goqueue.spark.jobs.replay import (
    ReplayPlan,
    ReplayRun,
    ReplayStatus,
    check_where,
    count_messages,
    pace,
)
from goqueue.spark.jobs.replay_notes import JobDirectory, ReplayNotes, ReplayWish, require_same
from goqueue.spark.jobs.replay_source import SourceFacts, look_at_source
from goqueue.spark.options_values import ArchiveUse, parse_archive
from goqueue.spark.pipelines.run_broker import DEFAULT_BOOTSTRAP, find_http_url
from goqueue.spark.pipelines.run_failures import reason_in
from goqueue.spark.session import SparkLost, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOPPED = 130
_OF_SPARK = (PySparkException, Py4JError, ConnectionError)
_ARCHIVE_HINT = (
    "see that the archive can be read from here and from every executor, or name another with --archive PATH; with "
    "--archive never only what the log has is replayed"
)


@dataclass(frozen=True, slots=True)
class _Ground:
    """The broker and what it has."""

    bootstrap: str
    http_url: str
    source: SourceFacts
    target: topics.Topic | None


def run_replay(options: ReplayOptions, output_format: Format) -> int:
    """Run a replay, or go on with it; return the exit code."""
    directory = JobDirectory(f"{options.checkpoint.rstrip('/')}/{options.name}")
    with make_screen(output_format) as screen, ExitStack() as stack:
        if options.is_dry_run:
            return _count(options, screen, stack)
        stack.enter_context(_only_one(directory, options.name))
        notes = None if options.is_restart else directory.read()
        if notes is not None:
            require_same(options.name, notes, _wish(options))
            if done_at := directory.done_at:
                screen.say(f"replay {options.name} was done at {done_at}, and nothing is published again")
                screen.say("to publish all of it once more, use --restart or another --name")
                return 0
        ground = _ask_broker(options) if notes is None else _ask_again(options)
        return _replay(options, directory, notes, ground, screen, stack)


def _replay(
    options: ReplayOptions,
    directory: JobDirectory,
    notes: ReplayNotes | None,
    ground: _Ground,
    screen: ReplayScreen,
    stack: ExitStack,
) -> int:
    plan = _plan(options, ground, notes)
    session = _spark(options, screen, stack)
    if is_remote(session):
        directory.require_shared()
    stops: SimpleQueue[str] = SimpleQueue()
    # Not before: Spark brings a handler of its own when it starts.
    stack.enter_context(stop_signals(stops))
    check_where(session, plan)
    if options.is_restart and directory.read() is not None:
        directory.forget()
        screen.say(f"replay {options.name} begins anew: what it has published before may be in the target twice")
    if ground.target is None:
        _make_target(options, ground, screen)
    _warn_of_retention(options, ground, screen)
    if notes is None:
        notes = ReplayNotes(
            wish=_wish(options), bounds=dict(plan.bounds), keeps_partitions=plan.keeps_partitions, began_at=_now()
        )
        directory.begin(notes)
        screen.say(f"replay {options.name} begins, and notes in {directory.path} how far it is")
    else:
        screen.say(f"replay {options.name}, begun at {notes.began_at}, goes on where it was, see {directory.path}")
    run = ReplayRun(session, plan, directory.checkpoint, SystemClock())
    again = f"the same command goes on where it was, which {directory.path} knows"
    try:
        status, is_done = run.work(stops, screen, stop_s=options.around.stop_seconds)
    except _OF_SPARK as error:
        # What goes wrong with the query is told by its status; this is Spark itself.
        raise SparkLost(f"Spark does not answer any more: {reason_in(str(error))}", hint=again) from error
    if is_done:
        directory.finish(_now())
        screen.finish(options.name, status, "done", "")
        return 0
    if status.state.value == "failed":
        screen.finish(options.name, status, "failed", _advice(status, again))
        return 1
    screen.finish(options.name, status, "stopped", f"nothing is published twice: {again}")
    return _STOPPED


def _count(options: ReplayOptions, screen: ReplayScreen, stack: ExitStack) -> int:
    ground = _ask_broker(options)
    plan = _plan(options, ground, None)
    session = _spark(options, screen, stack)
    check_where(session, plan)
    counts = count_messages(session, plan)
    made = "" if ground.target else f", which would be made with {ground.source.partitions} partitions"
    screen.count(counts, f"{options.target}{made}")
    return 0


def _ask_broker(options: ReplayOptions) -> _Ground:
    bootstrap = options.around.broker or DEFAULT_BOOTSTRAP
    http_url = options.around.server or find_http_url(bootstrap)
    if not http_url:
        raise NotFound("the broker does not tell its HTTP address", hint="name it with --server")
    source = _look_at_source(options, bootstrap)
    target: topics.Topic | None = None
    with Client(http_url) as client, suppress(UnknownTopic):
        target = client.send(topics.describe(options.target))
    return _Ground(bootstrap, http_url, source, target)


def _ask_again(options: ReplayOptions) -> _Ground:
    """Ask the broker for what a job was at work with."""
    try:
        ground = _ask_broker(options)
    except UnknownTopic as error:
        raise UnknownTopic(
            f"topic {options.source!r}, which replay {options.name} was reading, is gone, and the rest of it is lost",
            hint="if it is elsewhere, say where with --broker; otherwise this job cannot go on",
        ) from error
    if ground.target is None:
        raise UnknownTopic(
            f"topic {options.target!r}, to which replay {options.name} was publishing, is gone",
            hint="--restart begins anew, and makes it again",
        )
    return ground


def _look_at_source(options: ReplayOptions, bootstrap: str) -> SourceFacts:
    try:
        return look_at_source(bootstrap, options.source, _archive(options))
    except ArchiveUnreachable as error:
        raise ArchiveUnreachable(error.message, hint=_ARCHIVE_HINT) from error
    except WrongArchive as error:
        raise WrongArchive(error.message, hint=_ARCHIVE_HINT) from error


def _archive(options: ReplayOptions) -> str:
    """Return what the source is told of archives: a path as all machines write it."""
    use = parse_archive(options.archive)
    return use.value if isinstance(use, ArchiveUse) else use


def _plan(options: ReplayOptions, ground: _Ground, notes: ReplayNotes | None) -> ReplayPlan:
    partitions = ground.source.partitions
    if notes is None:
        held = {number: Held(bounds.first, bounds.end) for number, bounds in ground.source.bounds.items()}
        bounds = bounds_of(options.source, options.start, options.end, held)
        keeps_partitions = _keeps_partitions(options, partitions, ground.target)
    else:
        bounds, keeps_partitions = notes.bounds, notes.keeps_partitions
    offsets_per_batch, interval_s = pace(options.rate, partitions, options.batch)
    return ReplayPlan(
        name=options.name,
        source=options.source,
        target=options.target,
        bootstrap=ground.bootstrap,
        http_url=ground.http_url,
        bounds=bounds,
        archive=_archive(options),
        where=options.where,
        keeps_partitions=keeps_partitions,
        has_origin=options.has_origin,
        fails_on_data_loss=not options.skips_lost,
        offsets_per_batch=offsets_per_batch,
        interval_s=interval_s,
    )


def _keeps_partitions(options: ReplayOptions, partitions: int, target: topics.Topic | None) -> bool:
    in_target = partitions if target is None else target.partitions
    if options.partitions is Partitions.KEEP and in_target < partitions:
        raise Conflict(
            f"messages cannot keep their partitions: topic {options.source} has {partitions}, "
            f"and topic {options.target} has {in_target}",
            hint="use --partitions key, or give the target more with `goqueue topic alter`",
        )
    if options.partitions is Partitions.AUTO:
        return in_target == partitions
    return options.partitions is Partitions.KEEP


def _spark(options: ReplayOptions, screen: ReplayScreen, stack: ExitStack) -> SparkSession:
    screen.say("starting Spark")
    around = options.around
    return stack.enter_context(job_session("goqueue job replay", around.master, has_logs=around.has_spark_logs))


def _advice(status: ReplayStatus, again: str) -> str:
    if status.failure is not None and status.failure.reason.startswith("DataLost"):
        return "with --skip-lost it goes on without what is lost"
    if status.failure is not None and status.failure.reason.startswith(("ArchiveUnreachable", "WrongArchive")):
        return f"{_ARCHIVE_HINT}; {again}"
    return f"when the cause is removed, {again}"


def _make_target(options: ReplayOptions, ground: _Ground, screen: ReplayScreen) -> None:
    partitions = ground.source.partitions
    with Client(ground.http_url) as client, suppress(TopicExists):
        settings = client.send(topics.describe(options.source)).config
        own = {name: text for name, text in settings.items() if name != PATH_SETTING}
        client.send(topics.create(options.target, partitions=partitions, config=own))
        screen.say(f"made topic {options.target} like {options.source}: {partitions} partitions, the same settings")


def _warn_of_retention(options: ReplayOptions, ground: _Ground, screen: ReplayScreen) -> None:
    """Say so if the target removes messages that are as old as those that it is about to get."""
    with Client(ground.http_url) as client:
        settings = {each.name: each.value for each in client.send(topics.describe(options.target)).settings}
    kept_ms = int(settings.get("retention.ms", "-1"))
    oldest_ms = ground.source.oldest_ms
    if oldest_ms is not None and isinstance(options.start, AtTime):
        oldest_ms = max(oldest_ms, options.start.timestamp_ms)
    if kept_ms >= 0 and oldest_ms is not None and oldest_ms < SystemClock().now_ms() - kept_ms:
        screen.say(
            f"note: messages keep their times, and topic {options.target} removes what is older than "
            f"{duration_text(kept_ms)}; to keep all: goqueue topic alter {options.target} --config retention.ms=-1"
        )


def _wish(options: ReplayOptions) -> ReplayWish:
    return ReplayWish(
        source=options.source,
        target=options.target,
        start=options.written_start,
        end=options.written_end,
        where=options.where,
        partitions=options.partitions.value,
        has_origin=options.has_origin,
    )


@contextmanager
def _only_one(directory: JobDirectory, name: str) -> Iterator[None]:
    """Hold a lock on the directory of the job, if it is here: two runs would share its checkpoint."""
    if (path := directory.local) is None:
        yield
        return
    path.mkdir(parents=True, exist_ok=True)
    with (path / "lock").open("w", encoding="utf-8") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"replay {name} is running already", hint="wait for it, or give this one another --name"
            ) from None
        yield


def _now() -> str:
    return datetime.fromtimestamp(SystemClock().now_ms() // 1000, UTC).isoformat().replace("+00:00", "Z")
