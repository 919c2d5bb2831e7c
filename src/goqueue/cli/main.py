"""The `goqueue` command: `goqueue NOUN VERB`.

Owns the root of the command tree and the exit codes: 0 for success, 1 for a failure or a problem that was found, 2 for
wrong usage. An expected failure prints one line to stderr, never a traceback. If the reader of the output leaves early,
the command exits with 0 and prints nothing. Commands import heavy modules when they run, so that help is quick.
"""

from __future__ import annotations

import errno
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from goqueue import __version__
from goqueue.cli import dead_letters as dlq
from goqueue.cli import topics as topic
from goqueue.cli import transactions as txn
from goqueue.cli.bench import add_bench
from goqueue.cli.consume import command as consume
from goqueue.cli.demo import command as demo
from goqueue.cli.doctor import command as doctor
from goqueue.cli.groups import commands as group
from goqueue.cli.jobs import commands as job
from goqueue.cli.log import commands as log
from goqueue.cli.pipelines import commands as pipeline
from goqueue.cli.produce import command as produce
from goqueue.cli.queues import commands as queue
from goqueue.cli.server import config, serve
from goqueue.cli.spark import commands as spark
from goqueue.cli.terminal.streams import flush_output, forget_output
from goqueue.errors import GoQueueError
from goqueue.model.visible_text import visible


class _Commands(TyperGroup):
    """The root of the commands; prints an expected failure as one line."""

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            flush_output()
            return result
        except GoQueueError as error:
            reason = f"{error} [{error.code}]"
        except OSError as error:
            if error.errno == errno.EPIPE:
                # A reader such as `head` has enough; that is not a failure.
                forget_output()
                raise typer.Exit(0) from None
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"goqueue: {visible(reason)}", err=True)
        raise typer.Exit(1)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.command()(serve.serve)
app.add_typer(topic.app, name="topic")
app.command()(produce.produce)
app.command()(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(queue.app, name="queue")
app.add_typer(dlq.app, name="dlq")
app.add_typer(txn.app, name="txn")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(job.app, name="job")
app.command()(demo.demo)
app.command()(doctor.doctor)
app.add_typer(log.app, name="log")
app.add_typer(config.app, name="config")
app.add_typer(spark.app, name="spark")
add_bench(app)


def _show_version(is_asked: bool) -> None:  # noqa: FBT001 - the signature that typer calls
    if is_asked:
        typer.echo(f"goqueue {__version__}")
        raise typer.Exit


@app.callback()
def goqueue(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """GoQueue: one broker for replayable logs and leased queues.

    Exit codes: 0 success, 1 a failure or a problem that was found, 2 wrong usage.
    """
    del version
