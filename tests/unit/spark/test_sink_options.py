"""The options of a write: what they mean, and what is said about mistakes."""

from __future__ import annotations

import pytest

from goqueue.records.compression import Codec
from goqueue.spark.sink.options import TooLargeUse, parse_sink_options

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_without_options_there_are_defaults() -> None:
    options, mistakes = parse_sink_options(BOOTSTRAP)
    assert mistakes == []
    assert (options.topic, options.http_url, options.codec) == (None, None, Codec.NONE)
    assert (options.batch_bytes_max, options.too_large, options.timeout_ms) == (None, TooLargeUse.FAIL, 30_000)
    assert options.transaction_timeout_ms == 15 * 60_000


def test_names_are_read_in_any_case_and_what_spark_adds_is_left_alone() -> None:
    written = {
        "Kafka.Bootstrap.Servers": "a:1,b:2",
        "TOPIC": "orders",
        "goqueue.HTTP.url": "http://a:8080/",
        "kafka.compression.type": "ZSTD",
        "kafka.max.request.size": "2MiB",
        "goqueue.too.large": "CUT",
        "kafka.default.api.timeout.ms": "5s",
        "transaction.timeout": "1m",
        "checkpointLocation": "/checkpoint",
        "queryName": "orders",
    }
    options, mistakes = parse_sink_options(written)
    assert mistakes == []
    assert (options.bootstrap, options.topic, options.http_url) == ("a:1,b:2", "orders", "http://a:8080")
    assert (options.codec, options.batch_bytes_max) == (Codec.ZSTD, 2 * 1024 * 1024)
    assert options.too_large is TooLargeUse.CUT
    assert (options.timeout_ms, options.transaction_timeout_ms) == (5_000, 60_000)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("kafka.bootstrap.servers", "a b", "is no address of a broker"),
        ("topic", "a,b", "more than one topic"),
        ("goqueue.http.url", "ftp://localhost", "write http://HOST:PORT"),
        ("kafka.compression.type", "lz5", "is none of none, gzip, snappy, lz4, zstd"),
        ("kafka.max.request.size", "10", "is no size of a batch"),
        ("goqueue.too.large", "skip", "is none of fail, cut"),
        ("kafka.default.api.timeout.ms", "0", "is not allowed"),
        ("transaction.timeout", "16m", "is not allowed (write up to 15m)"),
        ("path", "orders", "to write to topic 'orders', set the option topic"),
        ("kafka.acks", "1", "is no option of a write"),
    ],
)
def test_a_mistake_is_told_with_its_name_and_what_to_write(name: str, text: str, told: str) -> None:
    _, mistakes = parse_sink_options({**BOOTSTRAP, name: text})
    (mistake,) = mistakes
    assert mistake.line.startswith(name)
    assert told in mistake.line
