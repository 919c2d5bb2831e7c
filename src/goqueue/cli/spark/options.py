"""Options that all commands have which run something on Spark over topics of a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.server.settings_sources import BOOTSTRAP_VARIABLE, SERVER_VARIABLE

BrokerOption = Annotated[
    str,
    typer.Option("--broker", metavar="HOST:PORT", envvar=BOOTSTRAP_VARIABLE, help="The Kafka listener of the broker."),
]
HttpOption = Annotated[
    str,
    typer.Option("--server", metavar="URL", envvar=SERVER_VARIABLE, help="The HTTP address; else the broker tells."),
]
MasterOption = Annotated[
    str, typer.Option("--master", help="Where Spark runs, such as local[2] or spark://host:7077; here if not given.")
]
SparkLogsOption = Annotated[bool, typer.Option("--spark-logs", help="Show what Spark logs, on stderr.")]
