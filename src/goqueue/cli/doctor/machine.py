"""Checks of this machine for a broker: ports, data directory, free space, open files."""

from __future__ import annotations

import errno
import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.cli.doctor.findings import CheckResult
from goqueue.cli.doctor.processes import Process, holder_of_lock, listener_on
from goqueue.cli.terminal.tables import size_text

if TYPE_CHECKING:
    from goqueue.cli.doctor.broker import BrokerChecks
    from goqueue.server.settings import Settings

# Files of logs, in addition to one per connection.
_FILES_FOR_LOGS = 2000
_FREE_WARNING = 0.05


def check(settings: Settings, broker: BrokerChecks) -> Iterator[CheckResult]:
    """Check what a broker with these settings needs."""
    # The broker that answered has these ports.
    ours = {broker.http_port} if broker.is_reachable else set()
    ours |= {broker.kafka_port} if broker.speaks_kafka else set()
    for name, port in (("kafka port", settings.kafka_port), ("http port", settings.http_port)):
        yield _check_port(name, settings.host, port, is_ours=port in ours)
    directory = Path(settings.data_dir)
    yield from _check_directory(directory, settings.disk_guard_free_fraction, is_broker_known=broker.is_reachable)
    yield _check_open_files(settings.connections_max)


def _check_port(name: str, host: str, port: int, *, is_ours: bool) -> CheckResult:
    if port == 0:
        return CheckResult.ok(name, "any free one")
    if is_ours:
        return CheckResult.ok(name, f"{port} is the broker's")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return CheckResult.failure(name, f"{host}:{port}: {error.strerror}", "choose another host or port")
        flag = "--" + name.replace(" ", "-")
        fix = f"stop it, or start the broker with another {flag}"
        return CheckResult.failure(name, f"{port} is in use by {_named(listener_on(port))}", fix)
    return CheckResult.ok(name, f"{port} is free")


def _check_directory(directory: Path, guard: float, *, is_broker_known: bool) -> Iterator[CheckResult]:
    if not directory.exists():
        yield _check_parent(directory)
        return
    if not directory.is_dir():
        yield CheckResult.failure("data directory", f"{directory} is not a directory", "choose another with --data-dir")
        return
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        fix = f"let the user {_user()} write there, or choose another with --data-dir"
        yield CheckResult.failure("data directory", f"{directory} cannot be written to: {error.strerror}", fix)
        return
    yield CheckResult.ok("data directory", f"{directory.resolve()} can be written to")
    yield _check_lock(directory, is_broker_known=is_broker_known)
    yield _check_space(directory, guard)


def _check_parent(directory: Path) -> CheckResult:
    above = next(parent for parent in directory.absolute().parents if parent.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        fix = f"create it, and let the user {_user()} write there, or choose another with --data-dir"
        return CheckResult.failure("data directory", f"{directory} does not exist and cannot be created", fix)
    return CheckResult.ok("data directory", f"{directory.absolute()} does not exist yet; the broker creates it")


def _check_lock(directory: Path, *, is_broker_known: bool) -> CheckResult:
    lock = directory / "lock"
    if not lock.exists():
        return CheckResult.ok("lock", "no broker has used the data directory yet")
    holder = holder_of_lock(lock)
    if holder is None:
        return CheckResult.ok("lock", "no broker uses the data directory now")
    what = f"the data directory is in use by {_named(holder)}"
    if not is_broker_known:
        fix = "if that is a broker, name its ports with --server and --kafka; another cannot start on this directory"
        return CheckResult.warning("lock", what, fix)
    return CheckResult.ok("lock", what)


def _check_space(directory: Path, guard: float) -> CheckResult:
    stat = os.statvfs(directory)
    free = stat.f_bavail / stat.f_blocks if stat.f_blocks else 1.0
    what = f"{size_text(stat.f_bavail * stat.f_frsize)} free, {free:.0%} of the disk"
    fix = "free space, or lower retention.ms and retention.bytes of large topics"
    if free < guard:
        return CheckResult.failure("free space", f"{what}: below {guard:.0%}, at which writes are refused", fix)
    if free < guard + _FREE_WARNING:
        return CheckResult.warning("free space", f"{what}; at {guard:.0%} writes are refused", fix)
    return CheckResult.ok("free space", f"{what}; writes are refused below {guard:.0%}")


def _check_open_files(connections_max: int) -> CheckResult:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + _FILES_FOR_LOGS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return CheckResult.ok("open files", f"{'no limit' if soft == resource.RLIM_INFINITY else f'up to {soft:,}'}")
    what = f"up to {soft:,}, but {connections_max:,} connections and the logs may need {wanted:,}"
    way = f"ulimit -n {wanted}" if hard == resource.RLIM_INFINITY or hard >= wanted else "raise the hard limit as root"
    return CheckResult.warning("open files", what, f"{way} in the shell, LimitNOFILE={wanted} in a systemd unit")


def _named(process: Process | None) -> str:
    return "another process" if process is None else str(process)


def _user() -> str:
    return str(os.geteuid())
