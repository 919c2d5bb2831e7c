"""Receipts: what a consumer shows to say something about a message that it has leased.

    base64( lease id:u64  offset:i64  partition:i32  deliveries:u16  0:u16 )  base64( group 0x00 topic )

Opaque to those who hold one. It needs no signature: a lease has an id that nobody can guess, and whoever shows it is
believed only as long as the group has leased that message under that id. So a receipt outlives the broker, as its lease
does, and one that was made up, changed, or used already is refused.
"""

from __future__ import annotations

import struct
import sys
from array import array
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from goqueue.errors import InvalidReceipt
from goqueue.machines.delivery_commands import Claim
from goqueue.machines.delivery_values import Delivery
from goqueue.machines.group_values import TopicPartition

RECEIPT_CHARS_MAX = 1_700
"""How long a receipt is at most: the name of a group may have 1,000 bytes, that of a topic 249."""
# A head is three numbers: the lease, the offset, and where that is.
_NUMBERS = 3
_HEAD = struct.Struct(">QQQ")
_HEAD_CHARS = 32
_PARTITION_SHIFT, _DELIVERIES_SHIFT, _REST_MASK = 32, 16, 2**16 - 1
_DELIVERIES_MAX = 2**16 - 1
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_KNOWN_MAX = 10_000


class Shown(NamedTuple):
    """What somebody claims in one group, and which of the receipts that were shown say so, one for each message."""

    numbers: Sequence[int]
    claims: Sequence[Claim]


class Receipts:
    """Writes receipts, and reads them; remembers how names are written, since the same ones come again and again."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], str] = {}
        self._read: dict[str, tuple[str, str]] = {}

    def write(self, group: str, lease_id: int, delivery: Delivery) -> list[str]:
        """Return the receipts of messages that were delivered together."""
        (topic, partition), offsets, deliveries = delivery
        place = (partition << _PARTITION_SHIFT) + (min(deliveries, _DELIVERIES_MAX) << _DELIVERIES_SHIFT)
        tail = self._written.get((group, topic)) or self._write_tail(group, topic)
        if len(offsets) == 1:
            # Many consumers take one message at a time.
            return [b2a_base64(_HEAD.pack(lease_id, offsets[0], place), newline=False).decode() + tail]
        heads = array("Q", (lease_id, 0, place)) * len(offsets)
        heads[1::_NUMBERS] = array("Q", offsets)
        # Each head takes 32 letters and no padding, so all can be written as one.
        text = b2a_base64(_turned(heads).tobytes(), newline=False).decode()
        return [text[at : at + _HEAD_CHARS] + tail for at in range(0, len(text), _HEAD_CHARS)]

    def read(self, written: Sequence[str]) -> tuple[Mapping[str, Shown], Mapping[int, InvalidReceipt]]:
        """Take receipts apart; return them by their groups, and what is wrong with those that are none, by number."""
        try:
            group, claims = self._read_alike(written)
        except (BinasciiError, ValueError, struct.error):
            return self._read_each(written)
        return {group: Shown(range(len(written)), claims)}, {}

    def _read_alike(self, written: Sequence[str]) -> tuple[str, Sequence[Claim]]:
        """Read receipts of one group and topic, which most are that come together; ValueError if these are not."""
        (tail,) = {each[_HEAD_CHARS:] for each in written}
        # Nobody has a head that is too short, since nothing would be behind it.
        group, topic = self._read.get(tail) or self._read_tail(tail)
        if len(written) == 1:
            return group, [_claim(topic, *_HEAD.unpack(a2b_base64(written[0][:_HEAD_CHARS], strict_mode=True)))]
        heads = array("Q", a2b_base64("".join([each[:_HEAD_CHARS] for each in written]), strict_mode=True))
        return group, list(_claims(topic, _turned(heads)))

    def _read_each(self, written: Sequence[str]) -> tuple[Mapping[str, Shown], Mapping[int, InvalidReceipt]]:
        found: dict[str, tuple[list[int], list[Claim]]] = {}
        unreadable = {}
        for number, each in enumerate(written):
            try:
                group, claims = self._read_alike([each])
            except (BinasciiError, ValueError, struct.error):
                unreadable[number] = InvalidReceipt(
                    "this is no receipt", hint="take it from receipt_handle of a received message, as it is"
                )
                continue
            numbers, claimed = found.setdefault(group, ([], []))
            numbers.append(number)
            claimed += claims
        return {group: Shown(*shown) for group, shown in found.items()}, unreadable

    def _write_tail(self, group: str, topic: str) -> str:
        if len(self._written) >= _KNOWN_MAX:
            self._written.clear()
        text = f"{group}\0{topic}".encode("utf-8", "surrogateescape")
        tail = self._written[group, topic] = b2a_base64(text, newline=False).decode()
        return tail

    def _read_tail(self, tail: str) -> tuple[str, str]:
        if len(tail) > RECEIPT_CHARS_MAX - _HEAD_CHARS:
            # Nobody has names of that length, and what is read is remembered.
            raise ValueError("no names")
        text = a2b_base64(tail, strict_mode=True).decode("utf-8", "surrogateescape")
        # Groups may have any name; those of topics are letters.
        group, mark, topic = text.rpartition("\0")
        if not mark or not topic.isascii():
            raise ValueError("no names")
        if len(self._read) >= _KNOWN_MAX:
            self._read.clear()
        self._read[tail] = group, topic
        return group, topic


def _claims(topic: str, heads: array[int]) -> Iterator[Claim]:
    """Yield what heads claim; ValueError if one of them is none."""
    offsets = heads[1::_NUMBERS].tolist()
    if max(offsets) > _OFFSET_MAX:
        raise ValueError("no offset")
    start = 0
    for (lease_id, place), together in groupby(zip(heads[0::_NUMBERS], heads[2::_NUMBERS], strict=True)):
        end = start + len(list(together))
        yield Claim(_place(topic, place), offsets[start:end], lease_id)
        start = end


def _claim(topic: str, lease_id: int, offset: int, place: int) -> Claim:
    if offset > _OFFSET_MAX:
        raise ValueError("no offset")
    return Claim(_place(topic, place), [offset], lease_id)


def _place(topic: str, place: int) -> TopicPartition:
    partition = place >> _PARTITION_SHIFT
    if place & _REST_MASK or partition > _PARTITION_MAX:
        raise ValueError("no place")
    return TopicPartition(topic, partition)


def _turned(numbers: array[int]) -> array[int]:
    """Turn numbers of this machine into those of a receipt, or back: there the highest byte comes first."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
