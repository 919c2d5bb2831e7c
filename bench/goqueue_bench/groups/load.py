"""Loading: how long a broker takes to start that many groups have left their offsets with, and how much memory.

The offsets are committed, and the broker is restarted on the same data. Then the offsets of some of the groups are
compared with the commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.cpu import PROC, metered, process_cpu_seconds
from goqueue_bench.groups.commits import every_commit_succeeds
from goqueue_bench.kafka import group_wire as wire
from goqueue_bench.kafka.connection import Connection, create_topic
from goqueue_bench.kafka.groups import committed_offsets
from goqueue_bench.kafka.pipe import drain, pipes
from goqueue_bench.measure import Aim, Goal, Result, require

SECONDS_GOAL = 5.0

_TOPIC = "goqueue-bench"
_CONNECTIONS = 8
_REQUESTS_AT_ONCE = 1000
_CHECKED_GROUPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many groups, and how many offsets each of them has."""

    groups: int
    offsets: int


def measure_load(workspace: Path, load: Load) -> Result:
    """Fill a private broker with offsets, and start it again; its data stay below a directory."""
    started = time.perf_counter()
    with private_broker(workspace) as broker:
        empty = _Start.of(broker, time.perf_counter() - started)
        with Connection(broker) as connection:
            create_topic(connection, _TOPIC, load.offsets, {})
        with metered(broker.pid) as usage:
            _commit_all(broker, load)
    started = time.perf_counter()
    with private_broker(workspace) as broker:
        loaded = _Start.of(broker, time.perf_counter() - started)
        _check(broker, load)
    return Result(
        "load",
        f"start with {load.groups:,} groups of {load.offsets:,} offsets",
        loaded.seconds,
        "s",
        Goal(Aim.AT_MOST, SECONDS_GOAL),
        {
            "groups": load.groups,
            "offsets": load.groups * load.offsets,
            "cpu_seconds": loaded.cpu_seconds,
            "memory_bytes": loaded.memory_bytes,
            "empty_seconds": empty.seconds,
            "empty_cpu_seconds": empty.cpu_seconds,
            "empty_memory_bytes": empty.memory_bytes,
            "committed_per_second": load.groups * load.offsets / usage.seconds,
        },
    )


class _Start(NamedTuple):
    """Resources that a broker used until it was ready."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int

    @classmethod
    def of(cls, broker: Broker, seconds: float) -> _Start:
        """Look at a broker that has become ready a moment ago."""
        assert broker.pid is not None
        return cls(seconds, process_cpu_seconds(broker.pid), resident_bytes(broker.pid))


def resident_bytes(pid: int) -> int:
    """Return how much memory of a process is resident."""
    for line in (PROC / str(pid) / "status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel does not tell the resident memory of a process")


def _group(number: int) -> str:
    return f"goqueue-bench-{number:06}"


def _offsets(number: int, load: Load) -> dict[int, int]:
    return {partition: number + partition for partition in range(load.offsets)}


def _commit_all(broker: Broker, load: Load) -> None:
    check = every_commit_succeeds(load.offsets)
    for part in _parts(load):
        # Made in parts: all at once they would need more memory than the broker does.
        frames = [wire.offset_commit_request(_group(number), _TOPIC, _offsets(number, load)) for number in part]
        shares = [frames[first::_CONNECTIONS] for first in range(min(_CONNECTIONS, len(frames)))]
        with pipes(broker, shares, check) as opened:
            drain(opened)


def _parts(load: Load) -> Iterator[range]:
    for start in range(0, load.groups, _REQUESTS_AT_ONCE):
        yield range(start, min(load.groups, start + _REQUESTS_AT_ONCE))


def _check(broker: Broker, load: Load) -> None:
    with Connection(broker) as connection:
        for number in range(0, load.groups, max(1, load.groups // _CHECKED_GROUPS)):
            found = committed_offsets(connection, _group(number), _TOPIC, load.offsets)
            require(found == _offsets(number, load), "every group has the offsets that it committed")
