"""Whether queues are what they promise, by what consumers were told.

- A message that was published is done in the end, for each group by itself: acknowledged, or a dead letter. Where the
  power may take messages and letters, that is so for those that are left, if consumers have rejected all that died.
- What was acknowledged or rejected, and the consumer was told so, is never delivered again.
- At most one consumer holds a message at a time, as far as one life of the broker can promise it.
- A receipt means nothing once its message was given to somebody else, or settled.
- A dead message has one letter, wherever letters went meanwhile.
- A message without a retry left comes again only if its consumer is not to blame: it has given it back, in order.
- Deliveries are counted: within a life each has a higher number than the one before.
- What a transaction has published that was to be aborted is delivered to nobody.
- In a group that keeps the order of keys, a message is given to nobody while an earlier one of its key is not done.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from goqueue.errors import GoQueueError
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import Ordering, QueueSettings
from tests.simulation.group_history import Call, History
from tests.simulation.queue_calls import (
    Depth,
    Ending,
    Given,
    PublishSeveral,
    PublishValue,
    ReadLetters,
    ReceiveSome,
    SetQueue,
    SettleSome,
)
from tests.simulation.share_calls import AcknowledgeShares, FetchShares, LoseConnection, OpenShares

Message = tuple[str, str]
"""A group and a value."""
# Moments are cut to whole milliseconds.
_TICK_S = 0.002
_ENDINGS = (AckType.ACK, AckType.REJECT)
_SETTLING = (SettleSome, AcknowledgeShares, OpenShares, LoseConnection)


@dataclass(slots=True)
class Delivered:
    """A message in a consumer's hands."""

    call: Call
    request: ReceiveSome
    given: Given


@dataclass(slots=True)
class Said:
    """What was said about a message, and what came of it; None if there was no answer."""

    call: Call
    verdict: AckType
    given: Given
    result: object

    @property
    def is_done(self) -> bool:
        """Whether it had an effect, and the consumer was told so."""
        return self.call.is_done and not isinstance(self.result, GoQueueError)


def check_queues(history: History, left: Collection[str] | None = None) -> list[str]:
    """Return all that is wrong with queues; `left` are the values in the log in the end, if not all have to be."""
    delivered = _delivered(history)
    said = _said(history)
    retries = _retries(history)
    violations: list[str] = []
    for message in sorted(delivered.keys() | said.keys()):
        deliveries, words = delivered.get(message, []), said.get(message, [])
        violations += _never_again(message, deliveries, words)
        violations += _one_holder(message, deliveries, words)
        violations += _stale_receipts(message, deliveries, words)
        violations += _counts(message, deliveries)
        violations += _too_often(message, deliveries, words, retries.get(message[0], 0))
    violations += _aborted(history, delivered)
    letters = {each for call, _ in history.of(ReadLetters) if call.is_done for each in call.answer}
    for group in _ordered_groups(history):
        violations += _out_of_order(group, delivered, said, letters)
    return [*violations, *_nothing_lost(history, said, letters, left), *_one_letter(history)]


def _delivered(history: History) -> dict[Message, list[Delivered]]:
    found: dict[Message, list[Delivered]] = {}
    for call, request in (*history.of(ReceiveSome), *history.of(FetchShares)):
        for given in call.answer if call.is_done else ():
            found.setdefault((request.group, given.value), []).append(Delivered(call, request, given))
    return {message: sorted(each, key=lambda one: one.call.ended) for message, each in found.items()}


def _said(history: History) -> dict[Message, list[Said]]:
    found: dict[Message, list[Said]] = {}
    for call, request in [pair for kind in _SETTLING for pair in history.of(kind)]:
        results = call.answer if call.is_done else [None] * len(request.given)
        for given, result in zip(request.given, results, strict=True):
            found.setdefault((request.group, given.value), []).append(Said(call, request.verdict, given, result))
    return found


def _aborted(history: History, delivered: dict[Message, list[Delivered]]) -> Iterator[str]:
    aborted = {
        each for _, several in history.of(PublishSeveral) if several.ending is Ending.ABORT for each in several.values
    }
    for group, value in sorted(delivered):
        if value in aborted:
            yield f"{value} was delivered to {group} though it was aborted"


def _published(history: History) -> Iterator[tuple[Call, str]]:
    """Yield the values that were published to be delivered, each with the call that did it."""
    yield from ((call, request.value) for call, request in history.of(PublishValue))
    for call, several in history.of(PublishSeveral):
        if several.ending is not Ending.ABORT:
            yield from ((call, value) for value in several.values)


def _never_again(message: Message, deliveries: list[Delivered], words: list[Said]) -> Iterator[str]:
    ends = [
        each.call.ended
        for each in words
        if each.is_done and (each.verdict is AckType.ACK or getattr(each.result, "state", None) is FlightState.DEAD)
    ]
    if len([each for each in words if each.is_done and each.verdict is AckType.ACK]) > 1:
        yield f"{message} was acknowledged twice"
    for delivery in deliveries:
        if ends and delivery.call.began > min(ends):
            yield f"{message} was delivered to {delivery.request.consumer} after it was done"


