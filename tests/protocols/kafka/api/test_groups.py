"""Members of classic groups, asked by raw clients: every version, and the cases that clients of others do not send."""

from __future__ import annotations

import asyncio

import pytest

from tests.protocols.kafka.api_kit import INVALID_REQUEST, configs, pass_time, run
from tests.protocols.kafka.group_kit import (
    COORDINATOR_NOT_AVAILABLE,
    FIND_COORDINATOR,
    ILLEGAL_GENERATION,
    INCONSISTENT_PROTOCOL,
    INSTANCE_FENCED,
    INVALID_GROUP,
    INVALID_SESSION_TIMEOUT,
    JOIN_GROUP,
    LEAVE_GROUP,
    MEMBER_ID_REQUIRED,
    REBALANCING,
    UNKNOWN_MEMBER,
    Member,
    assignment,
    describe,
    list_groups,
    subscription,
)
from tests.protocols.kafka.messages import Plain, request_bytes
from tests.protocols.kafka.raw import METADATA, RawClient, frame
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer


def test_this_broker_is_the_coordinator_of_groups_transactions_and_shares() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for version in range(7):
            for kind in (0, 1, 2) if version else (0,):
                keys: Plain = {"coordinator_keys": ["g", "h"]} if version >= 4 else {"key": "g"}
                reply = await client.call(FIND_COORDINATOR, version, {"key_type": kind, **keys})
                found = reply["coordinators"] if version >= 4 else [reply]
                assert {(each["error_code"], each["host"], each["port"]) for each in found} == {(0, "broker", 9092)}
                assert [each.get("key") for each in found] == (["g", "h"] if version >= 4 else [None])

    run(act)


def test_there_is_no_coordinator_of_anything_else() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        reply = await client.call(FIND_COORDINATOR, 6, {"key_type": 3, "coordinator_keys": ["g:t:0"]})
        (found,) = reply["coordinators"]
        assert (found["error_code"], found["node_id"]) == (INVALID_REQUEST, -1)
        assert found["error_message"]

    run(act)


