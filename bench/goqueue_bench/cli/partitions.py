"""`goqueue bench partitions`: measure a private broker with many partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import DataDirOption, JsonOption, OutputOption
from goqueue_bench.cli.results import Announce, measure, present

if TYPE_CHECKING:
    from goqueue_bench.measure import Result


def partitions(
    *,
    count: Annotated[int, typer.Option("--partitions", min=1, help="How many partitions in all.")] = 10_000,
    per_topic: Annotated[int, typer.Option(min=1, help="Partitions of a topic.")] = 10,
    topics_per_request: Annotated[int, typer.Option(min=1, help="Topics that one request makes.")] = 1000,
    idle_seconds: Annotated[float, typer.Option(min=0.1, help="How long the idle broker is watched.")] = 10.0,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Measure a private broker with many partitions: making topics, idling, stopping, starting.

    While topics are made, another client publishes one message at a time, and its latencies are reported. The broker
    is started after a clean stop and after a kill. The command fails unless every topic is made and every message is
    there after each start. A goal that is missed does not make it fail.

    Example: [bold]goqueue bench partitions --partitions 30000 --per-topic 30[/bold]
    """
    from goqueue_bench.partitions import Partitions, measure_partitions

    wanted = Partitions(
        partitions=count, per_topic=per_topic, topics_per_request=topics_per_request, idle_seconds=idle_seconds
    )

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        return measure_partitions(workspace, wanted, announce)

    machine, results = measure(data_dir, run)
    settings = {"partitions": count, "per_topic": per_topic, "topics_per_request": topics_per_request}
    present(machine, results, settings, output, as_json=as_json)
