"""PostgreSQL as a queue: a table whose rows are leased by an update with FOR UPDATE SKIP LOCKED and acked by a delete.

| durability | setting                                                                                      |
|------------|----------------------------------------------------------------------------------------------|
| lazy       | synchronous_commit off: a commit is answered before its log is written, at most 0.6 s later   |
| fsync      | synchronous_commit on, the default: one fsync for each commit                                 |

Receive and ack are transactions of their own, so a lease outlives its connection. The table is made for that: a lease
changes no column that has an index, and pages are filled by half, so the new version of a row fits beside the old one
and no index is written. Acked rows stay in the index until a vacuum, and each receive has to pass them, so vacuums may
come every second. They are children of the server, and count as such.

The client is libpq as psycopg wraps it, one statement after the other, with parameters in the binary format.
"""

from __future__ import annotations

import os
import pwd
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue_bench.cpu import metered
from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.peers.peer import (
    PAYLOAD,
    QUEUE_BATCH,
    REPLY_SECONDS_MAX,
    Durability,
    Measured,
    Workload,
    free_port,
    server_process,
)

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

# Where Debian puts servers, one directory for each major version; none of their programs is on the path.
DEBIAN = Path("/usr/lib/postgresql")

# The server refuses to run as root; then it runs as the user that the package has created.
_USER = "postgres"
_COMMIT = {Durability.LAZY: "off", Durability.FSYNC: "on"}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "1s",
    "statement_timeout": f"{REPLY_SECONDS_MAX:.0f}s",
}
_TABLE = """
CREATE TABLE bench (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    body bytea NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
)
"""
_PUBLISH, _PUBLISH_ONE, _RECEIVE, _ACK = b"publish", b"publish_one", b"receive", b"ack"
_STATEMENTS = {
    _PUBLISH: "INSERT INTO bench (body) SELECT unnest($1::bytea[])",
    _PUBLISH_ONE: "INSERT INTO bench (body) VALUES ($1::bytea)",
    # A row that is locked stays where it is, so its place is the shortest way to it.
    _RECEIVE: f"""
        UPDATE bench SET leased_until = now() + interval '30 s'
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM bench WHERE leased_until <= now() ORDER BY id LIMIT {QUEUE_BATCH} FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, body
    """,
    _ACK: "DELETE FROM bench WHERE id = ANY ($1::bigint[])",
}
# Ids have no gaps and are acked from the first one on. Counting rows would do work that belongs to the first receive.
_LEFT = "SELECT coalesce(max(id) - min(id) + 1, 0) FROM bench"
# The type of an array's elements, as it is on the wire.
_BYTEA, _BIGINT = 17, 20
_BINARY = 1
_SHOWN_BYTES = 1500


