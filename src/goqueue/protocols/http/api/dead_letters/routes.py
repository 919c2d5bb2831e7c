"""Rows of the table of routes: dead letters and their redrives."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import (
    Conflict,
    CoordinatorUnavailable,
    Corrupt,
    DiskFull,
    GoQueueError,
    Invalid,
    InvalidTopicName,
    LogOffline,
    MalformedRequest,
    PolicyViolation,
    RedriveRunning,
    TopicPrivate,
    TopicProtected,
    UnknownRedrive,
    UnknownTopic,
)
from goqueue.protocols.http.api.dead_letters import admin as letters
from goqueue.protocols.http.api.dead_letters import redrives
from goqueue.protocols.http.calls import Operation

_STORAGE: Sequence[type[GoQueueError]] = (CoordinatorUnavailable, LogOffline, DiskFull)
_OF_LETTERS: Sequence[type[GoQueueError]] = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *_STORAGE)
_OF_REDRIVES: Sequence[type[GoQueueError]] = (UnknownRedrive, *_STORAGE)

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="dead_letters.list",
        method="GET",
        path="/dlq",
        summary="List all topics for dead letters, and count these by reason",
        handle=letters.list_all,
        reply=letters.AllDeadLetters,
        errors=_OF_LETTERS,
    ),
    Operation(
        name="dead_letters.browse",
        method="GET",
        path="/topics/{topic}/dlq",
        summary="Show the dead letters of a topic, or those in a topic of dead letters",
        handle=letters.browse,
        request=letters.LettersQuery,
        reply=letters.DeadLetters,
        errors=(*_OF_LETTERS, Invalid, MalformedRequest),
    ),
    Operation(
        name="dead_letters.purge",
        method="POST",
        path="/topics/{topic}/dlq/purge",
        summary="Delete all dead letters of a topic, or tell how many would go",
        handle=letters.purge,
        request=letters.LettersPurge,
        reply=letters.PurgedLetters,
        errors=(*_OF_LETTERS, RedriveRunning, PolicyViolation),
    ),
    Operation(
        name="redrives.start",
        method="POST",
        path="/topics/{topic}/dlq/redrive",
        summary="Publish dead letters again, or tell what that would do",
        handle=redrives.start,
        request=redrives.RedriveRequest,
        reply=redrives.RedriveReply,
        status=202,
        other_statuses=(200,),
        errors=(*_OF_LETTERS, Invalid, MalformedRequest, InvalidTopicName, TopicProtected, RedriveRunning),
    ),
    Operation(
        name="redrives.list",
        method="GET",
        path="/dlq/redrives",
        summary="List redrives, the one that began last first",
        handle=redrives.list_all,
        reply=redrives.Redrives,
        errors=_STORAGE,
    ),
    Operation(
        name="redrives.describe",
        method="GET",
        path="/dlq/redrives/{redrive}",
        summary="Tell how a redrive is",
        handle=redrives.describe,
        reply=redrives.Redrive,
        errors=_OF_REDRIVES,
    ),
    Operation(
        name="redrives.cancel",
        method="DELETE",
        path="/dlq/redrives/{redrive}",
        summary="Cancel a redrive; what it has published stays",
        handle=redrives.cancel,
        reply=redrives.Redrive,
        errors=_OF_REDRIVES,
    ),
)
