"""Turn each quote into one invoice, exactly once: messages and offsets are committed together."""

import os

from goqueue.client import Client, NewMessage, messages

with Client(os.environ.get("GOQUEUE_SERVER", "http://127.0.0.1:8080")) as client:
    client.send(messages.publish("quotes", [NewMessage("quote 1"), NewMessage("quote 2")]))

    with client.consumer("accounting", ["quotes"]) as consumer:
        while batch := consumer.poll(wait_s=2):
            with client.transaction("accounting-1") as transaction:
                transaction.publish("bills", [NewMessage(b"bill for " + (quote.value or b"")) for quote in batch])
                transaction.send_offsets(consumer)
            print("billed", len(batch))
