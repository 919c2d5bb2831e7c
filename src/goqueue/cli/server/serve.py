"""`goqueue serve`: run a broker until a signal stops it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from goqueue.cli.connection import DEFAULT_SERVER
from goqueue.cli.server.config import takes_settings
from goqueue.errors import DataDirectoryLocked, PortInUse
from goqueue.server.ready_line import ready_line
from goqueue.server.settings_sources import Loaded

if TYPE_CHECKING:
    from goqueue.seams.network import Address

_HINTS = """
  Kafka clients   bootstrap.servers={kafka}
  kcat            echo hello | kcat -P -b {kafka} -t greetings
                  kcat -C -e -b {kafka} -t greetings
  HTTP            curl http://{http}/topics
  browser         http://{http}/
  command line    echo hello | goqueue produce greetings{server}
                  goqueue consume greetings --follow{server}
  to stop         Ctrl-C
"""
# A listener on all addresses is reached at the loopback address.
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@takes_settings
def serve(loaded: Loaded) -> None:
    """Run a broker for Kafka clients and HTTP.

    Prints one line when it accepts connections: ready kafka=HOST:PORT http=HOST:PORT

    SIGTERM and Ctrl-C stop it after current requests; SIGHUP is ignored. The log goes to stderr.

    Example: [bold]goqueue serve --data-dir /var/lib/goqueue[/bold]

    Example: [bold]goqueue serve --kafka-port 0 --http-port 0[/bold] uses free ports
    """
    from goqueue.seams.sink import LoggingSink
    from goqueue.server.run import run

    logging.basicConfig(level=loaded.settings.log_level.value.upper(), format="%(asctime)s %(levelname)s %(message)s")
    with _naming_holders(loaded.settings.data_dir):
        run(loaded.settings, LoggingSink(), _announce)


@contextmanager
def _naming_holders(data_dir: Path) -> Iterator[None]:
    """Add the process that uses the port or the data directory to errors, if it is known."""
    from goqueue.cli.doctor.processes import holder_of_lock, listener_on

    try:
        yield
    except PortInUse as error:
        holder = listener_on(error.port)
        if holder is None:
            raise
        raise PortInUse(error.option, error.port, free_port=error.free_port, holder=str(holder)) from error
    except DataDirectoryLocked as error:
        holder = holder_of_lock(data_dir / "lock")
        if holder is None:
            raise
        raise DataDirectoryLocked(f"{data_dir} is in use by {holder}", hint=error.hint) from error


def _announce(addresses: Mapping[str, Address]) -> None:
    """Print the ready line for programs, and examples for people."""
    typer.echo(ready_line({name: _shown(*address) for name, address in addresses.items()}))
    reached = {name: _shown(_REACHED_AT.get(host, host), port) for name, (host, port) in addresses.items()}
    url = f"http://{reached['http']}"
    server = "" if url == DEFAULT_SERVER else f" --server {url}"
    typer.echo(_HINTS.format(**reached, server=server), err=True)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
