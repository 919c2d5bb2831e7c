"""Topics and what is told of them, asked by a raw client: the cases that clients of others do not send."""

from __future__ import annotations

from uuid import UUID

from tests.protocols.kafka.api_kit import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICATION,
    INVALID_REQUEST,
    INVALID_TOPIC,
    SET,
    TOPIC_EXISTS,
    UNKNOWN_ID,
    UNKNOWN_TOPIC,
    configs,
    run,
)
from tests.protocols.kafka.messages import NO_ID, Plain
from tests.protocols.kafka.raw import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    RawClient,
)
from tests.protocols.kafka.requests import (
    create_topic,
    delete_records,
    delete_topic,
    grow_topic,
    metadata,
    publish,
    read,
    set_config,
)
from tests.protocols.kafka.server import SimServer
from tests.unit.log.log_kit import batch


async def create(client: RawClient, *topics: Plain, is_dry_run: bool = False) -> list[int]:
    """Make several topics with one request and return the error codes."""
    reply = await client.call(CREATE_TOPICS, 7, {"topics": list(topics), "timeout": 1, "validate_only": is_dry_run})
    return [each["error_code"] for each in reply["topics"]]


def wanted(name: str, partitions: int = 1, replicas: int = 1, **config: str | None) -> Plain:
    """Return a topic as CreateTopics asks for it."""
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": configs}


def test_topics_are_made_each_with_a_result_of_its_own() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        errors = await create(
            client,
            *(wanted("good", 2), wanted("bad name"), wanted("none", 0), wanted("many", 10_001)),
            *(wanted("copies", 1, 3), wanted("__own"), wanted("odd", retention_ms="x"), wanted("default", -1, -1)),
        )
        invalid = [INVALID_TOPIC, INVALID_PARTITIONS, INVALID_PARTITIONS, INVALID_REPLICATION]
        assert errors == [0, *invalid, INVALID_TOPIC, INVALID_CONFIG, 0]
        topics = await metadata(client)
        assert {name: len(topic["partitions"]) for name, topic in topics.items()} == {"good": 2, "default": 3}
        assert await create(client, wanted("good")) == [TOPIC_EXISTS]

    run(act)


def test_a_topic_that_is_named_twice_is_not_made() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert await create(client, wanted("a"), wanted("b"), wanted("a", 5)) == [INVALID_REQUEST, 0]
        assert set(await metadata(client)) == {"b"}

    run(act)


def test_a_dry_run_checks_and_makes_nothing() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert await create(client, wanted("a"), wanted("b", 0), is_dry_run=True) == [0, INVALID_PARTITIONS]
        assert await metadata(client) == {}
        await create_topic(client, "t")
        request = {"topics": [{"name": "t", "count": 5}], "timeout": 1, "validate_only": True}
        assert (await client.call(CREATE_PARTITIONS, 3, request))["results"][0]["error_code"] == 0
        resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "5"}]}
        await client.call(ALTER_CONFIGS, 2, {"resources": [resource], "validate_only": True})
        resource["configs"] = [{"name": "retention.ms", "config_operation": SET, "value": "5"}]
        await client.call(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": True})
        assert len((await metadata(client, "t"))["t"]["partitions"]) == 1
        assert (await configs(client, "t"))["retention.ms"]["config_source"] == 5

    run(act)


def test_an_assignment_must_be_one_that_this_broker_can_fulfil() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        def assigned(name: str, *brokers: tuple[int, list[int]]) -> Plain:
            parts = [{"partition_index": index, "broker_ids": ids} for index, ids in brokers]
            return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": parts}

        errors = await create(
            client,
            *(assigned("a", (0, [1]), (1, [1])), assigned("b", (0, [2])), assigned("c", (0, [1, 2]))),
            *(
                assigned("d", (1, [1])),
                assigned("e", (0, [1]), (0, [1])),
                {**assigned("f", (0, [1])), "num_partitions": 1},
            ),
        )
        assert errors[0] == 0
        assert all(errors[1:])
        assert set(await metadata(client)) == {"a"}

    run(act)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        ids = [(await create_topic(client, name))["topic_id"] for name in ("a", "b")]
        topics = [{"name": "a", "topic_id": NO_ID}, {"name": None, "topic_id": ids[1]}]
        missing = [{"name": "a", "topic_id": NO_ID}, {"name": None, "topic_id": UUID(int=5)}]
        reply = await client.call(DELETE_TOPICS, 6, {"topics": topics + missing, "timeout": 1})
        assert [each["error_code"] for each in reply["responses"]] == [0, 0, UNKNOWN_TOPIC, UNKNOWN_ID]
        assert [each["name"] for each in reply["responses"]] == ["a", "b", "a", None]
        await create_topic(client, "c")
        reply = await client.call(DELETE_TOPICS, 1, {"topic_names": ["c", "d"], "timeout": 1})
        assert [each["error_code"] for each in reply["responses"]] == [0, UNKNOWN_TOPIC]

    run(act)


def test_the_brokers_own_state_cannot_be_reached() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        assert await delete_topic(client, "__catalog") in {UNKNOWN_TOPIC, INVALID_TOPIC}
        assert await grow_topic(client, "__catalog", 5) in {UNKNOWN_TOPIC, INVALID_TOPIC}
        assert await set_config(client, "__catalog", {"retention.ms": "1"}) in {UNKNOWN_TOPIC, INVALID_TOPIC}
        assert (await publish(client, "__catalog", batch(b"x", key=b"topic evil")))["error_code"] == UNKNOWN_TOPIC
        assert (await read(client, "__catalog", 0))["error_code"] == UNKNOWN_TOPIC
        assert (await delete_records(client, "__catalog", -1))["error_code"] == UNKNOWN_TOPIC
        assert set(await metadata(client)) == {"t"}

    run(act)


def test_partitions_are_added_and_hold_what_is_sent_to_them() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"message.timestamp.type": "LogAppendTime"})
        assert await grow_topic(client, "t", 3) == 0
        assert [await grow_topic(client, "t", count) for count in (3, 1, 0, -1)] == [INVALID_PARTITIONS] * 4
        assert await grow_topic(client, "nowhere", 3) == UNKNOWN_TOPIC
        result = await publish(client, "t", batch(b"x"), partition=2)
        assert (result["error_code"], result["base_offset"]) == (0, 0)
        assert result["log_append_time"] > 0

    run(act)


