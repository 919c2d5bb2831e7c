"""The one table of what is offered by HTTP: each path, method, shape and error is written down here and nowhere else.

Rows that belong together and are many have a file of their own. Every path is also there below `/v1`.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import (
    Corrupt,
    DiskFull,
    Draining,
    GoQueueError,
    InvalidPartitions,
    InvalidRecord,
    InvalidReplication,
    InvalidTopicName,
    InvalidTopicSettings,
    LogOffline,
    MalformedRequest,
    NotEnoughReplicas,
    NotOffered,
    OffsetOutOfRange,
    TooLarge,
    TopicExists,
    TopicPrivate,
    TopicProtected,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.protocols.faults import TABLE
from goqueue.protocols.http.api import messages, status, topics
from goqueue.protocols.http.api.dead_letters import routes as letter_routes
from goqueue.protocols.http.api.groups import routes as group_routes
from goqueue.protocols.http.api.queues import routes as queue_routes
from goqueue.protocols.http.api.runs import job_routes, pipeline_routes
from goqueue.protocols.http.api.transactions import routes as transaction_routes
from goqueue.protocols.http.calls import HTML, Operation, Services
from goqueue.protocols.http.wire.endpoint import Endpoint
from goqueue.protocols.http.wire.hosts import HostNotAllowed, OriginNotAllowed
from goqueue.protocols.http.wire.problems import BodyTooLarge, UnsupportedContentEncoding, UnsupportedMediaType
from goqueue.protocols.http.wire.switch import Switch

PREFIX = "/v1"

_STORAGE: Sequence[type[GoQueueError]] = (LogOffline, DiskFull)
_OF_MESSAGES: Sequence[type[GoQueueError]] = (
    InvalidRecord,
    NotOffered,
    TooLarge,
    UnknownPartition,
    NotEnoughReplicas,
    Draining,
    *_STORAGE,
)

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="topics.create",
        method="POST",
        path="/topics",
        summary="Create a topic",
        handle=topics.create,
        request=topics.NewTopic,
        reply=topics.Topic,
        status=201,
        errors=(
            InvalidTopicName,
            InvalidTopicSettings,
            InvalidPartitions,
            InvalidReplication,
            TopicExists,
            TopicProtected,
            *_STORAGE,
        ),
    ),
    Operation(
        name="topics.list",
        method="GET",
        path="/topics",
        summary="List all topics",
        handle=topics.list_all,
        request=topics.TopicsQuery,
        reply=topics.Topics,
    ),
    Operation(
        name="topics.describe",
        method="GET",
        path="/topics/{topic}",
        summary="Describe a topic with all its settings",
        handle=topics.describe,
        reply=topics.Topic,
        errors=(UnknownTopic,),
    ),
    Operation(
        name="topics.change",
        method="PATCH",
        path="/topics/{topic}",
        summary="Change settings of a topic, or give it more partitions",
        handle=topics.change,
        request=topics.TopicChange,
        reply=topics.Topic,
        errors=(UnknownTopic, InvalidTopicSettings, InvalidPartitions, TopicProtected, *_STORAGE),
    ),
    Operation(
        name="topics.delete",
        method="DELETE",
        path="/topics/{topic}",
        summary="Delete a topic with all its messages",
        handle=topics.delete,
        status=204,
        errors=(UnknownTopic, TopicProtected, *_STORAGE),
    ),
    Operation(
        name="topics.partitions",
        method="GET",
        path="/topics/{topic}/partitions",
        summary="Tell the offsets and sizes of a topic's partitions",
        handle=topics.partitions,
        reply=topics.Partitions,
        errors=(UnknownTopic,),
    ),
    Operation(
        name="messages.publish",
        method="POST",
        path="/topics/{topic}/messages",
        summary="Publish messages, each with a result of its own",
        handle=messages.publish,
        request=messages.MessagesToPublish,
        reply=messages.Results,
        other_statuses=(207, *sorted({TABLE[error.code].http for error in _OF_MESSAGES})),
        errors=(InvalidTopicName, UnknownTopic, TopicProtected, *_OF_MESSAGES),
    ),
    Operation(
        name="messages.read",
        method="GET",
        path="/topics/{topic}/partitions/{partition}/messages",
        summary="Read messages of a partition, and wait for them if there are none yet",
        handle=messages.read,
        request=messages.ReadQuery,
        reply=messages.Messages,
        errors=(UnknownTopic, UnknownPartition, TopicPrivate, OffsetOutOfRange, LogOffline, Corrupt),
    ),
    *group_routes.OPERATIONS,
    *queue_routes.OPERATIONS,
    *letter_routes.OPERATIONS,
    *transaction_routes.OPERATIONS,
    *pipeline_routes.OPERATIONS,
    *job_routes.OPERATIONS,
    Operation(
        name="status.index",
        method="GET",
        path="/",
        summary="Where to go from here; a page for browsers",
        handle=status.index,
        reply=status.Index,
        is_strict=False,
    ),
    Operation(
        name="status.livez",
        method="GET",
        path="/livez",
        summary="Whether the process runs",
        handle=status.livez,
        reply=status.Alive,
        is_strict=False,
    ),
    Operation(
        name="status.readyz",
        method="GET",
        path="/readyz",
        summary="Whether everything works that clients need; 503 if not",
        handle=status.readyz,
        reply=status.HealthReply,
        other_statuses=(503,),
        is_strict=False,
    ),
    Operation(
        name="status.healthz",
        method="GET",
        path="/healthz",
        summary="How the broker is; 503 only if it serves nobody",
        handle=status.healthz,
        reply=status.HealthReply,
        other_statuses=(503,),
        is_strict=False,
    ),
    Operation(
        name="status.version",
        method="GET",
        path="/version",
        summary="Which broker this is",
        handle=status.version,
        reply=status.Version,
    ),
    Operation(
        name="status.metrics",
        method="GET",
        path="/metrics",
        summary="Metrics for Prometheus",
        handle=status.metrics,
        media_type="text/plain",
        is_strict=False,
    ),
    Operation(
        name="status.openapi",
        method="GET",
        path="/openapi.json",
        summary="This interface, described for programs",
        handle=status.openapi,
        is_strict=False,
    ),
    Operation(
        name="status.docs",
        method="GET",
        path="/docs",
        summary="This interface, described for people",
        handle=status.docs,
        media_type=HTML,
        is_strict=False,
    ),
)


def errors_of(operation: Operation) -> Sequence[type[GoQueueError]]:
    """Return all that an operation can answer with, those errors included that any operation has."""
    common: list[type[GoQueueError]] = [HostNotAllowed, OriginNotAllowed]
    if operation.is_strict:
        common += [MalformedRequest, Draining]
    if operation.has_body:
        common += [UnsupportedMediaType, UnsupportedContentEncoding, BodyTooLarge]
    return list(dict.fromkeys([*operation.errors, *common]))


def switch(services: Services) -> Switch:
    """Return the table as what answers requests."""
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    # They are tried in this order: any word is longer than the place of an id.
    paths = sorted(by_path, key=len, reverse=True)
    # Ids and names of groups may be anything, slashes included.
    return Switch([(path, Endpoint(by_path[path], services)) for path in paths], PREFIX, free=("id", "group"))
