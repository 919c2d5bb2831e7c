"""Where a broker listens, told among its settings: clients of one protocol find the others."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData
from goqueue.testing import Broker
from tests.protocols.kafka.api_kit import configs, run
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.server import HOST, SimServer


def test_a_kafka_client_finds_the_way_to_http() -> None:
    with Broker() as broker, KafkaData(broker.bootstrap) as data:
        told = data.describe_broker()
        expected = f"PLAINTEXT://{broker.bootstrap},HTTP://{broker.http.removeprefix('http://')}"
        assert (told["listeners"], told["advertised.listeners"]) == (expected, expected)
        advertised = dict(each.split("://") for each in (told["advertised.listeners"] or "").split(","))
        with Client(f"http://{advertised['HTTP']}") as client:
            assert list(client.send(topics.list_all())) == []


def test_an_admin_client_is_told_listeners_as_settings_that_cannot_be_changed() -> None:
    with Broker() as broker:
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (future,) = admin.describe_configs([resource]).values()
        found = future.result(10)["advertised.listeners"]
        assert found.value.startswith(f"PLAINTEXT://{broker.bootstrap},HTTP://127.0.0.1:")
        assert found.is_read_only


def test_what_is_advertised_is_the_host_that_was_configured_or_reached() -> None:
    async def reached(server: SimServer, client: RawClient) -> None:
        told = await configs(client, "1", kind=4)
        addresses = server.server.addresses
        http_port = addresses["http"][1]
        assert told["advertised.listeners"]["value"] == f"PLAINTEXT://{HOST}:9092,HTTP://{HOST}:{http_port}"

    async def configured(server: SimServer, client: RawClient) -> None:
        told = await configs(client, "1", kind=4, keys=["advertised.listeners"])
        assert told["advertised.listeners"]["value"] == "PLAINTEXT://[fd00::7]:19092,HTTP://[fd00::7]:8080"

    run(reached)
    run(configured, advertised_host="fd00::7", advertised_kafka_port=19092)
