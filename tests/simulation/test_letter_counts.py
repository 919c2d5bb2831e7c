"""Dead letters are counted once and remembered; what is told is what is there, whatever has happened in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters import browsing
from goqueue.broker.dead_letters import stats as letter_counts
from goqueue.broker.dead_letters.browsing import (
    TURN_LETTERS,
    BrowseRequest,
    browse_dead_letters,
    count_dead_letters,
    list_dead_letters,
)
from goqueue.broker.dead_letters.reading import DeadLetterBatch, open_batches
from goqueue.broker.dead_letters.stats import DeadLetterCount
from goqueue.broker.messages.produce import Acks, Section
from goqueue.broker.messages.publish import publish_sections
from goqueue.broker.topics.admin import alter_topic, delete_records, delete_topic
from goqueue.errors import GoQueueError
from goqueue.machines.redrives.values import RedriveTerms
from goqueue.model import dead_letters
from goqueue.model.dead_letter_selection import Selection
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.waiters import give_way
from goqueue.testing import SeededEntropy, SimDisk
from goqueue.testing.clock import START_MS
from tests.simulation.group_calls import CALLER, MakeTopic
from tests.simulation.group_stage import let_pass, live, shrink
from tests.simulation.redrive_calls import StartRedrive
from tests.simulation.test_unreadable_letters import unreadable_batch

REASONS = ("rejected", "lease_expired", "max_retries_exceeded")
LETTERS = "orders.dlq"


@pytest.fixture(autouse=True)
def _few_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the batches begin that are opened to be counted."""
    found: list[int] = []

    def opening(*which: Any) -> Iterator[DeadLetterBatch]:
        for batch in open_batches(*which):
            found.append(batch.start)
            yield batch

    monkeypatch.setattr(letter_counts, "open_batches", opening)
    return found


async def _make(broker: Broker, partitions: int = 2) -> None:
    for topic in ("orders", LETTERS):
        await MakeTopic(topic, partitions).perform(broker)


async def _write(broker: Broker, index: int, count: int, reason: str = "rejected", key: bytes | None = None) -> None:
    said = [(dead_letters.REASON_HEADER, reason.encode()), (dead_letters.TOPIC_HEADER, b"orders")]
    records = [NewRecord(START_MS + number, key, b"v", said) for number in range(count)]
    await _append(broker, index, build_batch(records))


async def _append(broker: Broker, index: int, batch: bytearray) -> None:
    section = Section(broker.topics.topic(LETTERS).partition(index), batch)
    (outcome,) = await publish_sections(broker.messages, CALLER, Acks.ALL, [section])
    assert not isinstance(outcome, GoQueueError)


async def _counted(broker: Broker) -> DeadLetterCount:
    (count,) = await list_dead_letters(broker.dead_letters, CALLER)
    return count


async def _looked_at(broker: Broker) -> DeadLetterCount:
    """Count letter by letter."""
    count = DeadLetterCount(LETTERS)
    look = BrowseRequest(limit=1_000, has_redriven=True)
    by_reason: Counter[str] = Counter()
    while True:
        page = await browse_dead_letters(broker.dead_letters, CALLER, LETTERS, look)
        for letter in page.letters:
            count.letters += 1
            count.redriven += letter.is_redriven
            by_reason[letter.cause.reason] += not letter.is_redriven
            count.sources.add(letter.cause.topic)
            died_ms = letter.record.timestamp
            count.oldest_ms = min(count.oldest_ms or died_ms, died_ms)
            count.newest_ms = max(count.newest_ms or died_ms, died_ms)
        if page.left is None:
            break
        look = look._replace(left=page.left)
    count.by_reason = +by_reason
    # Pages know of some of them twice, so it takes a look at all letters in one go.
    count.unreadable = (
        await count_dead_letters(broker.dead_letters, CALLER, LETTERS, Selection(source="orders"))
    ).unreadable
    return count


async def _change(broker: Broker, chance: SeededEntropy) -> None:
    index = chance.below(2)
    match chance.below(6):
        case 0:
            terms = RedriveTerms(
                Selection(reasons=(chance.choice(REASONS),)), limit=1 + chance.below(200), redrives_max=None
            )
            await StartRedrive(LETTERS, terms).perform(broker)
            await let_pass(20)
        case 1 if chance.chance(0.5):
            log = broker.topics.topic(LETTERS).partition(index).log
            offset = log.start_offset + chance.below(log.end_offset - log.start_offset + 1)
            await delete_records(broker.topics, CALLER, LETTERS, index, offset)
        case 2:
            await _append(broker, index, unreadable_batch())
        case _:
            for _ in range(1 + chance.below(3)):
                await _write(broker, index, chance.choice([1, 2, 100, 700]), chance.choice(REASONS))


