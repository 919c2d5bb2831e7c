"""The options of a read: parsed once, into one typed value.

Names are those of Spark's Kafka source where it has such an option; like all of Spark's they may be written in any
case. All mistakes are reported at once, each with the option and a hint. An option without effect on that kind of read
is a mistake, too.

Schema files are read here, on the driver. Tasks get their content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Final, TypeVar

from goqueue.client.kafka import Isolation, NamedOffset, parse_bootstrap
from goqueue.errors import Invalid, InvalidSettings, SettingMistake
from goqueue.model.units import parse_bytes, parse_duration_ms, quoted
from goqueue.seams.disk import Disk, RealDisk
from goqueue.spark.source.option_values import (
    SLICES_MAX,
    ArchiveUse,
    AtOffsets,
    AtTimestamp,
    Boundary,
    Matching,
    OptionsForm,
    Subscription,
    parse_archive,
    parse_assign,
    parse_count,
    parse_flag,
    parse_offsets,
    parse_pattern,
    parse_text,
    parse_times,
    parse_timestamp_ms,
    parse_topic,
    parse_topics,
)
from goqueue.spark.values.decode import reader_of
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from goqueue.spark.values.format import UnknownMessage

T = TypeVar("T")

BOOTSTRAP: Final = "kafka.bootstrap.servers"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
_WHICH: Final = ("subscribe", "topic", "subscribePattern", "assign")
_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_GROUPS: Final = ("groupId", "kafka.group.id")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", *_GROUPS)
_FETCH_BYTES: Final = "kafka.max.partition.fetch.bytes"
_FETCH_BYTES_MAX: Final = 128 * 1024 * 1024
_TIMEOUT: Final = "kafka.default.api.timeout.ms"
_ISOLATION: Final = "kafka.isolation.level"
_HTTP_URL: Final = "goqueue.http.url"
ARCHIVE: Final = "goqueue.archive"
_ARCHIVE_DEFAULT: ArchiveUse | str = ArchiveUse.AUTO
_OPENED_BYTES: Final = "goqueue.max.decompressed.bytes"
_OPENED_BYTES_MAX: Final = 1024 * 1024 * 1024

# Spark passes the properties of a table along with its options, and this one is always there.
_TABLE_MARK: Final = "provider"

DECODE: Final = "decode"
_SCHEMA: Final = "decode.schema"
_SCHEMA_FILE: Final = "decode.schemaFile"
_MESSAGE: Final = "decode.message"
_PREFIX: Final = "decode.prefix"
DECODE_NAMES: Final = (DECODE, _SCHEMA, _SCHEMA_FILE, _MESSAGE, _PREFIX)

NAMES: Final = (
    BOOTSTRAP,
    *_WHICH,
    *_STARTS,
    _STRATEGY,
    *_ENDS,
    *_STREAM_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    FAIL_ON_DATA_LOSS,
    "includeHeaders",
    _ISOLATION,
    _FETCH_BYTES,
    _TIMEOUT,
    _HTTP_URL,
    _OPENED_BYTES,
    ARCHIVE,
    *DECODE_NAMES,
)

SCHEMA_BYTES_MAX: Final = 8 * 1024 * 1024

_EXAMPLES: Final[Mapping[FormatName, str]] = {
    FormatName.JSON: f"set {_SCHEMA}, for example id BIGINT, amount DOUBLE, or {_SCHEMA_FILE}",
    FormatName.AVRO: f'set {_SCHEMA}, for example {{"type": "record", ...}}, or {_SCHEMA_FILE}',
    FormatName.PROTOBUF: f"set {_SCHEMA_FILE} to what protoc --descriptor_set_out wrote",
}

Choice = TypeVar("Choice", FormatName, Prefix)


class ReadKind(Enum):
    """The kind of read, if known."""

    UNKNOWN = "read"
    BATCH = "batch read"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read; docs/spark.md describes them."""

    bootstrap: str
    subscription: Subscription
    start: Boundary
    end: Boundary
    has_end: bool
    """Whether a stream ends there; a batch read always does."""
    needs_start_record: bool
    """Whether a start time after the last record is an error."""
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms_max: int
    slices_min: int | None
    slice_records_max: int | None
    fails_on_data_loss: bool
    includes_headers: bool
    isolation: Isolation
    fetch_bytes: int
    opened_bytes_max: int
    """The largest size of a decompressed batch."""
    timeout_ms: int
    group: str | None
    http_url: str | None
    archive: ArchiveUse | str
    """The source of records that the log no longer has: the topic's archive, none, or an archive at a path."""
    decoding: Decoding | None
    """How values are decoded, if they are."""


