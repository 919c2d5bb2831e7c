"""Messages of errors in Kafka replies."""

from __future__ import annotations

import pytest

from goqueue.errors import UnknownFiles
from goqueue.protocols.kafka.api.context import message_of


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/srv/secret/place/t-0 is there already", "t-0 is there already"),
        ("'/srv/secret/place/my.t-12/0000.log' at offset 5", "'my.t-12/0000.log' at offset 5"),
        ("data/t-0 is there already", "data/t-0 is there already"),
        ("no topic 'a/b-1' and https://x.example/a/b-1", "no topic 'a/b-1' and https://x.example/a/b-1"),
    ],
)
def test_directories_above_a_log_are_left_out(text: str, told: str) -> None:
    assert message_of(UnknownFiles(text)) == told
