"""The Python client: typed calls over HTTP, async and sync.

A call is a value that says what is wanted; a client sends it and returns what it promises. There is one module of
calls per noun, and one way to send them:

    from goqueue.client import Client, NewMessage, messages, topics

    with Client("http://127.0.0.1:8080") as client:
        client.send(topics.create("orders", partitions=3))
        client.send(messages.publish("orders", [NewMessage("first")]))

`AsyncClient` takes the same calls and is awaited. What goes wrong is raised as an error of `goqueue.errors`, the same
one that the broker has met.
"""

from goqueue.client import groups, messages, server, topics, transactions
from goqueue.client.calls import Call
from goqueue.client.client import DEFAULT_SERVER, AsyncClient, Client
from goqueue.client.conversation import Patience
from goqueue.client.group_values import (
    CooperativeMembership,
    Group,
    GroupMember,
    GroupOffset,
    GroupOffsets,
    GroupPartition,
    GroupRebalance,
    GroupSummary,
    Membership,
    OffsetMove,
    PartitionOffset,
)
from goqueue.client.groups import GroupPage
from goqueue.client.messages import Acks, Message, NewMessage, Page, Published
from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
from goqueue.client.server import Check, Health, Version
from goqueue.client.topics import Partition, Topic, TopicSetting
from goqueue.client.transaction_values import Producer, ProducerState, TransactionStats, TransactionView
from goqueue.client.transactional import AsyncTransaction, Transaction
from goqueue.model.start_at import StartAt

__all__ = [
    "DEFAULT_SERVER",
    "Acks",
    "AsyncClient",
    "AsyncTransaction",
    "BadReply",
    "Call",
    "Check",
    "Client",
    "CooperativeMembership",
    "Group",
    "GroupMember",
    "GroupOffset",
    "GroupOffsets",
    "GroupPage",
    "GroupPartition",
    "GroupRebalance",
    "GroupSummary",
    "Health",
    "Membership",
    "Message",
    "NewMessage",
    "OffsetMove",
    "Page",
    "Partition",
    "PartitionOffset",
    "Patience",
    "Producer",
    "ProducerState",
    "Published",
    "RequestTimedOut",
    "ServerUnreachable",
    "StartAt",
    "Topic",
    "TopicSetting",
    "Transaction",
    "TransactionStats",
    "TransactionView",
    "Version",
    "groups",
    "messages",
    "server",
    "topics",
    "transactions",
]
