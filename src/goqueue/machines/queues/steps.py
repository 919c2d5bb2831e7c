"""Steps of messages of one partition: leases, settlement, deadlines. Each step changes a draft.

Messages with equal flights share one object, so that very many of them take little memory: each step computes the next
flight once for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

from goqueue.errors import GoQueueError, StaleReceipt
from goqueue.machines.decision import Now
from goqueue.machines.queues.commands import Claim, MarkDeadLettered, Offer, Settle, Taker
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.values import TIMED, AckType, DeathReason, Delivery, Flight, FlightState, Lease
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition

HELD_MAX = 1_000
"""At most this many messages of a partition are held for their key; then later messages have to wait, too."""

# Messages that failed together are not retried together: a tenth earlier or later.
_JITTER = 0.1
_GOLDEN = 0.618034


class Settled(NamedTuple):
    """The next state of a message and until when (wall time); without a state it is done."""

    state: FlightState | None
    until_ms: int = -1


Result = Settled | GoQueueError
DONE = Settled(None)
"""The next state of every message that is done."""


def later(now: Now, delay_ms: int) -> Now:
    """Return the moment after a delay."""
    return Now(now.wall_ms + delay_ms, now.monotonic_ms + delay_ms)


# -- leasing


def within_reach(window: QueueWindow, offer: Offer) -> Offer:
    """Return an offer without messages that no consumer can get: those after the last one that may be held.

    Without anything left, no decision is made. So the offer must not end before `_choose_in_order` would end, and stays
    whole if a decision has to forget messages that retention removed.
    """
    if not offer.keys or window.held < HELD_MAX or offer.start > window.floor:
        return offer
    for number, offset in enumerate(offer.fresh):
        if offer.keys.get(offset) in window.by_key:
            unreadable = [each for each in offer.unreadable if each.offset < offset]
            return offer._replace(fresh=offer.fresh[:number], end=offset, unreadable=unreadable)
    return offer


def is_blocked_by_removed_message(window: QueueWindow, start: int) -> bool:
    """Return whether a held message waits for one that retention removed; `start` is where the log begins.

    Then the first message in flight is gone. Only a decision forgets it, and releases the next message of its key.
    """
    return window.held > 0 and window.floor < start


def begun(window: QueueWindow, offer: Offer) -> QueueDraft:
    """Return the draft of a window for an offer, without messages that retention removed."""
    draft = QueueDraft(window)
    draft.epoch = offer.epoch
    if offer.start > draft.floor:
        draft.lose(offer.start)
    for offset in offer.gone:
        if _is_ready(draft, offset):
            draft.finish(offset)
    return draft


def lease(draft: QueueDraft, offer: Offer, taker: Taker, now: Now, room: int) -> list[Delivery]:
    """Lease up to `room` of the offered messages; those that were delivered before come first."""
    right = Lease(taker.lease_id, taker.consumer, now.wall_ms)
    until = later(now, taker.visibility_ms)
    fresh = Flight(FlightState.LEASED, 1, now.wall_ms, until, right, since_ms=now.wall_ms)
    if offer.unreadable:
        _condemn_again(draft, offer, fresh)
    deliveries = _lease_again(draft, offer, fresh, room) if offer.again else []
    if offer.looked_from > draft.cursor:
        # The group has gone back since: between the cursor and the offer are messages that were not examined.
        return deliveries
    room -= len(deliveries)
    chosen = _choose(draft, offer, fresh, room) if offer.keys is None else _choose_in_order(draft, offer, fresh, room)
    if chosen:
        deliveries.append(Delivery(offer.partition, chosen, 1))
    return deliveries


def _condemn_again(draft: QueueDraft, offer: Offer, fresh: Flight) -> None:
    """Mark ready messages as dead that cannot be read."""
    for offset, error in offer.unreadable:
        flight = draft.find(offset)
        if flight is not None and flight.state is FlightState.READY:
            lease = flight.lease or _nobodys(fresh)
            draft.put(offset, _dead(flight._replace(lease=lease), DeathReason.UNREADABLE, error))


def _nobodys(fresh: Flight) -> Lease | None:
    """Return the lease of a message that dies without ever having been delivered."""
    return None if fresh.lease is None else fresh.lease._replace(consumer="")


def _advance(draft: QueueDraft, offer: Offer, end: int, chosen: Sequence[int], fresh: Flight) -> None:
    """Move the cursor; unreadable messages before it become dead, one for all messages of a batch."""
    condemned = [each for each in offer.unreadable if draft.cursor <= each.offset < end]
    if not condemned:
        draft.advance(end, chosen)
        return
    draft.advance(end, sorted([*chosen, *[each.offset for each in condemned]]))
    for offset, error in condemned:
        dead = Flight(FlightState.DEAD, lease=_nobodys(fresh), since_ms=fresh.since_ms)
        draft.put(offset, _dead(dead, DeathReason.UNREADABLE, error))


def _lease_again(draft: QueueDraft, offer: Offer, fresh: Flight, room: int) -> list[Delivery]:
    """Lease messages that are ready again; each has its own delivery count."""
    deliveries: list[Delivery] = []
    taken = cache(fresh._replace)
    while draft.gone_through < len(offer.again) and len(deliveries) < room:
        offset = offer.again[draft.gone_through]
        draft.gone_through += 1
        flight = draft.find(offset)
        if flight is None or flight.state is not FlightState.READY:
            continue
        count = flight.deliveries + 1
        first_ms = fresh.first_ms if flight.first_ms < 0 else flight.first_ms
        draft.put(offset, taken(deliveries=count, first_ms=first_ms, key=flight.key, returned=flight.returned))
        deliveries.append(Delivery(offer.partition, (offset,), count))
    return deliveries


def _choose(draft: QueueDraft, offer: Offer, fresh: Flight, room: int) -> Sequence[int]:
    """Lease messages that were never delivered, as many as there is room for; return which."""
    start = bisect_left(offer.fresh, draft.cursor)
    chosen = offer.fresh[start : start + room]
    is_all = start + len(chosen) == len(offer.fresh)
    end = max(offer.end, draft.cursor) if is_all else offer.fresh[start + room]
    _advance(draft, offer, end, chosen, fresh)
    draft.put_fresh(chosen, fresh)
    return chosen


def _choose_in_order(draft: QueueDraft, offer: Offer, fresh: Flight, room: int) -> Sequence[int]:
    """Lease messages whose key is free, and return which; the others are held, up to a limit."""
    assert offer.keys is not None
    end = max(offer.end, draft.cursor)
    chosen: list[tuple[int, Flight]] = []
    for offset in islice(offer.fresh, bisect_left(offer.fresh, draft.cursor), None):
        key = offer.keys.get(offset)
        is_held = key is not None and (key in draft.keys or _is_busy(draft, key))
        if (draft.held >= HELD_MAX) if is_held else (room == 0):
            end = offset
            break
        if is_held:
            draft.held += 1
            chosen.append((offset, Flight(FlightState.HELD, key=key)))
            continue
        room -= 1
        chosen.append((offset, fresh._replace(key=key)))
        if key is not None:
            draft.keys.add(key)
    _advance(draft, offer, end, [offset for offset, _ in chosen], fresh)
    for offset, flight in chosen:
        draft.put(offset, flight)
    return [offset for offset, flight in chosen if flight.state is FlightState.LEASED]


def _is_busy(draft: QueueDraft, key: bytes) -> bool:
    return any(draft.find(offset) is not None for offset in draft.window.by_key.get(key, ()))


def _is_ready(draft: QueueDraft, offset: int) -> bool:
    flight = draft.find(offset)
    return flight is not None and flight.state is FlightState.READY


# -- settling


Becoming = Callable[[Flight, int], Flight]
"""Compute the next state of a message in flight at an offset."""


def becoming(command: Settle, settings: QueueSettings, now: Now) -> Becoming:
    """Return the function that computes the next state of messages that a command does not finish."""
    after = cache(partial(_after, command, settings, now))
    if command.verdict is AckType.NACK and command.delay_ms is None:
        return lambda flight, offset: after(flight, _backoff_ms(settings, flight, command.chance + offset * _GOLDEN))
    delay_ms = settings.visibility_ms if command.delay_ms is None else command.delay_ms
    return lambda flight, _: after(flight, delay_ms)


def _backoff_ms(settings: QueueSettings, flight: Flight, chance: float) -> int:
    """Return how long a failed message waits; `chance` picks a point between the least and the longest wait."""
    return int(settings.backoff_of(flight.tries) * (1 - _JITTER + 2 * _JITTER * (chance % 1)))


def settle(draft: QueueDraft, claim: Claim, now: Now, become: Becoming | None) -> Sequence[Result]:
    """Settle messages, and return for each its next state, or StaleReceipt if it is not leased any more."""
    partition, offsets, lease_id = claim
    if become is not None:
        return [_settle(draft, claim, offset, now, become) for offset in offsets]
    fates = draft.finish_all(offsets, partial(is_leased, lease_id, now))
    if all(fates):
        return [DONE] * len(fates)
    return [DONE if fate else stale(partition, offset) for offset, fate in zip(offsets, fates, strict=True)]


def _settle(draft: QueueDraft, claim: Claim, offset: int, now: Now, become: Becoming) -> Result:
    flight = draft.find(offset)
    if flight is None or not is_leased(claim.lease_id, now, flight):
        return stale(claim.partition, offset)
    after = become(flight, offset)
    draft.put(offset, after)
    return Settled(after.state, after.until.wall_ms)


def is_leased(lease_id: int, now: Now, flight: Flight) -> bool:
    """Return whether a message is leased under a lease now."""
    return (
        flight.state is FlightState.LEASED
        and flight.lease is not None
        and flight.lease.id == lease_id
        and flight.until.monotonic_ms > now.monotonic_ms
    )


def stale(partition: TopicPartition, offset: int) -> StaleReceipt:
    """Return why a message cannot be settled."""
    return StaleReceipt(
        f"offset {offset} of {partition.topic}-{partition.partition} is not leased under this receipt any more",
        hint="its lease has ended, or it was settled already; if it was not, it is delivered again",
    )


def all_stale(claims: Iterable[Claim]) -> list[Result]:
    """Return why none of these messages can be settled."""
    return [stale(claim.partition, offset) for claim in claims for offset in claim.offsets]


def _after(command: Settle, settings: QueueSettings, now: Now, flight: Flight, delay_ms: int) -> Flight:
    """Return the next state of a message that is not done; `delay_ms` is its wait, or the time left of its lease."""
    if command.verdict is AckType.REJECT:
        return _dead(flight, DeathReason.REJECTED, command.reason)
    if command.verdict is AckType.EXTEND:
        until = later(now, delay_ms)
        if until == now:
            return flight._replace(
                state=FlightState.READY, until=until, since_ms=now.wall_ms, returned=flight.returned + 1
            )
        return flight._replace(until=until, since_ms=now.wall_ms)
    if flight.tries > settings.retries:
        return _dead(flight, DeathReason.RETRIES, command.reason)
    if command.verdict is AckType.RELEASE:
        return flight._replace(state=FlightState.READY, until=now, error=command.reason)
    state = FlightState.WAITING if delay_ms else FlightState.READY
    until = later(now, delay_ms)
    return flight._replace(state=state, until=until, error=command.reason, since_ms=now.wall_ms)


def _dead(flight: Flight, reason: DeathReason, error: str) -> Flight:
    return flight._replace(state=FlightState.DEAD, reason=reason.value, error=error)


def dead_as_told(window: QueueWindow, command: MarkDeadLettered) -> list[int]:
    """Return the messages that a command marks as dead letters."""
    if window.topic_id != command.topic_id:
        return []
    return [offset for offset, lease_id in command.leases.items() if died_of(window.find(offset), lease_id)]


def died_of(flight: Flight | None, lease_id: int) -> bool:
    """Return whether a message is dead, and has died of a lease."""
    if flight is None or flight.state is not FlightState.DEAD:
        return False
    return flight.lease is not None and flight.lease.id == lease_id


# -- time


class Passed(NamedTuple):
    """The effect of time on a chunk: how many leases expired, and how many messages died."""

    expired: int
    dead: int


def pass_time(draft: QueueDraft, chunk: int, settings: QueueSettings, now: Now) -> Passed:
    """Handle the deadlines of a chunk."""

    def is_due(flight: Flight) -> bool:
        return flight.state in TIMED and flight.until.monotonic_ms <= now.monotonic_ms

    known = draft.window.chunks.get(chunk)
    expired = dead = 0
    for flight, offsets in ({} if known is None else known.alike(is_due)).items():
        is_expired = flight.state is FlightState.LEASED
        expired += len(offsets) if is_expired else 0
        if is_expired and flight.tries > settings.retries:
            draft.put_alike(offsets, flight, _dead(flight, DeathReason.EXPIRED, ""))
            dead += len(offsets)
        else:
            draft.put_alike(offsets, flight, flight._replace(state=FlightState.READY))
    return Passed(expired, dead)
