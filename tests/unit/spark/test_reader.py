"""What a read finds if the topic changes under it, and what it opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.datasource import InputPartition

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition
from goqueue.errors import TooLarge
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.spark.source.losses import DataLost
from goqueue.spark.source.options import ReadKind, parse_options
from goqueue.spark.source.plan import Range
from goqueue.spark.source.reader import GoQueueReader, read_task
from goqueue.testing.broker import Broker
from tests.client.kafka.scripted import FETCH, LIST_OFFSETS, TOPIC, TOPIC_ID, ScriptedCluster, fetched, scripted
from tests.protocols.kafka.messages import Plain

NEW_ID = UUID(int=8)
UNKNOWN_TOPIC_ID, LEADER_NOT_AVAILABLE = 100, 5


class RemadeTopic:
    """The metadata of a cluster whose topic is another one from the third look on."""

    def __init__(self, cluster: ScriptedCluster, before: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._before = before
        self._looks = 0

    def __call__(self) -> Mapping[str, Any]:
        # One look is that of the client when it connects, one that of the read.
        self._looks += 1
        topic = {"name": TOPIC, "topic_id": NEW_ID, "partitions": [{"partition_index": 0, "leader_id": 0}]}
        if self._looks <= 2:
            topic = {"name": TOPIC, "topic_id": TOPIC_ID, **self._before}
        return {"brokers": [{"node_id": 0, "host": "127.0.0.1", "port": self._cluster.ports[0]}], "topics": [topic]}


@pytest.mark.parametrize(
    "before",
    [
        {"partitions": [{"partition_index": 0, "leader_id": 0}]},
        {"partitions": [{"partition_index": 0, "leader_id": -1}]},
        {"partitions": [], "error_code": LEADER_NOT_AVAILABLE},
    ],
    ids=["led", "leaderless", "with an error"],
)
def test_a_topic_made_again_is_never_read_as_the_old_one(
    before: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = bytes(build_batch([NewRecord(0, None, b"of the new topic")]))

    def answer(request: Plain) -> Mapping[str, Any]:
        if UUID(str(request["topics"][0]["topic_id"])) != NEW_ID:
            return fetched(error_code=UNKNOWN_TOPIC_ID)
        found = fetched(records=rows, high_watermark=1, last_stable_offset=1)
        return {**found, "responses": [{**found["responses"][0], "topic_id": NEW_ID}]}

    with scripted() as cluster:
        monkeypatch.setattr(cluster, "_metadata", RemadeTopic(cluster, before))
        cluster.answers[0, FETCH] = answer
        options = parse_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": TOPIC}, ReadKind.BATCH)
        task = InputPartition(Range(TOPIC, TOPIC_ID, 0, 0, 1))
        with pytest.raises(DataLost, match="'orders' was deleted and made again"):
            list(read_task(options, ("value",), task))


def test_a_record_that_comes_while_boundaries_are_looked_up_is_no_lost_one() -> None:
    offsets = {int(NamedOffset.EARLIEST): 0, int(NamedOffset.LATEST): 10}

    def answer(request: Plain) -> Mapping[str, Any]:
        # What the time finds was written after the end was looked up.
        parts = [
            {"partition_index": part["partition_index"], "offset": offsets.get(part["timestamp"], 12)}
            for part in request["topics"][0]["partitions"]
        ]
        return {"topics": [{"name": TOPIC, "partitions": parts}]}

    with scripted() as cluster:
        cluster.answers[0, LIST_OFFSETS] = answer
        written = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": TOPIC, "endingTimestamp": "1700000000000"}
        (task,) = GoQueueReader(parse_options(written, ReadKind.BATCH), ("value",)).partitions()

    assert task.value == Range(TOPIC, TOPIC_ID, 0, 0, 10)


def test_a_batch_that_opens_to_much_is_read_within_a_limit_that_can_be_raised() -> None:
    place = TopicPartition("large", 0)
    with Broker() as broker, Client(broker.http) as client, KafkaData(broker.bootstrap) as data:
        client.send(topics.create("large", partitions=1))
        producer = data.init_producer("writer")
        data.add_partitions(producer, [place])
        batch = build_batch(
            [NewRecord(1, None, bytes(2**20))] * 33,
            codec=Codec.ZSTD,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data.produce(producer, {place: batch})
        data.commit(producer)

        def rows(**more: str) -> int:
            written = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "large"}
            named = {f"goqueue.max.{name}.bytes": text for name, text in more.items()}
            reader = GoQueueReader(parse_options(written | named, ReadKind.BATCH), ("value",))
            return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))

        assert rows() == 33
        with pytest.raises(TooLarge, match=r"offset 0: .*raise the option goqueue.max.decompressed.bytes"):
            rows(decompressed="1MiB")
