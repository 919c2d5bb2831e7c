"""Whether the topic that a replay publishes to is still the one that it began with."""

from __future__ import annotations

from typing import Final

from goqueue.client import Client, Patience, topics
from goqueue.errors import Conflict, UnknownTopic

RESTART_HINT: Final = "--restart begins anew, and makes the topic if it is not there"

_TIMEOUT_S: Final = 10.0


class TargetLost(Conflict):
    """What a replay has published is not there any more, so to go on would leave a topic without it."""

    code = "replay_target_lost"


def gone(job: str, topic: str) -> TargetLost:
    """Return the error for a target that was deleted."""
    return TargetLost(f"topic {topic!r}, to which replay {job} was publishing, is gone", hint=RESTART_HINT)


def require_target(http_url: str, job: str, topic: str, topic_id: str) -> None:
    """Raise TargetLost if a topic is gone, or is another one of that name; an empty id is that of any."""
    with Client(http_url, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) as client:
        try:
            found = client.send(topics.describe(topic))
        except UnknownTopic:
            raise gone(job, topic) from None
    if topic_id and found.id != topic_id:
        raise TargetLost(
            f"topic {topic!r} was deleted and made again since replay {job} began, and what it had published is gone",
            hint=RESTART_HINT,
        )
