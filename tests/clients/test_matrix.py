"""Every client reads what every other client wrote, with every codec, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import pytest

from goqueue.records.compression import Codec
from tests.clients.contract import Client, Message, Place, Record, Sending
from tests.clients.samples import content, ordinary, unusual
from tests.clients.wire import stored_batches

_WRITERS_AND_CODECS = [
    pytest.param(writer, codec, id=f"{writer}-{codec.name.lower()}")
    for writer in ("confluent", "kcat", "aiokafka", "kafka-python", "kafkajs")
    for codec in Codec
    if writer != "kafkajs" or codec in (Codec.NONE, Codec.GZIP)
]


@pytest.mark.parametrize(("writer_name", "codec"), _WRITERS_AND_CODECS)
def test_every_client_reads_what_one_of_them_wrote(
    writer_name: str, codec: Codec, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    writer = clients[writer_name]
    wanted = [*unusual(int(time() * 1000)), *ordinary()]
    messages = [message for message in wanted if writer.traits.can_write(message)]
    told = writer.send(place.topic, messages, Sending(codec=codec))
    assert told == list(range(len(messages)))
    read = {
        name: _read_all(reader, place, messages) for name, reader in clients.items() if codec in reader.traits.codecs
    }
    assert {name: content(records) for name, records in read.items()} == dict.fromkeys(read, content(messages))
    assert {name: [record.offset for record in records] for name, records in read.items()} == dict.fromkeys(read, told)
    stamps = {name: [record.timestamp_ms for record in records] for name, records in read.items()}
    assert stamps == dict.fromkeys(read, stamps["aiokafka"])
    assert all(m.timestamp_ms in (None, stamp) for m, stamp in zip(messages, stamps["aiokafka"], strict=True))


@pytest.mark.parametrize(
    ("writer_name", "codec"), [each for each in _WRITERS_AND_CODECS if Codec.NONE not in each.values]
)
def test_compressed_batches_are_stored_compressed(
    writer_name: str, codec: Codec, clients: dict[str, Client], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    messages = ordinary(200)
    clients[writer_name].send(place.topic, messages, Sending(codec=codec))
    batches = stored_batches(bootstrap, place)
    assert {batch.codec for batch in batches} == {codec}
    assert sum(batch.record_count for batch in batches) == len(messages)
    raw_bytes = sum(len(message.value or b"") for message in messages)
    assert sum(batch.size_bytes for batch in batches) < raw_bytes / 2


def _read_all(client: Client, place: Place, messages: list[Message]) -> list[Record]:
    with client.reader([place]) as reader:
        return reader.take(len(messages))
