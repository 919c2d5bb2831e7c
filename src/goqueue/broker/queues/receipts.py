"""Receipts: what a consumer shows to say something about a message that it has leased.

    base64( lease id:u64  offset:i64  partition:i32  deliveries:u16  0:u16 )  base64( tag:9 )
    base64( group 0x00 topic )

Opaque to consumers. The tag is a keyed BLAKE2b over everything but the offset: lease id, partition, deliveries, group
and topic. Only the broker knows the key, which is durable, so receipts outlive a restart as leases do. A receipt that
this broker has not written is refused as `invalid_receipt`, also if its writer has learned the id of a lease.

All messages of a delivery share their tag, so one is computed for hundreds of receipts. The offset needs none: the
group takes a receipt only while the message at that offset is leased under that id, and everything that is leased under
one id went to the same consumer at the same time.
"""

from __future__ import annotations

import struct
import sys
from array import array
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from hmac import compare_digest
from itertools import groupby
from typing import NamedTuple

from goqueue.errors import InvalidReceipt
from goqueue.machines.queues.commands import Claim
from goqueue.machines.queues.values import Delivery
from goqueue.model.request_limits import RECEIPT_CHARS_MAX
from goqueue.model.topic import TopicPartition

# A head is three numbers: the lease, the offset, and the place (partition and deliveries).
_NUMBERS = 3
_HEAD = struct.Struct(">QQQ")
_HEAD_CHARS = 32
_SIGNED = struct.Struct(">QQ")
# Both lengths are multiples of three, so that their base64 has no padding.
_TAG_BYTES = 9
_TAG_CHARS = 12
_PARTITION_SHIFT, _DELIVERIES_SHIFT = 32, 16
_DELIVERIES_MAX = 2**16 - 1
_OFFSET_MAX = 2**63 - 1
_KNOWN_MAX = 10_000


class Shown(NamedTuple):
    """What is claimed in one group: the numbers of the receipts that claim it, one for each message."""

    numbers: Sequence[int]
    claims: Sequence[Claim]


