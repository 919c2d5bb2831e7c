"""The options of a write: parsed once, into one typed value; all mistakes are reported at once.

Names are those of Spark's Kafka sink where it has such an option, and may be written in any case. Options of Spark
itself (checkpoint, query name) are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from goqueue.client.client import check_server
from goqueue.client.kafka import parse_bootstrap
from goqueue.errors import Invalid, SettingMistake
from goqueue.model.units import parse_bytes, parse_duration_ms, quoted
from goqueue.records.compression import Codec
from goqueue.spark.source.option_values import OptionsForm, parse_text, parse_topic
from goqueue.spark.source.options import BOOTSTRAP

TOPIC: Final = "topic"
HTTP_URL: Final = "goqueue.http.url"
COMPRESSION: Final = "kafka.compression.type"
BATCH_BYTES: Final = "kafka.max.request.size"
TIMEOUT: Final = "kafka.default.api.timeout.ms"
TRANSACTION_TIMEOUT: Final = "transaction.timeout"
TOO_LARGE: Final = "goqueue.too.large"

NAMES: Final = (BOOTSTRAP, TOPIC, HTTP_URL, COMPRESSION, BATCH_BYTES, TIMEOUT, TRANSACTION_TIMEOUT, TOO_LARGE)

TRANSACTION_TIMEOUT_MS_MAX: Final = 15 * 60_000
"""The longest transaction timeout that brokers allow by default."""

_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
_BATCH_BYTES_MIN, _BATCH_BYTES_MAX = 1024, 128 * 1024 * 1024
_TIMEOUT_MS_MAX = 86_400_000


class TooLargeUse(StrEnum):
    """The action for a message that is too large for its topic: fail, or cut parts of it."""

    FAIL = "fail"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a write; docs/spark.md describes them."""

    bootstrap: str
    topic: str | None
    http_url: str | None
    codec: Codec
    batch_bytes_max: int | None
    """None for what each topic takes."""
    timeout_ms: int
    transaction_timeout_ms: int
    too_large: TooLargeUse = TooLargeUse.FAIL


def parse_sink_options(written: Mapping[str, str]) -> tuple[SinkOptions, list[SettingMistake]]:
    """Parse options, and return their mistakes; with mistakes, the options are not valid."""
    form = OptionsForm(written)
    options = SinkOptions(
        bootstrap=form.read(BOOTSTRAP, _bootstrap, default=""),
        topic=form.read(TOPIC, lambda text: parse_topic(text).names[0], default=None),
        http_url=form.read(HTTP_URL, lambda text: check_server(text.strip()), default=None),
        codec=form.read(COMPRESSION, _codec, default=Codec.NONE),
        batch_bytes_max=form.read(BATCH_BYTES, _batch_bytes, default=None),
        timeout_ms=form.read(TIMEOUT, _duration(_TIMEOUT_MS_MAX), default=30_000),
        transaction_timeout_ms=form.read(
            TRANSACTION_TIMEOUT, _duration(TRANSACTION_TIMEOUT_MS_MAX), default=TRANSACTION_TIMEOUT_MS_MAX
        ),
        too_large=form.read(TOO_LARGE, _too_large, default=TooLargeUse.FAIL),
    )
    if not form.has(BOOTSTRAP):
        form.note(BOOTSTRAP, "is missing: set the address of the broker, for example 127.0.0.1:9092")
    form.check_names(NAMES, of="a write", path_fix=_path_fix, others=_OF_SPARK)
    return options, form.mistakes


def _path_fix(path: str) -> str:
    return f"save() and start() take no path; to write to topic {quoted(path)}, set the option {TOPIC}"


def _bootstrap(written: str) -> str:
    parse_bootstrap(written)
    return written


def _codec(written: str) -> Codec:
    name = parse_text(written).upper()
    if name not in Codec.__members__:
        raise Invalid(f"{quoted(written)} is none of {', '.join(each.name.lower() for each in Codec)}")
    return Codec[name]


def _batch_bytes(written: str) -> int:
    found = parse_bytes(written)
    if not _BATCH_BYTES_MIN <= found <= _BATCH_BYTES_MAX:
        raise Invalid(f"{quoted(written)} is no size of a batch", hint="write 1KiB to 128MiB")
    return found


def _too_large(written: str) -> TooLargeUse:
    try:
        return TooLargeUse(parse_text(written).lower())
    except ValueError:
        raise Invalid(f"{quoted(written)} is none of {', '.join(TooLargeUse)}") from None


def _duration(longest_ms: int) -> Callable[[str], int]:
    def parse(written: str) -> int:
        found = parse_duration_ms(written)
        if not 0 < found <= longest_ms:
            raise Invalid(f"{quoted(written)} is not allowed", hint=f"write up to {longest_ms // 60_000}m")
        return found

    return parse
