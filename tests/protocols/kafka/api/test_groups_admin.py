"""Looking at groups and removing them, asked by a raw client; and the topic that holds what is known of them."""

from __future__ import annotations

import pytest

from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.api_kit import INVALID_TOPIC, UNKNOWN_TOPIC, pass_time, run
from tests.protocols.kafka.group_kit import (
    INVALID_GROUP,
    JOIN_GROUP,
    NON_EMPTY_GROUP,
    UNKNOWN_GROUP,
    ConsumerMember,
    Member,
    commit,
    committed,
    delete_groups,
    describe,
    describe_consumer,
    list_groups,
    offsets,
)
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, metadata, publish
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

INTERNAL = "__consumer_offsets"


async def _groups_of_all_kinds(server: SimServer, client: RawClient) -> dict[str, str]:
    """Make a group of each kind and state, and return the states by name."""
    await create_topic(client, "t", partitions=2)
    await create_topic(client, "elsewhere")
    await commit(client, offsets({0: 1}), group="offsets")
    await Member(client, group="stable").enter()
    gone = Member(client, group="empty")
    await gone.enter()
    await gone.leave()
    await Member(client, group="completing").join()
    await Member(client, group="preparing").enter()
    joiner = Member(await server.client(), group="preparing")
    joiner.client.send(JOIN_GROUP, 0, joiner.join_request())
    await ConsumerMember(client, "m", group="assigned").heartbeat()
    first = ConsumerMember(client, "first", group="moving", topics=("t",))
    await first.heartbeat()
    await ConsumerMember(client, "second", group="moving", topics=("t",)).heartbeat()
    await pass_time(0.1)
    return {
        "offsets": "Empty",
        "stable": "Stable",
        "empty": "Empty",
        "completing": "CompletingRebalance",
        "preparing": "PreparingRebalance",
        "assigned": "Stable",
        "moving": "Reconciling",
    }


def test_groups_are_listed_with_their_kind_and_state() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        states = await _groups_of_all_kinds(server, client)
        for version in range(6):
            found = await list_groups(client, version)
            assert set(found) == set(states)
            assert found["stable"]["protocol_type"] == found["assigned"]["protocol_type"] == "consumer"
            assert found["offsets"]["protocol_type"] == ""
            if version >= 4:
                assert {name: each["group_state"] for name, each in found.items()} == states
            if version >= 5:
                kinds = {name: each["group_type"] for name, each in found.items()}
                assert kinds == {**dict.fromkeys(states, "classic"), "assigned": "consumer", "moving": "consumer"}
        # Asking makes no group.
        assert set(await list_groups(client)) == set(states)

    run(act)


def test_groups_are_listed_by_state_and_kind() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        states = await _groups_of_all_kinds(server, client)
        for version in (4, 5):
            assert set(await list_groups(client, version, states_filter=["Empty"])) == {"offsets", "empty"}
            assert set(await list_groups(client, version, states_filter=["empty", "RECONCILING"])) == {
                "offsets",
                "empty",
                "moving",
            }
            assert await list_groups(client, version, states_filter=["Nowhere"]) == {}
        assert set(await list_groups(client, types_filter=["consumer"])) == {"assigned", "moving"}
        assert set(await list_groups(client, types_filter=["Classic"])) == set(states) - {"assigned", "moving"}
        found = await list_groups(client, types_filter=["classic"], states_filter=["Stable"])
        assert set(found) == {"stable"}
        assert await list_groups(client, types_filter=["share"]) == {}

    run(act)


