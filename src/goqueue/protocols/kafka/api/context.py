"""The context of a request, and how every handler reports errors."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from goqueue.broker.admission import Caller
from goqueue.broker.broker import Broker
from goqueue.broker.presence import Presence
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.errors import GoQueueError
from goqueue.protocols.faults import fault_of
from goqueue.runtime.partition import Partition
from goqueue.seams.network import Address

UNKNOWN_OPERATIONS = -(2**31)
"""The value of a field for the operations that the caller may do, where the reply does not list them."""

_MESSAGE_MAX = 1000
# The directories above that of a partition's log: clients elsewhere need not know where the data directory is.
_PARENTS = re.compile(r"(?<![\w/])/(?:[^/\s'\"]+/)+(?=[^/\s'\"]+-[0-9]+\b)")


class KeptReplies:
    """A cache of encoded replies, valid for one revision of the topics."""

    _COUNT_MAX = 256
    _BYTES_MAX = 16 * 1024 * 1024

    def __init__(self) -> None:
        self._revision = -1
        self._bodies: dict[Hashable, bytes] = {}
        self._size_bytes = 0

    def find(self, revision: int, key: Hashable) -> bytes | None:
        """Return the reply with a key, if it is of this revision."""
        return self._bodies.get(key) if revision == self._revision else None

    def keep(self, revision: int, key: Hashable, body: bytes) -> None:
        """Keep a reply, and drop all of older revisions."""
        is_full = len(self._bodies) >= self._COUNT_MAX or self._size_bytes + len(body) > self._BYTES_MAX
        if revision != self._revision or is_full:
            self._bodies.clear()
            self._size_bytes = 0
        self._revision = revision
        self._bodies[key] = body
        self._size_bytes += len(body)


@dataclass(frozen=True, slots=True)
class Context:
    """The broker, the caller, and the address under which clients of this connection reach the broker.

    `listeners` are the addresses of all open ports, by the name of their protocol; `presence` tells whether the client
    is still connected.
    """

    broker: Broker
    caller: Caller
    reached_at: Address
    kept: KeptReplies = field(default_factory=KeptReplies)
    listeners: Mapping[str, Address] = field(default_factory=dict)
    presence: Presence = field(default_factory=Presence)

    @property
    def node_id(self) -> int:
        """The id of this broker."""
        return self.broker.core.options.node_id


def partition_of(topic: OpenTopic | GoQueueError, index: int) -> Partition | GoQueueError:
    """Return a partition of a topic, or the error."""
    if isinstance(topic, GoQueueError):
        return topic
    try:
        return topic.partition(index)
    except GoQueueError as error:
        # There may be very many errors, each with the frames of the whole request.
        return error.without_frames()


def error_fields(error: GoQueueError | None) -> dict[str, object]:
    """Return the code and message of an error, or of none."""
    if error is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": fault_of(error).kafka, "error_message": message_of(error)}


def message_of(error: GoQueueError) -> str:
    """Return the message of an error, cut to a length that fits any string of the protocol."""
    text = _PARENTS.sub("", str(error))
    return text if len(text) <= _MESSAGE_MAX else text[:_MESSAGE_MAX] + "..."
