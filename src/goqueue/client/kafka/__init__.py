"""A small blocking client of the Kafka protocol that moves raw batches: for Spark's executors and drivers.

It makes no object per record, on no path: what is fetched is a view of whole batches as they are stored, and what is
written are finished batches. Other Kafka clients open every record; that would cost more than all the rest.

    from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition

    with KafkaData("127.0.0.1:9092") as data:
        place = TopicPartition("orders", 0)
        end = data.offsets([place], NamedOffset.LATEST)[place].offset
        for fetched in data.read_range(place, 0, end):
            decode(fetched.records)

`wire` turns requests and replies into bytes and back without a socket; `connection` and `cluster` carry them;
`reading`, `ranges` and `producing` send the requests; `data` is the public client.
"""

from goqueue.client.kafka.addresses import Address, parse_bootstrap
from goqueue.client.kafka.data import KafkaData
from goqueue.client.kafka.producing import Publishing
from goqueue.client.kafka.values import (
    FetchedBatches,
    FoundOffset,
    Isolation,
    NamedOffset,
    Partition,
    ProducerIdentity,
    Topic,
)
from goqueue.client.kafka.wire.reading import AbortedTransaction
from goqueue.model.topic import TopicPartition

__all__ = [
    "AbortedTransaction",
    "Address",
    "FetchedBatches",
    "FoundOffset",
    "Isolation",
    "KafkaData",
    "NamedOffset",
    "Partition",
    "ProducerIdentity",
    "Publishing",
    "Topic",
    "TopicPartition",
    "parse_bootstrap",
]
