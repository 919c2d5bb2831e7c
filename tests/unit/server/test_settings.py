"""The settings of a server: every one from every source, which source is stronger, and all mistakes at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import Invalid, InvalidSettings
from goqueue.model.log_settings import Cleanup, FlushPolicy, LogSettings
from goqueue.server.settings import SETTINGS, LogLevel, Setting, Settings
from goqueue.server.settings_kinds import UNLIMITED
from goqueue.server.settings_sources import Loaded, load
from goqueue.testing import SimDisk

OTHERS: dict[str, tuple[str, Any]] = {
    "data_dir": ("elsewhere/data", Path("elsewhere/data")),
    "host": ("::1", "::1"),
    "kafka_port": ("19092", 19092),
    "http_port": ("0", 0),
    "grpc_port": ("65535", 65535),
    "insecure": ("true", True),
    "advertised_host": ("broker.example.com", "broker.example.com"),
    "advertised_kafka_port": ("443", 443),
    "http_hosts": ("queue.example.com,10.0.0.1", ("queue.example.com", "10.0.0.1")),
    "http_origins": ("https://app.example.com,http://[::1]:3000", ("https://app.example.com", "http://[::1]:3000")),
    "node_id": ("0", 0),
    "drain_timeout_ms": ("1m", 60_000),
    "upkeep_interval_ms": ("250", 250),
    "retention_check_interval_ms": ("5m", 300_000),
    "checkpoint_interval_ms": ("5s", 5000),
    "producer_expiration_ms": ("7d", 604_800_000),
    "log_level": ("warning", LogLevel.WARNING),
    "auto_create_topics": ("false", False),
    "default_partitions": ("12", 12),
    "default_flush": ("interval", FlushPolicy.INTERVAL),
    "default_flush_interval_ms": ("100ms", 100),
    "default_cleanup": ("compact,delete", Cleanup.COMPACT_DELETE),
    "default_retention_ms": (UNLIMITED, -1),
    "default_retention_bytes": ("10GB", 10_000_000_000),
    "default_segment_bytes": ("1MiB", 1_048_576),
    "default_segment_ms": ("1h", 3_600_000),
    "default_max_message_bytes": ("16MiB", 16_777_216),
    "default_index_interval_bytes": ("64KiB", 65_536),
    "default_delete_retention_ms": ("0", 0),
    "default_min_compaction_lag_ms": ("1s", 1000),
    "default_max_compaction_lag_ms": ("30d", 2_592_000_000),
    "default_min_cleanable_dirty_ratio": ("0.25", 0.25),
    "connections_max": ("5", 5),
    "connections_per_address_max": ("2", 2),
    "first_byte_timeout_ms": ("1s", 1000),
    "idle_timeout_ms": ("1h", 3_600_000),
    "slow_reader_timeout_ms": ("1s", 1000),
    "frame_bytes_max": ("1MiB", 1_048_576),
    "request_elements_max": ("10", 10),
    "reply_buffer_bytes_max": ("64KiB", 65_536),
    "http_body_bytes_max": ("1KiB", 1024),
    "group_min_session_timeout_ms": ("1s", 1000),
    "group_max_session_timeout_ms": ("1h", 3_600_000),
    "disk_guard_free_fraction": ("0", 0.0),
}
"""A value that is not the default, for every setting: as text, and as it is stored."""

WRONG: dict[str, list[str]] = {
    "data_dir": ["", "~/data"],
    "host": ["", "example.com", "[::1]", "127.0.0.1:9092", "256.0.0.1", "*"],
    "kafka_port": ["", "-1", "65536", "9092.0", "http", "٩٠"],
    "http_port": ["65536"],
    "grpc_port": ["65536"],
    "insecure": ["", "maybe", "2"],
    "advertised_host": ["a b", "host:9092", "http://host", "0.0.0.0", "::", "1.2.3.400", "x" * 64],
    "advertised_kafka_port": ["-1"],
    "http_hosts": ["a b", "host:8080", "a,,b", "http://host", "*.example.com", ","],
    "http_origins": ["app.example.com", "https://app.example.com/", "null", "ftp://x", "https://a,"],
    "node_id": ["-1", "2147483648"],
    "drain_timeout_ms": ["-1", "2d", UNLIMITED],
    "upkeep_interval_ms": ["0", "2h"],
    "retention_check_interval_ms": ["0"],
    "checkpoint_interval_ms": ["0"],
    "producer_expiration_ms": ["0"],
    "log_level": ["", "loud"],
    "auto_create_topics": ["perhaps"],
    "default_partitions": ["0", "10001"],
    "default_flush": ["never"],
    "default_flush_interval_ms": ["0"],
    "default_cleanup": ["", "compact,compact,delete", "shred"],
    "default_retention_ms": ["-2", "1 week"],
    "default_retention_bytes": ["-2", "10 elephants"],
    "default_segment_bytes": ["1023", "2GiB"],
    "default_segment_ms": ["0"],
    "default_max_message_bytes": ["-1", "2GiB"],
    "default_index_interval_bytes": ["-1", "2GiB"],
    "default_delete_retention_ms": ["-1"],
    "default_min_compaction_lag_ms": ["-1"],
    "default_max_compaction_lag_ms": ["0", "-1"],
    "default_min_cleanable_dirty_ratio": ["-0.1", "1.1", "nan", "half"],
    "connections_max": ["0", "1000001"],
    "connections_per_address_max": ["-1", UNLIMITED],
    "first_byte_timeout_ms": ["0", "366d"],
    "idle_timeout_ms": ["0", "366d"],
    "slow_reader_timeout_ms": ["0", "366d"],
    "frame_bytes_max": ["1023", "2GiB"],
    "request_elements_max": ["0"],
    "reply_buffer_bytes_max": ["1023", "2GiB"],
    "http_body_bytes_max": ["1023", "2GiB"],
    "group_min_session_timeout_ms": ["0", "2d"],
    "group_max_session_timeout_ms": ["0", "2d"],
    "disk_guard_free_fraction": ["-1", "10%"],
}

every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "goqueue.toml"


def in_file(setting: Setting, written: str) -> str:
    """Return the text of a TOML file that gives one setting, with its value as it is."""
    table = f"[{setting.group.value}]\n" if setting.group.value else ""
    return f"{table}{setting.name} = {written}\n"


def with_file(file: Path, text: str) -> Loaded:
    file.write_text(text, "utf-8")
    return load({}, {}, file)


def mistakes(
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
    text: str | None = None,
) -> list[str]:
    """Load what must not be loaded, and return the lines of the error."""
    if file is not None and text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(InvalidSettings) as caught:
        load(flags or {}, environ or {}, file)
    return str(caught.value).splitlines()


def value_and_source(loaded: Loaded, name: str) -> tuple[object, str, str]:
    (shown,) = [effective for effective in loaded.values if effective.setting.name == name]
    return getattr(loaded.settings, name), shown.value, shown.source


def test_without_sources_every_setting_has_its_default() -> None:
    loaded = load({}, {})
    assert loaded.settings == Settings()
    assert [effective.setting.name for effective in loaded.values] == [field.name for field in fields(Settings)]
    assert {effective.source for effective in loaded.values} == {"default"}


def test_every_setting_is_tested_with_another_value_and_with_wrong_ones() -> None:
    assert OTHERS.keys() == WRONG.keys() == SETTINGS.keys()
    assert [name for name, (_, value) in OTHERS.items() if value == SETTINGS[name].default] == []


@every_setting
def test_setting_comes_from_a_flag(setting: Setting) -> None:
    text, value = OTHERS[setting.name]
    loaded = load({setting.name: text}, {})
    assert loaded.settings == replace(Settings(), **{setting.name: value})
    assert value_and_source(loaded, setting.name) == (value, setting.kind.text(value), f"flag {setting.flag}")


@every_setting
def test_setting_comes_from_the_environment(setting: Setting) -> None:
    text, value = OTHERS[setting.name]
    loaded = load({}, {setting.variable: text, "PATH": "/bin"})
    assert loaded.settings == replace(Settings(), **{setting.name: value})
    source = f"environment GOQUEUE_{setting.name.upper()}"
    assert value_and_source(loaded, setting.name) == (value, setting.kind.text(value), source)


@every_setting
def test_setting_comes_from_the_file(setting: Setting, file: Path) -> None:
    text, value = OTHERS[setting.name]
    loaded = with_file(file, in_file(setting, f'"{text}"'))
    assert loaded.settings == replace(Settings(), **{setting.name: value})
    assert value_and_source(loaded, setting.name) == (value, setting.kind.text(value), f"file {file}")


@every_setting
def test_number_and_boolean_of_the_file_need_no_quotes(setting: Setting, file: Path) -> None:
    _, value = OTHERS[setting.name]
    written = str(value).lower()
    if isinstance(value, bool) or type(value) in (int, float):
        assert with_file(file, in_file(setting, written)).settings == replace(Settings(), **{setting.name: value})
    else:
        (line,) = mistakes(file=file, text=in_file(setting, "5"))
        assert line.endswith(f"{setting.name} is 5, but must be {setting.kind.allowed}")


@every_setting
def test_flag_is_stronger_than_environment_and_that_than_file(setting: Setting, file: Path) -> None:
    default = setting.kind.text(setting.default)
    other, value = OTHERS[setting.name]
    file.write_text(in_file(setting, f'"{other}"'), "utf-8")
    from_environment = load({}, {setting.variable: default}, file)
    assert value_and_source(from_environment, setting.name)[0] == setting.default
    assert value_and_source(from_environment, setting.name)[2] == f"environment {setting.variable}"
    from_flag = load({setting.name: other}, {setting.variable: default}, file)
    assert value_and_source(from_flag, setting.name)[0] == value
    assert value_and_source(from_flag, setting.name)[2] == f"flag {setting.flag}"


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name in WRONG for wrong in WRONG[name]])
def test_wrong_value_is_refused_with_its_place_and_what_is_allowed(name: str, wrong: str, file: Path) -> None:
    setting = SETTINGS[name]
    (line,) = mistakes(flags={name: wrong})
    assert line.startswith(f"flag {setting.flag} is ")
    assert line.endswith(f", but must be {setting.kind.allowed}")
    (line,) = mistakes(environ={setting.variable: wrong})
    assert line.startswith(f"environment {setting.variable} is ")
    (line,) = mistakes(file=file, text=in_file(setting, f"'{wrong}'"))
    assert line.startswith(f"file {file}: ")
    assert f"{name} is " in line


def test_all_mistakes_of_all_sources_are_reported_at_once(file: Path) -> None:
    wrong = {name: texts[0] for name, texts in WRONG.items()}
    file.write_text('unheard_of = 1\nnode_id = "many"\n[limits]\nframe_bytes_max = "1 acre"\n', "utf-8")
    environ = {SETTINGS[name].variable: text for name, text in wrong.items()} | {"GOQUEUE_UNHEARD_OF": "1"}
    lines = mistakes(wrong, environ, file)
    assert len(lines) == len(set(lines)) == 2 * len(SETTINGS) + 4
    with pytest.raises(InvalidSettings) as caught:
        load(wrong, environ, file)
    assert caught.value.code == "invalid_settings"
    assert isinstance(caught.value, Invalid)
    assert [mistake.line for mistake in caught.value.mistakes] == lines


def test_mistake_is_reported_though_a_stronger_source_overrides_it() -> None:
    assert mistakes({"kafka_port": "1"}, {"GOQUEUE_KAFKA_PORT": "x"}) == [
        "environment GOQUEUE_KAFKA_PORT is 'x', but must be a whole number from 0 to 65535"
    ]


def test_unknown_name_is_refused_with_the_nearest_known_one(file: Path) -> None:
    assert mistakes(environ={"GOQUEUE_HOTS": "1"}) == [
        "environment GOQUEUE_HOTS is unknown; did you mean GOQUEUE_HOST?"
    ]
    assert mistakes(environ={"GOQUEUE_CONFG": "1"}) == [
        "environment GOQUEUE_CONFG is unknown; did you mean GOQUEUE_CONFIG?"
    ]
    assert mistakes(flags={"kafka_prot": "1"}) == ["flag --kafka-prot is unknown; did you mean --kafka-port?"]
    text = "data-dir = 'x'\nframe_bytes = 5\nzzz = 1\n[limits]\nconnection_max = 1\n[topic]\n"
    assert mistakes(file=file, text=text) == [
        f"file {file}: 'data-dir' is unknown; did you mean data_dir?",
        f"file {file}: 'frame_bytes' is unknown; did you mean limits.frame_bytes_max?",
        f"file {file}: 'zzz' is unknown; goqueue config show lists all settings",
        f"file {file}: 'connection_max' is unknown; did you mean limits.connections_max?",
        f"file {file}: 'topic' is unknown; goqueue config show lists all settings",
    ]


def test_variables_that_are_no_settings_are_left_alone() -> None:
    assert load({}, {"GOQUEUE_SERVER": "http://elsewhere", "GOQUEUED": "1", "goqueue_host": "x"}).settings == Settings()


def test_variables_that_kubernetes_makes_of_a_service_are_left_alone() -> None:
    links = {
        "GOQUEUE_SERVICE_HOST": "10.0.0.7",
        "GOQUEUE_SERVICE_PORT": "9092",
        "GOQUEUE_SERVICE_PORT_KAFKA": "9092",
        "GOQUEUE_PORT": "tcp://10.0.0.7:9092",
        "GOQUEUE_PORT_9092_TCP": "tcp://10.0.0.7:9092",
        "GOQUEUE_PORT_9092_TCP_PROTO": "tcp",
        "GOQUEUE_PORT_9092_TCP_PORT": "9092",
        "GOQUEUE_PORT_9092_TCP_ADDR": "10.0.0.7",
        # Of a Service named goqueue-kafka.
        "GOQUEUE_KAFKA_PORT": "tcp://10.0.0.8:9092",
        "GOQUEUE_KAFKA_SERVICE_HOST": "10.0.0.8",
    }
    assert load({}, links).settings == Settings()


def test_list_of_the_file_is_a_list_or_text_with_commas(file: Path) -> None:
    for written in ('["a.example", "b.example"]', '"a.example, b.example"'):
        assert with_file(file, f"http_hosts = {written}\n").settings.http_hosts == ("a.example", "b.example")
    for wrong in ("[1]", "5", '["a b"]', "true"):
        with pytest.raises(InvalidSettings, match=r"http_hosts is .*, but must be host names"):
            with_file(file, f"http_hosts = {wrong}\n")


def test_key_in_the_wrong_table_is_refused_with_the_right_one(file: Path) -> None:
    text = "frame_bytes_max = 5000\n[topics]\nkafka_port = 1\n[limits]\ndefault_flush = 'group'\n[limits.topics]\n"
    assert mistakes(file=file, text=text) == [
        f"file {file}: frame_bytes_max stands in the wrong place: it must be limits.frame_bytes_max",
        f"file {file}: topics.kafka_port stands in the wrong place: it must be kafka_port",
        f"file {file}: limits.default_flush stands in the wrong place: it must be topics.default_flush",
        f"file {file}: 'topics' is unknown; goqueue config show lists all settings",
    ]


def test_value_of_another_type_is_refused(file: Path) -> None:
    text = "kafka_port = [9092]\nhttp_port = true\nnode_id = 1979-05-27\ninsecure = 1\nhost.name = 'x'\nlimits = 5\n"
    assert mistakes(file=file, text=text) == [
        f"file {file}: kafka_port is [9092], but must be a whole number from 0 to 65535",
        f"file {file}: http_port is True, but must be a whole number from 0 to 65535",
        f"file {file}: node_id is datetime.date(1979, 5, 27), but must be a whole number from 0 to 2147483647",
        f"file {file}: insecure is 1, but must be true or false",
        f"file {file}: host is {{'name': 'x'}}, but must be an IP address or localhost",
        f"file {file}: limits is 5, but must be a table",
    ]


def test_number_too_large_to_be_printed_is_refused(file: Path) -> None:
    (line,) = mistakes(file=file, text=f"node_id = 0x{'f' * 5000}\n")
    assert "node_id is a huge number" in line


def test_file_that_cannot_be_used_is_refused_with_the_reason(file: Path) -> None:
    assert mistakes(file=file) == [f"file {file} cannot be read: No such file or directory"]
    assert mistakes(file=file.parent) == [f"file {file.parent} cannot be read: Is a directory"]
    (line,) = mistakes(file=file, text="kafka_port 9092\n")
    assert line.startswith(f"file {file} is not valid TOML: ")
    assert "line 1" in line
    (line,) = mistakes(file=file, text="# " + "x" * 1024 * 1024)
    assert "more than 1048576 bytes" in line
    file.write_bytes(b"host = '\xff'\n")
    assert mistakes(file=file)[0].startswith(f"file {file} is not valid TOML: 'utf-8'")


def test_file_is_read_from_the_disk_that_is_passed_in() -> None:
    disk = SimDisk(0)
    path = Path("goqueue.toml")
    written = disk.open(path, create=True)
    written.write_at(0, b"kafka_port = 7\r\n[limits]\r\nidle_timeout_ms = '1h'\r\n")
    written.close()
    settings = load({}, {}, path, disk=disk).settings
    assert (settings.kafka_port, settings.idle_timeout_ms) == (7, 3_600_000)


def test_config_variable_names_the_file_unless_a_flag_does(file: Path) -> None:
    file.write_text("kafka_port = 7\n", "utf-8")
    other = file.with_name("other.toml")
    other.write_text("kafka_port = 8\n", "utf-8")
    environ = {"GOQUEUE_CONFIG": str(other)}
    assert value_and_source(load({}, environ), "kafka_port") == (8, "8", f"file {other}")
    assert value_and_source(load({}, environ, file), "kafka_port") == (7, "7", f"file {file}")
    assert mistakes(environ={"GOQUEUE_CONFIG": ""}) == [
        "environment GOQUEUE_CONFIG is empty, but must be the path of a TOML file"
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "2001:db8::1"])
def test_address_that_others_can_reach_needs_a_word_of_consent(host: str) -> None:
    (line,) = mistakes({"host": host})
    assert line.startswith(f"flag --host: host is {host}, which other machines can reach")
    assert "set insecure" in line
    assert load({"host": host}, {"GOQUEUE_INSECURE": "yes"}).settings.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_address_needs_no_consent(host: str) -> None:
    assert load({"host": host}, {}).settings.host == host


def test_two_listeners_on_one_port_are_refused_with_both_sources(file: Path) -> None:
    file.write_text("http_port = 7000\n", "utf-8")
    (line,) = mistakes({"kafka_port": "7000"}, file=file)
    assert line.startswith(f"flag --kafka-port, file {file}: kafka_port and http_port are the same, 7000, ")
    (line,) = mistakes({"kafka_port": "8080"})
    assert line.startswith("flag --kafka-port: kafka_port and http_port are the same, 8080, ")
    same = {"kafka_port": "1", "http_port": "1", "grpc_port": "1"}
    assert len(mistakes(same)) == 1
    load(dict.fromkeys(same, "0"), {})


def test_settings_that_could_not_be_read_contradict_nothing(file: Path) -> None:
    assert len(mistakes({"kafka_port": "x", "http_port": "9092"})) == 1
    assert len(mistakes({"host": "0.0.0.0", "insecure": "x"})) == 1
    assert len(mistakes({"host": "0.0.0.0"}, file=file, text="insecure = ")) == 1
    # But a readable one of a stronger source does.
    assert len(mistakes({"kafka_port": "8080"}, {"GOQUEUE_KAFKA_PORT": "x"})) == 2


def test_settings_made_by_hand_are_checked_as_well() -> None:
    wrong: dict[str, Any] = {
        "data_dir": "data",
        "host": "example.com",
        "kafka_port": "9092",
        "http_port": True,
        "insecure": 1,
        "default_flush": "group",
        "frame_bytes_max": -1,
        "disk_guard_free_fraction": float("nan"),
    }
    with pytest.raises(InvalidSettings) as caught:
        Settings(**wrong)
    assert {name for mistake in caught.value.mistakes for name in mistake.names} == wrong.keys()
    assert "kafka_port is '9092', but must be a whole number from 0 to 65535" in str(caught.value)
    with pytest.raises(InvalidSettings, match=r"host is 0\.0\.0\.0.*\nkafka_port and http_port"):
        Settings(host="0.0.0.0", kafka_port=7, http_port=7)


def test_topics_without_settings_have_the_defaults_of_the_server() -> None:
    assert Settings().default_log_settings() == LogSettings()
    servers = {name.removeprefix("default_"): name for name in SETTINGS}
    for field in fields(LogSettings):
        name = servers[field.name]
        _, value = OTHERS[name]
        changed = replace(Settings(), **{name: value}).default_log_settings()
        assert changed == replace(LogSettings(), **{field.name: value})


@pytest.mark.parametrize("name", [field.name for field in fields(LogSettings) if not isinstance(field.default, str)])
def test_server_and_topic_agree_on_what_is_allowed(name: str) -> None:
    kind = SETTINGS[f"default_{name}" if f"default_{name}" in SETTINGS else name].kind
    for edge in (-1, 0, 1, 1024, 2**31 - 1, 2**63 - 1):
        for value in (edge - 1, edge, edge + 1):
            assert kind.accepts(value) == is_allowed_for_a_log(name, value), value


def is_allowed_for_a_log(name: str, value: Any) -> bool:
    try:
        replace(LogSettings(), **{name: value})
    except Invalid:
        return False
    return True


@given(st.sampled_from(list(SETTINGS.values())), st.data())
def test_what_is_shown_can_be_given_again(setting: Setting, data: st.DataObject) -> None:
    value = data.draw(values_like(setting.default).filter(setting.kind.accepts))
    assert setting.kind.read(setting.kind.text(value)) == value


def values_like(default: object) -> st.SearchStrategy[Any]:
    round_numbers = st.integers(1, 999).map(lambda number: number * 60_000)
    words = st.text("azAZ09.-_:/é", min_size=1)
    match default:
        case bool():
            return st.booleans()
        case int():
            return st.one_of(st.integers(-1, 70_000), st.integers(2**10, 2**31 - 1), round_numbers)
        case float():
            return st.floats(0, 1).map(lambda number: round(number, 12))
        case StrEnum():
            return st.sampled_from(list(type(default)))
        case str():
            return st.one_of(words, st.ip_addresses().map(str))
        case _:
            return words.map(Path)


def test_words_are_taken_in_letters_of_either_case_and_any_order() -> None:
    settings = load({"log_level": "DEBUG", "default_cleanup": "delete, Compact", "insecure": "ON"}, {}).settings
    assert settings.log_level is LogLevel.DEBUG
    assert settings.default_cleanup is Cleanup.COMPACT_DELETE
    assert settings.insecure is True
    assert load({"auto_create_topics": "Off"}, {}).settings.auto_create_topics is False
    assert load({"default_retention_ms": "-1"}, {}).settings.default_retention_ms == -1


@every_setting
def test_every_setting_is_described_by_a_sentence(setting: Setting) -> None:
    assert setting.description.endswith(".")
    assert "[" not in setting.description  # which the help of a command would take for markup
    assert setting.kind.allowed


def test_settings_are_light_to_import() -> None:
    code = "import sys, goqueue.server.settings_sources; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"pydantic", "typer", "rich", "asyncio", "tomllib", "socket"}.isdisjoint(loaded)


def test_shortest_session_is_not_longer_than_the_longest() -> None:
    (found,) = mistakes({"group_min_session_timeout_ms": "10s", "group_max_session_timeout_ms": "5s"})
    assert "no session fits between them" in str(found)
