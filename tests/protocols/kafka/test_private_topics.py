"""The broker's own topics through the Kafka protocol: listed as internal, and neither read nor written by clients."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.broker.internal_topics import DELIVERIES_TOPIC, REDRIVES_TOPIC
from tests.protocols.kafka.api_kit import INVALID_TOPIC, UNKNOWN_TOPIC, run
from tests.protocols.kafka.group_kit import ConsumerMember, commit, committed, offsets
from tests.protocols.kafka.raw import FETCH, RawClient
from tests.protocols.kafka.requests import create_topic, delete_records, fetch, fetched, metadata, publish, read
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import ShareMember, parts
from tests.protocols.kafka.share_kit import publish as publish_values
from tests.protocols.kafka.transaction_kit import TxnProducer
from tests.unit.log.log_kit import batch

TOPIC_AUTHORIZATION_FAILED = 29
GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transactions"
PRIVATE = [GROUPS_TOPIC, TRANSACTIONS_TOPIC, DELIVERIES_TOPIC]


async def _use_everything(client: RawClient) -> None:
    """Commit an offset, open a transaction and lease a message, so that every coordinator has its topic."""
    where = ((await create_topic(client, "t"))["topic_id"], 0)
    await publish_values(client, "t", "a")
    await commit(client, offsets({0: 1}), group="streams")
    await TxnProducer(client).init()
    assert await ShareMember(client).take(where) == ["a"]


@pytest.mark.parametrize("topic", PRIVATE)
@pytest.mark.parametrize("wait_ms", [0, 500])
def test_private_topic_is_not_fetched_by_name_or_by_id(topic: str, wait_ms: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _use_everything(client)
        described = (await metadata(client, topic))[topic]
        assert (described["error_code"], described["is_internal"]) == (0, True)
        for index in range(len(described["partitions"])):
            for version in (4, 11, 12, 13, 17):
                named: str | UUID = topic if version < 13 else described["topic_id"]
                request = fetch(named, 0, partition=index, wait_ms=wait_ms)
                result = fetched(await client.call(FETCH, version, request))
                assert result["error_code"] == TOPIC_AUTHORIZATION_FAILED
                assert not result["records"]
                assert (result["high_watermark"], result["last_stable_offset"]) == (-1, -1)

    run(act)


def test_fetch_of_a_private_topic_leaves_the_others_of_the_request_alone() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _use_everything(client)
        request = fetch("t", 0, wait_ms=500)
        request["topics"] += fetch(DELIVERIES_TOPIC, 0)["topics"]
        mine, private = (await client.call(FETCH, 11, request))["responses"]
        assert (mine["partitions"][0]["error_code"], bool(mine["partitions"][0]["records"])) == (0, True)
        assert private["partitions"][0]["error_code"] == TOPIC_AUTHORIZATION_FAILED

    run(act)


@pytest.mark.parametrize("topic", PRIVATE)
def test_private_topic_is_not_written_nor_shortened(topic: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _use_everything(client)
        for index in range(50):
            assert (await publish(client, topic, batch(b"x"), partition=index))["error_code"] == INVALID_TOPIC
            assert (await delete_records(client, topic, -1, partition=index))["error_code"] == INVALID_TOPIC
        assert await committed(client, group="streams") == {("t", 0): 1}

    run(act)


@pytest.mark.parametrize("topic", [*PRIVATE, REDRIVES_TOPIC, "__anything"])
def test_group_members_cannot_subscribe_to_private_topics(topic: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _use_everything(client)
        member = ConsumerMember(client, "m", group="c", topics=("t", topic))
        assert (await member.heartbeat())["error_code"] == TOPIC_AUTHORIZATION_FAILED
        sharer = ShareMember(client, "m", group="s", topics=("t", topic))
        assert (await sharer.heartbeat())["error_code"] == TOPIC_AUTHORIZATION_FAILED
        # Without it they can, and they cannot add it later.
        for each in (member, sharer):
            each.topics = ("t",)
            assert (await each.heartbeat())["error_code"] == 0
            reply = await each.heartbeat(subscribed_topic_names=["t", topic])
            assert reply["error_code"] == TOPIC_AUTHORIZATION_FAILED

    run(act)


@pytest.mark.parametrize("topic", PRIVATE)
def test_share_consumer_does_not_fetch_private_topics(topic: str) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _use_everything(client)
        where = ((await metadata(client, topic))[topic]["topic_id"], 0)
        reply = await ShareMember(client, "other", group="s").fetch(where)
        assert parts(reply)[where]["error_code"] in {INVALID_TOPIC, TOPIC_AUTHORIZATION_FAILED}
        assert not parts(reply)[where]["records"]

    run(act)


def test_the_catalogue_is_no_topic_for_clients() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert (await metadata(client, "__catalog"))["__catalog"]["error_code"] == UNKNOWN_TOPIC
        assert (await read(client, "__catalog", 0))["error_code"] == UNKNOWN_TOPIC

    run(act)
