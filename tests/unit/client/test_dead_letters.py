"""Dead letters in the Python client, sync and async: looked at, published again and deleted."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.client import AsyncClient, Client, Letters, NewMessage, Redrive, dead_letters, messages, queues, topics
from goqueue.errors import RedriveRunning, UnknownRedrive, UnknownTopic
from goqueue.testing import Broker

_WAIT_S = 120


async def _ended(client: AsyncClient, job: Redrive) -> Redrive:
    async with asyncio.timeout(_WAIT_S):
        while not job.is_over:
            job = await client.send(dead_letters.find_redrive(job.id))
    return job


async def _bury(client: AsyncClient, topic: str) -> None:
    """Have three messages die."""
    await client.send(topics.create(topic, partitions=1))
    new = [NewMessage(f"v{number}", key=b"\xff%d" % number) for number in range(3)]
    await client.send(messages.publish(topic, new))
    received = await client.send(queues.receive(f"{topic}-group", topic))
    await client.send(queues.reject(*received.messages, reason="no luck"))
    async with asyncio.timeout(_WAIT_S):
        while len((await client.send(dead_letters.browse(topic))).letters) < 3:
            pass


def test_letters_are_looked_at_moved_and_deleted(goqueue_session_broker: Broker) -> None:
    async def main() -> None:
        async with AsyncClient(goqueue_session_broker.http) as client:
            await _bury(client, "dead-letters")
            page = await client.send(dead_letters.browse("dead-letters", order="oldest", limit=2, totals=True))
            assert [(each.message.value, each.message.key) for each in page.letters] == [
                (b"v0", b"\xff0"),
                (b"v1", b"\xff1"),
            ]
            assert page.totals is not None
            assert (page.totals.letters, page.totals.by_reason, page.is_cut) == (3, {"rejected": 3}, False)
            cause = page.letters[0].cause
            assert (cause.error, cause.topic, cause.offset, cause.redrives) == ("no luck", "dead-letters", 0, 0)
            page = await client.send(dead_letters.browse("dead-letters", order="oldest", cursor=page.cursor))
            assert [each.message.value for each in page.letters] == [b"v2"]

            page = await client.send(dead_letters.browse("dead-letters", key=b"\xff1"))
            assert [each.message.value for each in page.letters] == [b"v1"]

            chosen = Letters(key=b"\xff1")
            preview = await client.send(dead_letters.preview("dead-letters", chosen))
            assert (preview.topic, preview.moves.moved, preview.cut) == ("dead-letters.dlq", 1, False)
            job = await _ended(client, await client.send(dead_letters.redrive("dead-letters", chosen)))
            assert (job.state, job.moves.moved, job.trouble) == ("done", 1, "")
            shown = await client.send(dead_letters.browse("dead-letters", redriven=True))
            assert [each.is_redriven for each in shown.letters] == [False, True, False]
            assert await client.send(dead_letters.purge("dead-letters")) == 3

    asyncio.run(main())


def test_redrives_are_listed_and_cancelled(goqueue_session_broker: Broker) -> None:
    async def prepare() -> None:
        async with AsyncClient(goqueue_session_broker.http) as client:
            await _bury(client, "dead-letters-slow")

    asyncio.run(prepare())
    with Client(goqueue_session_broker.http) as client:
        listed = {each.topic: each for each in client.send(dead_letters.list_all())}
        assert listed["dead-letters-slow.dlq"].sources == ["dead-letters-slow"]
        job = client.send(dead_letters.redrive("dead-letters-slow", rate=0.001, limit=2, target="dead-letters-slow"))
        assert (job.rate, job.limit, job.target) == (0.001, 2, "dead-letters-slow")
        with pytest.raises(RedriveRunning):
            client.send(dead_letters.redrive("dead-letters-slow"))
        assert job.id in [each.id for each in client.send(dead_letters.list_redrives())]
        client.send(dead_letters.cancel_redrive(job.id))
        with pytest.raises(UnknownRedrive):
            client.send(dead_letters.find_redrive("0" * 32))
        with pytest.raises(UnknownTopic):
            client.send(dead_letters.redrive("nobody-has-this"))
