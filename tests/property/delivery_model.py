"""A queue group as one would describe it to a friend: one entry for each message, and every question asked of all."""

from __future__ import annotations

from dataclasses import dataclass, field

from goqueue.machines.queues.values import AckType


@dataclass(slots=True)
class Message:
    """A message, and what has happened to it; `until` is the end of a lease or of a wait.

    `tries` are the deliveries without those after which it was just given back.
    """

    key: bytes | None = None
    state: str = "new"
    deliveries: int = 0
    tries: int = 0
    lease: int = -1
    consumer: str = ""
    until: int = -1


@dataclass(slots=True)
class NaiveQueue:
    """All messages of a partition by offset, in any state; offsets without a message are not in here."""

    retries: int
    messages: dict[int, Message] = field(default_factory=dict)

    def pass_time(self, now_ms: int) -> None:
        """Let leases and waits end."""
        for message in self.messages.values():
            if message.until > now_ms or message.state not in {"leased", "waiting"}:
                continue
            is_dead = message.state == "leased" and message.tries > self.retries
            message.state = "dead" if is_dead else "ready"

    def held_by(self, consumer: str) -> int:
        """Return how many messages a consumer has."""
        return sum(each.state == "leased" and each.consumer == consumer for each in self.messages.values())

    def deliverable(self, *, is_ordered: bool) -> set[int]:
        """Return the messages that anybody may get now."""
        found = {offset for offset, each in self.messages.items() if each.state in {"new", "ready"}}
        if is_ordered:
            found = {offset for offset in found if not self._has_earlier(offset)}
        return found

    def _has_earlier(self, offset: int) -> bool:
        key = self.messages[offset].key
        return key is not None and any(
            other < offset and each.key == key and each.state != "done" for other, each in self.messages.items()
        )

    def is_leased(self, offset: int, lease: int, now_ms: int) -> bool:
        """Tell whether a receipt holds."""
        message = self.messages.get(offset)
        return message is not None and message.state == "leased" and message.lease == lease and message.until > now_ms

    def settle(self, offset: int, verdict: AckType, until: int, now_ms: int) -> None:
        """Do what a verdict says to a leased message."""
        message = self.messages[offset]
        if verdict is AckType.ACK:
            message.state = "done"
        elif verdict is AckType.REJECT:
            message.state = "dead"
        elif verdict is AckType.EXTEND:
            message.until = until
            if until <= now_ms:
                message.state = "ready"
                message.tries -= 1
        elif message.tries > self.retries:
            message.state = "dead"
        else:
            message.until = until
            message.state = "ready" if verdict is AckType.RELEASE or until <= now_ms else "waiting"
