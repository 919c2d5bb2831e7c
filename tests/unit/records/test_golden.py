"""Batches that other programs wrote, stored under tests/golden, read and written again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import validate
from goqueue.records.reader import read_records

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.bin"))


def expected_records(name: str) -> list[NewRecord]:
    def content(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    stored = json.loads((GOLDEN / "records.json").read_text())
    return [
        NewRecord(
            record["timestamp"],
            content(record["key"]),
            content(record["value"]),
            [(header, content(value)) for header, value in record["headers"]],
        )
        for record in stored[name.split("-")[1]]
    ]


def test_golden_batches_of_every_codec_and_writer_are_there() -> None:
    for writer in ("librdkafka", "aiokafka"):
        for codec in Codec:
            assert f"{writer}-repetitive-{codec.name.lower()}" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_golden_batch_is_valid_and_has_the_expected_records(name: str) -> None:
    batch = (GOLDEN / f"{name}.bin").read_bytes()
    header = validate(batch)
    assert header.size_bytes == len(batch)
    assert header.codec.name.lower() == name.split("-")[2]
    assert header.is_idempotent == name.endswith(("idempotent", "transactional"))
    assert header.is_transactional == name.endswith("transactional")
    assert [NewRecord(*record[1:]) for record in read_records(batch)] == expected_records(name)


@pytest.mark.parametrize("name", [name for name in NAMES if "-none" in name])
def test_same_records_give_the_bytes_of_the_uncompressed_golden_batch(name: str) -> None:
    batch = (GOLDEN / f"{name}.bin").read_bytes()
    header = validate(batch)
    built = build_batch(
        expected_records(name),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    assert built == batch