def parse_options(written: Mapping[str, str], kind: ReadKind) -> ReadOptions:
    """Parse options; InvalidSettings with all mistakes."""
    form = OptionsForm(written)
    _refuse_table(form)
    bootstrap = form.read(BOOTSTRAP, _bootstrap, default=None)
    if not form.has(BOOTSTRAP):
        form.note(BOOTSTRAP, "is missing: set the address of the broker, for example 127.0.0.1:9092")
    subscription = _subscription(form)
    has_end = any(map(form.has, _ENDS))
    begins_with_next = kind is ReadKind.STREAM and not has_end
    options = ReadOptions(
        bootstrap=bootstrap or "",
        subscription=subscription or Matching(""),
        start=_boundary(form, _STARTS, NamedOffset.LATEST if begins_with_next else NamedOffset.EARLIEST),
        end=_boundary(form, _ENDS, NamedOffset.LATEST),
        has_end=has_end,
        needs_start_record=form.read(_STRATEGY, _choice({"latest": False, "error": True}), default=False),
        offsets_per_trigger_max=form.read("maxOffsetsPerTrigger", parse_count, default=None),
        offsets_per_trigger_min=form.read("minOffsetsPerTrigger", parse_count, default=None),
        trigger_delay_ms_max=form.read("maxTriggerDelay", parse_duration_ms, default=15 * 60_000),
        slices_min=form.read("minPartitions", _slices, default=None),
        slice_records_max=form.read("maxRecordsPerPartition", parse_count, default=None),
        fails_on_data_loss=form.read(FAIL_ON_DATA_LOSS, parse_flag, default=True),
        includes_headers=form.read("includeHeaders", parse_flag, default=False),
        isolation=form.read(_ISOLATION, _choice({each.value: each for each in Isolation}), default=Isolation.COMMITTED),
        fetch_bytes=form.read(_FETCH_BYTES, _fetch_bytes, default=4 * 1024 * 1024),
        opened_bytes_max=form.read(_OPENED_BYTES, _opened_bytes, default=256 * 1024 * 1024),
        timeout_ms=form.read(_TIMEOUT, _timeout_ms, default=30_000),
        group=_group(form),
        http_url=form.read(_HTTP_URL, _http_url, default=None),
        archive=form.read(ARCHIVE, parse_archive, default=_ARCHIVE_DEFAULT),
        decoding=decoding_of(form),
    )
    _check_together(form, options, kind)
    form.check_names(NAMES, of="a read", path_fix=_path_fix)
    if form.mistakes:
        raise InvalidSettings(form.mistakes)
    return options


def _refuse_table(form: OptionsForm) -> None:
    """Refuse CREATE TABLE: Spark would forget the options, and every read of the table would fail."""
    if form.has(_TABLE_MARK):
        line = (
            "Spark keeps no options of a table of this source: write CREATE TEMPORARY VIEW ... USING goqueue "
            "OPTIONS (...) instead of CREATE TABLE"
        )
        raise InvalidSettings([SettingMistake((_TABLE_MARK,), line)])


def _path_fix(path: str) -> str:
    return f"load() takes no path; to read topic {quoted(path)}, set the option topic"


def _subscription(form: OptionsForm) -> Subscription | None:
    present = form.one_of(_WHICH)
    if present is None:
        line = f"{', '.join(_WHICH[:-1])} or {_WHICH[-1]} is missing: set the topics to read, for example topic=orders"
        form.mistakes.append(SettingMistake(_WHICH, line))
    found: Subscription | None = None
    parsers: Mapping[str, Callable[[str], Subscription]] = {
        "subscribe": parse_topics,
        "topic": parse_topic,
        "subscribePattern": parse_pattern,
        "assign": parse_assign,
    }
    for name, parse in parsers.items():
        found = form.read(name, parse, default=found)
    return found


