"""Run the integration suite of kafka-python, from its published source, against a broker of ours.

    python tests/foreign/run.py --pip "python3 -m pip"

Downloads the source distribution of the installed version, unpacks it under `build/foreign`, and adds the two files
that it leaves out. Fails if a test fails that is not listed in `EXPECTED`. Where the source cannot be had, it says so
and succeeds.

The suite of aiokafka is not run: its source distribution comes without its tests.
"""

# ruff: noqa: T201 - it talks to the person who runs it

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from goqueue.testing import Broker

_ADMIN, _SSL = "test.integration.test_admin_integration::", "test.integration.test_ssl_integration.TestSSLConnection::"
EXPECTED = {
    f"{_ADMIN}test_create_describe_delete_acls": "there are no ACLs yet",
    f"{_ADMIN}test_alter_replica_log_dirs": "one log directory: AlterReplicaLogDirs is not offered",
    f"{_ADMIN}test_alter_partition_reassignments": "one broker: AlterPartitionReassignments is not offered",
    "test.integration.test_consumer_integration::test_kafka_version_infer": "it takes the list of APIs for that of 4.0",
    f"{_SSL}test_ssl_handshake": "it starts a broker of its own",
    f"{_SSL}test_legacy_kafka_client_ssl": "it starts a broker of its own",
}
"""Tests that fail, and why."""

_SERVICE = '''"""Stands in for the module that starts services: the broker is there already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
'''
_KAFKA_VERSION = "4.2.0"
_SUITE_S = 1800


def main() -> int:
    """Run the suite; return 1 if a test fails that was not expected to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pip", default=f"{sys.executable} -m pip", help="The command that runs pip.")
    parser.add_argument("--directory", type=Path, default=Path("build/foreign"))
    options = parser.parse_args()
    source = _source(options.directory, options.pip)
    if source is None:
        return 0
    failed = _failed(source, options.directory)
    for name in sorted(failed):
        print(f"{'expected' if name in EXPECTED else 'FAILED'}: {name} {EXPECTED.get(name, '')}")
    for name in sorted(set(EXPECTED) - failed):
        print(f"passes now, and can be taken off the list: {name}")
    return 1 if failed - set(EXPECTED) else 0


def _source(directory: Path, pip: str) -> Path | None:
    """Return the unpacked source of kafka-python, which is downloaded if need be; None if it cannot be had."""
    release = version("kafka-python")
    source = directory / f"kafka_python-{release}"
    archive = directory / f"{source.name}.tar.gz"
    directory.mkdir(parents=True, exist_ok=True)
    if not archive.exists():
        wanted = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(directory)]
        done = subprocess.run([*shlex.split(pip), *wanted, f"kafka-python=={release}"], check=False)
        if done.returncode or not archive.exists():
            print(f"skipped: the source of kafka-python {release} cannot be downloaded here")
            return None
    with tarfile.open(archive) as files:
        files.extractall(directory, filter="data")
    tests = source / "test"
    if not (tests / "integration").is_dir():
        print(f"skipped: the source of kafka-python {release} comes without its integration tests")
        return None
    (tests / "__init__.py").touch()
    if not (tests / "service.py").exists():
        (tests / "service.py").write_text(_SERVICE, "utf-8")
    return source


def _failed(source: Path, directory: Path) -> set[str]:
    report = (directory / "kafka-python.xml").resolve()
    report.unlink(missing_ok=True)
    # The shortest session that the suite asks for is below the least one of brokers.
    with Broker(node_id=0, default_partitions=4, group_min_session_timeout_ms=100) as broker:
        environment = {
            **os.environ,
            "KAFKA_URI": f"kafka://{broker.bootstrap}",
            "KAFKA_VERSION": _KAFKA_VERSION,
            # Where the suite would find the programs of Kafka, of which it needs none.
            "KAFKA_ROOT": str(directory.resolve()),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-c", os.devnull, "--rootdir", "."]
        command += ["-W", "ignore", "--tb=short", f"--junitxml={report}", "test/integration"]
        subprocess.run(command, cwd=source, env=environment, timeout=_SUITE_S, check=False)
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }


if __name__ == "__main__":
    sys.exit(main())
