"""APIs of clusters, answered by one node: log directories, elections, reassignments, the quorum, what has settings."""

from __future__ import annotations

import errno

import pytest

from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG
from goqueue.seams.disk import remove_tree
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, configs, run
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import API_VERSIONS, DESCRIBE_CONFIGS, RawClient
from tests.protocols.kafka.requests import create_topic, publish
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

DESCRIBE_LOG_DIRS, ELECT_LEADERS, LIST_REASSIGNMENTS, DESCRIBE_QUORUM, LIST_CONFIG_RESOURCES = 35, 43, 46, 55, 74
PREFERRED, UNCLEAN = 0, 1
PREFERRED_NOT_AVAILABLE, ELIGIBLE_NOT_AVAILABLE, NOT_NEEDED, UNSUPPORTED_VERSION = 80, 83, 84, 35
TOPIC, BROKER, GROUP = 2, 4, 32


def test_apis_of_tools_are_listed() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        listed = {each["api_key"] for each in (await client.call(API_VERSIONS, 3, {}))["api_keys"]}
        tools = {DESCRIBE_LOG_DIRS, ELECT_LEADERS, LIST_REASSIGNMENTS, DESCRIBE_QUORUM, LIST_CONFIG_RESOURCES, 91, 92}
        assert tools <= listed

    run(act)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_log_directory_tells_the_size_of_each_log_and_no_path(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a", partitions=2)
        await create_topic(client, "b")
        written = batch(b"x" * 1000)
        await publish(client, "a", written, partition=1)
        (everything,) = (await client.call(DESCRIBE_LOG_DIRS, version, {"topics": None}))["results"]
        assert (everything["error_code"], everything["log_dir"]) == (0, "data")
        sizes = {
            (topic["name"], part["partition_index"]): part["partition_size"]
            for topic in everything["topics"]
            for part in topic["partitions"]
        }
        assert sizes == {("a", 0): 0, ("a", 1): len(written), ("b", 0): 0}
        wanted = [{"topic": "a", "partitions": [1, 7]}, {"topic": "none", "partitions": [0]}]
        (some,) = (await client.call(DESCRIBE_LOG_DIRS, version, {"topics": wanted}))["results"]
        assert [(each["name"], len(each["partitions"])) for each in some["topics"]] == [("a", 1)]

    run(act)


def test_log_directory_tells_sizes_without_opening_logs() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        written = batch(b"x" * 1000)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "a", partitions=2)
            await publish(client, "a", written, partition=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            (everything,) = (await client.call(DESCRIBE_LOG_DIRS, 4, {"topics": None}))["results"]
            sizes = [part["partition_size"] for topic in everything["topics"] for part in topic["partitions"]]
            assert sizes == [0, len(written)]
            logs = [server.server.broker.topics.topic("a").partition(index).log for index in (0, 1)]
            assert all(log.is_unopened for log in logs)

    simulate(main, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_partition_needs_another_leader(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a", partitions=2)
        wanted = [{"topic": "a", "partitions": [0, 1, 2, 0]}, {"topic": "none", "partitions": [0]}]
        kinds = (PREFERRED,) if version == 0 else (PREFERRED, UNCLEAN)
        for kind in kinds:
            typed = {} if version == 0 else {"election_type": kind}
            reply = await client.call(ELECT_LEADERS, version, {"topic_partitions": wanted, "timeout": 1000, **typed})
            assert _codes(reply) == {("a", 0): NOT_NEEDED, ("a", 1): NOT_NEEDED, ("a", 2): 3, ("none", 0): 3}
            everything = {"topic_partitions": None, "timeout": 1000, **typed}
            assert (await client.call(ELECT_LEADERS, version, everything))["replica_election_results"] == []

    run(act)


def test_partition_whose_log_cannot_be_used_has_no_other_leader() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "a")
            await publish(client, "a", batch(b"x"))
        # After a kill there is no record of a clean stop, so every log is opened at the start.
        remove_tree(disk, server.server.broker.core.directory / CLOSED_STATES_LOG)
        disk.fail(errno.EIO, operation="open", path="a-0/*", times=None)
        async with serving(simulation, disk) as server:
            client = await server.client()
            wanted = [{"topic": "a", "partitions": [0]}]
            for kind, code in ((PREFERRED, PREFERRED_NOT_AVAILABLE), (UNCLEAN, ELIGIBLE_NOT_AVAILABLE)):
                request = {"election_type": kind, "topic_partitions": wanted, "timeout": 1000}
                assert _codes(await client.call(ELECT_LEADERS, 2, request)) == {("a", 0): code}

    simulate(main, 7)


def _codes(reply: Plain) -> dict[tuple[str, int], int]:
    assert reply.get("error_code", 0) == 0
    return {
        (topic["topic"], part["partition_id"]): part["error_code"]
        for topic in reply["replica_election_results"]
        for part in topic["partition_result"]
    }


def test_no_partition_is_being_reassigned() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a")
        for topics in (None, [{"name": "a", "partition_indexes": [0]}]):
            reply = await client.call(LIST_REASSIGNMENTS, 0, {"timeout": 1000, "topics": topics})
            assert (reply["error_code"], reply["topics"]) == (0, [])

    run(act)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_quorum_is_this_broker_alone(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a")
        wanted = [{"topic_name": name, "partitions": [{"partition_index": 0}]} for name in ("__cluster_metadata", "a")]
        reply = await client.call(DESCRIBE_QUORUM, version, {"topics": wanted})
        assert reply["error_code"] == 0
        quorum, other = (topic["partitions"][0] for topic in reply["topics"])
        assert (quorum["error_code"], quorum["leader_id"]) == (0, 1)
        (voter,) = quorum["current_voters"]
        assert voter["replica_id"] == 1
        assert voter["log_end_offset"] == quorum["high_watermark"] > 0
        assert (other["error_code"], other["current_voters"]) == (UNKNOWN_TOPIC, [])
        if version == 2:
            (node,) = reply["nodes"]
            assert (node["node_id"], {each["name"] for each in node["listeners"]}) == (1, {"PLAINTEXT", "HTTP"})

    run(act)


def test_resources_with_settings_are_topics_and_the_broker() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "b")
        await create_topic(client, "a")
        topics, broker = [("a", TOPIC), ("b", TOPIC)], [("1", BROKER)]
        assert await _resources(client) == [*topics, *broker]
        assert await _resources(client, TOPIC) == topics
        assert await _resources(client, BROKER, GROUP) == broker
        reply = await client.call(LIST_CONFIG_RESOURCES, 1, {"resource_types": [3]})
        assert (reply["error_code"], reply["config_resources"]) == (UNSUPPORTED_VERSION, [])
        assert (await client.call(LIST_CONFIG_RESOURCES, 0, {}))["config_resources"] == []

    run(act)


async def _resources(client: RawClient, *kinds: int) -> list[tuple[str, int]]:
    reply = await client.call(LIST_CONFIG_RESOURCES, 1, {"resource_types": list(kinds)})
    assert reply["error_code"] == 0
    return [(each["resource_name"], each["resource_type"]) for each in reply["config_resources"]]


@pytest.mark.parametrize("kind", [(TOPIC, "a"), (BROKER, "1")])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_synonyms_and_documentation_of_settings_come_only_on_request(version: int, kind: tuple[int, str]) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a")
        resource = {"resource_type": kind[0], "resource_name": kind[1], "configuration_keys": None}
        for has_synonyms in (False, True):
            for is_documented in (False, True) if version >= 3 else (False,):
                request: Plain = {"resources": [resource], "include_synonyms": has_synonyms}
                if version >= 3:
                    request = {**request, "include_documentation": is_documented}
                (result,) = (await client.call(DESCRIBE_CONFIGS, version, request))["results"]
                found = result["configs"]
                assert found
                assert any(each["synonyms"] for each in found) == has_synonyms
                assert any(each.get("documentation") for each in found) == is_documented

    run(act)


def test_every_setting_has_a_synonym_and_documentation() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "a")
        for kind, name in ((TOPIC, "a"), (BROKER, "1")):
            for setting in (await configs(client, name, kind=kind)).values():
                assert setting["synonyms"], setting
                assert setting["documentation"], setting

    run(act)
