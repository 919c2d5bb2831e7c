"""Messages of one batch that come again: each has its turn, however often others are released or given back."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.admin import configure_queue
from tests.protocols.kafka.api_kit import run
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer
from tests.protocols.kafka.share_kit import RELEASE, ShareMember, Where, acquired, publish

COUNT = 10


async def _release_all(server: SimServer, client: RawClient, member: ShareMember) -> Where:
    """Have all messages of a batch ready again, the first of them last."""
    where: Where = ((await create_topic(client, "t"))["topic_id"], 0)
    await publish(client, "t", *map(str, range(COUNT)))
    await _configure(server, retries=1000)
    assert acquired(await member.fetch(where)) == [(0, COUNT - 1, 1)]
    await member.acknowledge({where: [(1, COUNT - 1, [RELEASE])]})
    await member.acknowledge({where: [(0, 0, [RELEASE])]})
    return where


async def _configure(server: SimServer, **settings: Any) -> None:
    await configure_queue(server.server.broker.queues, INSIDE, "g", partial(replace, **settings))


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_message_that_is_released_again_and_again_keeps_no_other_of_its_batch_waiting(is_strict: bool) -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        member = ShareMember(await server.client())
        where = await _release_all(server, client, member)
        wish: dict[str, Any] = {"version": 2, "max_records": 1, "batch_size": 1, "share_acquire_mode": 1}
        if not is_strict:
            wish = {}
            await _configure(server, in_flight_max=1)
        seen = []
        for _ in range(COUNT):
            ((first, last, _),) = acquired(await member.fetch(**wish))
            assert first == last
            seen.append(first)
            await member.acknowledge({where: [(first, first, [RELEASE])]})
        assert seen == [*range(1, COUNT), 0], "the one that has waited longest comes first"

    run(act)


def test_a_message_that_is_given_back_by_all_who_get_it_keeps_no_other_of_its_batch_waiting() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        where = await _release_all(server, client, ShareMember(await server.client()))
        await _configure(server, in_flight_max=3)
        seen: set[int] = set()
        for number in range(4):
            member = ShareMember(await server.client(), f"m{number}")
            for first, last, _ in acquired(await member.fetch(where)):
                seen.update(range(first, last + 1))
            await member.close()
        assert seen == set(range(COUNT))

    run(act)
