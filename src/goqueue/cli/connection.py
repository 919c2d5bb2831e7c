"""Where the broker is, for every command that talks to one: the option, the client, and names for the shell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from goqueue.server.settings_sources import SERVER_VARIABLE

if TYPE_CHECKING:
    from goqueue.client import Call, Client

# As the client has it, which takes a while to import.
DEFAULT_SERVER = "http://127.0.0.1:8080"
UNREACHABLE_HINT = f"start one with `goqueue serve`, or name another with --server or {SERVER_VARIABLE}"

# Whoever presses the tab key does not wait.
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
        help="The HTTP address of the broker: HOST:PORT or a URL.",
    ),
]


@contextmanager
def connected(server: str, *, timeout_s: float = 30.0) -> Iterator[Client]:
    """Talk to a broker; one that does not answer is said so at once, with what to do."""
    from goqueue.client import Client, Patience

    with telling_what_to_do(server), Client(server, timeout_s=timeout_s, patience=Patience(attempts=1)) as client:
        yield client


@contextmanager
def telling_what_to_do(server: str) -> Iterator[None]:
    """Say of a broker that nobody can reach how to start or name one, and of a Kafka port that it is one."""
    from goqueue.client import ServerUnreachable
    from goqueue.client.problems import is_from_broker
    from goqueue.errors import Invalid

    try:
        yield
    except (ServerUnreachable, Invalid) as error:
        if isinstance(error, ServerUnreachable) and not error.is_sent:
            raise ServerUnreachable(error.message, hint=UNREACHABLE_HINT) from None
        # A Kafka port answers as no HTTP interface does, or not at all.
        is_answered = isinstance(error, Invalid) and is_from_broker(error)
        if is_answered or not _is_kafka(server):
            raise
        raise Invalid(
            f"{server} is the Kafka port of a broker, and commands talk to its HTTP port",
            hint=f"name that one with --server or {SERVER_VARIABLE}, such as {DEFAULT_SERVER}",
        ) from None


def _is_kafka(server: str) -> bool:
    """Tell whether a Kafka listener answers at an address."""
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
    """Return the names of topics that begin so, if the broker answers quickly."""
    from goqueue.client import topics

    return _completed(ctx, incomplete, topics.list_all())


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of groups that begin so, if the broker answers quickly."""
    from goqueue.client import groups

    return _completed(ctx, incomplete, groups.list_all())


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the transactional ids that begin so, if the broker answers quickly."""
    from goqueue.client import transactions

    return _completed(ctx, incomplete, transactions.list_all())


def complete_pipeline(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of pipelines that begin so, if the broker answers quickly."""
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
