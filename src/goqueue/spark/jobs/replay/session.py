"""One run of the replay job, from its options to an exit code.

Checks come before writes and, where possible, before the ten seconds that Spark takes to start: first the notes of the
job, then the broker, then Spark with the expression that selects messages. Only then is the target created.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from goqueue.client import Client, topics
from goqueue.errors import Conflict, NotFound, UnknownTopic
from goqueue.model.units import count_text
from goqueue.seams.clock import SystemClock
from goqueue.spark.archive.lookup import WrongArchive
from goqueue.spark.archive.store import ArchiveUnreachable
from goqueue.spark.broker import DEFAULT_BOOTSTRAP, find_http_url
from goqueue.spark.failures import reason_in
from goqueue.spark.jobs.replay.bounds import Held, bounds_of
from goqueue.spark.jobs.replay.failures import ARCHIVE_HINT, advice
from goqueue.spark.jobs.replay.job import (
    ReplayPlan,
    ReplayRun,
    ReplayStatus,
    check_where,
    count_messages,
    pace,
)
from goqueue.spark.jobs.replay.notes import JobDirectory, ReplayNotes, ReplayRequest, require_same
from goqueue.spark.jobs.replay.options import ReplayOptions
from goqueue.spark.jobs.replay.target_topic import settled_target
from goqueue.spark.jobs.replay.topics import SourceFacts, look_at_source, require_target
from goqueue.spark.jobs.report import JobReporter
from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.runs.reporting import ReplayWatch, job_reporting, report_replay
from goqueue.spark.runs.session import job_session, stop_signals
from goqueue.spark.session import SparkLost, is_remote
from goqueue.spark.source.option_values import ArchiveUse, parse_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.jobs.replay.job import PartitionCount
    from goqueue.spark.pipelines.run.query import Event

_STOPPED = 130
_OF_SPARK = (PySparkException, Py4JError, ConnectionError)


@dataclass(frozen=True, slots=True)
class _Ground:
    """The broker, the source and the target, if it exists."""

    bootstrap: str
    http_url: str
    source: SourceFacts
    target: topics.Topic | None


class ReplayScreen(Protocol):
    """Shows the progress of a replay."""

    def say(self, line: str) -> None:
        """Show a line about the whole job."""
        ...

    def tell(self, event: Event, status: ReplayStatus) -> None:
        """Show an event."""
        ...

    def refresh(self, status: ReplayStatus) -> None:
        """Show the current status."""
        ...

    def count(self, counts: Sequence[PartitionCount], target: str) -> None:
        """Show the messages that would be replayed."""
        ...

    def finish(self, name: str, status: ReplayStatus, ending: str, advice: str) -> None:
        """Show the end of the job, and advice."""
        ...


def run_replay(options: ReplayOptions, screens: Callable[[], AbstractContextManager[ReplayScreen]]) -> int:
    """Run a replay, or resume it; return the exit code."""
    directory = JobDirectory(f"{options.checkpoint.rstrip('/')}/{options.name}")
    with screens() as screen, ExitStack() as stack:
        if options.is_dry_run:
            return _count(options, screen, stack)
        stack.enter_context(_only_one(directory, options.name))
        notes = None if options.is_restart else directory.read()
        if notes is None and not options.is_restart:
            directory.require_empty(options.name)
        if notes is not None:
            require_same(options.name, notes, _wish(options))
            if done_at := directory.done_at:
                screen.say(f"replay {options.name} was done at {done_at}, and nothing is published again")
                screen.say("to publish all of it once more, use --restart or another --name")
                return 0
            if lost := _lost_source(options, notes):
                return _end_without(lost, options, directory, screen)
        return _replay(options, directory, notes, _ask_broker(options), screen, stack)


def _lost_source(options: ReplayOptions, notes: ReplayNotes) -> str:
    """Return how the source of a resumed job was lost; empty if it exists."""
    try:
        found = _look_at_source(options, options.environment.broker or DEFAULT_BOOTSTRAP)
    except UnknownTopic:
        return "is gone"
    is_same = not notes.source_id or found.id == notes.source_id
    return "" if is_same else "was deleted and made again"


def _end_without(lost: str, options: ReplayOptions, directory: JobDirectory, screen: ReplayScreen) -> int:
    """End a job whose source is lost, if its options allow that."""
    what = f"topic {options.source!r}, which replay {options.name} was reading, {lost}, and the rest of it is lost"
    if not options.skips_lost:
        raise UnknownTopic(
            what,
            hint="if it is elsewhere, say where with --broker; with --skip-lost the job ends without the rest",
        )
    screen.say(what)
    directory.finish(_now())
    screen.finish(options.name, ReplayStatus(RunState.ENDED), "done", "without what is lost")
    return 0


def _replay(
    options: ReplayOptions,
    directory: JobDirectory,
    notes: ReplayNotes | None,
    ground: _Ground,
    screen: ReplayScreen,
    stack: ExitStack,
) -> int:
    reporter = stack.enter_context(_reporting(options, ground.http_url))
    if notes is not None:
        require_target(ground.http_url, options.name, options.target, notes.target_id)
    plan = _plan(options, ground, notes)
    session = _spark(options, screen, stack)
    if is_remote(session):
        directory.require_shared()
    stops: SimpleQueue[str] = SimpleQueue()
    # After the start of Spark, which installs a handler of its own.
    stack.enter_context(stop_signals(stops))
    check_where(session, plan)
    if options.is_restart and not directory.is_empty:
        directory.forget()
        screen.say(
            f"replay {options.name} starts again: messages that it has published before may be in the target twice"
        )
    target = settled_target(options, ground.source, ground.http_url, screen.say)
    if notes is None:
        notes = ReplayNotes(
            wish=_wish(options),
            bounds=dict(plan.bounds),
            keeps_partitions=plan.keeps_partitions,
            began_at=_now(),
            source_id=ground.source.id,
            target_id=target.id,
        )
        directory.begin(notes)
        screen.say(f"replay {options.name} begins, with its checkpoint in {directory.path}")
    else:
        screen.say(
            f"replay {options.name}, begun at {notes.began_at}, continues from its checkpoint in {directory.path}"
        )
    plan = replace(plan, target_id=notes.target_id)
    return _work(options, plan, directory, session, stops, screen, reporter)


def _work(
    options: ReplayOptions,
    plan: ReplayPlan,
    directory: JobDirectory,
    session: SparkSession,
    stops: SimpleQueue[str],
    screen: ReplayScreen,
    reporter: JobReporter,
) -> int:
    run = ReplayRun(session, plan, directory.checkpoint, SystemClock())
    again = f"the same command continues from the checkpoint in {directory.path}"
    try:
        status, is_done = run.work(stops, ReplayWatch(screen, reporter), stop_s=options.environment.stop_seconds)
    except _OF_SPARK as error:
        # The status has errors of the query; this is an error of Spark itself.
        raise SparkLost(f"lost the connection to Spark: {reason_in(str(error))}", hint=again) from error
    if is_done:
        # A target that was re-created between two batches lacks messages.
        require_target(plan.http_url, plan.name, plan.target, plan.target_id)
        directory.finish(_now())
        report_replay(reporter, status, "done")
        screen.finish(options.name, status, "done", _without(status) if options.skips_lost else "")
        return 0
    if status.state is RunState.FAILED:
        told = advice(status.failure, options.target, options.where, again)
        report_replay(reporter, status, "failed")
        screen.finish(options.name, status, "failed", told)
        return 1
    report_replay(reporter, status, "stopped")
    screen.finish(options.name, status, "stopped", f"nothing is published twice: {again}")
    return _STOPPED


def _reporting(options: ReplayOptions, http_url: str) -> AbstractContextManager[JobReporter]:
    about = f"topic {options.source} to topic {options.target}"
    if options.where:
        about += f", where {options.where}"
    return job_reporting(http_url, "replay", options.name, about, options.environment.master)


def _without(status: ReplayStatus) -> str:
    """Return how many offsets a job that skips lost messages did not find."""
    if not status.missing:
        return "nothing was lost"
    return f"{count_text(status.missing, 'offset')} had no message: it was lost, or was only a marker or compacted"


def _count(options: ReplayOptions, screen: ReplayScreen, stack: ExitStack) -> int:
    ground = _ask_broker(options)
    plan = _plan(options, ground, None)
    session = _spark(options, screen, stack)
    check_where(session, plan)
    counts = count_messages(session, plan)
    made = "" if ground.target else f", which would be created with {count_text(ground.source.partitions, 'partition')}"
    screen.count(counts, f"{options.target}{made}")
    return 0


def _ask_broker(options: ReplayOptions) -> _Ground:
    bootstrap = options.environment.broker or DEFAULT_BOOTSTRAP
    http_url = options.environment.server or find_http_url(bootstrap)
    if not http_url:
        raise NotFound("the broker does not tell its HTTP address", hint="name it with --server")
    source = _look_at_source(options, bootstrap)
    target: topics.Topic | None = None
    with Client(http_url) as client, suppress(UnknownTopic):
        target = client.send(topics.describe(options.target))
    return _Ground(bootstrap, http_url, source, target)


def _look_at_source(options: ReplayOptions, bootstrap: str) -> SourceFacts:
    try:
        return look_at_source(bootstrap, options.source, _archive(options))
    except ArchiveUnreachable as error:
        raise ArchiveUnreachable(error.message, hint=ARCHIVE_HINT) from error
    except WrongArchive as error:
        raise WrongArchive(error.message, hint=ARCHIVE_HINT) from error


def _archive(options: ReplayOptions) -> str:
    """Return the archive option of the data source, with a normalised path."""
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
    if options.partitions == "keep" and in_target < partitions:
        raise Conflict(
            f"messages cannot keep their partitions: topic {options.source} has {partitions}, "
            f"and topic {options.target} has {in_target}",
            hint="use --partitions key, or give the target more with `goqueue topic alter`",
        )
    if options.partitions == "auto":
        return in_target == partitions
    return options.partitions == "keep"


def _spark(options: ReplayOptions, screen: ReplayScreen, stack: ExitStack) -> SparkSession:
    screen.say("starting Spark")
    environment = options.environment
    return stack.enter_context(
        job_session("goqueue job replay", environment.master, has_logs=environment.has_spark_logs)
    )


def _wish(options: ReplayOptions) -> ReplayRequest:
    return ReplayRequest(
        source=options.source,
        target=options.target,
        start=options.written_start,
        end=options.written_end,
        where=options.where,
        partitions=options.partitions,
        has_origin=options.has_origin,
    )


@contextmanager
def _only_one(directory: JobDirectory, name: str) -> Iterator[None]:
    """Lock the directory of the job, if it is local, because two runs would share its checkpoint."""
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
