"""Shared by all requests to a coordinator: names of clients, and error codes that clients act on.

Errors of leaders and logs become those of a coordinator: a client looks for the coordinator again if it is another
broker or not available.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.kafka_wire.decode import Request
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import Context, message_of

COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
_NOT_LEADER = 6
_NOT_ENOUGH_REPLICAS = 19
_STORAGE_ERROR = 56
_CODES = {
    _NOT_LEADER: NOT_COORDINATOR,
    _STORAGE_ERROR: NOT_COORDINATOR,
    _NOT_ENOUGH_REPLICAS: COORDINATOR_NOT_AVAILABLE,
}
_NAME_MAX = 255


def code_of(error: GoQueueError | None) -> int:
    """Return the code of an error, 0 for none."""
    if error is None:
        return 0
    code = fault_of(error).kafka
    return _CODES.get(code, code)


def coordinator_error_fields(error: GoQueueError) -> dict[str, object]:
    """Return the code and message of an error."""
    return {"error_code": code_of(error), "error_message": message_of(error)}


def client_id_of(request: Request) -> str:
    """Return the client id, cut to a length that fits every reply."""
    client_id: str = request.client_id
    return client_id[:_NAME_MAX]


def shown_host(host: str) -> str:
    """Return a host as Kafka's replies write it."""
    return f"/{host}" if host else ""


def new_member_id(context: Context, name: str) -> str:
    """Return a unique id of a member that begins with its name."""
    return f"{name[:_NAME_MAX]}-{context.broker.core.entropy.uuid()}"
