"""Settings of topics, asked by a raw client: the cases that clients of others do not send."""

from __future__ import annotations

import pytest

from tests.protocols.kafka.api_kit import (
    APPEND,
    DELETE,
    INVALID_CONFIG,
    INVALID_REQUEST,
    NOT_ENOUGH_REPLICAS,
    SET,
    SUBTRACT,
    TOO_LARGE,
    UNKNOWN_TOPIC,
    configs,
    run,
)
from tests.protocols.kafka.raw import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    PRODUCE,
    RawClient,
)
from tests.protocols.kafka.requests import (
    create_topic,
    produce,
    produced,
    publish,
    set_config,
)
from tests.protocols.kafka.server import SimServer
from tests.unit.log.log_kit import batch


async def alter(client: RawClient, name: str, *changes: tuple[str, int, str | None], kind: int = 2) -> int:
    """Change settings one by one and return the error code."""
    listed = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    reply = await client.call(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    return int(reply["responses"][0]["error_code"])


def test_a_setting_tells_where_it_comes_from() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"retention.ms": "5"})
        found = await configs(client, "t")
        assert (found["retention.ms"]["value"], found["retention.ms"]["config_source"]) == ("5", 1)
        assert (found["segment.ms"]["value"], found["segment.ms"]["config_source"]) == ("777", 4)
        assert found["max.message.bytes"]["config_source"] == 5
        assert [each["source"] for each in found["retention.ms"]["synonyms"]] == [1, 5]
        assert set(await configs(client, "t", keys=["retention.ms", "nothing"])) == {"retention.ms"}
        assert await configs(client, "t", keys=[]) == found
        assert (await configs(client, "1", kind=4))["num.partitions"]["value"] == "3"

    run(act, default_segment_ms=777)


def test_settings_change_one_by_one() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"retention.ms": "5", "segment.ms": "6"})
        assert await alter(client, "t", ("retention.bytes", SET, "7"), ("segment.ms", DELETE, None)) == 0
        own = {name: each["value"] for name, each in (await configs(client, "t")).items() if each["config_source"] == 1}
        assert own == {"retention.ms": "5", "retention.bytes": "7"}
        assert await alter(client, "t", ("cleanup.policy", APPEND, "compact")) == 0
        assert (await configs(client, "t"))["cleanup.policy"]["value"] == "compact,delete"
        assert await alter(client, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
        assert (await configs(client, "t"))["cleanup.policy"]["value"] == "compact"

    run(act)


@pytest.mark.parametrize(
    "changes",
    [
        [("retention.ms", SET, "soon")],
        [("no.such", SET, "1")],
        [("no.such", DELETE, None)],
        [("retention.ms", SET, None)],
        [("retention.ms", APPEND, "5")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("cleanup.policy", 7, "compact")],
        [("retention.ms", 7, "5")],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        [("retention.bytes", SET, "1"), ("segment.bytes", SET, "1")],
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused_whole(changes: list[tuple[str, int, str | None]]) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"retention.ms": "5"})
        before = await configs(client, "t")
        assert await alter(client, "t", *changes) in {INVALID_CONFIG, INVALID_REQUEST}
        assert await configs(client, "t") == before

    run(act)


def test_an_incremental_change_of_nothing_changes_nothing() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"retention.ms": "5"})
        assert await alter(client, "t") == 0
        assert (await configs(client, "t"))["retention.ms"]["value"] == "5"

    run(act)


def test_the_old_way_of_changing_replaces_all() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", config={"retention.ms": "5", "segment.ms": "6"})
        resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.bytes", "value": "7"}]}
        assert (await client.call(ALTER_CONFIGS, 2, {"resources": [resource]}))["responses"][0]["error_code"] == 0
        own = {name: each["value"] for name, each in (await configs(client, "t")).items() if each["config_source"] == 1}
        assert own == {"retention.bytes": "7"}
        resource["configs"] = []
        assert (await client.call(ALTER_CONFIGS, 2, {"resources": [resource]}))["responses"][0]["error_code"] == 0
        assert all(each["config_source"] != 1 for each in (await configs(client, "t")).values())

    run(act)


def test_settings_of_what_has_none_are_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        assert await alter(client, "1", ("num.partitions", SET, "5"), kind=4) == INVALID_REQUEST
        assert await alter(client, "nowhere", ("retention.ms", SET, "5")) == UNKNOWN_TOPIC
        for kind, name in ((2, "nowhere"), (4, "99"), (8, "x"), (0, "x")):
            request = {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]}
            assert (await client.call(DESCRIBE_CONFIGS, 4, request))["results"][0]["error_code"]

    run(act)


def test_a_changed_setting_changes_what_happens() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        assert (await publish(client, "t", batch(b"x" * 300)))["error_code"] == 0
        assert await set_config(client, "t", {"max.message.bytes": "200"}) == 0
        assert (await publish(client, "t", batch(b"x" * 300)))["error_code"] == TOO_LARGE
        assert await set_config(client, "t", {"min.insync.replicas": "2"}) == 0
        assert (await publish(client, "t", batch(b"x")))["error_code"] == NOT_ENOUGH_REPLICAS
        reply = await client.call(PRODUCE, 9, produce("t", batch(b"x"), acks=1))
        assert produced(reply)["error_code"] == 0
        assert (
            await set_config(client, "t", {"min.insync.replicas": "1", "message.timestamp.type": "LogAppendTime"}) == 0
        )
        assert (await publish(client, "t", batch(b"x")))["log_append_time"] > 0

    run(act)