def _one_holder(message: Message, deliveries: list[Delivered], words: list[Said]) -> Iterator[str]:
    for number, first in enumerate(deliveries):
        if any(each.given.receipt == first.given.receipt and each.verdict is not AckType.ACK for each in words):
            # Given back, or for another time.
            continue
        # It was leased when the call began, at the earliest.
        until_s = first.call.began_s + first.request.visibility_ms / 1000
        for second in deliveries[number + 1 :]:
            if second.request.life == first.request.life and second.call.ended_s + _TICK_S < until_s:
                yield f"{message} was given to {second.request.consumer} while {first.request.consumer} had it"


def _stale_receipts(message: Message, deliveries: list[Delivered], words: list[Said]) -> Iterator[str]:
    by_receipt = {each.given.receipt: each for each in deliveries}
    for each in words:
        mine = by_receipt.get(each.given.receipt)
        if mine is None or not each.is_done:
            continue
        for other in deliveries:
            if other.call.began > mine.call.ended and other.call.ended < each.call.began:
                yield f"{message}: {each.verdict} had an effect after {other.request.consumer} had got it"


def _counts(message: Message, deliveries: list[Delivered]) -> Iterator[str]:
    for first, second in pairwise(deliveries):
        is_same_life = first.request.life == second.request.life and first.call.ended < second.call.began
        if is_same_life and second.given.deliveries <= first.given.deliveries:
            yield f"{message} had delivery {first.given.deliveries} before {second.given.deliveries}"


def _retries(history: History) -> dict[str, int]:
    """Return how often messages of each group may be tried again; a group may be made before it gets its settings."""
    found: dict[str, int] = {}
    for call, request in history.of(SetQueue):
        known = found.setdefault(request.group, 0 if call.is_done else QueueSettings().retries)
        found[request.group] = max(known, request.settings.retries)
    return found


def _too_often(message: Message, deliveries: list[Delivered], words: list[Said], retries: int) -> Iterator[str]:
    returned = {
        each.given.receipt
        for each in words
        if isinstance(each.call.request, OpenShares) or each.verdict is AckType.EXTEND
    }
    for first, second in pairwise(deliveries):
        count = first.given.deliveries
        if first.request.life != second.request.life or second.given.deliveries != count + 1:
            continue
        before = [each.given for each in deliveries if each.given.deliveries <= count]
        given_back = {each.deliveries for each in before if each.receipt in returned}
        # Of deliveries that nobody has heard of, nobody knows whether they were given back.
        failures = {each.deliveries for each in before} - given_back
        if count in failures and len(failures) > retries:
            yield f"{message} came again though it had failed {len(failures)} times, by {first.request.consumer} last"


def _ordered_groups(history: History) -> list[str]:
    """Return the groups that have kept the order of keys since before their first delivery."""
    since = {
        request.group: call.ended
        for call, request in reversed(list(history.of(SetQueue)))
        if call.is_done and request.settings.ordering is Ordering.KEY
    }
    receives = sorted([*history.of(ReceiveSome), *history.of(FetchShares)], key=lambda each: each[0].began)
    first = {request.group: call.began for call, request in reversed(receives)}
    return sorted(group for group, moment in since.items() if moment < first.get(group, moment))


def _out_of_order(
    group: str, delivered: dict[Message, list[Delivered]], said: dict[Message, list[Said]], letters: set[Message]
) -> Iterator[str]:
    rows: dict[object, list[list[Delivered]]] = {}
    for message, deliveries in delivered.items():
        given = deliveries[0].given
        # One that has become a dead letter is done from some moment on that nobody was told.
        if message[0] == group and given.key is not None and message not in letters:
            rows.setdefault((given.place, given.key), []).append(deliveries)
    for row in rows.values():
        row.sort(key=lambda each: each[0].given.offset)
        for number, earlier in enumerate(row):
            value = earlier[0].given.value
            words = said.get((group, value), ())
            ended = min([each.call.began for each in words if each.verdict in _ENDINGS], default=math.inf)
            for later in [each for others in row[number + 1 :] for each in others]:
                if earlier[0].call.ended < later.call.began and later.call.ended < ended:
                    yield f"{later.given.value} was given to {later.request.consumer} before {value} was done"


def _nothing_lost(
    history: History, said: dict[Message, list[Said]], letters: set[Message], left: Collection[str] | None
) -> Iterator[str]:
    endings = (AckType.ACK,) if left is None else _ENDINGS
    looks = [(call, look) for call, look in history.of(Depth) if call.is_done]
    groups = sorted({look.group for _, look in looks})
    for call, look in looks:
        if call.answer:
            yield f"{look.group} has {call.answer} messages in the end"
    for call, value in _published(history):
        if not call.is_done if left is None else value not in left:
            continue
        for group in groups:
            words = said.get((group, value), ())
            is_done = any(each.verdict in endings and not _is_refused(each) for each in words)
            if not is_done and (group, value) not in letters:
                yield f"{value} was never done for {group}"
            if (group, value) in letters and any(each.is_done and each.verdict is AckType.ACK for each in words):
                yield f"{value} is done and a dead letter for {group}"


def _one_letter(history: History) -> Iterator[str]:
    last = {request.topic: call.answer for call, request in history.of(ReadLetters) if call.is_done}
    for letter, count in Counter(letter for letters in last.values() for letter in letters).items():
        if count > 1:
            yield f"{letter.value} is dead for {letter.group} with {count} letters"


def _is_refused(said: Said) -> bool:
    return said.call.is_refused or isinstance(said.result, GoQueueError)
