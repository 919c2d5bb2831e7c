"""Test your own code against a real broker: run it with pytest, nothing needs to be started."""

from confluent_kafka import Producer

from goqueue.client import Client, NewMessage, messages, queues
from goqueue.testing import Broker


def test_paid_order_is_shipped(goqueue_broker: Broker) -> None:
    """Publish with a Kafka client, receive from a queue."""
    producer = Producer({"bootstrap.servers": goqueue_broker.bootstrap})
    producer.produce("orders", value="paid")
    assert producer.flush(10) == 0

    with Client(goqueue_broker.http) as client:
        (message,) = client.send(queues.receive("shipping", "orders", wait_s=5)).messages
        assert message.value == b"paid"


def test_unfinished_work_comes_back(goqueue_broker: Broker) -> None:
    """Move the clock of the broker instead of waiting for a lease to expire."""
    with Client(goqueue_broker.http) as client:
        client.send(messages.publish("orders", [NewMessage("paid")]))
        client.send(queues.receive("shipping", "orders", visibility_s=30, wait_s=5))
        goqueue_broker.advance(31)
        (message,) = client.send(queues.receive("shipping", "orders", wait_s=5)).messages
        assert message.delivery_count == 2
