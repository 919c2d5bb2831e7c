"""Settings of topics: read and told under Kafka's names, all mistakes at once, and each of them means something."""

from __future__ import annotations

import pytest

from goqueue.errors import InvalidTopicSettings
from goqueue.model.log_settings import Cleanup, FlushPolicy, LogSettings
from goqueue.model.topic_settings import TABLE, SettingSource, Stamp, TopicSettings, parse

DEFAULTS = TopicSettings()
OTHERS = {
    "cleanup.policy": "compact,delete",
    "compression.type": "producer",
    "delete.retention.ms": "17",
    "goqueue.archive.path": "s3://lake/my_archive",
    "goqueue.flush": "interval",
    "goqueue.flush.interval.ms": "17",
    "goqueue.retention.hold.bytes": "17",
    "goqueue.retention.hold.ms": "17",
    "index.interval.bytes": "17",
    "max.compaction.lag.ms": "17",
    "max.message.bytes": "17",
    "message.timestamp.after.max.ms": "17",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "17",
    "min.insync.replicas": "17",
    "retention.bytes": "17",
    "retention.ms": "17",
    "segment.bytes": "2048",
    "segment.ms": "17",
}


def test_the_table_of_these_tests_is_complete() -> None:
    assert OTHERS.keys() == TABLE.keys()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_value_that_is_set_is_told(name: str) -> None:
    settings = parse({name: OTHERS[name]}, DEFAULTS)
    assert TABLE[name].read(settings) == OTHERS[name]
    others = {other: TABLE[other].read(settings) for other in TABLE if other != name}
    assert others == {other: TABLE[other].read(DEFAULTS) for other in TABLE if other != name}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_what_is_told_can_be_set(name: str) -> None:
    assert parse({name: TABLE[name].read(DEFAULTS)}, DEFAULTS) == DEFAULTS


def test_what_is_not_set_comes_from_the_broker() -> None:
    defaults = TopicSettings(log=LogSettings(retention_ms=5, flush=FlushPolicy.INTERVAL), stamp=Stamp.LOG_APPEND_TIME)
    settings = parse({"retention.bytes": "9"}, defaults)
    assert (settings.log.retention_ms, settings.log.retention_bytes) == (5, 9)
    assert (settings.log.flush, settings.stamp) == (FlushPolicy.INTERVAL, Stamp.LOG_APPEND_TIME)


def test_each_value_is_told_with_where_it_comes_from() -> None:
    own = {"retention.bytes": "9", "segment.ms": TABLE["segment.ms"].read(DEFAULTS)}
    settings = parse(own, TopicSettings(log=LogSettings(retention_ms=5, retention_bytes=7)))
    sources = {name: setting.source(settings, own) for name, setting in TABLE.items()}
    assert {sources.pop(name) for name in own} == {SettingSource.TOPIC}
    assert sources.pop("retention.ms") is SettingSource.BROKER
    assert set(sources.values()) == {SettingSource.DEFAULT}


@pytest.mark.parametrize("text", ["compact,delete", "delete,compact", " delete , compact ", "compact, delete,compact"])
def test_both_policies_are_taken_in_any_order(text: str) -> None:
    assert parse({"cleanup.policy": text}, DEFAULTS).log.cleanup is Cleanup.COMPACT_DELETE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", ""),
        ("retention.ms", "1.5"),
        ("retention.ms", "-2"),
        ("goqueue.retention.hold.bytes", "-2"),
        ("goqueue.retention.hold.bytes", str(2**63)),
        ("goqueue.retention.hold.ms", "-1"),
        ("retention.ms", "1_000"),
        ("retention.ms", str(2**63)),
        ("retention.ms", "9" * 5000),
        ("segment.bytes", "1"),
        ("segment.bytes", str(2**31)),
        ("segment.ms", "0"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "inf"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,burn"),
        ("cleanup.policy", "COMPACT"),
        ("goqueue.flush", "never"),
        ("message.timestamp.type", "logappendtime"),
        ("compression.type", "gzip"),
        ("max.message.bytes", "-1"),
        ("goqueue.archive.path", "two\nlines"),
        ("goqueue.archive.path", "x" * 1025),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(InvalidTopicSettings, match=name.replace(".", r"\.")):
        parse({name: text}, DEFAULTS)


def test_an_unknown_setting_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidTopicSettings, match=r"did you mean retention\.ms"):
        parse({"retention.msec": "5"}, DEFAULTS)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidTopicSettings) as refused:
        parse({"retention.ms": "x", "no.such": "1", "segment.bytes": "1", "goqueue.flush": "maybe"}, DEFAULTS)
    for name in ("retention.ms", "no.such", "segment.bytes", "goqueue.flush"):
        assert name in refused.value.message


@pytest.mark.parametrize("setting", TABLE.values(), ids=lambda setting: setting.name)
def test_every_setting_is_described(setting: object) -> None:
    description = getattr(setting, "description", "")
    assert description.endswith(".")
    assert len(description) > 20
