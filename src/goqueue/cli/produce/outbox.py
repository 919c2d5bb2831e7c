"""The outbox of `goqueue produce`: a thread publishes batches while more input is read.

When the thread is free, it sends all waiting entries as one batch, up to a limit. So a typed line is sent at once, and
a large file in large batches, without a timer. One batch is in flight at a time: with two, the broker could store the
second before the first, and lines of a file would change places.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from goqueue.cli.produce.input import Entry
from goqueue.client import Acks, Client, Published, RequestTimedOut, messages
from goqueue.errors import GoQueueError, Invalid, InvalidTopicName

# The broker accepts 10,000 messages; smaller batches let it serve other clients in between.
_BATCH_MESSAGES = 4000
_BATCH_BYTES = 1024 * 1024
_WAITING_BYTES_MAX = 2 * _BATCH_BYTES


Told = Callable[[Sequence[Entry], Sequence[Published | GoQueueError]], None]


class Outbox:
    """Takes entries from one thread and publishes them from another, which calls `told` with the results."""

    def __init__(self, client: Client, topic: str, acks: Acks, told: Told) -> None:
        self._client = client
        self._topic = topic
        self._acks = acks
        self._told = told
        self._waiting: deque[Entry] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_over = False
        self._is_done = False
        self.failure: GoQueueError | None = None
        """The error that ended publishing early."""
        self._failed: Sequence[Entry] = ()
        self._thread = threading.Thread(target=self._run, name="goqueue-outbox", daemon=True)
        self._thread.start()

    def put(self, entries: Sequence[Entry]) -> bool:
        """Add entries, after waiting for space; return False if publishing has ended."""
        size = sum([len(entry.message) for entry in entries])
        with self._changed:
            while self._waiting_bytes >= _WAITING_BYTES_MAX and not self._is_over:
                self._changed.wait()
            self._waiting.extend(entries)
            self._waiting_bytes += size
            self._changed.notify()
            return not self._is_over

    def close(self) -> None:
        """Wait until all entries are published, or publishing has failed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        if not self._is_done:
            raise RuntimeError("the publishing thread has failed")  # it has printed its traceback

    def lost(self) -> str:
        """Return a sentence on the entries that were not sent; empty if all were."""
        if self.failure is None:
            return ""
        first, last = self._failed[0].place, self._failed[-1].place
        if isinstance(self.failure, RequestTimedOut) or getattr(self.failure, "is_sent", False):
            return f"{first} to {last}: may have been published or not; later lines were not"
        return f"{first}: not published, and neither were later lines"

    def _run(self) -> None:
        try:
            self._publish_all()
            self._is_done = True
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify()

    def _publish_all(self) -> None:
        while batch := self._next_batch():
            try:
                self._told(batch, self._publish(batch))
            except GoQueueError as error:
                self.failure, self._failed = error, batch
                return

    def _next_batch(self) -> list[Entry]:
        """Wait for entries and take as many as one request may hold; none at the end."""
        batch: list[Entry] = []
        size = 0
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            while self._waiting and len(batch) < _BATCH_MESSAGES:
                weight = len(self._waiting[0].message)
                if batch and size + weight > _BATCH_BYTES:
                    break
                batch.append(self._waiting.popleft())
                size += weight
            self._waiting_bytes -= size
            self._changed.notify()
        return batch

    def _publish(self, batch: Sequence[Entry]) -> Sequence[Published | GoQueueError]:
        """Publish entries; if the broker refuses the batch, halve it to find the invalid entries."""
        try:
            return self._client.send(messages.publish(self._topic, [entry.message for entry in batch], acks=self._acks))
        except InvalidTopicName:
            raise
        except Invalid as error:
            if len(batch) == 1:
                return [error]
        half = len(batch) // 2
        return [*self._publish(batch[:half]), *self._publish(batch[half:])]