@pytest.mark.parametrize("version", range(7))
def test_classic_groups_are_described_in_every_version(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        states = await _groups_of_all_kinds(server, client)
        for name in ("offsets", "stable", "empty", "completing", "preparing"):
            found = await describe(client, name, version)
            assert (found["error_code"], found["group_id"], found["group_state"]) == (0, name, states[name])
            assert len(found["members"]) == {"stable": 1, "completing": 1, "preparing": 2}.get(name, 0)
            assert found["protocol_data"] == ("range" if name == "stable" else "")
            assert found["protocol_type"] == ("" if name == "offsets" else "consumer")
            assert [bool(each["member_assignment"]) for each in found["members"]] == [name == "stable"] * len(
                found["members"]
            )

    run(act)


@pytest.mark.parametrize("version", range(7))
def test_what_is_no_classic_group_is_dead(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await _groups_of_all_kinds(server, client)
        for name in ("nobody", "assigned"):
            found = await describe(client, name, version)
            assert (found["group_state"], found["members"]) == ("Dead", [])
            assert found["error_code"] == (UNKNOWN_GROUP if version >= 6 else 0)
            if version >= 6:
                assert name in found["error_message"]
        assert (await describe(client, "", version))["error_code"] == INVALID_GROUP

    run(act)


def test_groups_whose_broker_assigns_are_described_with_target_and_assignment() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=3)
        first, second = ConsumerMember(client, "first"), ConsumerMember(client, "second", instance_id="two")
        await first.heartbeat()
        await second.heartbeat()
        for version in (0, 1):
            found = await describe_consumer(client, version=version)
            assert (found["error_code"], found["group_state"], found["assignor_name"]) == (0, "Reconciling", "uniform")
            assert found["group_epoch"] == found["assignment_epoch"]
            members = {each["member_id"]: each for each in found["members"]}
            assert _indexes(members["first"]["assignment"]) == [0, 1, 2]
            assert len(_indexes(members["first"]["target_assignment"])) == 2
            assert len(_indexes(members["second"]["target_assignment"])) == 1
            assert (members["second"]["instance_id"], members["second"]["subscribed_topic_names"]) == ("two", ["t"])
            assert (members["first"]["client_id"], members["first"]["client_host"]) == ("raw", "/client")
            assert members["first"].get("member_type", 1) == 1
        for _ in range(3):
            await first.heartbeat()
            await second.heartbeat()
        found = await describe_consumer(client)
        assert found["group_state"] == "Stable"
        assert {each["member_epoch"] for each in found["members"]} == {found["group_epoch"]}

    run(act)


def _indexes(part: dict[str, list[dict[str, list[int]]]]) -> list[int]:
    return sorted(index for each in part["topic_partitions"] for index in each["partitions"])


def test_what_is_no_group_whose_broker_assigns_is_not_found() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await Member(client, group="classic").enter()
        for name, code in (("nobody", UNKNOWN_GROUP), ("classic", UNKNOWN_GROUP), ("", INVALID_GROUP)):
            found = await describe_consumer(client, name)
            assert (found["error_code"], found["group_id"]) == (code, name)
            assert found["error_message"]

    run(act)


def test_groups_without_members_are_deleted_with_their_offsets() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        states = await _groups_of_all_kinds(server, client)
        for version in range(3):
            names = [*states, "nobody", ""]
            codes = dict(zip(names, await delete_groups(client, *names, version=version), strict=True))
            gone = 0 if version == 0 else UNKNOWN_GROUP
            assert codes == {
                **dict.fromkeys(states, NON_EMPTY_GROUP),
                "offsets": gone,
                "empty": gone,
                "nobody": UNKNOWN_GROUP,
                "": INVALID_GROUP,
            }
        assert set(await list_groups(client)) == set(states) - {"offsets", "empty"}
        assert await committed(client, "offsets") == {}

    run(act)


def test_groups_are_there_after_a_restart_and_so_are_their_members() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t", partitions=2)
            classic, assigned = Member(client), ConsumerMember(client, "m", group="assigned")
            await classic.enter({"t": [0, 1]})
            await assigned.heartbeat()
            before = await describe(client), await describe_consumer(client, "assigned")
            await server.stop()
            await server.start()
            client = classic.client = assigned.client = await server.client()
            assert (await describe(client), await describe_consumer(client, "assigned")) == before
            assert await classic.heartbeat() == 0
            assert (await assigned.heartbeat())["error_code"] == 0
            assert (await describe(client), await describe_consumer(client, "assigned")) == before

    simulate(main, 7)


def test_topic_of_groups_is_listed_as_internal_and_takes_no_writes() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await commit(client, offsets({0: 1}))
        topic = (await metadata(client, INTERNAL))[INTERNAL]
        assert (topic["is_internal"], len(topic["partitions"])) == (True, 50)
        results = [await publish(client, INTERNAL, batch(b"x"), partition=index) for index in range(50)]
        assert {result["error_code"] for result in results} == {INVALID_TOPIC}
        assert (await publish(client, "__anything", batch(b"x")))["error_code"] == UNKNOWN_TOPIC
        assert await committed(client) == {("t", 0): 1}

    run(act)