def _boundary(form: OptionsForm, names: tuple[str, ...], default: Boundary) -> Boundary:
    form.one_of(names)
    at_time, by_time, by_offset = names
    found = form.read(by_offset, parse_offsets, default=default)
    found = form.read(by_time, parse_times, default=found)
    return form.read(at_time, lambda written: AtTimestamp(parse_timestamp_ms(written)), default=found)


def _group(form: OptionsForm) -> str | None:
    form.one_of(_GROUPS)
    group: str | None = None
    for name in _GROUPS:
        group = form.read(name, parse_text, default=group)
    return group


def _check_together(form: OptionsForm, options: ReadOptions, kind: ReadKind) -> None:
    if kind is ReadKind.BATCH:
        for name in filter(form.has, (*_STREAM_ONLY, _HTTP_URL)):
            form.note(name, "belongs to streams: leave it out")
    if kind is ReadKind.BATCH or (kind is ReadKind.STREAM and options.has_end):
        what = "a batch read" if kind is ReadKind.BATCH else "a stream with an end"
        offsets = options.start.offsets.values() if isinstance(options.start, AtOffsets) else ()
        if options.start is NamedOffset.LATEST or NamedOffset.LATEST in offsets:
            form.note("startingOffsets", f"is latest, where {what} finds nothing: write earliest or offsets")
    if options.end is NamedOffset.EARLIEST or (
        isinstance(options.end, AtOffsets) and NamedOffset.EARLIEST in options.end.offsets.values()
    ):
        form.note("endingOffsets", "is earliest, before which there is nothing: write latest or offsets")
    start, end = options.start, options.end
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp) and start.timestamp_ms > end.timestamp_ms:
        form.note("endingTimestamp", f"is {end.timestamp_ms}, before startingTimestamp, {start.timestamp_ms}")
    _check_effects(form, options, kind)


def _check_effects(form: OptionsForm, options: ReadOptions, kind: ReadKind) -> None:
    """Note options without effect, and contradictions."""
    if isinstance(options.archive, str) and options.isolation is Isolation.UNCOMMITTED:
        form.note(ARCHIVE, f"has no effect with {_ISOLATION}=read_uncommitted: archives hold what was committed")
    least, most = options.offsets_per_trigger_min, options.offsets_per_trigger_max
    if least and most and least > most:
        form.note("minOffsetsPerTrigger", f"is {least}, more than maxOffsetsPerTrigger, {most}")
    if kind is ReadKind.STREAM and options.http_url is not None and not any(map(form.has, _GROUPS)):
        form.note(_HTTP_URL, "has no effect without groupId: set that, too, or leave it out")
    if form.has(_STRATEGY) and not any(map(form.has, _STARTS[:2])):
        form.note(_STRATEGY, f"has no effect without {' or '.join(_STARTS[:2])}: set one, or leave it out")
    if form.has("maxTriggerDelay") and not form.has("minOffsetsPerTrigger"):
        form.note("maxTriggerDelay", "has no effect without minOffsetsPerTrigger: set that, too, or leave it out")


def _bootstrap(written: str) -> str:
    parse_bootstrap(written)
    return written


def _choice(choices: Mapping[str, T]) -> Callable[[str], T]:
    def parse(written: str) -> T:
        try:
            return choices[written.strip().lower()]
        except KeyError:
            raise Invalid(f"{quoted(written)} is none of {', '.join(choices)}") from None

    return parse


def _fetch_bytes(written: str) -> int:
    found = parse_bytes(written)
    if not 0 < found <= _FETCH_BYTES_MAX:
        raise Invalid(f"{quoted(written)} is no size of a fetch", hint="write 1 to 128MiB")
    return found


