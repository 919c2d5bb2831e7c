"""Replies that were cut or damaged: an error of the one tree or other values, and never anything else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.kafka.batches import extent
from goqueue.client.kafka.wire import cluster, reading, writing
from goqueue.client.kafka.wire.frame import ApiVersion
from goqueue.client.problems import BadReply
from goqueue.errors import CorruptBatch
from tests.protocols.kafka.messages import build, response_class, write

TOPIC_ID = UUID(int=5)
PARTITION = {"partition_index": 1, "replica_nodes": [1, 2], "isr_nodes": [1]}
SETTING = {"name": "a", "value": "1", "synonyms": [{"name": "b", "value": None, "source": 5}]}
FETCHED = {"partition_index": 3, "aborted_transactions": [{"producer_id": 1, "first_offset": 2}], "records": b"x" * 20}

REPLIES: dict[ApiVersion, tuple[Callable[[memoryview], object], dict[str, Any]]] = {
    ApiVersion.API_VERSIONS: (
        cluster.read_api_versions,
        {"api_keys": [{"api_key": 1, "min_version": 0, "max_version": 2}]},
    ),
    ApiVersion.METADATA: (
        cluster.read_metadata,
        {
            "brokers": [{"node_id": 1, "host": "h", "port": 1}],
            "topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": [PARTITION]}],
        },
    ),
    ApiVersion.FIND_COORDINATOR: (
        cluster.read_coordinator,
        {"coordinators": [{"key": "x", "node_id": 2, "host": "h", "port": 3}]},
    ),
    ApiVersion.DESCRIBE_CONFIGS: (
        cluster.read_configs,
        {"results": [{"resource_type": 4, "resource_name": "1", "configs": [SETTING]}]},
    ),
    ApiVersion.LIST_OFFSETS: (
        reading.read_list_offsets,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 4}]}]},
    ),
    ApiVersion.FETCH: (
        lambda fields: reading.read_fetch(fields, TOPIC_ID, 3),
        {"responses": [{"topic_id": TOPIC_ID, "partitions": [FETCHED]}]},
    ),
    ApiVersion.INIT_PRODUCER_ID: (writing.read_init_producer_id, {}),
    ApiVersion.ADD_PARTITIONS_TO_TXN: (
        writing.read_add_partitions,
        {"results_by_topic_v3_and_below": [{"name": "a", "results_by_partition": [{"partition_index": 2}]}]},
    ),
    ApiVersion.PRODUCE: (
        writing.read_produce,
        {"responses": [{"name": "a", "partition_responses": [{"index": 5, "error_message": "no"}]}]},
    ),
    ApiVersion.END_TXN: (writing.read_end_transaction, {}),
}


def whole(api: ApiVersion) -> bytes:
    """Return a good reply."""
    return write(build(response_class(api.key, api.version), REPLIES[api][1]))


@pytest.mark.parametrize("api", ApiVersion)
def test_a_reply_that_is_cut_anywhere_is_refused(api: ApiVersion) -> None:
    read_reply, data = REPLIES[api][0], whole(api)
    read_reply(memoryview(data))
    for size in range(len(data)):
        with pytest.raises(BadReply):
            read_reply(memoryview(data[:size]))


@pytest.mark.parametrize("api", ApiVersion)
def test_a_reply_that_goes_on_is_refused(api: ApiVersion) -> None:
    with pytest.raises(BadReply, match="nothing should follow"):
        REPLIES[api][0](memoryview(whole(api) + b"\0"))


@pytest.mark.parametrize("api", ApiVersion)
def test_any_byte_of_a_reply_may_be_anything(api: ApiVersion) -> None:
    read_reply, data = REPLIES[api][0], whole(api)
    for position in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, data[position] ^ 1):
            damaged = bytearray(data)
            damaged[position] = value
            try_to_read(read_reply, bytes(damaged))


@given(api=st.sampled_from(list(ApiVersion)), data=st.binary(max_size=200))
def test_rubbish_is_no_reply(api: ApiVersion, data: bytes) -> None:
    try_to_read(REPLIES[api][0], data)


def try_to_read(read_reply: Callable[[memoryview], object], data: bytes) -> None:
    """Read a reply; the only error that may come of it is the one for that."""
    with suppress(BadReply):
        read_reply(memoryview(data))


def test_a_huge_count_costs_nothing() -> None:
    # Two billion topics cannot be in a reply of ten bytes.
    with pytest.raises(BadReply, match="elements are announced"):
        reading.read_list_offsets(memoryview(bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(1)))


@given(data=st.binary(max_size=300), offset=st.integers(0, 2**40))
def test_rubbish_holds_no_batches(data: bytes, offset: int) -> None:
    try:
        found = extent(memoryview(data), offset, "it")
    except CorruptBatch:
        return
    assert found.next_offset > offset
    assert 61 <= found.size_bytes <= len(data)
