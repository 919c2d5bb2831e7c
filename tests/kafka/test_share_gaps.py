"""Share consumers where there is nothing for them: aborted messages, and such as are gone from the log."""

from __future__ import annotations

from uuid import UUID

from tests.kafka.api_kit import pass_time, run
from tests.kafka.raw import RawClient
from tests.kafka.requests import create_topic, delete_records
from tests.kafka.server import SimServer
from tests.kafka.share_kit import ShareMember, Where, publish
from tests.kafka.transaction_kit import TxnProducer


async def _topic(client: RawClient) -> Where:
    topic_id: UUID = (await create_topic(client, "t"))["topic_id"]
    return topic_id, 0


def test_more_aborted_messages_than_one_look_takes_are_passed() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        producer = TxnProducer(client)
        assert await producer.init() == 0
        await producer.add(("t", 0))
        for sequence in range(40):
            assert (await producer.produce(b"x" * 1024, sequence=sequence))["error_code"] == 0
        assert await producer.end(is_commit=False) == 0
        await publish(client, "t", "good")
        assert await ShareMember(client).take(where, max_bytes=1024, max_wait=100) == ["good"]

    run(act)


def test_messages_that_are_gone_when_their_lease_ends_are_done() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _topic(client)
        await publish(client, "t", "a", "b")
        member = ShareMember(client)
        await member.heartbeat()
        assert await member.take(where) == ["a", "b"]
        await delete_records(client, "t", -1)
        await pass_time(31)
        assert await member.take() == []
        (group,) = [each for machine in server.server.broker.queues.machines for each in machine.groups.values()]
        assert [(window.floor, window.in_flight) for window in group.windows.values()] == [(2, 0)]

    run(act)
