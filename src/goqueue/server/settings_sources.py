"""Finds the values of settings: flags override the environment, then come the TOML file and defaults.

In the file, keys are the names of settings. Those of the group TOPICS are in the table `[topics]`, those of LIMITS in
`[limits]`, all others at the top:

    kafka_port = 9092
    [topics]
    default_retention_ms = "7d"
    [limits]
    frame_bytes_max = "100MiB"

The environment variable is `GOQUEUE_KAFKA_PORT`, the flag `--kafka-port`. All given values are checked, including
overridden ones, and all mistakes are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from goqueue.errors import InvalidSettings, SettingMistake
from goqueue.model.units import quoted
from goqueue.seams.disk import Disk, RealDisk
from goqueue.server.settings import SETTINGS, Group, Setting, Settings

DEFAULT = "default"
"""The source of a default value."""

CONFIG_VARIABLE = "GOQUEUE_CONFIG"
"""Names the TOML file where no flag does."""

SERVER_VARIABLE = "GOQUEUE_SERVER"
"""The address of the broker for the command line; no setting of the broker itself."""

BOOTSTRAP_VARIABLE = "GOQUEUE_BOOTSTRAP"
"""The Kafka address for commands and pipelines on Spark; no setting of the broker itself."""

_PREFIX = "GOQUEUE_"
_FILE_BYTES_MAX = 1024 * 1024
_TABLES = {group.value: group for group in Group if group.value}
# Kubernetes sets these in every container of a namespace with a Service whose name begins with "goqueue".
_SERVICE_LINK = re.compile(r"\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")


class Effective(NamedTuple):
    """A setting as it is: its value as text, and which source it came from."""

    setting: Setting
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid settings, and where each of them came from, in the order of `SETTINGS`."""

    settings: Settings
    values: tuple[Effective, ...]


class _Given(NamedTuple):
    """One value from a source; `place` is the source and, if needed, the key."""

    setting: Setting
    written: object
    source: str
    place: str


_Found = Iterator[_Given | SettingMistake]


def load(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None = None, *, disk: Disk | None = None
) -> Loaded:
    """Return the settings that the sources give together; InvalidSettings has every mistake in any of them.

    `flags` has the names of settings as keys. Without `file`, the one that GOQUEUE_CONFIG names is read, if any.
    """
    mistakes: list[SettingMistake] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    unclear: set[str] = set()  # what was given, but not so that it can be read
    for found in _all_given(flags, environ, file, disk or RealDisk()):
        if isinstance(found, SettingMistake):
            mistakes.append(found)
            unclear.update(found.names)
            continue
        name = found.setting.name
        sources[name] = found.source
        values[name] = value = found.setting.kind.read(found.written)
        if value is None:
            mistakes.append(_misfit(found))
            unclear.add(name)
        else:
            unclear.discard(name)
    readable = {name: value for name, value in values.items() if name not in unclear}
    try:
        settings = Settings(**readable)
    except InvalidSettings as error:
        mistakes += (_located(mistake, sources) for mistake in error.mistakes if unclear.isdisjoint(mistake.names))
    if mistakes:
        raise InvalidSettings(mistakes)
    return Loaded(settings, tuple(_effective(settings, sources)))


def _effective(settings: Settings, sources: Mapping[str, str]) -> Iterator[Effective]:
    for name, setting in SETTINGS.items():
        yield Effective(setting, setting.kind.text(getattr(settings, name)), sources.get(name, DEFAULT))


def _misfit(given: _Given) -> SettingMistake:
    line = f"{given.place} is {quoted(given.written)}, but must be {given.setting.kind.allowed}"
    return SettingMistake((given.setting.name,), line)


def _located(contradiction: SettingMistake, sources: Mapping[str, str]) -> SettingMistake:
    """Say of settings that do not go together where they came from; at least one is not a default."""
    given = dict.fromkeys(sources[name] for name in contradiction.names if name in sources)
    return contradiction._replace(line=f"{', '.join(given)}: {contradiction.line}")


