"""Read a topic as a member of a group; offsets are committed while the program reads."""

import os

from goqueue.client import Client, NewMessage, messages

with Client(os.environ.get("GOQUEUE_SERVER", "http://127.0.0.1:8080")) as client:
    client.send(messages.publish("orders", [NewMessage(f"order {number}") for number in range(3)]))

    with client.consumer("reports", ["orders"]) as consumer:
        while batch := consumer.poll(wait_s=2):
            for message in batch:
                print(message.topic, message.value)
