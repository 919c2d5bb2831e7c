"""`goqueue demo`: a broker, a producer of orders and a pipeline on Spark, in one terminal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.errors import Unavailable

if TYPE_CHECKING:
    from goqueue.cli.demo.stage import Stage

_FOR_EVER_S = threading.TIMEOUT_MAX / 2

_INTRODUCTION = """\
A shop publishes {rate:g} orders per second to the topic orders; some are malformed, late or duplicates.
The pipeline {pipeline} decodes, checks and enriches them, and sums them by minute.
Spark takes 15 seconds to start. Meanwhile, in another terminal:

  goqueue consume orders.revenue --follow --key --server {server}    revenue by country, minute by minute
  goqueue consume orders.dlq --format json --server {server}    refused orders, with reasons in headers
  goqueue pipeline list --server {server}                       the pipeline, as the broker sees it
  goqueue pipeline plan {pipeline}                              its plan, as a drawing
  {lake}    all valid orders as Parquet

Kafka clients find the same topics at {kafka}. Ctrl-C stops everything; the next run continues from there.
"""


def demo(
    *,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Directory of all data.")] = Path("data/demo"),
    rate: Annotated[float, typer.Option(min=0.1, max=10_000, help="Orders per second.")] = 200.0,
    kafka_port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 9092,
    http_port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8080,
    master: Annotated[str, typer.Option("--master", help="Spark master; local by default.")] = "",
    seconds: Annotated[float | None, typer.Option(min=1, help="Stop after this many seconds.")] = None,
) -> None:
    """Run a demonstration: a broker, a producer of orders, and a pipeline on Spark.

    Example: [bold]goqueue demo[/bold]

    Example: [bold]goqueue demo --seconds 60 --kafka-port 0 --http-port 0[/bold]
    """
    try:
        from goqueue.spark.java import find_java
    except ModuleNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed", hint="pip install 'goqueue[spark]'") from None
    from goqueue.cli.demo.parts import BrokerProcess, Shop, start_pipeline, write_files
    from goqueue.cli.demo.stage import Stage

    typer.echo(f"Starting a broker with its data in {data_dir / 'broker'}, then Spark.", err=True)
    find_java(os.environ)
    broker = BrokerProcess(data_dir, kafka_port=kafka_port, http_port=http_port)
    try:
        addresses = broker.ready()
        server = f"http://{addresses['http']}"
        pipeline = write_files(data_dir)
        lake = data_dir / "lake"
        shown = _INTRODUCTION.format(rate=rate, pipeline=pipeline, server=server, lake=lake, kafka=addresses["kafka"])
        typer.echo(shown, err=True)
        shop = Shop(server, orders_per_second=rate)
        shop.open()
        stage = Stage(
            broker, lambda: start_pipeline(pipeline, bootstrap=addresses["kafka"], server=server, master=master)
        )
        code = _wait_for(stage, seconds)
        tally = shop.close()
    finally:
        broker.stop()
    kinds = ", ".join(f"{count} {kind}" for kind, count in tally.kinds.items())
    typer.echo(f"published {tally.orders} orders, of these {kinds}", err=True)
    if shop.trouble:
        typer.echo(f"{shop.orders_lost} of them were not accepted; last error: {shop.trouble}", err=True)
    if code != 0:
        raise typer.Exit(1)


def _wait_for(stage: Stage, seconds: float | None) -> int:
    """Wait until the pipeline has ended; return its exit code."""
    timer = threading.Timer(_FOR_EVER_S if seconds is None else seconds, stage.stop)
    timer.daemon = True
    timer.start()
    with _passing_on(stage):
        code = stage.watch(lambda line: typer.echo(f"demo: {line}", err=True))
    timer.cancel()
    return code


@contextmanager
def _passing_on(stage: Stage) -> Iterator[None]:
    """Leave Ctrl-C to the pipeline, which gets it from the terminal, and forward SIGTERM to it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        stage.is_stopping = True

    def terminate(number: int, frame: FrameType | None) -> None:
        del number, frame
        stage.stop()

    before = (signal.signal(signal.SIGINT, interrupt), signal.signal(signal.SIGTERM, terminate))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