def test_search_leaves_others_a_turn_after_a_few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = [0]

    def cause(headers: dead_letters.Headers) -> dead_letters.DeadLetterCause:
        looked_at[-1] += 1
        return dead_letters.cause_of(headers)

    def counted_way() -> Awaitable[None]:
        looked_at.append(0)
        return give_way()

    monkeypatch.setattr(browsing, "cause_of", cause)
    monkeypatch.setattr(browsing, "give_way", counted_way)

    async def act(broker: Broker) -> None:
        await _make(broker)
        for index in (0, 1):
            for _ in range(3):
                await _write(broker, index, 500)
        look = BrowseRequest(Selection(reasons=("none has it",)))
        assert not (await browse_dead_letters(broker.dead_letters, CALLER, LETTERS, look)).letters
        assert sum(looked_at) == 3_000
        assert max(looked_at) <= TURN_LETTERS <= 50

    live(SimDisk(1), 1, act)


@pytest.mark.seeds(5, long_count=100)
def test_what_is_counted_is_what_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_counts, "COUNTED_MAX", 1_000_000)
    chance = SeededEntropy(seed)
    if chance.chance(0.3):
        # Most is forgotten at once.
        monkeypatch.setattr(letter_counts, "_REMEMBERED_MAX", 5)

    async def act(broker: Broker) -> None:
        await _make(broker)
        for _ in range(20):
            await _change(broker, chance)
            assert await _counted(broker) == await _looked_at(broker)
            assert await count_dead_letters(broker.dead_letters, CALLER, "orders", Selection()) == await _counted(
                broker
            )

    live(SimDisk(seed), seed, act, steps_max=500_000)


def test_only_what_is_new_is_looked_at(opened: list[int]) -> None:
    async def act(broker: Broker) -> None:
        await _make(broker, 1)
        for _ in range(40):
            await _write(broker, 0, 50)
        assert (await _counted(broker)).letters == 2_000
        assert len(opened) >= 40
        opened.clear()
        assert (await _counted(broker)).letters == 2_000
        assert opened == []
        await _write(broker, 0, 1, "lease_expired")
        assert (await _counted(broker)).by_reason == {"rejected": 2_000, "lease_expired": 1}
        assert opened == [2_000]

    live(SimDisk(1), 1, act, stops=True)


def test_a_count_ends_when_it_has_seen_enough_and_all_partitions_have_their_share(
    monkeypatch: pytest.MonkeyPatch, opened: list[int]
) -> None:
    monkeypatch.setattr(letter_counts, "COUNTED_MAX", 4 * letter_counts.RUN_OFFSETS)

    async def act(broker: Broker) -> None:
        await _make(broker)
        for index, reason in enumerate(REASONS[:2]):
            for _ in range(100):
                await _write(broker, index, 50, reason)
        count = await _counted(broker)
        assert count.is_cut
        assert 4 * letter_counts.RUN_OFFSETS <= count.letters < 6 * letter_counts.RUN_OFFSETS
        assert min(count.by_reason.values()) > letter_counts.RUN_OFFSETS
        assert len(opened) < 80

    live(SimDisk(1), 1, act, stops=True, steps_max=100_000)


def test_a_topic_that_is_made_again_or_compacted_is_counted_anew() -> None:
    async def act(broker: Broker) -> None:
        await _make(broker, 1)
        await _write(broker, 0, 3)
        assert (await _counted(broker)).letters == 3
        await delete_topic(broker.topics, CALLER, LETTERS)
        await MakeTopic(LETTERS, 1).perform(broker)
        await _write(broker, 0, 5, "lease_expired")
        assert (await _counted(broker)).by_reason == {"lease_expired": 5}
        config = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
        await alter_topic(broker.topics, CALLER, LETTERS, lambda _: config)
        for _ in range(20):
            await _write(broker, 0, 10, key=b"the same")
        before = await _counted(broker)
        await let_pass(600)
        after = await _counted(broker)
        assert after.letters < before.letters
        assert after == await _looked_at(broker)

    live(SimDisk(1), 1, act, stops=True)
