"""Settings of topics through the admin clients: values, where they come from, and changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.contract import Admin, Client, ErrorCode, Message, Setting, Source
from tests.clients.expect import eventually, refused

# Defaults that our broker shares with Apache Kafka.
_DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "min.cleanable.dirty.ratio": "0.5",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}


def test_settings_tell_their_value_and_its_source(admin: Admin, new_topic: Callable[..., str]) -> None:
    chosen = {"retention.ms": "7200000", "cleanup.policy": "compact"}
    settings = admin.settings(new_topic(settings=chosen))
    expected = {name: Setting(value, Source.DEFAULT) for name, value in _DEFAULTS.items()}
    expected |= {name: Setting(value, Source.TOPIC) for name, value in chosen.items()}
    assert {name: settings.get(name) for name in expected} == expected


def test_settings_are_changed_and_put_back(admin: Admin, new_topic: Callable[..., str]) -> None:
    name = new_topic(settings={"retention.bytes": "1000000"})
    admin.alter(name, {"retention.ms": "7200000"})
    # Those that were not named stay as they are, or go back to their defaults: two requests, two meanings.
    kept = Setting("1000000", Source.TOPIC) if admin.is_incremental else Setting("-1", Source.DEFAULT)
    _expect(admin, name, {"retention.ms": Setting("7200000", Source.TOPIC), "retention.bytes": kept})
    admin.alter(name, {"retention.ms": None, "retention.bytes": "5000"})
    _expect(
        admin,
        name,
        {"retention.ms": Setting("604800000", Source.DEFAULT), "retention.bytes": Setting("5000", Source.TOPIC)},
    )


@pytest.mark.parametrize("setting", [("retention.ms", "soon"), ("no.such.setting", "1"), ("cleanup.policy", "burn")])
def test_an_invalid_change_is_refused_and_changes_nothing(
    setting: tuple[str, str], admin: Admin, new_topic: Callable[..., str]
) -> None:
    name = new_topic(settings={"retention.bytes": "1000000"})
    with refused(ErrorCode.INVALID_CONFIG):
        admin.alter(name, {"segment.bytes": "2000000", **dict([setting])})
    settings = admin.settings(name)
    assert settings["retention.bytes"] == Setting("1000000", Source.TOPIC)
    assert settings["segment.bytes"].source is not Source.TOPIC


def test_a_changed_setting_takes_effect(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    name = new_topic()
    assert clients["kcat"].send(name, [Message(bytes(6000))]) == [0]
    admin.alter(name, {"max.message.bytes": "5000"})
    eventually(lambda: admin.settings(name)["max.message.bytes"].value == "5000", "the setting is changed")
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        clients["kcat"].send(name, [Message(bytes(6000))])


def test_settings_of_an_unknown_topic_cannot_be_changed(admin: Admin, new_name: Callable[[], str]) -> None:
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        admin.alter(new_name(), {"retention.ms": "7200000"})


def _expect(admin: Admin, topic: str, expected: dict[str, Setting]) -> None:
    eventually(
        lambda: {name: found for name, found in admin.settings(topic).items() if name in expected} == expected,
        f"the settings are {expected}",
    )
