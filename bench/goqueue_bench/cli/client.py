"""`goqueue bench client`: measure the Python client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import DataDirOption, JsonOption, OutputOption, QuickOption
from goqueue_bench.cli.results import Announce, measure, present

if TYPE_CHECKING:
    from goqueue_bench.measure import Result


def client(
    *,
    messages: Annotated[int | None, typer.Option(min=64, help="How many messages for each rate.")] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure how many single publishes a second an AsyncClient carries, with 1, 8 and 64 calls under way.

    Each publish is on the disk before it is answered, by a private broker. The command fails unless all messages are
    stored. A goal that is missed does not make it fail.

    Example: [bold]goqueue bench client --json[/bold]
    """

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        from goqueue_bench import client_concurrency

        count = messages or (client_concurrency.QUICK if quick else client_concurrency.FULL)
        return client_concurrency.run(workspace, count, announce)

    machine, results = measure(data_dir, run)
    present(machine, results, {}, output, as_json=as_json)
