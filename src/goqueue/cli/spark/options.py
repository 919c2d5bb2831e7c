"""Options of all commands that run on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.server.settings_sources import BOOTSTRAP_VARIABLE, SERVER_VARIABLE

BrokerOption = Annotated[
    str,
    typer.Option("--broker", metavar="HOST:PORT", envvar=BOOTSTRAP_VARIABLE, help="Kafka address of the broker."),
]
HttpOption = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        envvar=SERVER_VARIABLE,
        help="HTTP address of the broker; otherwise the broker's own answer.",
    ),
]
MasterOption = Annotated[
    str, typer.Option("--master", help="Spark master, such as local[2] or spark://host:7077; local by default.")
]
SparkLogsOption = Annotated[bool, typer.Option("--spark-logs", help="Show Spark's log on stderr.")]