def test_metadata_lists_all_some_or_none() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        ids = {name: (await create_topic(client, name))["topic_id"] for name in ("b", "a")}
        for version in range(14):
            everything = await client.call(METADATA, version, {"topics": None if version else []})
            assert [topic["name"] for topic in everything["topics"]] == ["a", "b"]
            if version >= 1:
                assert (await client.call(METADATA, version, {"topics": []}))["topics"] == []
            if version >= 12:
                by_id = await client.call(METADATA, version, {"topics": [{"name": None, "topic_id": ids["a"]}]})
                assert by_id["topics"][0]["name"] == "a"
                missing = await client.call(METADATA, version, {"topics": [{"name": None, "topic_id": UUID(int=1)}]})
                assert missing["topics"][0]["error_code"] == UNKNOWN_ID

    run(act)


def test_a_topic_is_made_on_demand_only_if_both_sides_want_it() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert (await metadata(client, "a", may_create=False))["a"]["error_code"] == UNKNOWN_TOPIC
        assert (await metadata(client, "a", may_create=True))["a"]["error_code"] == 0
        found = await metadata(client, "bad name", "__own", "..", may_create=True)
        assert found["bad name"]["error_code"] == INVALID_TOPIC
        assert found[".."]["error_code"] == INVALID_TOPIC
        assert found["__own"]["error_code"] in {UNKNOWN_TOPIC, INVALID_TOPIC}
        assert set(await metadata(client)) == {"a"}

    run(act)

    async def refuses(server: SimServer, client: RawClient) -> None:
        assert (await metadata(client, "a", may_create=True))["a"]["error_code"] == UNKNOWN_TOPIC

    run(refuses, auto_create_topics=False)


def test_metadata_is_what_it_was_after_every_change() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for round_number in range(3):
            made = await create_topic(client, "t")
            assert (await metadata(client, "t"))["t"]["topic_id"] == made["topic_id"]
            await grow_topic(client, "t", 2 + round_number)
            assert len((await metadata(client, "t"))["t"]["partitions"]) == 2 + round_number
            await delete_topic(client, "t")
            assert (await metadata(client, "t"))["t"]["error_code"] == UNKNOWN_TOPIC

    run(act)


def test_topics_are_described_in_pages() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for name, count in (("a", 3), ("b", 2), ("c", 4)):
            await create_topic(client, name, partitions=count)
        seen: list[tuple[str, int]] = []
        cursor: Plain | None = None
        while True:
            request = {"topics": [], "response_partition_limit": 2, "cursor": cursor}
            reply = await client.call(75, 0, request)
            for topic in reply["topics"]:
                assert topic["error_code"] == 0
                seen += [(topic["name"], each["partition_index"]) for each in topic["partitions"]]
            cursor = reply["next_cursor"]
            if cursor is None:
                break
        assert seen == [(name, index) for name, count in (("a", 3), ("b", 2), ("c", 4)) for index in range(count)]
        reply = await client.call(75, 0, {"topics": [{"name": "b"}, {"name": "x"}, {"name": "b"}]})
        assert [(topic["name"], topic["error_code"]) for topic in reply["topics"]] == [("b", 0), ("x", UNKNOWN_TOPIC)]
        # Kafka's own admin client takes no null there.
        assert {tuple(each["eligible_leader_replicas"]) for each in reply["topics"][0]["partitions"]} == {()}

    run(act)