@pytest.mark.parametrize("version", range(10))
def test_a_member_lives_in_every_version(version: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        member = Member(client)
        joined = await member.join(version)
        assert (joined["error_code"], joined["generation_id"], joined["protocol_name"]) == (0, 1, "range")
        assert joined["leader"] == joined["member_id"] == member.id
        (view,) = joined["members"]
        assert (view["member_id"], view["metadata"]) == (member.id, subscription("t"))
        assert joined.get("protocol_type", "consumer") == "consumer"
        assert joined.get("skip_assignment", False) is False
        synced = await member.sync({member.id: {"t": [0]}}, min(version, 5))
        assert (synced["error_code"], synced["assignment"]) == (0, assignment({"t": [0]}))
        assert await member.heartbeat(min(version, 4)) == 0
        left = await member.leave(min(version, 5))
        assert left["error_code"] == 0
        assert [each["error_code"] for each in left.get("members", ())] == ([0] if version >= 3 else [])
        assert await member.heartbeat() == UNKNOWN_MEMBER
        assert (await describe(client))["group_state"] == "Empty"

    run(act)


def test_a_new_member_has_to_know_its_id_since_version_4() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for version in range(10):
            member = Member(client, group=f"g{version}")
            reply = await client.call(JOIN_GROUP, version, member.join_request())
            assert reply["error_code"] == (MEMBER_ID_REQUIRED if version >= 4 else 0)
            assert reply["member_id"].startswith("raw-")
            assert len(reply["member_id"]) == len("raw-") + 36
            assert reply["generation_id"] == (-1 if version >= 4 else 1)
            if version >= 4:
                assert reply["protocol_name"] == (None if version >= 7 else "")
        # Static members are known by their instance id.
        reply = await client.call(JOIN_GROUP, 9, Member(client, group="s", instance_id="one").join_request())
        assert reply["error_code"] == 0
        assert reply["member_id"].startswith("one-")

    run(act)


def test_the_leader_assigns_for_all_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        first, second = Member(client), Member(await server.client())
        await asyncio.gather(first.join(), second.join())
        leader, follower = (first, second) if first.is_leader else (second, first)
        assert sorted(leader.others) == sorted([first.id, second.id])
        assert follower.others == []
        assert leader.generation == follower.generation == 1
        waiting = asyncio.ensure_future(follower.sync())
        given = {leader.id: {"t": [0, 1]}, follower.id: {"t": [2]}}
        assert (await leader.sync(given))["assignment"] == assignment({"t": [0, 1]})
        assert (await waiting)["assignment"] == assignment({"t": [2]})
        described = await describe(client)
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        found = {each["member_id"]: each for each in described["members"]}
        assert found[follower.id]["member_assignment"] == assignment({"t": [2]})
        assert found[follower.id]["member_metadata"] == subscription("t")
        assert (found[follower.id]["client_id"], found[follower.id]["client_host"]) == ("raw", "/client")

    run(act)


def test_a_joiner_calls_the_others_to_join_again() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.enter()
        assert await member.heartbeat() == 0
        joining = asyncio.ensure_future(joiner.join())
        while (code := await member.heartbeat()) == 0:
            pass
        assert code == REBALANCING
        assert (await describe(client))["group_state"] == "PreparingRebalance"
        assert (await member.sync())["error_code"] == REBALANCING
        await member.join()
        assert (await joining)["generation_id"] == member.generation == 2
        assert (await describe(client))["group_state"] == "CompletingRebalance"
        assert await member.heartbeat(generation_id=1) == ILLEGAL_GENERATION

    run(act)


def test_a_request_behind_a_join_waits_for_it() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.enter()
        first = await joiner.client.call(JOIN_GROUP, 9, joiner.join_request())
        joiner.id = first["member_id"]
        joiner.client.send(JOIN_GROUP, 9, joiner.join_request())
        joiner.client.send(METADATA, 9, {"topics": []})
        await pass_time(1)
        assert joiner.client.received == b""
        await member.join()
        assert (await joiner.client.reply())["generation_id"] == 2
        assert (await joiner.client.reply())["brokers"]

    run(act)


def test_whoever_does_not_come_again_is_given_up_at_the_rebalance_timeout() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.join(session_timeout=60_000, rebalance_timeout=5_000)
        await member.sync({member.id: {"t": [0]}})
        began = server.simulation.clock.monotonic()
        joined = await joiner.join(rebalance_timeout=5_000)
        assert 4.9 <= server.simulation.clock.monotonic() - began <= 6
        assert (joined["leader"], joiner.others) == (joiner.id, [joiner.id])
        assert await member.heartbeat() == UNKNOWN_MEMBER

    run(act)


def test_the_first_version_has_one_timeout_for_both() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.join(0, session_timeout=8_000)
        await member.sync({member.id: {"t": [0]}}, 0)
        joining = asyncio.ensure_future(joiner.join(0, session_timeout=8_000))
        for _ in range(7):
            await pass_time(1)
            assert await member.heartbeat(0) == REBALANCING
        await pass_time(1.1)
        assert joining.done()
        assert await member.heartbeat(0) == UNKNOWN_MEMBER

    run(act)


def test_a_member_that_is_silent_is_given_up() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = Member(client)
        await member.enter()
        client.close()
        await pass_time(9)
        watcher = await server.client()
        assert (await describe(watcher))["group_state"] == "Stable"
        await pass_time(1.1)
        assert (await describe(watcher))["group_state"] == "Empty"

    run(act)


def test_a_client_that_goes_while_it_joins_holds_up_nobody() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.enter()
        joiner.id = (await joiner.client.call(JOIN_GROUP, 9, joiner.join_request()))["member_id"]
        joiner.client.send(JOIN_GROUP, 9, joiner.join_request())
        await pass_time(0.1)
        joiner.client.close()
        assert (await member.join())["generation_id"] == 2
        assert (await member.sync({member.id: {"t": [0]}}))["error_code"] == 0
        assert await member.heartbeat() == 0

    run(act)


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = Member(client, instance_id="one")
        await member.enter({"t": [0, 1]})
        again = Member(await server.client(), instance_id="one")
        joined = await again.join()
        assert (joined["error_code"], joined["generation_id"], joined["skip_assignment"]) == (0, 1, True)
        assert again.id != member.id
        assert (await again.sync())["assignment"] == assignment({"t": [0, 1]})
        assert await member.heartbeat() == INSTANCE_FENCED
        assert (await member.sync())["error_code"] == INSTANCE_FENCED
        assert (await describe(client))["members"][0]["group_instance_id"] == "one"

    run(act)


def test_each_member_that_leaves_has_a_result_of_its_own() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = Member(client, instance_id="one")
        await member.enter()
        wanted = [
            {"member_id": "nobody", "group_instance_id": None},
            {"member_id": "", "group_instance_id": "two"},
            {"member_id": "nobody", "group_instance_id": "one"},
            {"member_id": "", "group_instance_id": "one"},
        ]
        reply = await client.call(LEAVE_GROUP, 5, {"group_id": "g", "members": wanted})
        assert reply["error_code"] == 0
        assert [each["error_code"] for each in reply["members"]] == [
            UNKNOWN_MEMBER,
            UNKNOWN_MEMBER,
            INSTANCE_FENCED,
            0,
        ]
        assert (await describe(client))["group_state"] == "Empty"
        assert (await client.call(LEAVE_GROUP, 2, {"group_id": "g", "member_id": "x"}))["error_code"] == UNKNOWN_MEMBER

    run(act)


def test_leaving_a_group_that_is_not_there_makes_none() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for version in (2, 5):
            reply = await Member(client, id="x").leave(version)
            found = reply if version < 3 else reply["members"][0]
            assert found["error_code"] == UNKNOWN_MEMBER
        assert await list_groups(client) == {}

    run(act)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, INVALID_GROUP),
        ({"group_id": "x" * 1001}, INVALID_GROUP),
        ({"member_id": "somebody"}, UNKNOWN_MEMBER),
        ({"member_id": "somebody", "group_instance_id": "two"}, UNKNOWN_MEMBER),
        ({"session_timeout": 5_999}, INVALID_SESSION_TIMEOUT),
        ({"session_timeout": 1_800_001}, INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, INCONSISTENT_PROTOCOL),
        ({"protocol_type": ""}, INCONSISTENT_PROTOCOL),
        ({"protocols": []}, INCONSISTENT_PROTOCOL),
        ({"protocols": [{"name": "mine", "metadata": b""}]}, INCONSISTENT_PROTOCOL),
    ],
)
def test_a_join_that_does_not_fit_changes_nothing(changes: Plain, code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await Member(client).enter()
        before = await describe(client)
        for version in (2, 5, 9):
            reply = await Member(client).join(version, **changes)
            assert (reply["error_code"], reply["generation_id"], reply["members"]) == (code, -1, [])
        assert await describe(client) == before

    run(act)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, INVALID_GROUP),
        ({"group_id": "other"}, UNKNOWN_MEMBER),
        ({"member_id": "somebody"}, UNKNOWN_MEMBER),
        ({"group_instance_id": "two"}, UNKNOWN_MEMBER),
        ({"generation_id": 0}, ILLEGAL_GENERATION),
        ({"generation_id": 2}, ILLEGAL_GENERATION),
        ({"generation_id": -1}, ILLEGAL_GENERATION),
    ],
)
def test_whoever_is_not_a_member_of_the_generation_is_told_so(changes: Plain, code: int) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = Member(client)
        await member.enter()
        before = await describe(client)
        assert await member.heartbeat(**changes) == code
        assert (await member.sync(**changes))["error_code"] == code
        assert await describe(client) == before
        assert await member.heartbeat() == 0
        assert set(await list_groups(client)) == {"g"}

    run(act)


