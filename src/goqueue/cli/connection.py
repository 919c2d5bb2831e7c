"""The connection of commands to a broker: the --server option, the client, and shell completion of names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from goqueue.server.settings_sources import SERVER_VARIABLE

if TYPE_CHECKING:
    from goqueue.client import Call, Client

# A copy of the client's default, because the client takes long to import.
DEFAULT_SERVER = "http://127.0.0.1:8080"
UNREACHABLE_HINT = f"start one with `goqueue serve`, or name another with --server or {SERVER_VARIABLE}"

_COMPLETION_TIMEOUT_S = 0.5
_PROBE_TIMEOUT_S = 2.0


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def _check_server(server: str) -> str:
    from goqueue.client.client import check_server
    from goqueue.errors import Invalid

    try:
        return check_server(server)
    except Invalid as error:
        raise typer.BadParameter(str(error)) from None


ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        envvar=SERVER_VARIABLE,
        callback=_check_server,
        help="HTTP address of the broker: HOST:PORT or URL.",
    ),
]


@contextmanager
def connected(server: str, *, timeout_s: float = 30.0) -> Iterator[Client]:
    """Connect to a broker; if it does not answer, fail without retries, and with a hint."""
    from goqueue.client import Client, Patience

    with telling_what_to_do(server), Client(server, timeout_s=timeout_s, patience=Patience(attempts=1)) as client:
        yield client


@contextmanager
def telling_what_to_do(server: str) -> Iterator[None]:
    """Add hints to errors: how to start or name a broker, and that an address is a Kafka port."""
    from goqueue.client import ServerUnreachable
    from goqueue.client.problems import is_from_broker
    from goqueue.errors import Invalid

    try:
        yield
    except (ServerUnreachable, Invalid) as error:
        if isinstance(error, ServerUnreachable) and not error.is_sent:
            raise ServerUnreachable(error.message, hint=UNREACHABLE_HINT) from None
        # A Kafka port answers no HTTP, or does not answer.
        is_answered = isinstance(error, Invalid) and is_from_broker(error)
        if is_answered or not _is_kafka(server):
            raise
        raise Invalid(
            f"{server} is the Kafka port of a broker; commands need its HTTP port",
            hint=f"name it with --server or {SERVER_VARIABLE}, such as {DEFAULT_SERVER}",
        ) from None


def _is_kafka(server: str) -> bool:
    """Return whether a Kafka listener answers at an address."""
    from urllib.parse import urlsplit

    from goqueue.cli.doctor.kafka import ask
    from goqueue.errors import GoQueueError

    parts = urlsplit(server)
    try:
        ask(parts.hostname or "", parts.port or 80, _PROBE_TIMEOUT_S)
    except (OSError, GoQueueError):
        return False
    return True


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return topic names with this prefix, if the broker answers within half a second."""
    from goqueue.client import topics

    return _completed(ctx, incomplete, topics.list_all())


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return group names with this prefix, if the broker answers within half a second."""
    from goqueue.client import groups

    return _completed(ctx, incomplete, groups.list_all())


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return transactional ids with this prefix, if the broker answers within half a second."""
    from goqueue.client import transactions

    return _completed(ctx, incomplete, transactions.list_all())


def complete_pipeline(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return pipeline names with this prefix, if the broker answers within half a second."""
    from goqueue.client import pipelines

    return _completed(ctx, incomplete, pipelines.list_all())


def _completed(ctx: typer.Context, incomplete: str, call: Call[Sequence[_Named]]) -> list[str]:
    from goqueue.client import Client, Patience
    from goqueue.errors import GoQueueError

    server = ctx.params.get("server") or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER
    try:
        with Client(server, timeout_s=_COMPLETION_TIMEOUT_S, patience=Patience(attempts=1)) as client:
            found = client.send(call)
    except GoQueueError:
        return []
    return [each.name for each in found if each.name.startswith(incomplete)]


TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The name of the topic.", autocompletion=complete_topic)
]
GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The name of the group.", autocompletion=complete_group)
]
QueueArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the queue group.")]
TransactionArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The transactional id.", autocompletion=complete_transaction)
]
PipelineArgument = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="The name of the pipeline.", autocompletion=complete_pipeline)
]
