"""What other brokers say and ours does not, or not yet: leaders that move, quotas, refusals that pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from goqueue.client.kafka import KafkaData, NamedOffset, ProducerIdentity, TopicPartition
from goqueue.client.problems import BadReply
from goqueue.errors import CorruptBatch, OffsetOutOfRange, OutOfOrderSequence, TransactionFenced, UnknownTopic
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import read_header
from tests.client.kafka.kit import batch_of, values_of
from tests.client.kafka.scripted import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    TOPIC,
    TOPIC_ID,
    Answer,
    fetched,
    produced,
    scripted,
)
from tests.clients.expect import eventually
from tests.protocols.kafka.messages import Plain

PLACE = TopicPartition(TOPIC, 0)
WRITER = ProducerIdentity("x", 5, 0)
NOT_LEADER, FENCED_EPOCH, OUT_OF_RANGE, OUT_OF_ORDER, DUPLICATE, FENCED = 6, 74, 1, 45, 46, 90


def one_after_another(*answers: Mapping[str, Any]) -> Answer:
    """Give each answer once, and the last one for ever."""
    left: list[Mapping[str, Any]] = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def stored(base_offset: int, *values: bytes) -> bytes:
    """Return a batch as it is stored."""
    return bytes(build_batch([NewRecord(0, None, value, ()) for value in values], base_offset=base_offset))


def test_each_partition_is_asked_of_its_leader() -> None:
    with scripted(3) as cluster:
        cluster.leaders = [1, 2]
        for node in (1, 2):
            cluster.answers[node, FETCH] = one_after_another(
                fetched(node - 1, records=stored(0, b"of %d" % node), high_watermark=1, last_stable_offset=1)
            )
            cluster.answers[node, LIST_OFFSETS] = found_at(node)
        with KafkaData(cluster.bootstrap) as data:
            places = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
            assert [values_of([data.fetch(place, 0)]) for place in places] == [[b"of 1"], [b"of 2"]]
            found = data.offsets(places, NamedOffset.LATEST)
            assert [found[place].offset for place in places] == [1, 2]
        assert cluster.asked == [(1, FETCH), (2, FETCH), (1, LIST_OFFSETS), (2, LIST_OFFSETS)]


def found_at(offset: int, *, indexes: Iterable[int] | None = None) -> Answer:
    """Answer that everything lies at an offset."""

    def answer(request: Plain) -> Mapping[str, Any]:
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": part["partition_index"], "offset": offset}
                    for part in topic["partitions"]
                    if indexes is None or part["partition_index"] in indexes
                ],
            }
            for topic in request["topics"]
        ]
        return {"topics": topics}

    return answer


@pytest.mark.parametrize("refusal", [NOT_LEADER, FENCED_EPOCH])
def test_a_leader_that_moves_is_followed_in_the_middle_of_a_range(refusal: int) -> None:
    with scripted(2) as cluster:
        first = fetched(records=stored(0, b"a"), high_watermark=2, last_stable_offset=2)
        cluster.answers[0, FETCH] = one_after_another(first, fetched(error_code=refusal))
        cluster.answers[1, FETCH] = one_after_another(
            fetched(records=stored(1, b"b"), high_watermark=2, last_stable_offset=2)
        )
        with KafkaData(cluster.bootstrap) as data:
            reading = data.read_range(PLACE, 0, 2)
            assert values_of([next(reading)]) == [b"a"]
            cluster.leaders = [1]
            assert values_of(reading) == [b"b"]


def test_a_topic_of_the_same_name_that_is_not_the_wanted_one_is_never_read() -> None:
    with scripted() as cluster:
        cluster.answers[0, FETCH] = one_after_another(
            fetched(records=stored(0, b"a"), high_watermark=1, last_stable_offset=1)
        )
        with KafkaData(cluster.bootstrap) as data:
            with pytest.raises(UnknownTopic, match="'orders' was deleted and made again"):
                list(data.read_range(PLACE, 0, 1, topic_id=UUID(int=8)))
            assert not cluster.asked
            assert values_of(data.read_range(PLACE, 0, 1, topic_id=TOPIC_ID)) == [b"a"]


def test_a_range_ends_where_nothing_is_left_though_its_end_is_visible() -> None:
    with scripted() as cluster:
        cluster.answers[0, FETCH] = one_after_another(
            fetched(records=stored(0, b"a"), high_watermark=9, last_stable_offset=9),
            fetched(throttle_ms=5, high_watermark=9, last_stable_offset=9),
            fetched(high_watermark=9, last_stable_offset=9),
        )
        with KafkaData(cluster.bootstrap) as data:
            assert values_of(data.read_range(PLACE, 0, 9)) == [b"a"]
        # A quota makes an empty reply as well: that one was not believed.
        assert len(cluster.asked) == 3


def test_the_next_reply_is_asked_for_while_the_caller_is_busy() -> None:
    with scripted() as cluster:
        cluster.answers[0, FETCH] = one_after_another(
            fetched(records=stored(0, b"a"), high_watermark=2, last_stable_offset=2),
            fetched(records=stored(1, b"b"), high_watermark=2, last_stable_offset=2),
        )
        with KafkaData(cluster.bootstrap) as data:
            reading = data.read_range(PLACE, 0, 2)
            first = next(reading)
            eventually(lambda: len(cluster.asked) == 2, "the second fetch has come")
            assert values_of([first]) == [b"a"]
            assert values_of(reading) == [b"b"]
        assert len(cluster.asked) == 2


def test_a_batch_that_was_cut_is_asked_for_again() -> None:
    second = stored(1, b"b")
    for size in (1, 60, len(second) - 1):
        with scripted() as cluster:
            cluster.answers[0, FETCH] = one_after_another(
                fetched(records=stored(0, b"a") + second[:size], high_watermark=2, last_stable_offset=2),
                fetched(records=second, high_watermark=2, last_stable_offset=2),
            )
            with KafkaData(cluster.bootstrap) as data:
                sizes = [len(fetched.records) for fetched in data.read_range(PLACE, 0, 2)]
            assert sizes == [len(stored(0, b"a")), len(second)]


def test_where_the_log_starts_is_asked_for_if_the_refusal_does_not_say_it() -> None:
    nothing = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1}
    with scripted() as cluster:
        cluster.answers[0, FETCH] = one_after_another(fetched(error_code=OUT_OF_RANGE, **nothing))
        cluster.answers[0, LIST_OFFSETS] = lambda request: found_at(
            30 if request["topics"][0]["partitions"][0]["timestamp"] == NamedOffset.EARLIEST else 50
        )(request)
        with KafkaData(cluster.bootstrap) as data, pytest.raises(OffsetOutOfRange) as caught:
            list(data.read_range(PLACE, 3, 40))
        assert (caught.value.offset, caught.value.start, caught.value.end) == (3, 30, 50)


def test_batches_that_do_not_lead_on_are_damage() -> None:
    with scripted() as cluster:
        cluster.answers[0, FETCH] = one_after_another(fetched(records=stored(0, b"a"), high_watermark=9))
        with KafkaData(cluster.bootstrap) as data, pytest.raises(CorruptBatch, match="partition 0 of 'orders'"):
            values_of(data.read_range(PLACE, 0, 9))


def test_an_answer_that_leaves_a_partition_out_is_refused() -> None:
    with scripted() as cluster:
        cluster.leaders = [0, 0]
        cluster.answers[0, LIST_OFFSETS] = found_at(1, indexes=[0])
        with KafkaData(cluster.bootstrap) as data, pytest.raises(BadReply, match="nothing about partition 1"):
            data.offsets([PLACE, TopicPartition(TOPIC, 1)], NamedOffset.LATEST)


class Partition:
    """Takes batches in the order of their sequences, and refuses some of them first."""

    def __init__(self, refusals: dict[int, int]) -> None:
        self.stored: list[int] = []
        self._refusals = refusals

    def answer(self, request: Plain) -> Mapping[str, Any]:
        """Store the batch of a request."""
        sequence = read_header(request["topic_data"][0]["partition_data"][0]["records"]).base_sequence
        return produced(request, self._error(sequence))

    def _error(self, sequence: int) -> int:
        if sequence in self.stored:
            return DUPLICATE
        if sequence in self._refusals:
            return self._refusals.pop(sequence)
        if sequence != len(self.stored):
            return OUT_OF_ORDER
        self.stored.append(sequence)
        return 0


def write_twenty(bootstrap: str) -> None:
    """Write as many batches, several of them under way at a time."""
    with KafkaData(bootstrap) as data, data.publishing(WRITER) as publishing:
        for sequence in range(20):
            publishing.send({PLACE: batch_of(WRITER, [b"v"], sequence)})


def test_a_refusal_that_passes_leaves_neither_gap_nor_duplicate() -> None:
    partition = Partition({3: NOT_LEADER, 8: NOT_LEADER, 19: NOT_LEADER})
    with scripted() as cluster:
        cluster.answers[0, PRODUCE] = partition.answer
        write_twenty(cluster.bootstrap)
    assert partition.stored == list(range(20))


@pytest.mark.parametrize(("refusal", "error"), [(FENCED, TransactionFenced), (OUT_OF_ORDER, OutOfOrderSequence)])
def test_a_refusal_that_does_not_pass_ends_it(refusal: int, error: type[Exception]) -> None:
    partition = Partition({3: refusal})
    with scripted() as cluster:
        cluster.answers[0, PRODUCE] = partition.answer
        with pytest.raises(error):
            write_twenty(cluster.bootstrap)
    assert partition.stored == [0, 1, 2]
    assert len(cluster.asked) <= 9
