"""`goqueue bench spark`: measure reading and writing topics with Spark, beside Parquet, on a private broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import DataDirOption, JsonOption, OutputOption
from goqueue_bench.cli.results import Announce, measure, present
from goqueue_bench.options import Codec

if TYPE_CHECKING:
    from goqueue_bench.measure import Result


def spark(
    *,
    rows: Annotated[int | None, typer.Option(min=4, help="How many rows, instead of the usual number.")] = None,
    codec: Annotated[Codec, typer.Option(help="Compression of what is written to topics.")] = Codec.NONE,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, rougher numbers, about a minute.")] = False,
) -> None:
    """Measure Spark on this machine: batch and stream reads of a topic, exactly-once writes, small batches, memory.

    A local Spark with two cores, rows of 100 bytes in four partitions, and the same rows in Parquet files to compare
    with. Needs the extra "spark". The command fails unless every row is read, and every row that is written is
    committed once. A goal that is missed does not make it fail.

    Example: [bold]goqueue bench spark --quick --rows 50000[/bold]
    """
    from dataclasses import replace

    from goqueue_bench.spark.rows import PARTITIONS, ROW_BYTES
    from goqueue_bench.spark.workloads import FULL, MASTER, QUICK, run_spark

    usual = QUICK if quick else FULL
    size = usual if rows is None else replace(usual, rows=rows)

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        return run_spark(workspace, size, codec, announce)

    machine, results = measure(data_dir, run)
    settings = {
        "master": MASTER,
        "spark": _spark_version(),
        "rows": size.rows,
        "rounds": size.rounds,
        "partitions": PARTITIONS,
        "size_bytes": ROW_BYTES,
        "codec": codec,
    }
    present(machine, results, settings, output, as_json=as_json)


def _spark_version() -> str:
    from importlib.metadata import version

    return version("pyspark")
