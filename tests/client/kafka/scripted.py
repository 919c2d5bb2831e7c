"""Brokers that answer as a script says, with kio for the bytes: for what ours never says, and clusters of several."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from tests.client.kafka.servers import listening, read_frame
from tests.protocols.kafka.messages import Plain, build, read, request_class, response_class, write

TOPIC, TOPIC_ID = "orders", UUID(int=7)
PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
_HEADER = struct.Struct(">hhih")
_OFFERED = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS, 22, 24, 26, 32)

Answer = Callable[[Plain], Mapping[str, Any]]


class ScriptedCluster:
    """Some brokers, each on a port; `answers` says by node and kind of request what comes back.

    All know the metadata: partition N of the one topic is led by the node that `leaders` has for it.
    """

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.leaders = [0]
        self.answers: dict[tuple[int, int], Answer] = {}
        self.asked: list[tuple[int, int]] = []

    @property
    def bootstrap(self) -> str:
        """Where the first broker is."""
        return f"127.0.0.1:{self.ports[0]}"

    def serve(self, node: int, connection: socket.socket) -> None:
        """Answer one request after another."""
        while True:
            request = read_frame(connection)
            api, version, correlation, client_bytes = _HEADER.unpack_from(request, 4)
            is_flexible = api != API_VERSIONS
            body = request[4 + _HEADER.size + client_bytes + is_flexible :]
            values = self._answer(node, api, read(request_class(api, version), body))
            reply = struct.pack(">i", correlation) + b"\0" * is_flexible
            reply += write(build(response_class(api, version), values))
            connection.sendall(struct.pack(">i", len(reply)) + reply)

    def _answer(self, node: int, api: int, request: Plain) -> Mapping[str, Any]:
        if api == API_VERSIONS:
            return {"api_keys": [{"api_key": key, "min_version": 0, "max_version": 20} for key in _OFFERED]}
        if api == METADATA:
            return self._metadata()
        if api == FIND_COORDINATOR:
            found = {"key": request["coordinator_keys"][0], "node_id": 0, "host": "127.0.0.1", "port": self.ports[0]}
            return {"coordinators": [found]}
        self.asked.append((node, api))
        return self.answers[node, api](request)

    def _metadata(self) -> Mapping[str, Any]:
        partitions = [{"partition_index": index, "leader_id": leader} for index, leader in enumerate(self.leaders)]
        brokers = [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in enumerate(self.ports)]
        return {"brokers": brokers, "topics": [{"name": TOPIC, "topic_id": TOPIC_ID, "partitions": partitions}]}


@contextmanager
def scripted(count: int = 1) -> Iterator[ScriptedCluster]:
    """Run that many brokers for the length of a block."""
    cluster = ScriptedCluster()
    with ExitStack() as stack:
        for node in range(count):
            serve = _serving(cluster, node)
            cluster.ports.append(stack.enter_context(listening(serve)))
        yield cluster


def _serving(cluster: ScriptedCluster, node: int) -> Callable[[socket.socket], None]:
    return lambda connection: cluster.serve(node, connection)


def fetched(partition: int = 0, *, throttle_ms: int = 0, **values: Any) -> Mapping[str, Any]:
    """Return the answer to a fetch."""
    part = {"partition_index": partition, "log_start_offset": 0, "records": b"", **values}
    return {"throttle_time": throttle_ms, "responses": [{"topic_id": TOPIC_ID, "partitions": [part]}]}


def produced(request: Plain, error: int) -> Mapping[str, Any]:
    """Return the answer to a produce request, the same for all partitions."""
    return {
        "responses": [
            {
                "name": topic["name"],
                "partition_responses": [
                    {"index": part["index"], "error_code": error, "base_offset": 0} for part in topic["partition_data"]
                ],
            }
            for topic in request["topic_data"]
        ]
    }
