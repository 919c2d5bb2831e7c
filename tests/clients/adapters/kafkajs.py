"""kafkajs: written in JavaScript without librdkafka. One process of Node per client, spoken to in lines of JSON."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from goqueue.records.compression import Codec
from tests.clients.contract import (
    DEADLINE_S,
    FROM_BEGINNING,
    PLAIN,
    Acks,
    Bounds,
    Edge,
    Message,
    Place,
    Reading,
    Record,
    Refused,
    Sending,
    Traits,
)
from tests.clients.expect import take_until

_BRIDGE = Path(__file__).parents[1] / "kafkajs" / "bridge.js"
_ACKS = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: -1}


class Bridge:
    """A process of Node that runs kafkajs; one request at a time."""

    def __init__(self, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(_BRIDGE), bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._replies: Queue[str] = Queue()
        self._complaints: list[str] = []
        self._threads = [Thread(target=work, daemon=True) for work in (self._hear_replies, self._hear_complaints)]
        for thread in self._threads:
            thread.start()

    def call(self, call: str, **arguments: Any) -> Any:
        """Return what the call returned; Refused if the broker refused, RuntimeError if the process is gone."""
        assert self._process.stdin is not None
        # If the process is gone, the empty line at the end of its replies says so.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        try:
            line = self._replies.get(timeout=DEADLINE_S * 2)
        except Empty as error:
            raise TimeoutError(f"no answer to {call}; kafkajs said: {''.join(self._complaints)}") from error
        if not line:
            self._process.wait(DEADLINE_S)
            raise RuntimeError(f"kafkajs ended; is it installed (.ci/install-clients)? {''.join(self._complaints)}")
        reply = json.loads(line)
        if "refused" in reply:
            raise Refused(reply["refused"]["code"], reply["refused"]["message"])
        return reply["result"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join(DEADLINE_S)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()

    def _hear_replies(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put("")

    def _hear_complaints(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)


class KafkajsClient:
    """kafkajs as producer and, below its groups, as consumer."""

    # Its packages for the other codecs have had no release for years. A null in a header breaks its encoder.
    traits = Traits(codecs=frozenset({Codec.NONE, Codec.GZIP}), writes_null_header_values=False)

    def __init__(self, bootstrap: str) -> None:
        self._bridge = Bridge(bootstrap)

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        told = self._bridge.call(
            "send",
            topic=topic,
            codec=sending.codec.name.lower(),
            acks=_ACKS[sending.acks],
            idempotent=sending.is_idempotent,
            messages=[_json_of(message) for message in messages],
        )
        # It tells where the messages of each partition begin.
        next_offsets: dict[int | None, int] = dict(told)
        offsets = []
        for message in messages:
            offset = next_offsets.get(message.partition, -1)
            offsets.append(offset)
            if offset >= 0:
                next_offsets[message.partition] = offset + 1
        return offsets

    @contextmanager
    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> Iterator[KafkajsReader]:
        yield KafkajsReader(self._bridge, {place: self._start(place, reading.start) for place in places}, reading)

    def bounds(self, place: Place) -> Bounds:
        return Bounds(*self._bridge.call("bounds", topic=place.topic, partition=place.partition))

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        found = self._bridge.call("offsetAt", topic=place.topic, partition=place.partition, timestamp=timestamp_ms)
        # Where there is no such record it gives the end.
        return None if found == self.bounds(place).latest else int(found)

    def close(self) -> None:
        self._bridge.close()

    def _start(self, place: Place, start: int | Edge) -> int:
        if isinstance(start, int):
            return start
        earliest, latest = self.bounds(place)
        return earliest if start is Edge.BEGINNING else latest


class KafkajsReader:
    """Positions, and a fetch of all of them for each take."""

    def __init__(self, bridge: Bridge, offsets: dict[Place, int], reading: Reading) -> None:
        self._bridge = bridge
        self._offsets = offsets
        self._reading = reading
        self._fetched: list[Record] = []

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        return take_until(count, within_s, self._poll)

    def _poll(self, count: int, within_s: float) -> list[Record]:
        if not self._fetched:
            self._fetched = self._fetch(within_s)
        taken, self._fetched = self._fetched[:count], self._fetched[count:]
        return taken

    def _fetch(self, within_s: float) -> list[Record]:
        fetched = self._bridge.call(
            "fetch",
            places=[{**place._asdict(), "offset": offset} for place, offset in self._offsets.items()],
            waitMs=min(self._reading.wait_ms_max, int(within_s * 1000)),
            partitionBytes=self._reading.partition_bytes_max,
        )
        records = [record_of(message) for message in fetched]
        for record in records:
            self._offsets[Place(record.topic, record.partition)] = record.offset + 1
        return records


def _json_of(message: Message) -> dict[str, Any]:
    return {
        "key": _encode(message.key),
        "value": _encode(message.value),
        "headers": [[name, _encode(value)] for name, value in message.headers],
        "timestamp": message.timestamp_ms,
        "partition": message.partition,
    }


def record_of(message: dict[str, Any]) -> Record:
    """Return what was read."""
    return Record(
        message["topic"],
        message["partition"],
        message["offset"],
        message["timestamp"],
        _decode(message["key"]),
        _decode(message["value"]),
        tuple((name, _decode(value)) for name, value in message["headers"]),
    )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
