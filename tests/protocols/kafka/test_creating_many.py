"""Very many topics by one request: a bounded number is made, and only while the client and the broker stay."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.topics.admin import CREATED_ON_DEMAND_MAX
from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.api_kit import UNKNOWN_TOPIC, run
from tests.protocols.kafka.raw import CREATE_TOPICS, METADATA, RawClient
from tests.protocols.kafka.requests import metadata
from tests.protocols.kafka.server import SimServer, serving

NAMES = [f"topic-{number:04}" for number in range(CREATED_ON_DEMAND_MAX + 50)]


def test_metadata_makes_a_bounded_number_of_topics_and_the_next_request_goes_on() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        first = await metadata(client, *NAMES, may_create=True)
        made = [name for name in NAMES if first[name]["error_code"] == 0]
        assert made == NAMES[:CREATED_ON_DEMAND_MAX]
        assert {first[name]["error_code"] for name in NAMES[CREATED_ON_DEMAND_MAX:]} == {UNKNOWN_TOPIC}
        second = await metadata(client, *NAMES, may_create=True)
        assert {topic["error_code"] for topic in second.values()} == {0}

    run(act)


def test_metadata_makes_no_more_topics_once_its_client_has_left() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        topics = server.server.broker.topics.by_name
        request = {"topics": [{"name": name} for name in NAMES], "allow_auto_topic_creation": True}
        client.send(METADATA, 12, request)
        while len(topics) < 3:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.001)
        client.close()
        await asyncio.sleep(60)
        assert 3 <= len(topics) < 20

    run(act)


@pytest.mark.parametrize("api", [METADATA, CREATE_TOPICS])
def test_broker_that_stops_makes_no_more_topics_of_a_request(api: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            broker = server.server.broker
            names = [f"topic-{number:04}" for number in range(1000)]
            wanted = {"num_partitions": 1, "replication_factor": 1}
            topics = [{"name": name} | (wanted if api == CREATE_TOPICS else {}) for name in names]
            more = {"timeout": 1000} if api == CREATE_TOPICS else {"allow_auto_topic_creation": True}
            client.send(api, 7 if api == CREATE_TOPICS else 12, {"topics": topics, **more})
            while len(broker.topics.by_name) < 3:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.001)
            await server.stop()
            assert 3 <= len(list(broker.topics.catalog.topics)) <= 250

    simulate(main, 7)
