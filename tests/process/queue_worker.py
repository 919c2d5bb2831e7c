"""A worker of a queue group in a process of its own: handles messages, and writes down what happens to it.

    python -m tests.process.queue_worker SERVER GROUP TOPIC VISIBILITY_S KIND

Each line of its output is one event in JSON, with the system's monotonic time, so that lines of several processes can
be put in order: `handled` when a handler begins, with partition, offset and delivery; `acked` with the places of
messages once the broker has confirmed that they are done; `ended` when it has stopped as it should.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

from typing_extensions import override

from goqueue.client import AsyncClient, Client, Patience, QueueMessage, SettledMessage
from goqueue.client import client as clients
from goqueue.client.calls import Call

# As long as a handler takes: there are always some at work when something happens.
HANDLING_S = 0.02


def note(event: str, **facts: object) -> None:
    """Write an event down, in one piece."""
    sys.stdout.write(json.dumps({"at": time.monotonic(), "event": event, **facts}) + "\n")
    sys.stdout.flush()


class NotedClient(AsyncClient):
    """A client that writes down which acks were confirmed."""

    @override
    async def send(self, call: Call[Any], *, patience: Patience | None = None) -> Any:
        result = await super().send(call, patience=patience)
        if call.path.endswith("/ack"):
            receipts = json.loads(call.body or b"{}")["receipt_handles"]
            done = [receipt for receipt, fate in zip(receipts, result, strict=True) if isinstance(fate, SettledMessage)]
            note("acked", receipts=done)
        return result


def handle(message: QueueMessage) -> None:
    """Handle a message, which takes a while."""
    _note_handled(message)
    threading.Event().wait(HANDLING_S)


async def handle_async(message: QueueMessage) -> None:
    """Handle a message, which takes a while."""
    _note_handled(message)
    await asyncio.wait([asyncio.create_task(asyncio.to_thread(threading.Event().wait, HANDLING_S))])


def _note_handled(message: QueueMessage) -> None:
    where = message.message
    note(
        "handled",
        place=[where.partition, where.offset],
        delivery=message.delivery_count,
        receipt=message.receipt_handle,
    )


async def _run_async(server: str, group: str, topic: str, visibility_s: float) -> None:
    async with NotedClient(server) as client:
        await client.worker(group, topic, handle_async, visibility_s=visibility_s, concurrency=8).run()


def main(server: str, group: str, topic: str, visibility_s: str, kind: str) -> None:
    """Work until a signal comes."""
    if kind == "async":
        asyncio.run(_run_async(server, group, topic, float(visibility_s)))
    else:
        clients.AsyncClient = NotedClient  # type: ignore[misc]
        with Client(server) as client:
            client.worker(group, topic, handle, visibility_s=float(visibility_s), concurrency=8).run()
    note("ended")


if __name__ == "__main__":
    main(*sys.argv[1:6])
