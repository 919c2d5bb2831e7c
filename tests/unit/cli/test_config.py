"""`goqueue config show`, and the options that every command with settings has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue.cli.server.config import takes_settings
from goqueue.server.settings import SETTINGS, Group
from goqueue.server.settings_sources import Loaded


def config_show(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", *map(str, arguments)], env=environ)


def shown(*arguments: object, **environ: str) -> dict[str, dict[str, str]]:
    """Return what is shown of each setting, by its name."""
    result = config_show(*arguments, "--format", "json", **environ)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row.pop("kind") for row in rows} == {"setting"}
    return {row["name"]: row for row in rows}


def test_every_setting_is_shown_with_value_source_and_description() -> None:
    rows = shown()
    assert list(rows) == list(SETTINGS)
    for name, row in rows.items():
        setting = SETTINGS[name]
        assert row == {
            "name": name,
            "value": setting.kind.text(setting.default),
            "source": "default",
            "description": setting.description,
        }


def test_each_source_is_named(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('kafka_port = 1\nhttp_port = 2\n[limits]\nidle_timeout_ms = "90s"\n', "utf-8")
    rows = shown("--config", file, "--kafka-port", 3, GOQUEUE_NODE_ID="7")
    assert (rows["kafka_port"]["value"], rows["kafka_port"]["source"]) == ("3", "flag --kafka-port")
    assert (rows["http_port"]["value"], rows["http_port"]["source"]) == ("2", f"file {file}")
    assert (rows["idle_timeout_ms"]["value"], rows["idle_timeout_ms"]["source"]) == ("90s", f"file {file}")
    assert (rows["node_id"]["value"], rows["node_id"]["source"]) == ("7", "environment GOQUEUE_NODE_ID")
    assert shown(GOQUEUE_CONFIG=str(file))["kafka_port"]["source"] == f"file {file}"


@pytest.mark.parametrize("name", [setting.name for setting in SETTINGS.values() if setting.kind.metavar])
def test_every_setting_has_an_option(name: str) -> None:
    setting = SETTINGS[name]
    row = shown(setting.flag, setting.kind.text(setting.default))[name]
    assert row["source"] == f"flag {setting.flag}"


def test_switches_have_an_option_for_either_way() -> None:
    assert shown("--insecure")["insecure"]["value"] == "true"
    assert shown("--no-insecure", GOQUEUE_INSECURE="true")["insecure"]["value"] == "false"
    assert shown("--no-auto-create-topics")["auto_create_topics"]["value"] == "false"
    assert shown("--auto-create-topics")["auto_create_topics"]["source"] == "flag --auto-create-topics"


def test_value_of_an_option_may_begin_with_a_minus() -> None:
    assert shown("--default-retention-ms", "-1")["default_retention_ms"]["value"] == "unlimited"


@pytest.mark.parametrize("output_format", ["table", "json", "yaml"])
def test_every_format_shows_the_same(output_format: str) -> None:
    result = config_show("--format", output_format, "--host", "::1")
    assert result.exit_code == 0
    for name, setting in SETTINGS.items():
        assert name in result.stdout
        assert setting.description in result.stdout
    assert "flag --host" in result.stdout
    assert "100MiB" in result.stdout


def test_all_mistakes_are_reported_with_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text("kafka_prot = 1\n", "utf-8")
    result = config_show("--config", file, "--kafka-port", "x", "--host", "0.0.0.0", GOQUEUE_LOG_LEVEL="loud")
    assert result.exit_code == 2
    assert result.stdout == ""
    *lines, last = result.stderr.splitlines()
    assert lines == [
        "goqueue: 4 mistakes in the settings",
        f"  file {file}: 'kafka_prot' is unknown; did you mean kafka_port?",
        "  environment GOQUEUE_LOG_LEVEL is 'loud', but must be debug, info, warning or error",
        "  flag --kafka-port is 'x', but must be a whole number from 0 to 65535",
    ]
    assert last.startswith("  flag --host: host is 0.0.0.0, which other machines can reach, ")
    assert config_show("--node-id", "x").stderr.startswith("goqueue: 1 mistake in the settings\n")


def test_option_that_does_not_exist_exits_with_2() -> None:
    assert config_show("--kafka-prot", 1).exit_code == 2


def test_help_has_every_option_with_its_default_and_the_limits_in_a_panel_of_their_own() -> None:
    text = config_show("--help", COLUMNS="200").stdout
    panels = {panel.split(" ", 1)[0]: panel for panel in text.split("╭─ ")[1:]}
    assert {"Options", "Server", "Switches", "Topic", "Limits"} <= panels.keys()
    for setting in SETTINGS.values():
        if setting.group is Group.LIMITS:
            assert setting.flag in panels["Limits"]
        assert setting.flag in text
    assert "[default: 100MiB]" in panels["Limits"]
    assert "nothing listens yet" in panels["Server"]
    assert "Example" in text


def test_a_command_that_takes_settings_gets_them_next_to_its_own_options() -> None:
    seen: list[tuple[Loaded, str, bool]] = []
    other = typer.Typer()

    @other.command()
    @takes_settings
    def serve(loaded: Loaded, name: str, *, quiet: Annotated[bool, typer.Option("--quiet")] = False) -> None:
        """Say what was taken."""
        seen.append((loaded, name, quiet))

    result = CliRunner().invoke(other, ["first", "--quiet", "--kafka-port", "0"])
    assert result.exit_code == 0, result.output
    ((loaded, name, quiet),) = seen
    assert (loaded.settings.kafka_port, name, quiet) == (0, "first", True)
    assert CliRunner().invoke(other, ["first", "--kafka-port", "x"]).exit_code == 2
    assert len(seen) == 1
    assert "Say what was taken." in CliRunner().invoke(other, ["--help"]).stdout
