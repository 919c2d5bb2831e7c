"""`goqueue bench publish|replay|latency|requests`: measure a broker, a private one or one that runs already."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.options import Acks, Answer, Client, Codec, Flush

if TYPE_CHECKING:
    from goqueue_bench.figures import Figures
    from goqueue_bench.messages.workloads import Size, Target

    Run = Callable[[Target, Path, Size], dict[str, Figures]]


BootstrapOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Measure the broker that runs there, not a private one.")
]
PidOption = Annotated[
    int | None, typer.Option(min=1, help="The process of that broker, for its CPU time; it runs on this machine.")
]
FlushOption = Annotated[Flush, typer.Option(help="Flush policy of the topic: fsync before the reply, or soon after.")]
AcksOption = Annotated[Acks, typer.Option(help="Acknowledgement that the client waits for.")]
AnswerOption = Annotated[Answer, typer.Option("--acks", help="Acknowledgement that the client waits for.")]
SizeOption = Annotated[int, typer.Option(min=1, help="Bytes of a message.")]
MessagesOption = Annotated[int | None, typer.Option(min=1, help="How many messages, instead of the usual number.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(file_okay=False, exists=True, help="A private broker keeps its data in a directory below this one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
OutputOption = Annotated[Path | None, typer.Option(help="Also write the JSON object to this file.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer messages, rougher numbers, a few seconds.")]


def publish(
    *,
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    acks: AcksOption = Acks.ALL,
    size: SizeOption = 100,
    messages: MessagesOption = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 1,
    codec: Annotated[Codec, typer.Option(help="Compression.")] = Codec.NONE,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure bulk publishing with the client confluent-kafka.

    Batches of up to 1 MB, sent after 5 ms at the latest. The command fails unless every message is reported as stored
    and the partitions end where they should.

    Example: [bold]goqueue bench publish --flush interval --acks 1[/bold]
    """

    def run(target: Target, workspace: Path, usual: Size) -> dict[str, Figures]:
        from goqueue_bench.messages.publish import Bulk
        from goqueue_bench.messages.workloads import run_publish

        count = messages or usual.publish
        bulk = Bulk(messages=count, size_bytes=size, acks=acks, codec=codec, partitions=partitions)
        return run_publish(target, workspace, bulk)

    settings = {"acks": acks, "size_bytes": size, "partitions": partitions, "codec": codec}
    _bench(run, bootstrap, pid, flush, settings, data_dir, output, as_json=as_json, is_quick=quick)


def replay(
    *,
    client: Annotated[Client, typer.Option(help="Stock client, or bare socket that shows the broker.")] = (
        Client.CONFLUENT
    ),
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    size: SizeOption = 100,
    messages: MessagesOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure reading a topic from its start; it is filled before, with the client confluent-kafka.

    The command fails unless every offset arrives exactly once and in order.

    Example: [bold]goqueue bench replay --client raw[/bold]
    """

    def run(target: Target, workspace: Path, usual: Size) -> dict[str, Figures]:
        from goqueue_bench.messages.publish import Bulk
        from goqueue_bench.messages.workloads import run_replay

        bulk = Bulk(messages=messages or usual.replay, size_bytes=size)
        return run_replay(target, workspace, bulk, client)

    settings = {"client": client, "size_bytes": size}
    _bench(run, bootstrap, pid, flush, settings, data_dir, output, as_json=as_json, is_quick=quick)


def latency(
    *,
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    acks: AnswerOption = Answer.ALL,
    size: SizeOption = 100,
    messages: MessagesOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure how long a publish takes, and a message from a producer to a consumer that waits.

    One publish in flight over a bare socket, one with the client confluent-kafka, and 1,000 messages a second from
    end to end, timed from when each was due.

    Example: [bold]goqueue bench latency --flush interval --acks 1[/bold]
    """

    def run(target: Target, workspace: Path, usual: Size) -> dict[str, Figures]:
        from goqueue_bench.messages.latency import Probe
        from goqueue_bench.messages.workloads import run_latency

        probe = Probe(messages=messages or usual.latency, size_bytes=size, acks=acks.on_the_wire)
        end_to_end = Probe(messages=messages or usual.end_to_end, size_bytes=size, acks=acks.on_the_wire)
        return run_latency(target, workspace, probe, end_to_end)

    settings = {"acks": acks, "size_bytes": size}
    _bench(run, bootstrap, pid, flush, settings, data_dir, output, as_json=as_json, is_quick=quick)


def requests(
    *,
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    acks: AnswerOption = Answer.ALL,
    size: SizeOption = 100,
    messages: MessagesOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure one message per produce request: four bare sockets with fifty requests in flight each.

    Example: [bold]goqueue bench requests --quick[/bold]
    """

    def run(target: Target, workspace: Path, usual: Size) -> dict[str, Figures]:
        from goqueue_bench.messages.latency import Probe
        from goqueue_bench.messages.workloads import run_requests

        probe = Probe(messages=messages or usual.requests, size_bytes=size, acks=acks.on_the_wire)
        return run_requests(target, workspace, probe)

    settings = {"acks": acks, "size_bytes": size}
    _bench(run, bootstrap, pid, flush, settings, data_dir, output, as_json=as_json, is_quick=quick)


def _bench(
    run: Run,
    bootstrap: str | None,
    pid: int | None,
    flush: Flush,
    settings: Mapping[str, object],
    data_dir: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    is_quick: bool,
) -> None:
    """Run a workload, print its figures, and store them if asked to."""
    from goqueue_bench.log.workloads import private_workspace
    from goqueue_bench.machine import describe
    from goqueue_bench.measure import BenchmarkFailed
    from goqueue_bench.messages.workloads import FULL, QUICK, Target

    if pid is not None and bootstrap is None:
        raise typer.BadParameter("a private broker's process is known: --pid goes with --bootstrap")
    target = Target(bootstrap=bootstrap, pid=pid, flush=flush)
    with private_workspace(data_dir) as workspace:
        machine = describe(workspace)
        try:
            results = run(target, workspace, QUICK if is_quick else FULL)
        except BenchmarkFailed as error:
            typer.echo(f"goqueue: {error}", err=True)
            raise typer.Exit(1) from None
    facts = {
        "machine": machine._asdict(),
        "settings": {"broker": "private" if target.is_private else "running", "flush": flush, **settings},
        "results": {name: figures.as_dict() for name, figures in results.items()},
    }
    document = json.dumps(facts, indent=2)
    if output is not None:
        output.write_text(document + "\n", "utf-8")
    if as_json:
        typer.echo(document)
    else:
        _show(results)


def _show(results: Mapping[str, Figures]) -> None:
    from goqueue.cli.terminal.output import Format, show

    rows = ({"workload": name.replace("_", " "), **figures.as_dict()} for name, figures in results.items())
    show("figures", rows, Format.TABLE)
