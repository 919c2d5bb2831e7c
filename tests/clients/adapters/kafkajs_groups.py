"""kafkajs in groups: a consumer inside of the process that all of kafkajs runs in, asked for what it has heard."""

from __future__ import annotations

from itertools import count

from tests.clients.adapters.kafkajs import Bridge, record_of
from tests.clients.contract import Place, Record
from tests.clients.group_contract import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Joining

_numbers = count()


class KafkajsMember:
    """A consumer of kafkajs. It pushes messages; what was polled from it is what counts as read."""

    def __init__(self, bridge: Bridge, joining: Joining) -> None:
        self._bridge = bridge
        self._id = next(_numbers)
        self._group = joining.group
        self._next: dict[Place, int] = {}
        self._is_open = True
        self._bridge.call(
            "join",
            id=self._id,
            group=joining.group,
            topics=list(joining.topics),
            heartbeatMs=HEARTBEAT_INTERVAL_MS,
            sessionMs=SESSION_TIMEOUT_MS,
        )

    def poll(self, within_s: float) -> list[Record]:
        heard = self._bridge.call("heard", id=self._id, waitMs=int(within_s * 1000))
        records = [record_of(message) for message in heard]
        self._next |= {Place(record.topic, record.partition): record.offset + 1 for record in records}
        return records

    def assigned(self) -> frozenset[Place]:
        return frozenset(Place(*each) for each in self._bridge.call("assigned", id=self._id))

    def commit(self) -> None:
        offsets = [[*place, offset] for place, offset in self._next.items() if place in self.assigned()]
        self._bridge.call("commit", id=self._id, offsets=offsets)

    def seek(self, place: Place, offset: int) -> None:
        self._bridge.call("seek", id=self._id, topic=place.topic, partition=place.partition, offset=offset)

    def committed(self, place: Place) -> int | None:
        found = self._bridge.call("committed", group=self._group, topic=place.topic, partition=place.partition)
        return None if found < 0 else int(found)

    def leave(self) -> None:
        if self._is_open:
            self._is_open = False
            self._bridge.call("leave", id=self._id)
