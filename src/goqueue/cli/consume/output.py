"""How messages are printed: values as lines, or whole messages.

| format | shape                                                                                              |
|--------|----------------------------------------------------------------------------------------------------|
| lines  | the bytes of each value and a line feed; a value that is null is an empty line. On a terminal,     |
|        | control characters are escaped                                                                     |
| json   | a JSON object per message and line, as the HTTP interface writes it                                |
| yaml   | a list with an entry per message                                                                 |
| table  | columns for people; on a terminal values are cut to its width, and nothing in them can control it |
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO

from goqueue.cli.terminal.output import yaml_entry
from goqueue.cli.terminal.times import time_text
from goqueue.model.visible_text import visible, visible_json

if TYPE_CHECKING:
    from goqueue.client import Message

Writer = Callable[[Sequence["Message"]], None]

_KEY_WIDTH = 20


class MessageFormat(StrEnum):
    """The output format of messages."""

    LINES = "lines"
    JSON = "json"
    YAML = "yaml"
    TABLE = "table"


def writer(output_format: MessageFormat, *, with_key: bool) -> Writer:
    """Return a function that writes messages to standard output, unbuffered."""
    match output_format:
        case MessageFormat.LINES:
            if sys.stdout.isatty():
                return _writer(_visible_keyed_lines if with_key else _visible_lines)
            return _writer(_keyed_lines if with_key else _lines)
        case MessageFormat.JSON:
            return _writer(_visible_json if sys.stdout.isatty() else _json)
        case MessageFormat.YAML:
            return _writer(_yaml)
        case MessageFormat.TABLE:
            return _writer(_Table().rows)


def _writer(encode: Callable[[Iterable[Message]], bytes]) -> Writer:
    # A thread that is blocked in a buffered file holds a lock that the exit needs.
    output: RawIOBase | BinaryIO = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)

    def write(messages: Sequence[Message]) -> None:
        left = memoryview(encode(messages))
        while left:
            written = output.write(left)
            if written is None:
                raise BlockingIOError("standard output is not writable now")
            left = left[written:]

    return write


def _lines(messages: Iterable[Message]) -> bytes:
    return b"".join([(message.value or b"") + b"\n" for message in messages])


def _keyed_lines(messages: Iterable[Message]) -> bytes:
    return b"".join([b"%b\t%b\n" % (message.key or b"", message.value or b"") for message in messages])


def _visible_lines(messages: Iterable[Message]) -> bytes:
    return "".join([f"{_line(message.value)}\n" for message in messages]).encode()


def _visible_keyed_lines(messages: Iterable[Message]) -> bytes:
    return "".join([f"{_line(message.key)}\t{_line(message.value)}\n" for message in messages]).encode()


def _line(data: bytes | None) -> str:
    return "" if data is None else _shown(data)


def _visible_json(messages: Iterable[Message]) -> bytes:
    return visible_json(_json(messages).decode()).encode()


def _json(messages: Iterable[Message]) -> bytes:
    import msgspec

    from goqueue.client.messages import as_json

    return msgspec.json.Encoder().encode_lines([as_json(message) for message in messages])


def _yaml(messages: Iterable[Message]) -> bytes:
    from goqueue.client.messages import as_json

    return "".join(yaml_entry(as_json(message)) for message in messages).encode()


class _Table:
    """A table with columns of fixed width, because later messages are not known."""

    def __init__(self) -> None:
        self._width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        self._is_begun = False

    def rows(self, messages: Iterable[Message]) -> bytes:
        lines = [] if self._is_begun else [self._row("partition", "offset", "time", "key", "value")]
        self._is_begun = True
        for message in messages:
            position = (str(message.partition), str(message.offset), time_text(message.timestamp))
            lines.append(self._row(*position, _shown(message.key), _shown(message.value)))
        return "".join(line + "\n" for line in lines).encode()

    def _row(self, partition: str, offset: str, moment: str, key: str, value: str) -> str:
        if self._width:
            key = _cut(key, _KEY_WIDTH)
        row = f"{partition:>9}  {offset:>10}  {moment:<23}  {key:<{_KEY_WIDTH}}  {value}"
        return _cut(row, self._width) if self._width else row


def _shown(data: bytes | None) -> str:
    """Return bytes as text, with invalid UTF-8 and control characters escaped."""
    if data is None:
        return "-"
    return visible(data.decode("utf-8", "backslashreplace"))


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
