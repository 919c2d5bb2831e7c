"""Messages from files and standard input, each with the location that it was read from.

A line ends with a line feed, which is not part of the message; all other bytes are. Input that is not a valid message
becomes a `Flaw`, which is reported with its location.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from typing_extensions import override

from goqueue.cli.terminal.streams import require_input
from goqueue.client.messages import NewMessage, as_new, encode
from goqueue.errors import GoQueueError, Invalid

STANDARD_INPUT = Path("-")
_SHOWN_BYTES = 40
_READ_BYTES = 64 * 1024


class InputLocation(NamedTuple):
    """A line of input; `line` counts from 1, and is 0 for a whole file."""

    source: str
    line: int

    @override
    def __str__(self) -> str:
        # As editors and compilers write it.
        return f"{self.source}:{self.line}" if self.line else self.source


class Entry(NamedTuple):
    """A message to publish, as JSON, and its size in the input."""

    place: InputLocation
    input_bytes: int
    message: bytes


class Flaw(NamedTuple):
    """Input that is not a valid message, and why."""

    place: InputLocation
    error: GoQueueError


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How bytes become messages; `template` has the fields that all of them share."""

    template: NewMessage
    key_separator: bytes = b""
    is_json: bool = False
    is_whole_file: bool = False

    def read(self, files: Sequence[Path]) -> Iterator[list[Entry | Flaw]]:
        """Read all files in order, or standard input if there are none; yield what arrived together."""
        for file in files or [STANDARD_INPUT]:
            source = "standard input" if file == STANDARD_INPUT else str(file)
            with _opened(file) as opened:
                if self.is_whole_file:
                    yield [self._entry(InputLocation(source, 0), opened.read())]
                    continue
                number = 1
                for lines in _lines(opened):
                    yield [self._entry(InputLocation(source, number + index), line) for index, line in enumerate(lines)]
                    number += len(lines)

    def _entry(self, place: InputLocation, data: bytes) -> Entry | Flaw:
        try:
            return Entry(place, len(data), self._message(data))
        except GoQueueError as error:
            return Flaw(place, error)

    def _message(self, data: bytes) -> bytes:
        if self.is_json:
            return _from_json(data)
        if not self.key_separator:
            return encode(self.template._replace(value=data))
        key, separator, value = data.partition(self.key_separator)
        if not separator:
            raise Invalid(f"there is no {_shown(self.key_separator)} in {_shown(data)}", hint="it ends the key")
        return encode(self.template._replace(key=key, value=value))


def size_of(files: Sequence[Path]) -> int | None:
    """Return the total size of all files; None if it cannot be known before reading."""
    if not files or STANDARD_INPUT in files:
        return None
    return sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield require_input().buffer
        return
    with file.open("rb") as opened:
        yield opened


def _lines(opened: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines as they arrive, without waiting for more than one of them; the last may lack its line feed."""
    unfinished: list[bytes] = []
    while data := opened.read1(_READ_BYTES):  # type: ignore[attr-defined]
        if b"\n" not in data:
            unfinished.append(data)
            continue
        *lines, rest = b"".join([*unfinished, data]).split(b"\n")
        unfinished = [rest] if rest else []
        yield lines
    if unfinished:
        yield [b"".join(unfinished)]


def _from_json(line: bytes) -> bytes:
    try:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if fields.keys().isdisjoint({"topic", "offset", "headers_base64"}):
            return line
        exact = fields.get("headers_base64")
        whole = fields if exact is None else {**fields, "headers_base64": msgspec.json.decode(exact)}
        return msgspec.json.encode(as_new(whole))
    except msgspec.DecodeError as error:
        raise Invalid(f"{_shown(line)} is not a JSON object: {error}") from None


def _shown(data: bytes) -> str:
    text = data[:_SHOWN_BYTES].decode("utf-8", "replace")
    return repr(text if len(data) <= _SHOWN_BYTES else text + "...")
