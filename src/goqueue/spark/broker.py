"""The addresses of the broker: Kafka for data, and HTTP, which the broker names among its settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from goqueue.client.kafka import KafkaData
from goqueue.errors import NotFound

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

_TIMEOUT_S: Final = 10.0
_LISTENERS: Final = ("advertised.listeners", "listeners")


def find_http_url(bootstrap: str) -> str | None:
    """Return the HTTP address of a broker, None if its settings name none. ServerUnreachable if it does not answer."""
    with KafkaData(bootstrap, timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S) as data, suppress(NotFound):
        return http_address(data.describe_broker())
    return None


def http_address(settings: Mapping[str, str | None]) -> str:
    """Return the HTTP address among the listeners in a broker's settings; NotFound if there is none."""
    for name in _LISTENERS:
        for listener in (settings.get(name) or "").split(","):
            scheme, _, address = listener.strip().partition("://")
            if scheme.lower() in {"http", "https"} and address:
                return f"{scheme.lower()}://{address}"
    raise NotFound("the broker does not tell its HTTP address", hint="set the option goqueue.http.url")
