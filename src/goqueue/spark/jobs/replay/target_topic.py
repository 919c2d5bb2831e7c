"""The target topic of a replay: created if missing, with warnings about settings that affect old messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from goqueue.client import Client, topics
from goqueue.errors import TopicExists, UnknownTopic
from goqueue.model.start_position import AtTime
from goqueue.model.units import count_text, duration_text
from goqueue.seams.clock import SystemClock
from goqueue.spark.archive.lookup import PATH_SETTING
from goqueue.spark.jobs.replay.options import ReplayOptions
from goqueue.spark.jobs.replay.topics import SourceFacts

_STAMP_SETTING = "message.timestamp.type"
_OF_PRODUCER, _OF_BROKER = "CreateTime", "LogAppendTime"


def settled_target(
    options: ReplayOptions, source: SourceFacts, http_url: str, say: Callable[[str], None]
) -> topics.Topic:
    """Return the target topic, which is created if missing."""
    with Client(http_url) as client:
        try:
            target = client.send(topics.describe(options.target))
        except UnknownTopic:
            _make(client, options, source, say)
            target = client.send(topics.describe(options.target))
    settings = {each.name: each.value for each in target.settings}
    for line in warnings(options, settings, source.oldest_ms, SystemClock().now_ms()):
        say(line)
    return target


def _make(client: Client, options: ReplayOptions, source: SourceFacts, say: Callable[[str], None]) -> None:
    settings = client.send(topics.describe(options.source)).config
    with suppress(TopicExists):
        client.send(topics.create(options.target, partitions=source.partitions, config=target_settings(settings)))
        partitions = count_text(source.partitions, "partition")
        say(f"made topic {options.target} like {options.source}: {partitions}, the same settings")


def target_settings(own: dict[str, str]) -> dict[str, str]:
    """Return settings for a target: those of the source, without its archive, and with timestamps of producers."""
    kept = {name: text for name, text in own.items() if name != PATH_SETTING}
    return {**kept, _STAMP_SETTING: _OF_PRODUCER}


def warnings(options: ReplayOptions, settings: dict[str, str], oldest_ms: int | None, now_ms: int) -> list[str]:
    """Return warnings about a target that changes timestamps, or deletes messages of this age."""
    target, lines = options.target, []
    if settings.get(_STAMP_SETTING) == _OF_BROKER:
        lines.append(
            f"note: topic {target} replaces timestamps by the time of arrival; to keep them: "
            f"goqueue topic alter {target} --config {_STAMP_SETTING}={_OF_PRODUCER}"
        )
    kept_ms = int(settings.get("retention.ms", "-1"))
    if oldest_ms is not None and isinstance(options.start, AtTime):
        oldest_ms = max(oldest_ms, options.start.timestamp_ms)
    if not lines and kept_ms >= 0 and oldest_ms is not None and oldest_ms < now_ms - kept_ms:
        lines.append(
            f"note: messages keep their timestamps, and topic {target} deletes messages older than "
            f"{duration_text(kept_ms)}; to keep all: goqueue topic alter {target} --config retention.ms=-1"
        )
    return lines