def _opened_bytes(written: str) -> int:
    found = parse_bytes(written)
    if not 0 < found <= _OPENED_BYTES_MAX:
        raise Invalid(f"{quoted(written)} is no size of a batch", hint="write 1 to 1GiB")
    return found


def _slices(written: str) -> int:
    found = parse_count(written)
    if found > SLICES_MAX:
        raise Invalid(f"{quoted(written)} is more than {SLICES_MAX}, the most tasks of a read")
    return found


def _timeout_ms(written: str) -> int:
    found = parse_duration_ms(written)
    if not 0 < found <= 86_400_000:
        raise Invalid(f"{quoted(written)} is no time limit", hint="write 30s or another duration of up to 1d")
    return found


def _http_url(written: str) -> str:
    text = written.strip().rstrip("/")
    if not text.startswith(("http://", "https://")):
        raise Invalid(f"{quoted(written)} is no HTTP address", hint="write http://127.0.0.1:8080")
    return text


def decoding_of(form: OptionsForm, *, disk: Disk | None = None) -> Decoding | None:
    """Return how to decode values, None if they stay bytes; mistakes are noted in the form."""
    if not form.has(DECODE):
        for name in filter(form.has, DECODE_NAMES):
            form.note(name, f"has no effect without {DECODE}: set that, too, or leave it out")
        return None
    chosen = form.read(DECODE, lambda written: _one_of(FormatName, written), default=None)
    schema = _schema(form, disk or RealDisk())
    message = form.read(_MESSAGE, parse_text, default="")
    prefix = form.read(_PREFIX, lambda written: _one_of(Prefix, written), default=Prefix.NONE)
    if chosen is None:
        return None
    _check_decode(form, chosen)
    if not schema or bool(message) != (chosen is FormatName.PROTOBUF):
        return None
    decoding = Decoding(chosen, schema, message, prefix)
    try:
        reader_of(decoding)
    except UnknownMessage as error:
        form.note(_MESSAGE, str(error))
    except Invalid as error:
        form.note(_SCHEMA if form.has(_SCHEMA) else _SCHEMA_FILE, str(error))
    return decoding


def read_schema_file(path: PurePath, disk: Disk) -> bytes:
    """Return the content of a file; Invalid if there is none, or it is empty or too large."""
    try:
        file = disk.open(path, writable=False)
        try:
            found = file.read_at(0, SCHEMA_BYTES_MAX + 1)
        finally:
            file.close()
    except OSError as error:
        told = f"{path} cannot be read: {error.strerror}"
        raise Invalid(told, hint="name a file of the machine that starts the query") from None
    if not 0 < len(found) <= SCHEMA_BYTES_MAX:
        told = "has more than 8 MiB" if found else "is empty"
        raise Invalid(f"{path} {told}", hint="name the file of a schema")
    return found


def _schema(form: OptionsForm, disk: Disk) -> str | bytes:
    form.one_of((_SCHEMA, _SCHEMA_FILE))
    inline = form.read(_SCHEMA, parse_text, default="")
    stored = form.read(_SCHEMA_FILE, lambda path: read_schema_file(PurePath(parse_text(path)), disk), default=b"")
    return stored or inline


def _check_decode(form: OptionsForm, chosen: FormatName) -> None:
    is_protobuf = chosen is FormatName.PROTOBUF
    if not form.has(_SCHEMA) and not form.has(_SCHEMA_FILE):
        form.note(DECODE, f"is {chosen}, which needs a schema: {_EXAMPLES[chosen]}")
    if is_protobuf and form.has(_SCHEMA):
        form.note(_SCHEMA, f"belongs to JSON and Avro: {_EXAMPLES[chosen]}")
    if is_protobuf and not form.has(_MESSAGE):
        form.note(_MESSAGE, "is missing: set the full name of the message, for example shop.Order")
    if not is_protobuf and form.has(_MESSAGE):
        form.note(_MESSAGE, "belongs to protobuf: leave it out")


def _one_of(kind: type[Choice], written: str) -> Choice:
    try:
        return kind(written.strip().lower())
    except ValueError:
        raise Invalid(f"{quoted(written)} is none of {', '.join(kind)}") from None
