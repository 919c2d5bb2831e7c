"""Publish and read with an unmodified Kafka client: pip install confluent-kafka."""

import os

from confluent_kafka import Consumer, Producer

BROKER = {"bootstrap.servers": os.environ.get("GOQUEUE_BOOTSTRAP", "127.0.0.1:9092")}

producer = Producer({**BROKER, "enable.idempotence": True})
for number in range(3):
    producer.produce("payments", key=f"customer-{number}", value=f"payment {number}")
producer.flush(10)

consumer = Consumer({**BROKER, "group.id": "ledger", "auto.offset.reset": "earliest"})
consumer.subscribe(["payments"])
for message in consumer.consume(3, timeout=20):
    print(message.key(), message.value())
consumer.close()
