"""The stock client of the benchmarks, confluent-kafka: imported when it is needed, since few installations have it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from goqueue.errors import Unavailable

# Room for what a client may have sent and not heard of: bounds its memory, and is never the limit of a rate.
QUEUE_MESSAGES_MAX = 1_000_000


class ClientMissing(Unavailable):
    """The benchmark needs a package that is not installed."""

    code = "client_missing"
    retriable = False


def load() -> ModuleType:
    """Return the package, or say how to get it."""
    try:
        return import_module("confluent_kafka")
    except ModuleNotFoundError:
        raise ClientMissing(
            "this benchmark uses the client confluent-kafka, which is not installed",
            hint="pip install 'goqueue[bench]'",
        ) from None


# The classes of the package are not typed well enough to be named: Any stands for its Producer and Consumer.
def producer(bootstrap: str, settings: Mapping[str, Any]) -> Any:
    """Return a producer that reports failures only and puts up to 1 MB into a batch."""
    return load().Producer(
        {
            "bootstrap.servers": bootstrap,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "queue.buffering.max.kbytes": 1_048_576,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            **settings,
        }
    )


def consumer(bootstrap: str, topic: str, settings: Mapping[str, Any]) -> Any:
    """Return a consumer of partition 0 from the start, in no group."""
    package = load()
    made = package.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "goqueue-bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            **settings,
        }
    )
    made.assign([package.TopicPartition(topic, 0, 0)])
    return made
