"""kcat: a command line over the librdkafka of a Linux distribution, some years old. Every call is a process."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from queue import Empty, Queue
from threading import Thread
from typing import IO

from goqueue.records.compression import Codec
from tests.clients.contract import (
    DEADLINE_S,
    FROM_BEGINNING,
    PLAIN,
    Bounds,
    ErrorCode,
    Headers,
    Message,
    Place,
    Reading,
    Record,
    Refused,
    Sending,
    Traits,
)
from tests.clients.expect import take_until

# Parts of input are told apart by words that no message has; a byte would not do for binary values.
_MESSAGE_END = "<end-of-message>"
_KEY_END = "<end-of-key>"
# Lengths first, so that keys and values may hold any byte; -1 stands for null.
RECORD_FORMAT = r"%p %o %T %K %S\n%k%s\n%h\n"
_DELIVERED = re.compile(r"% Message delivered to partition \d+ \(offset (\d+)\)")
_REFUSALS = {
    "Offset out of range": ErrorCode.OFFSET_OUT_OF_RANGE,
    "Unknown topic or partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "Message size too large": ErrorCode.MESSAGE_TOO_LARGE,
}


class KcatClient:
    """kcat's modes for producing, consuming and asking for offsets."""

    # It stamps messages by its clock, and passes over input that is empty.
    traits = Traits(writes_timestamps=False, writes_null_key_with_null_value=False)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        offsets: list[int] = []
        for (partition, headers, has_key, has_value), alike in groupby(messages, _kind):
            options = [] if partition is None else ["-p", str(partition)]
            options += [option for name, value in headers for option in ("-H", _header_option(name, value))]
            options += ["-K", _KEY_END] if has_key else []
            options += [] if has_value else ["-Z"]
            offsets += self._produce(topic, list(alike), [*options, *settings_options(_producer_settings(sending))])
        return offsets

    @contextmanager
    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> Iterator[KcatReader]:
        (topic,) = {place.topic for place in places}
        # Without a partition it reads all, which is the only way to read more than one.
        one = ["-p", str(places[0].partition)] if len(places) == 1 else []
        start = str(reading.start) if isinstance(reading.start, int) else reading.start.value
        settings = {
            "topic.auto.offset.reset": reading.reset.value,
            "fetch.wait.max.ms": str(reading.wait_ms_max),
            "max.partition.fetch.bytes": str(reading.partition_bytes_max),
            "fetch.error.backoff.ms": "20",
        }
        command = self._command(
            "-C", "-t", topic, *one, "-o", start, "-u", "-f", RECORD_FORMAT, *settings_options(settings)
        )
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            complaints = process.stderr
            reader = KcatReader(topic, process.stdout, lambda: complaints.read().decode())
            try:
                yield reader
            finally:
                process.kill()
                reader.join()

    def bounds(self, place: Place) -> Bounds:
        return Bounds(self._query(place, -2), self._query(place, -1))

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        offset = self._query(place, timestamp_ms)
        return None if offset < 0 else offset

    def describe(self, topic: str) -> str | None:
        """Ask for a topic without leave to create it; return the error, None if the topic is there."""
        done = self._run("-L", "-J", "-t", topic, *settings_options({"allow.auto.create.topics": "false"}))
        (described,) = json.loads(done.stdout)["topics"]
        error: str | None = described.get("error")
        return error

    def close(self) -> None:
        """Nothing to do: each call ended its process."""

    def _produce(self, topic: str, messages: Sequence[Message], options: Sequence[str]) -> list[int]:
        # Three times verbose is what makes it tell the offsets.
        done = self._run(
            "-P", "-t", topic, "-D", _MESSAGE_END, "-vvv", *options, data=b"".join(map(_input_of, messages))
        )
        told = [int(offset) for offset in _DELIVERED.findall(done.stderr.decode())]
        return told if len(told) == len(messages) else [-1] * len(messages)

    def _query(self, place: Place, timestamp_ms: int) -> int:
        done = self._run("-Q", "-t", f"{place.topic}:{place.partition}:{timestamp_ms}")
        answer = done.stdout.decode()
        found = re.search(r"offset (-?\d+)$", answer.strip())
        if found is None:
            raise _refusal(answer)
        return int(found.group(1))

    def _run(self, *options: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(self._command(*options), input=data, capture_output=True, timeout=DEADLINE_S, check=False)
        if done.returncode != 0:
            raise _refusal(done.stderr.decode())
        return done

    def _command(self, *options: str) -> list[str]:
        return ["kcat", "-b", self._bootstrap, *options]


class KcatReader:
    """A consuming process; a thread takes its output apart, so that waiting for records can have a deadline."""

    def __init__(self, topic: str, output: IO[bytes], complaints: Callable[[], str]) -> None:
        self._topic = topic
        self._complaints = complaints
        self._records: Queue[Record | Refused] = Queue()
        self._thread = Thread(target=self._parse, args=(output,), daemon=True)
        self._thread.start()

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        return take_until(count, within_s, self._poll)

    def join(self) -> None:
        """Wait for the thread, after the process has ended."""
        self._thread.join(DEADLINE_S)

    def _poll(self, _count: int, within_s: float) -> list[Record]:
        try:
            record = self._records.get(timeout=within_s)
        except Empty:
            return []
        if isinstance(record, Refused):
            raise record
        return [record]

    def _parse(self, output: IO[bytes]) -> None:
        while line := output.readline():
            self._records.put(self._parse_record(line, output))
        self._records.put(_refusal(self._complaints()))

    def _parse_record(self, line: bytes, stream: IO[bytes]) -> Record:
        partition, offset, timestamp_ms, key_bytes, value_bytes = map(int, line.split())
        key = stream.read(max(key_bytes, 0))
        value = stream.read(max(value_bytes, 0))
        stream.readline()
        return Record(
            self._topic,
            partition,
            offset,
            timestamp_ms,
            key if key_bytes >= 0 else None,
            value if value_bytes >= 0 else None,
            _parse_headers(stream.readline().decode().rstrip("\n")),
        )


def _kind(message: Message) -> tuple[int | None, Headers, bool, bool]:
    return message.partition, message.headers, message.key is not None, message.value is not None


def _input_of(message: Message) -> bytes:
    key = b"" if message.key is None else message.key + _KEY_END.encode()
    return key + (message.value or b"") + _MESSAGE_END.encode()


def _producer_settings(sending: Sending) -> dict[str, str]:
    return {
        "compression.codec": Codec(sending.codec).name.lower(),
        "acks": sending.acks,
        "enable.idempotence": str(sending.is_idempotent).lower(),
        "partitioner": "murmur2_random",
        "message.max.bytes": str(4 * 1024 * 1024),
        "message.timeout.ms": str(int(DEADLINE_S * 1000)),
        "linger.ms": "1",
    }


def settings_options(values: dict[str, str]) -> list[str]:
    """Return the options that set librdkafka's settings."""
    return [option for name, value in values.items() for option in ("-X", f"{name}={value}")]


def _header_option(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _parse_headers(text: str) -> Headers:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return tuple((name, None if value == "NULL" else value.encode()) for name, _, value in pairs)


def _refusal(output: str) -> Refused:
    for text, code in _REFUSALS.items():
        if f"Broker: {text}" in output:
            return Refused(code, output)
    return Refused(-1, f"kcat failed: {output}")