def test_a_sync_says_which_protocol_it_follows() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = Member(client)
        await member.enter()
        for changes in (
            {"protocol_type": None},
            {"protocol_name": None},
            {"protocol_type": "connect"},
            {"protocol_name": "roundrobin"},
        ):
            request = {**member.named(), "protocol_type": "consumer", "protocol_name": "range", **changes}
            assert (await client.call(14, 5, request))["error_code"] == INCONSISTENT_PROTOCOL
        assert (await member.sync(version=4))["error_code"] == 0

    run(act)


def test_a_client_may_call_itself_anything() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        body = request_bytes(JOIN_GROUP, 0, Member(client).join_request())
        for client_id in (b"", b"x" * 32_767, b"\xff" * 32_767, "ü".encode() * 10_000):
            client.write(frame(JOIN_GROUP, 0, 1, body, client_id))
            assert await client.raw_reply()
            assert (await describe(await server.client()))["error_code"] == 0

    run(act)


def test_a_stop_does_not_wait_for_those_who_join() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member, joiner = Member(client), Member(await server.client())
        await member.enter()
        joiner.id = (await joiner.client.call(JOIN_GROUP, 9, joiner.join_request()))["member_id"]
        joiner.client.send(JOIN_GROUP, 9, joiner.join_request())
        await pass_time(0.1)
        began = server.simulation.clock.monotonic()
        await server.stop()
        assert server.simulation.clock.monotonic() - began < 1
        assert (await joiner.client.reply())["error_code"] == COORDINATOR_NOT_AVAILABLE

    run(act)


@pytest.mark.parametrize(
    ("settings", "allowed", "refused"),
    [
        ({}, (6_000, 1_800_000), (5_999, 1_800_001)),
        ({"group_min_session_timeout_ms": 100, "group_max_session_timeout_ms": 7_000}, (100, 7_000), (99, 7_001)),
    ],
)
def test_session_timeouts_have_the_bounds_of_the_settings(
    settings: dict[str, int], allowed: tuple[int, int], refused: tuple[int, int]
) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for number, session_ms in enumerate(refused):
            reply = await Member(client, group=f"refused-{number}").join(0, session_timeout=session_ms)
            assert reply["error_code"] == INVALID_SESSION_TIMEOUT
        for number, session_ms in enumerate(allowed):
            reply = await Member(client, group=f"allowed-{number}").join(0, session_timeout=session_ms)
            assert reply["error_code"] == 0
        shown = await configs(client, "1", kind=4)
        for name, value in zip(("min", "max"), allowed, strict=True):
            assert shown[f"group.{name}.session.timeout.ms"]["value"] == str(value)

    run(act, **settings)
