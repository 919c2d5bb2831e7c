"""Receipts: what a consumer shows to say something about a message that it has leased.

    base64( lease id:u64  offset:i64  partition:i32  deliveries:u16  0:u16 )  base64( group 0x00 topic )

Opaque to those who hold one. It needs no signature: a lease has an id that nobody can guess, and whoever shows it is
believed only as long as the group has leased that message under that id. So a receipt outlives the broker, as its lease
does, and one that was made up, changed, or used already is refused.
"""

from __future__ import annotations

import struct
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from typing import NamedTuple

from goqueue.errors import InvalidReceipt
from goqueue.machines.delivery_commands import Receipt
from goqueue.machines.delivery_values import Delivery
from goqueue.machines.group_values import TopicPartition

RECEIPT_CHARS_MAX = 1_200
_HEAD = struct.Struct(">QqiHH")
_HEAD_CHARS = 32
_DELIVERIES_MAX = 2**16 - 1
_KNOWN_MAX = 10_000


class Shown(NamedTuple):
    """A receipt that could be read: whose group it is of, and for what."""

    group: str
    receipt: Receipt


class Receipts:
    """Writes receipts, and reads them; remembers how names are written, since the same ones come again and again."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], str] = {}
        self._read: dict[str, tuple[str, str]] = {}

    def write(self, group: str, lease_id: int, delivery: Delivery) -> str:
        """Return the receipt of a delivery."""
        (topic, partition), offset, deliveries = delivery
        tail = self._written.get((group, topic)) or self._write_tail(group, topic)
        head = _HEAD.pack(lease_id, offset, partition, min(deliveries, _DELIVERIES_MAX), 0)
        return b2a_base64(head, newline=False).decode() + tail

    def read(self, written: str) -> Shown:
        """Take a receipt apart; InvalidReceipt if it is none."""
        try:
            names = self._read.get(written[_HEAD_CHARS:]) or self._read_tail(written[_HEAD_CHARS:])
            lease_id, offset, partition, _, rest = _HEAD.unpack(a2b_base64(written[:_HEAD_CHARS], strict_mode=True))
        except (BinasciiError, struct.error, ValueError):
            raise _unreadable() from None
        if offset < 0 or rest:
            raise _unreadable()
        return Shown(names[0], Receipt(TopicPartition(names[1], partition), offset, lease_id))

    def _write_tail(self, group: str, topic: str) -> str:
        if len(self._written) >= _KNOWN_MAX:
            self._written.clear()
        text = f"{group}\0{topic}".encode("utf-8", "surrogateescape")
        tail = self._written[group, topic] = b2a_base64(text, newline=False).decode()
        return tail

    def _read_tail(self, tail: str) -> tuple[str, str]:
        text = a2b_base64(tail, strict_mode=True).decode("utf-8", "surrogateescape")
        group, mark, topic = text.partition("\0")
        if not mark:
            raise ValueError("no names")
        if len(self._read) >= _KNOWN_MAX:
            self._read.clear()
        self._read[tail] = group, topic
        return group, topic


def _unreadable() -> InvalidReceipt:
    return InvalidReceipt("this is no receipt", hint="take it from receipt_handle of a received message, as it is")