class ReceiptCodec:
    """Writes and reads receipts that are signed with one key; remembers how names are written."""

    def __init__(self, key: bytes) -> None:
        self._mac = blake2b(key=key, digest_size=_TAG_BYTES)
        self._written: dict[tuple[str, str], str] = {}
        self._read: dict[str, tuple[str, str]] = {}

    def write(self, group: str, lease_id: int, delivery: Delivery) -> list[str]:
        """Return the receipts of messages that were delivered together."""
        (topic, partition), offsets, deliveries = delivery
        place = (partition << _PARTITION_SHIFT) + (min(deliveries, _DELIVERIES_MAX) << _DELIVERIES_SHIFT)
        names = self._written.get((group, topic)) or self._write_names(group, topic)
        tail = self._tag(lease_id, place, names.encode()).decode() + names
        if len(offsets) == 1:
            # Many consumers take one message at a time.
            return [b2a_base64(_HEAD.pack(lease_id, offsets[0], place), newline=False).decode() + tail]
        heads = array("Q", (lease_id, 0, place)) * len(offsets)
        heads[1::_NUMBERS] = array("Q", offsets)
        # Each head takes 32 letters and no padding, so all can be written as one.
        text = b2a_base64(_swapped(heads).tobytes(), newline=False).decode()
        return [text[at : at + _HEAD_CHARS] + tail for at in range(0, len(text), _HEAD_CHARS)]

    def read(self, written: Sequence[str]) -> tuple[Mapping[str, Shown], Mapping[int, InvalidReceipt]]:
        """Return what receipts claim, by group, and the errors of invalid ones, by their number."""
        try:
            runs = self._runs(written)
        except (BinasciiError, ValueError):
            # One of them is malformed: only one by one can the others be read.
            runs = [self._run_or_none(each) for each in written]
        first = runs[0][0] if runs else None
        if first is not None and all(group == first for group, _ in runs):
            return {first: Shown(range(len(written)), [claim for _, claim in runs])}, {}
        return _sorted(runs)

    def _runs(self, written: Sequence[str]) -> list[tuple[str | None, Claim]]:
        """Return claims in order with their groups, None for a group without a valid tag; ValueError if malformed."""
        if len(written) == 1:
            # Many consumers settle one message at a time.
            return [self._run(written[0])]
        text = "".join([each[:_HEAD_CHARS] for each in written])
        heads = _swapped(array("Q", a2b_base64(text, strict_mode=True)))
        offsets = heads[1::_NUMBERS].tolist()
        if offsets and max(offsets) > _OFFSET_MAX:
            raise ValueError("an offset is negative")
        tails = [each[_HEAD_CHARS:] for each in written]
        runs = []
        start = 0
        # A head that is too short, of a receipt without a tail, makes the columns unequal.
        for (lease_id, place, tail), together in groupby(
            zip(heads[0::_NUMBERS], heads[2::_NUMBERS], tails, strict=True)
        ):
            end = start + len(list(together))
            group, topic = self._verified(lease_id, place, tail) or (None, "")
            partition = TopicPartition(topic, place >> _PARTITION_SHIFT)
            runs.append((group, Claim(partition, offsets[start:end], lease_id)))
            start = end
        return runs

    def _run(self, written: str) -> tuple[str | None, Claim]:
        head = a2b_base64(written[:_HEAD_CHARS], strict_mode=True)
        if len(head) != _HEAD.size:
            raise ValueError("too short")
        lease_id, offset, place = _HEAD.unpack(head)
        if offset > _OFFSET_MAX:
            raise ValueError("the offset is negative")
        group, topic = self._verified(lease_id, place, written[_HEAD_CHARS:]) or (None, "")
        return group, Claim(TopicPartition(topic, place >> _PARTITION_SHIFT), [offset], lease_id)

    def _run_or_none(self, written: str) -> tuple[str | None, Claim]:
        try:
            return self._run(written)
        except (BinasciiError, ValueError):
            return None, Claim(TopicPartition("", 0), [0], 0)

    def _verified(self, lease_id: int, place: int, tail: str) -> tuple[str, str] | None:
        """Return group and topic of a tail that this broker has written for a lease and place; None if it has not."""
        if len(tail) > RECEIPT_CHARS_MAX - _HEAD_CHARS or not tail.isascii():
            return None
        names = tail[_TAG_CHARS:]
        if not compare_digest(self._tag(lease_id, place, names.encode()), tail[:_TAG_CHARS].encode()):
            return None
        return self._read.get(names) or self._read_names(names)

    def _tag(self, lease_id: int, place: int, names: bytes) -> bytes:
        # A copy of a hash that has its key already takes half the time of a new one.
        mac = self._mac.copy()
        mac.update(_SIGNED.pack(lease_id, place) + names)
        return b2a_base64(mac.digest(), newline=False)

    def _write_names(self, group: str, topic: str) -> str:
        if len(self._written) >= _KNOWN_MAX:
            self._written.clear()
        text = f"{group}\0{topic}".encode("utf-8", "surrogateescape")
        names = self._written[group, topic] = b2a_base64(text, newline=False).decode()
        return names

    def _read_names(self, names: str) -> tuple[str, str]:
        """Read names that carry a valid tag, so they are well-formed, and few enough to remember."""
        text = a2b_base64(names, strict_mode=True).decode("utf-8", "surrogateescape")
        # A group may have any name; topics have no NUL in theirs.
        group, _, topic = text.rpartition("\0")
        if len(self._read) >= _KNOWN_MAX:
            self._read.clear()
        self._read[names] = group, topic
        return group, topic


def _sorted(runs: Sequence[tuple[str | None, Claim]]) -> tuple[Mapping[str, Shown], Mapping[int, InvalidReceipt]]:
    """Sort claims by group; those without a group are invalid."""
    found: dict[str, tuple[list[int], list[Claim]]] = {}
    invalid: dict[int, InvalidReceipt] = {}
    start = 0
    for group, claim in runs:
        run = range(start, start + len(claim.offsets))
        start = run.stop
        if group is None:
            invalid |= {number: _invalid() for number in run}
            continue
        numbers, claims = found.setdefault(group, ([], []))
        numbers += run
        claims.append(claim)
    return {group: Shown(*shown) for group, shown in found.items()}, invalid


def _invalid() -> InvalidReceipt:
    hint = "take it from receipt_handle of a received message, as it is"
    return InvalidReceipt("this is no receipt of this broker", hint=hint)


def _swapped(numbers: array[int]) -> array[int]:
    """Turn numbers of this machine into those of a receipt, or back: receipts have the highest byte first."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
