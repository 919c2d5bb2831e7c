"""Checks of a broker from the outside: over HTTP, over Kafka, and at its advertised addresses."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from goqueue import __version__
from goqueue.cli.connection import UNREACHABLE_HINT
from goqueue.cli.doctor.findings import CheckResult
from goqueue.cli.doctor.kafka import Node, ask
from goqueue.errors import Corrupt, GoQueueError

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.client.server import Greeting
    from goqueue.server.settings import Settings

_TIMEOUT_S = 3.0
_KAFKA_PORT = 9092
# The Date header has no fractions, so clocks that agree may seem to differ by one second.
_CLOCK_WARNING_S = 2.0
_CLOCK_FAILURE_S = 60.0
_CLOCK_FIX = "let both machines keep time with NTP: retention, timestamps and reading by time depend on it"


@dataclass(slots=True)
class BrokerChecks:
    """The findings on a broker, and what later checks need."""

    server: str
    findings: list[CheckResult] = field(default_factory=list)
    is_reachable: bool = False
    """Whether it answers over HTTP."""
    speaks_kafka: bool = False
    kafka_port: int = _KAFKA_PORT

    @property
    def host(self) -> str:
        """The host of its HTTP address."""
        return urlsplit(self.server).hostname or ""

    @property
    def http_port(self) -> int:
        """The port of its HTTP address."""
        parts = urlsplit(self.server)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def is_elsewhere(self) -> bool:
        """Whether it runs on another machine."""
        return not _is_here(self.host)


def look(server: str, kafka: str | None, settings: Settings | None) -> BrokerChecks:
    """Check a broker over HTTP and Kafka."""
    seen = BrokerChecks(server)
    seen.findings += _over_http(seen)
    host, port = _kafka_address(kafka, seen, settings)
    seen.kafka_port = port
    fix = "is that the port? name another with --kafka HOST:PORT" if seen.is_reachable else UNREACHABLE_HINT
    seen.findings += _over_kafka(seen, host, port, fix)
    return seen


def look_over_kafka(address: str, option: str) -> list[CheckResult]:
    """Check a broker over Kafka only, at the address of an option."""
    host, port = _split(address, option)
    fix = f"start a broker with `goqueue serve`, or name another with {option} HOST:PORT"
    return list(_over_kafka(BrokerChecks(""), host, port, fix))


def _kafka_address(kafka: str | None, seen: BrokerChecks, settings: Settings | None) -> tuple[str, int]:
    if kafka is None:
        return seen.host, (settings.kafka_port or _KAFKA_PORT) if settings else _KAFKA_PORT
    return _split(kafka, "--kafka")


def _split(address: str, option: str) -> tuple[str, int]:
    with suppress(ValueError):
        parts = urlsplit(f"//{address}")
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise typer.BadParameter(f"{address!r} is not HOST:PORT", param_hint=option)


def _over_http(seen: BrokerChecks) -> Iterator[CheckResult]:
    from goqueue.client import Client, Patience, server

    with Client(seen.server, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) as client:
        began = time.monotonic()
        try:
            greeting = client.send(server.greet())
        except GoQueueError as error:
            yield CheckResult.failure(
                "http", error.message, error.hint if isinstance(error, Corrupt) else UNREACHABLE_HINT
            )
            return
        took_s = time.monotonic() - began
        seen.is_reachable = True
        yield _check_version(seen, greeting, took_s)
        yield from _check_readiness(client)
        yield _check_clock(greeting, took_s)


def _check_version(seen: BrokerChecks, greeting: Greeting, took_s: float) -> CheckResult:
    version = greeting.version
    what = f"{seen.server} is {version.name} {version.version} and answered in {took_s * 1000:.0f} ms"
    if version.version != __version__:
        return CheckResult.warning(
            "http", what, f"this command is version {__version__}: install the same version on both sides"
        )
    return CheckResult.ok("http", what)


def _check_readiness(client: Client) -> Iterator[CheckResult]:
    from goqueue.client import server

    try:
        health = client.send(server.readiness())
    except GoQueueError as error:
        yield CheckResult.failure("readiness", error.message, error.hint or "see the log of the broker")
        return
    bad = [check for check in health.checks if check.status != "ok"]
    if not bad:
        yield CheckResult.ok("readiness", "the broker takes work")
    for check in bad:
        yield CheckResult.failure(
            "readiness", f"{check.name}: {check.detail or check.status}", "see the log of the broker"
        )


def _check_clock(greeting: Greeting, took_s: float) -> CheckResult:
    if greeting.time is None:
        return CheckResult.skipped("clock", "the reply has no date")
    ahead_s = (greeting.time - datetime.now(UTC)).total_seconds()
    # The reply left after the request was sent, and its date may be up to a second old.
    apart_s = max(0.0, abs(ahead_s) - took_s - 1.0)
    if apart_s < _CLOCK_WARNING_S:
        return CheckResult.ok("clock", "the broker's clock agrees with the one here")
    what = f"the broker's clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the one here"
    return (CheckResult.failure if apart_s >= _CLOCK_FAILURE_S else CheckResult.warning)("clock", what, _CLOCK_FIX)


def _over_kafka(seen: BrokerChecks, host: str, port: int, fix: str) -> Iterator[CheckResult]:
    try:
        answer = ask(host, port, _TIMEOUT_S)
    except OSError as error:
        yield CheckResult.failure("kafka", f"{_shown(host, port)}: {error.strerror or error}", fix)
        return
    except Corrupt as error:
        yield CheckResult.failure(
            "kafka", f"{_shown(host, port)}: {error.message}", "name the port of a broker's Kafka listener"
        )
        return
    seen.speaks_kafka = True
    yield CheckResult.ok("kafka", f"{_shown(host, port)} answers, and takes {answer.apis} kinds of requests")
    for node in answer.nodes:
        yield _check_advertised(node, host)


def _check_advertised(node: Node, host: str) -> CheckResult:
    """Check an address of the Metadata reply, where most installations go wrong."""
    where = _shown(node.host, node.port)
    what = f"the broker sends Kafka clients to {where}"
    fix = "start it with --advertised-host and --advertised-kafka-port set to what clients can reach"
    if _is_loopback(node.host) and not _is_loopback(host):
        return CheckResult.failure("advertised", f"{what}, which is their own machine", fix)
    try:
        ask(node.host, node.port, _TIMEOUT_S)
    except socket.gaierror:
        return CheckResult.failure("advertised", f"{what}, a name that this machine does not know", fix)
    except (OSError, Corrupt) as error:
        reason = error.message if isinstance(error, Corrupt) else error.strerror or str(error)
        return CheckResult.failure("advertised", f"{what}, where no broker answers from here: {reason}", fix)
    return CheckResult.ok("advertised", f"{what}, which can be reached from here")


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_here(host: str) -> bool:
    """Return whether a host is this machine: whether one of its addresses can be bound."""
    if _is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind((address[0], 0))
            return True
    return False
