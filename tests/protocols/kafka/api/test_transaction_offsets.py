"""Offsets that are sent to transactions, by raw clients: which are taken, and when they count."""

from __future__ import annotations

from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, run
from tests.protocols.kafka.group_kit import ConsumerMember, committed
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.transaction_kit import (
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    INVALID_STATE,
    UNKNOWN_MEMBER,
    producer_of,
    stand,
)


def test_offsets_need_their_group_in_the_transaction_before_version_5() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        for version in range(5):
            assert await producer.commit_offsets({0: 1}, version=version) == [INVALID_STATE]
        assert (await stand(client))[0] == "Empty"
        assert await producer.commit_offsets({0: 1}, version=5) == [0]
        assert (await stand(client))[0] == "Ongoing"
        assert await committed(client) == {}
        await producer.end(is_commit=True)
        assert await committed(client) == {("t", 0): 1}

    run(act)


def test_offsets_of_what_does_not_exist_are_refused_one_by_one() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        assert await producer.commit_offsets({0: 1, 7: 1}) == [0, UNKNOWN_TOPIC]
        assert await producer.commit_offsets({0: 1}, topic="none") == [UNKNOWN_TOPIC]
        assert await producer.commit_offsets({0: 1}, group="") == [INVALID_GROUP_ID]
        assert await producer.add_group("") == INVALID_GROUP_ID
        assert await producer.commit_offsets({0: 1}, member_id="who", generation_id=3) == [UNKNOWN_MEMBER]
        await producer.end(is_commit=True)
        assert await committed(client) == {("t", 0): 1}

    run(act)


def test_a_member_whose_broker_assigns_is_told_of_an_old_epoch_as_producers_know_it() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client, partitions=2)
        member = ConsumerMember(await server.client(), "m")
        await member.heartbeat()
        epoch = member.epoch
        assert await producer.commit_offsets({0: 1}, member_id="m", generation_id=epoch) == [0]
        assert await producer.commit_offsets({1: 1}, member_id="m", generation_id=77) == [ILLEGAL_GENERATION]
        assert await producer.commit_offsets({1: 1}, member_id="n", generation_id=epoch) == [UNKNOWN_MEMBER]
        other = ConsumerMember(await server.client(), "n")
        await other.heartbeat()
        await member.heartbeat()
        (given_away,) = {0, 1} - set(member.partitions)
        await member.heartbeat()
        refused = await producer.commit_offsets({given_away: 9}, member_id="m", generation_id=member.epoch)
        assert refused == [ILLEGAL_GENERATION]
        assert await producer.end(is_commit=True) == 0
        assert await committed(client) == {("t", 0): 1}

    run(act)


def test_a_producer_that_names_no_member_may_set_offsets_although_there_are_members() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await producer_of(client)
        await ConsumerMember(await server.client(), "m").heartbeat()
        assert await producer.commit_offsets({0: 5}) == [0]
        assert await producer.commit_offsets({0: 6}, group_instance_id="i") == [UNKNOWN_MEMBER]
        assert await producer.commit_offsets({0: 7}, generation_id=1) == [UNKNOWN_MEMBER]
        assert await producer.end(is_commit=True) == 0
        assert await committed(client) == {("t", 0): 5}

    run(act)