class PostgresQueue:
    """The peer; its server is the newest that Debian has installed, or whatever initdb is on the path."""

    name = "PostgreSQL"
    settings = {
        Durability.LAZY: "synchronous_commit off",
        Durability.FSYNC: "synchronous_commit on (the default)",
    }
    clients = {
        Workload.PUBLISH: "libpq, 500 in a statement",
        Workload.LATENCY: "libpq",
        Workload.QUEUE: "libpq, SKIP LOCKED, 500 at a time",
    }

    def missing(self) -> str | None:
        """Return what is missing."""
        try:
            import psycopg.pq  # noqa: F401
        except ImportError as error:
            return f"psycopg cannot be used: {error}"
        if programs() is None:
            return "postgresql is not installed"
        if _is_root() and not _has_user():
            return f"it does not run as root, and there is no user {_USER}"
        return None

    def version(self) -> str:
        """Return the number that the server calls itself."""
        command = [_program("postgres"), "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[2]

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a server with a new cluster below a directory."""
        from psycopg.pq import PGconn, Ping

        user = _USER if _is_root() else None
        if user is not None:
            shutil.chown(directory, user)
        cluster = directory / "cluster"
        _make_cluster(cluster, user)
        port = free_port()
        settings = {**_SETTINGS, "port": str(port), "synchronous_commit": _COMMIT[durability]}
        command = [_program("postgres"), "-D", str(cluster)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # Whatever the environment of the caller says about some other server, this one is meant.
        address = f"host=127.0.0.1 port={port} user={_USER} dbname=postgres sslmode=disable gssencmode=disable".encode()
        with server_process(command, directory, lambda: PGconn.ping(address) == Ping.OK, user=user) as pid:
            connection = PGconn.connect(address)
            try:
                yield _Server(_Session(connection), pid)
            finally:
                connection.finish()


class _Server:
    def __init__(self, session: _Session, pid: int) -> None:
        self._session = session
        self._pid = pid
        self._stored = self._acked = 0
        session.run(_TABLE)
        for name, statement in _STATEMENTS.items():
            session.prepare(name, statement)

    def publish(self, count: int) -> Measured:
        sizes = [min(QUEUE_BATCH, count - start) for start in range(0, count, QUEUE_BATCH)]
        batches = {size: array(_BYTEA, [PAYLOAD] * size) for size in set(sizes)}
        with metered(self._pid, with_children=True) as usage:
            for size in sizes:
                self._session.change(_PUBLISH, batches[size], size)
        return self._published(Measured(count, usage))

    def latency(self, count: int) -> Measured:
        latencies = []
        with metered(self._pid, with_children=True) as usage:
            for _ in range(count):
                started = time.perf_counter()
                self._session.change(_PUBLISH_ONE, PAYLOAD, 1)
                latencies.append((time.perf_counter() - started) * 1000)
        return self._published(Measured(count, usage, latencies))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {}

    def queue(self, count: int) -> Measured:
        acked = 0
        with metered(self._pid, with_children=True) as usage:
            while acked < count and (ids := self._lease()):
                self._session.change(_ACK, array(_BIGINT, ids), len(ids))
                acked += len(ids)
        self._acked += acked
        self._require_left()
        return Measured(acked, usage)

    def _lease(self) -> list[bytes]:
        """Return the ids of a batch as they are on the wire, none if nothing is left."""
        leased = self._session.execute(_RECEIVE)
        ids = [leased.get_value(row, 0) or b"" for row in range(leased.ntuples)]
        require(not ids or leased.get_value(len(ids) - 1, 1) == PAYLOAD, "messages come as they were published")
        return ids

    def _published(self, measured: Measured) -> Measured:
        self._stored += measured.messages
        self._require_left()
        return measured

    def _require_left(self) -> None:
        left = int(self._session.run(_LEFT).get_value(0, 0) or -1)
        expected = self._stored - self._acked
        require(left == expected, f"there have to be {expected} messages, and {left} are stored")


class _Session:
    """One connection; whatever the server refuses fails the benchmark."""

    def __init__(self, connection: PGconn) -> None:
        from psycopg.pq import ConnStatus, ExecStatus

        self._connection = connection
        self._done = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
        require(connection.status == ConnStatus.OK, f"the server takes the connection: {connection.error_message!r}")

    def run(self, statement: str) -> PGresult:
        """Run a statement of its own; results are text."""
        return self._checked(self._connection.exec_(statement.encode()))

    def prepare(self, name: bytes, statement: str) -> None:
        """Let the server keep a statement under a name."""
        self._checked(self._connection.prepare(name, statement.encode()))

    def execute(self, name: bytes, *parameters: bytes) -> PGresult:
        """Run a prepared statement; parameters and results are in the binary format."""
        return self._checked(
            self._connection.exec_prepared(name, parameters, [_BINARY] * len(parameters), result_format=_BINARY)
        )

    def change(self, name: bytes, parameter: bytes, rows: int) -> None:
        """Run a prepared statement that has to change so many rows."""
        changed = self.execute(name, parameter).command_tuples
        require(changed == rows, f"{name.decode()} is for {rows} messages and was done for {changed}")

    def _checked(self, result: PGresult) -> PGresult:
        if result.status not in self._done:
            raise BenchmarkFailed(f"the server refuses a statement: {result.error_message!r}")
        return result


def array(element_type: int, values: Sequence[bytes]) -> bytes:
    """Return an array in the binary format; there is at least one value, and all have the same size."""
    size = struct.pack(">i", len(values[0]))
    return struct.pack(">iiIii", 1, 0, element_type, len(values), 1) + size + size.join(values)


def programs(debian: Path = DEBIAN) -> Path | None:
    """Return the directory of a server's programs: the newest below Debian's, or else the one on the path."""
    installed = [found.parent for found in debian.glob("*/bin/initdb")]
    if installed:
        return max(installed, key=lambda directory: float(directory.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _program(name: str) -> str:
    directory = programs()
    if directory is None:
        raise BenchmarkFailed("postgresql is not installed")
    return str(directory / name)


def _is_root() -> bool:
    return os.geteuid() == 0


def _has_user() -> bool:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return False
    return True


def _make_cluster(cluster: Path, user: str | None) -> None:
    command = [_program("initdb"), "-D", str(cluster), "--auth=trust", f"--username={_USER}"]
    command += ["--encoding=UTF8", "--no-locale"]
    made = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=cluster.parent,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    if made.returncode != 0:
        raise BenchmarkFailed(f"initdb ended with {made.returncode}: {made.stderr[-_SHOWN_BYTES:].decode()}")
