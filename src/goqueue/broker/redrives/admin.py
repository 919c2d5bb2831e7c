"""Redrives: dead letters are published again, as a job that outlives the broker. `redriver` does the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from goqueue.broker.admission import Caller, operation
from goqueue.broker.dead_letters.browsing import start_of
from goqueue.broker.dead_letters.reading import StoredDeadLetter, read_some
from goqueue.broker.dead_letters.topics import require_dead_letters
from goqueue.broker.messages.publish import open_for_writing
from goqueue.broker.redrives.batches import ERROR_CHARS_MAX, judge
from goqueue.broker.redrives.runner import RedriveTrouble
from goqueue.errors import Invalid, TopicProtected, UnknownRedrive
from goqueue.machines.redrives.values import Cancel, Moves, Redrive, RedriveTerms, Start
from goqueue.model.dead_letters import cause_of
from goqueue.model.redrives import RATE_MAX
from goqueue.model.topic import check_name, is_internal
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.redrives.service import RedriveService
    from goqueue.broker.topics.open_topic import OpenTopic

LOOKED_AT_MAX = 100_000
"""How many letters a preview looks at."""


# How many letters are looked at before others have a turn.
_AT_ONCE = 500


class RedriveView(NamedTuple):
    """A redrive as it is now, and what keeps it from going on, if anything does."""

    redrive: Redrive
    trouble: RedriveTrouble | None


class Preview(NamedTuple):
    """What a redrive would do: `moved` are the letters that it would publish; `is_cut` if not all were looked at.

    `error` is why the last letter of those fails that never can be published.
    """

    topic: str
    moves: Moves
    is_cut: bool
    error: str = ""


@operation("redrives.start", on="topic", writes=True)
async def start_redrive(redrives: RedriveService, caller: Caller, name: str, terms: RedriveTerms) -> RedriveView:
    """Begin to publish the dead letters of a topic again that are there now; the job is durable at return."""
    topic, terms = _checked(redrives, name, terms)
    if terms.target is not None:
        await open_for_writing(redrives.messages, caller, terms.target)
    spans = _spans(topic, terms)
    command = Start(redrives.core.entropy.uuid().hex, topic.topic.name, topic.topic.id, terms, spans)
    job: Redrive = await redrives.submit(command.id, command)
    redrives.driver.look_at_all()
    return RedriveView(job, None)


@operation("redrives.preview", on="topic")
async def preview_redrive(redrives: RedriveService, caller: Caller, name: str, terms: RedriveTerms) -> Preview:
    """Return what a redrive would do now, and change nothing."""
    topic, terms = _checked(redrives, name, terms)
    redriven = redrives.redriven
    moves = Moves()
    looked_at, error = 0, ""
    for index, (start, end) in _spans(topic, terms).items():
        position = start
        while position < end:
            if looked_at >= LOOKED_AT_MAX:
                return Preview(topic.topic.name, moves, is_cut=True, error=error)
            records, position, unreadable, trouble = read_some(topic.partition(index), position, end)
            looked_at += len(records) + unreadable
            moves += Moves(failed=unreadable)
            error = trouble[:ERROR_CHARS_MAX] or error
            for number, record in enumerate(records, 1):
                if number % _AT_ONCE == 0:
                    await turns(1)
                is_redriven = redriven.has(topic.topic.id, index, record.offset)
                letter = StoredDeadLetter(index, record, cause_of(record.headers), is_redriven)
                verdict = judge(redrives, topic.topic.name, terms, letter)
                if verdict is not None:
                    moves += verdict.moves or Moves(moved=1)
                    error = verdict.error or error
                if terms.limit is not None and moves.moved >= terms.limit:
                    return Preview(topic.topic.name, moves, is_cut=False, error=error)
            await turns(1)
    return Preview(topic.topic.name, moves, is_cut=False, error=error)


@operation("redrives.list", on="cluster")
async def list_redrives(redrives: RedriveService, caller: Caller) -> Sequence[RedriveView]:
    """Return all redrives that are remembered, the one that began last first."""
    jobs = [job for machine in redrives.machines for job in machine.all]
    return [_view(redrives, job) for job in jobs]


@operation("redrives.describe", on="redrive")
async def find_redrive(redrives: RedriveService, caller: Caller, redrive_id: str) -> RedriveView:
    """Return a redrive; UnknownRedrive if there is none."""
    machine = redrives.peek(redrive_id)
    if machine is None:
        raise UnknownRedrive(f"there is no redrive {redrive_id[:100]!r}")
    return _view(redrives, machine.find(redrive_id))


@operation("redrives.cancel", on="redrive")
async def cancel_redrive(redrives: RedriveService, caller: Caller, redrive_id: str) -> RedriveView:
    """Have a redrive end behind the batch that is under way; what it has moved stays so. Harmless if it has ended."""
    if redrives.peek(redrive_id) is None:
        raise UnknownRedrive(f"there is no redrive {redrive_id[:100]!r}")
    job: Redrive = await redrives.submit(redrive_id, Cancel(redrive_id))
    redrives.driver.cancelled(redrive_id)
    return _view(redrives, job)


def _view(redrives: RedriveService, job: Redrive) -> RedriveView:
    return RedriveView(job, redrives.driver.troubles.get(job.id))


def _checked(redrives: RedriveService, name: str, terms: RedriveTerms) -> tuple[OpenTopic, RedriveTerms]:
    """Return the topic that has the letters, and the terms with what that adds; raises what is wrong with them."""
    terms.selection.check()
    if terms.rate is not None and not 0 < terms.rate <= RATE_MAX:
        raise Invalid(f"a rate of {terms.rate:g} letters a second is out of bounds", hint=f"up to {RATE_MAX:,}")
    place = require_dead_letters(redrives.dead_letters, name)
    if terms.target is not None:
        _check_target(redrives, terms.target)
        if terms.target == place.topic.topic.name:
            raise Invalid(f"{terms.target!r} is where the dead letters are", hint="name another target")
    return place.topic, replace(terms, selection=place.narrow(terms.selection))


def _check_target(redrives: RedriveService, target: str) -> None:
    """Raise what keeps a topic from being written to, or made."""
    check_name(target)
    if is_internal(target):
        raise TopicProtected(f"{target!r} holds the broker's own state, and nobody else writes to it")
    if not redrives.core.options.auto_create_topics:
        redrives.topics.topic(target)


def _spans(topic: OpenTopic, terms: RedriveTerms) -> dict[int, tuple[int, int]]:
    """Return which letters are there now, by partition; what comes later, also by the redrive itself, is not meant."""
    spans = {}
    for index in range(len(topic.partitions)):
        partition = topic.partition(index)
        end = partition.last_stable_offset
        spans[index] = (min(start_of(partition, terms.selection), end), end)
    return spans