def _all_given(flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None, disk: Disk) -> _Found:
    """Yield the values of all sources, the strongest last, so that it overrides the others."""
    if file is None and CONFIG_VARIABLE in environ:
        if not environ[CONFIG_VARIABLE]:
            yield SettingMistake((), f"environment {CONFIG_VARIABLE} is empty, but must be the path of a TOML file")
        else:
            file = Path(environ[CONFIG_VARIABLE])
    if file is not None:
        yield from _from_file(file, disk)
    yield from _from_environment(environ)
    yield from _from_flags(flags)


def _from_file(file: Path, disk: Disk) -> _Found:
    import tomllib  # which a server without a file does without

    source = f"file {file}"
    try:
        document = tomllib.loads(_text_of(file, disk))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except ValueError as error:
        reason = f"is not valid TOML: {error}"
    else:
        yield from _from_table(document, Group.SERVER, source)
        return
    # Nothing is known of any setting that it might have given.
    yield SettingMistake(tuple(SETTINGS), f"{source} {reason}")


def _text_of(file: Path, disk: Disk) -> str:
    opened = disk.open(file, writable=False)
    try:
        data = opened.read_at(0, _FILE_BYTES_MAX + 1)
    finally:
        opened.close()
    if len(data) > _FILE_BYTES_MAX:
        raise ValueError(f"it has more than {_FILE_BYTES_MAX} bytes")
    return data.decode("utf-8")


def _from_table(table: Mapping[str, object], group: Group, source: str) -> _Found:
    for key, written in table.items():
        place = f"{source}: {group.value}.{key}" if group.value else f"{source}: {key}"
        setting = SETTINGS.get(key)
        inner = _TABLES.get(key) if group is Group.SERVER else None
        if inner and isinstance(written, dict):
            yield from _from_table(written, inner, source)
        elif inner:
            yield SettingMistake((), f"{place} is {quoted(written)}, but must be a table")
        elif setting is None:
            yield _unknown(f"{source}: {quoted(key)}", key, {name: _key(known) for name, known in SETTINGS.items()})
        elif setting.group is not group:
            yield SettingMistake((key,), f"{place} stands in the wrong place: it must be {_key(setting)}")
        else:
            yield _Given(setting, written, source, place)


def _from_environment(environ: Mapping[str, str]) -> _Found:
    known = {name: setting.variable for name, setting in SETTINGS.items()}
    known |= {"config": CONFIG_VARIABLE, "server": SERVER_VARIABLE, "bootstrap": BOOTSTRAP_VARIABLE}
    names = {variable: name for name, variable in known.items()}
    for variable, written in environ.items():
        if not variable.startswith(_PREFIX) or _is_service_link(variable, written):
            continue
        place = f"environment {variable}"
        name = names.get(variable)
        if name is None:
            yield _unknown(place, variable.removeprefix(_PREFIX).lower(), known)
        elif name in SETTINGS:
            yield _Given(SETTINGS[name], written, place, place)


def _from_flags(flags: Mapping[str, str]) -> _Found:
    for name, written in flags.items():
        setting = SETTINGS.get(name)
        if setting is None:
            place = f"flag --{name.replace('_', '-')}"
            yield _unknown(place, name, {known: SETTINGS[known].flag for known in SETTINGS})
        else:
            yield _Given(setting, written, f"flag {setting.flag}", f"flag {setting.flag}")


def _is_service_link(variable: str, written: str) -> bool:
    is_url = variable.endswith("_PORT") and _SERVICE_URL.match(written) is not None
    return is_url or _SERVICE_LINK.fullmatch(variable) is not None


def _key(setting: Setting) -> str:
    """Return how the file calls a setting, with its table."""
    return f"{setting.group.value}.{setting.name}" if setting.group.value else setting.name


def _unknown(place: str, name: str, known: Mapping[str, str]) -> SettingMistake:
    """Say that there is no setting of that name, and which one is nearest; `known` has what each is called there."""
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean {known[nearest[0]]}?" if nearest else "goqueue config show lists all settings"
    return SettingMistake((), f"{place} is unknown; {hint}")
