"""The Python client: typed calls over HTTP, async and sync.

A call is a value that says what is wanted; a client sends it and returns what it promises. There is one module of
calls per noun, and one way to send them:

    from goqueue.client import Client, NewMessage, messages, topics

    with Client("http://127.0.0.1:8080") as client:
        client.send(topics.create("orders", partitions=3))
        client.send(messages.publish("orders", [NewMessage("first")]))

`AsyncClient` takes the same calls and is awaited. What goes wrong is raised as an error of `goqueue.errors`, the same
one that the broker has met.

Everything is imported when it is first used: whoever wants a part, such as `goqueue.client.kafka` on a worker of Spark,
does not wait for all the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.api.dead_letters import LettersOfTopic, Redrive, RedrivePreview
    from goqueue.api.groups import GroupPartition, GroupSummary
    from goqueue.api.queues import PartitionMove as QueueMove
    from goqueue.api.queues import QueueMember
    from goqueue.api.queues import Reliability as QueueStats
    from goqueue.api.transactions import OpenTransaction, Producer
    from goqueue.client import dead_letters, groups, jobs, messages, pipelines, queues, server, topics, transactions
    from goqueue.client.calls import Call
    from goqueue.client.client import DEFAULT_SERVER, AsyncClient, Client
    from goqueue.client.consumer import AsyncConsumer, Consumer
    from goqueue.client.conversation import Patience
    from goqueue.client.dead_letters import DeadLetter, LetterPage, Letters
    from goqueue.client.group_values import (
        CooperativeMembership,
        Group,
        GroupMember,
        GroupOffset,
        GroupOffsets,
        GroupRebalance,
        Membership,
        OffsetMove,
        PartitionOffset,
    )
    from goqueue.client.groups import GroupPage
    from goqueue.client.jobs import Job, JobReport
    from goqueue.client.member_script import AssignmentChange
    from goqueue.client.messages import Acks, Message, NewMessage, Page, Published
    from goqueue.client.pipeline_values import Pipeline, PipelineReport, PipelineStop, PipelineSummary, QueryProgress
    from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
    from goqueue.client.queues import (
        MovedQueue,
        Queue,
        QueueMessage,
        QueuePartition,
        Received,
        SettledMessage,
    )
    from goqueue.client.server import Check, Health, Version
    from goqueue.client.topics import Partition, Topic, TopicSetting
    from goqueue.client.transaction_values import ProducerState, TransactionStats, TransactionView
    from goqueue.client.transactional import AsyncTransaction, Transaction
    from goqueue.client.worker import AsyncWorker, Worker
    from goqueue.client.worker_values import (
        FateUnknown,
        LeaseLost,
        LoopBlocked,
        Reject,
        RequestFailed,
        Retry,
        WorkCut,
        WorkerDraining,
        WorkerStats,
        WorkFailed,
        WorkOverran,
        WorkRejected,
        WorkRetried,
        WorkWithheld,
    )
    from goqueue.model.start_at import StartAt

_NAMES_BY_MODULE = {
    "goqueue.client.calls": ("Call",),
    "goqueue.client.client": ("DEFAULT_SERVER", "AsyncClient", "Client"),
    "goqueue.client.consumer": ("AsyncConsumer", "Consumer"),
    "goqueue.client.conversation": ("Patience",),
    "goqueue.client.dead_letters": (
        "DeadLetter",
        "LetterPage",
        "Letters",
        "LettersOfTopic",
        "Redrive",
        "RedrivePreview",
    ),
    "goqueue.api.groups": (
        "GroupPartition",
        "GroupSummary",
    ),
    "goqueue.client.group_values": (
        "CooperativeMembership",
        "Group",
        "GroupMember",
        "GroupOffset",
        "GroupOffsets",
        "GroupRebalance",
        "Membership",
        "OffsetMove",
        "PartitionOffset",
    ),
    "goqueue.client.groups": ("GroupPage",),
    "goqueue.client.jobs": ("Job", "JobReport"),
    "goqueue.client.member_script": ("AssignmentChange",),
    "goqueue.client.messages": ("Acks", "Message", "NewMessage", "Page", "Published"),
    "goqueue.client.pipeline_values": (
        "Pipeline",
        "PipelineReport",
        "PipelineStop",
        "PipelineSummary",
        "QueryProgress",
    ),
    "goqueue.client.problems": ("BadReply", "RequestTimedOut", "ServerUnreachable"),
    "goqueue.client.queues": (
        "MovedQueue",
        "Queue",
        "QueueMember",
        "QueueMessage",
        "QueueMove",
        "QueuePartition",
        "QueueStats",
        "Received",
        "SettledMessage",
    ),
    "goqueue.client.server": ("Check", "Health", "Version"),
    "goqueue.client.topics": ("Partition", "Topic", "TopicSetting"),
    "goqueue.api.transactions": (
        "OpenTransaction",
        "Producer",
    ),
    "goqueue.client.transaction_values": (
        "ProducerState",
        "TransactionStats",
        "TransactionView",
    ),
    "goqueue.client.transactional": ("AsyncTransaction", "Transaction"),
    "goqueue.client.worker": ("AsyncWorker", "Worker"),
    "goqueue.client.worker_values": (
        "FateUnknown",
        "LeaseLost",
        "LoopBlocked",
        "Reject",
        "RequestFailed",
        "Retry",
        "WorkCut",
        "WorkerDraining",
        "WorkerStats",
        "WorkFailed",
        "WorkOverran",
        "WorkRejected",
        "WorkRetried",
        "WorkWithheld",
    ),
    "goqueue.model.start_at": ("StartAt",),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}
_NOUNS = frozenset(
    {"dead_letters", "groups", "jobs", "messages", "pipelines", "queues", "server", "topics", "transactions"}
)

__all__ = [
    "DEFAULT_SERVER",
    "Acks",
    "AssignmentChange",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncTransaction",
    "AsyncWorker",
    "BadReply",
    "Call",
    "Check",
    "Client",
    "Consumer",
    "CooperativeMembership",
    "DeadLetter",
    "FateUnknown",
    "Group",
    "GroupMember",
    "GroupOffset",
    "GroupOffsets",
    "GroupPage",
    "GroupPartition",
    "GroupRebalance",
    "GroupSummary",
    "Health",
    "Job",
    "JobReport",
    "LeaseLost",
    "LetterPage",
    "Letters",
    "LettersOfTopic",
    "LoopBlocked",
    "Membership",
    "Message",
    "MovedQueue",
    "NewMessage",
    "OffsetMove",
    "OpenTransaction",
    "Page",
    "Partition",
    "PartitionOffset",
    "Patience",
    "Pipeline",
    "PipelineReport",
    "PipelineStop",
    "PipelineSummary",
    "Producer",
    "ProducerState",
    "Published",
    "QueryProgress",
    "Queue",
    "QueueMember",
    "QueueMessage",
    "QueueMove",
    "QueuePartition",
    "QueueStats",
    "Received",
    "Redrive",
    "RedrivePreview",
    "Reject",
    "RequestFailed",
    "RequestTimedOut",
    "Retry",
    "ServerUnreachable",
    "SettledMessage",
    "StartAt",
    "Topic",
    "TopicSetting",
    "Transaction",
    "TransactionStats",
    "TransactionView",
    "Version",
    "WorkCut",
    "WorkFailed",
    "WorkOverran",
    "WorkRejected",
    "WorkRetried",
    "WorkWithheld",
    "Worker",
    "WorkerDraining",
    "WorkerStats",
    "dead_letters",
    "groups",
    "jobs",
    "messages",
    "pipelines",
    "queues",
    "server",
    "topics",
    "transactions",
]


def __getattr__(name: str) -> Any:
    if name in _NOUNS:
        return import_module(f"goqueue.client.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    # The next one finds it without asking.
    globals()[name] = found
    return found
