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
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from goqueue.errors import InvalidReceipt
from goqueue.machines.delivery_commands import Receipt
from goqueue.machines.delivery_values import Delivery
from goqueue.machines.group_values import TopicPartition

RECEIPT_CHARS_MAX = 1_200
_HEAD = struct.Struct(">QqiHH")
_LEASE, _OFFSET, _PLACE = struct.Struct(">Q"), struct.Struct(">q"), struct.Struct(">iHH")
_HEAD_CHARS = 32
_DELIVERIES_MAX = 2**16 - 1
_KNOWN_MAX = 10_000
_place_and_count = itemgetter(0, 2)
# Calling the class goes through a Python function, and there is one for each message.
_receipt = partial(tuple.__new__, Receipt)


class Claims(NamedTuple):
    """Receipts of one group, and which of those that were shown they are."""

    numbers: Sequence[int]
    receipts: Sequence[Receipt]


class Receipts:
    """Writes receipts, and reads them; remembers how names are written, since the same ones come again and again."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], str] = {}
        self._read: dict[str, tuple[str, str]] = {}

    def write(self, group: str, lease_id: int, deliveries: Sequence[Delivery]) -> list[str]:
        """Return the receipts of deliveries."""
        written = []
        for (where, count), together in groupby(deliveries, _place_and_count):
            # Heads differ in their offsets, which stand in the middle of them.
            before = _LEASE.pack(lease_id)
            behind = _PLACE.pack(where.partition, min(count, _DELIVERIES_MAX), 0)
            heads = (behind + before).join([_OFFSET.pack(each[1]) for each in together])
            # Each head takes 32 letters and no padding, so all can be written as one.
            text = b2a_base64(before + heads + behind, newline=False).decode()
            tail = self._written.get((group, where.topic)) or self._write_tail(group, where.topic)
            written += [text[at : at + _HEAD_CHARS] + tail for at in range(0, len(text), _HEAD_CHARS)]
        return written

    def read(self, written: Sequence[str]) -> tuple[Mapping[str, Claims], Mapping[int, InvalidReceipt]]:
        """Take receipts apart; return them by their groups, and what is wrong with those that are none, by number."""
        try:
            group, receipts = self._read_alike(written)
        except (BinasciiError, struct.error, ValueError):
            return self._read_each(written)
        return {group: Claims(range(len(receipts)), receipts)}, {}

    def _read_alike(self, written: Sequence[str]) -> tuple[str, list[Receipt]]:
        """Read receipts of one group and topic, which most are that come together; ValueError if these are not."""
        (tail,) = {each[_HEAD_CHARS:] for each in written}
        # Nobody has a head that is too short, since nothing would be behind it.
        group, topic = self._read.get(tail) or self._read_tail(tail)
        heads = a2b_base64("".join([each[:_HEAD_CHARS] for each in written]), strict_mode=True)
        lease_ids, offsets, partitions, _, rests = zip(*_HEAD.iter_unpack(heads), strict=True)
        if any(rests) or min(offsets) < 0:
            raise ValueError("no head")
        places = {each: TopicPartition(topic, each) for each in set(partitions)}
        where = map(places.__getitem__, partitions)
        return group, list(map(_receipt, zip(where, offsets, lease_ids, strict=True)))

    def _read_each(self, written: Sequence[str]) -> tuple[Mapping[str, Claims], Mapping[int, InvalidReceipt]]:
        found: dict[str, tuple[list[int], list[Receipt]]] = {}
        unreadable = {}
        for number, each in enumerate(written):
            try:
                group, receipts = self._read_alike([each])
            except (BinasciiError, struct.error, ValueError):
                unreadable[number] = InvalidReceipt(
                    "this is no receipt", hint="take it from receipt_handle of a received message, as it is"
                )
                continue
            numbers, claimed = found.setdefault(group, ([], []))
            numbers.append(number)
            claimed += receipts
        return {group: Claims(*claims) for group, claims in found.items()}, unreadable

    def _write_tail(self, group: str, topic: str) -> str:
        if len(self._written) >= _KNOWN_MAX:
            self._written.clear()
        text = f"{group}\0{topic}".encode("utf-8", "surrogateescape")
        tail = self._written[group, topic] = b2a_base64(text, newline=False).decode()
        return tail

    def _read_tail(self, tail: str) -> tuple[str, str]:
        text = a2b_base64(tail, strict_mode=True).decode("utf-8", "surrogateescape")
        # Groups may have any name; those of topics are letters.
        group, mark, topic = text.rpartition("\0")
        if not mark:
            raise ValueError("no names")
        if len(self._read) >= _KNOWN_MAX:
            self._read.clear()
        self._read[tail] = group, topic
        return group, topic
