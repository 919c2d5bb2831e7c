"""`goqueue serve`: run a broker until it is told to stop."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from goqueue.cli.config import takes_settings
from goqueue.server.settings_sources import Loaded

if TYPE_CHECKING:
    from goqueue.seams.network import Address

_HINTS = """
  Kafka clients   bootstrap.servers={kafka}
  kcat            echo hello | kcat -P -b {kafka} -t greetings
                  kcat -C -e -b {kafka} -t greetings
  HTTP            curl http://{http}/topics
  command line    echo hello | goqueue produce greetings
                  goqueue consume greetings --follow
  to stop         Ctrl-C
"""


@takes_settings
def serve(loaded: Loaded) -> None:
    """Run a broker for Kafka clients and HTTP.

    It prints one line when it takes connections: ready kafka=HOST:PORT http=HOST:PORT

    SIGTERM and Ctrl-C let it finish what is under way. What it reports goes to stderr.

    Example: [bold]goqueue serve --data-dir /var/lib/goqueue[/bold]

    Example: [bold]goqueue serve --kafka-port 0 --http-port 0[/bold] takes any free ports
    """
    from goqueue.seams.sink import LoggingSink
    from goqueue.server.run import run

    logging.basicConfig(level=loaded.settings.log_level.value.upper(), format="%(asctime)s %(levelname)s %(message)s")
    run(loaded.settings, LoggingSink(), _announce)


def _announce(addresses: Mapping[str, Address]) -> None:
    """Print the line that programs wait for, and for people what to try next."""
    shown = {name: f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for name, (host, port) in addresses.items()}
    typer.echo("ready " + " ".join(f"{name}={address}" for name, address in shown.items()))
    typer.echo(_HINTS.format(**shown), err=True)
