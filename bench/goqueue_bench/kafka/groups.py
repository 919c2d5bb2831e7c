"""The groups that a benchmark works with: with names of their own, and removed at its end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from goqueue_bench.broker_process import Broker
from goqueue_bench.kafka import group_wire as wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.measure import BenchmarkFailed, require

_READY_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02
# A coordinator that is being made, or loads what it is going to look after.
_NOT_YET = {14, 15, 16}
# A group without members is gone as soon as it has no offsets, such as those of a topic that was removed.
_GONE = {0, 69}


@contextmanager
def private_groups(broker: Broker, count: int = 1) -> Iterator[list[str]]:
    """Yield names of groups once their coordinator is available; delete the groups at the end of the block."""
    run = f"goqueue-bench-{secrets.token_hex(4)}"
    groups = [f"{run}-{number}" for number in range(count)]
    with Connection(broker) as connection:
        _wait_for_coordinator(connection, groups[0])
    try:
        yield groups
    except BaseException:
        # The error of the block matters, not that the broker may be gone too.
        with suppress(OSError, BenchmarkFailed):
            _delete(broker, groups)
        raise
    _delete(broker, groups)


def committed_offsets(connection: Connection, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the offsets of a group for the first partitions of a topic."""
    reply = connection.call(wire.offset_fetch_request(group, topic, range(partitions)))
    error, offsets = wire.parse_offset_fetch_reply(reply)
    require(error == 0, f"the broker tells the offsets of a group (error {error})")
    return offsets


def _wait_for_coordinator(connection: Connection, group: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while True:
        error = wire.parse_find_coordinator_reply(connection.call(wire.find_coordinator_request(group)))
        if error not in _NOT_YET or time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    require(error == 0, f"the coordinator of groups is available (error {error})")


def _delete(broker: Broker, groups: list[str]) -> None:
    with Connection(broker) as connection:
        for group in groups:
            error = wire.parse_delete_group_reply(connection.call(wire.delete_group_request(group)))
            require(error in _GONE, f"group {group} can be removed (error {error})")
