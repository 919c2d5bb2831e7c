"""A RabbitMQ node of its own: private directories, ports, name and cookie, and the plugin for streams.

Nothing of an installed service is used or changed: what Debian's scripts would take from /etc and /var is given to the
node in variables. Erlang's port mapper leaves the node's session when it starts, so it is ended separately.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from goqueue_bench.peers.peer import accepts_connections, free_port, server_process

# The start script itself; the one on the path would first become the user rabbitmq.
_SCRIPTS = Path("/usr/lib/rabbitmq/bin")


class Node(NamedTuple):
    """A running node: its process, and the ports of its two protocols."""

    pid: int
    amqp_port: int
    stream_port: int


def missing() -> str | None:
    """Return what this machine lacks to run a node."""
    if not (_SCRIPTS / "rabbitmq-server").exists():
        return "rabbitmq-server is not installed as Debian does it"
    return None if shutil.which("epmd") else "epmd of Erlang is not installed"


def version() -> str:
    """Return the version in the name of the server's directory."""
    (directory,) = (_SCRIPTS.parent / "lib").glob("rabbitmq_server-*")
    return directory.name.rpartition("-")[2]


@contextmanager
def running_node(directory: Path) -> Iterator[Node]:
    """Run a node with everything it keeps below a directory."""
    amqp_port, stream_port, mapper_port = free_port(), free_port(), free_port()
    (directory / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{amqp_port}\nstream.listeners.tcp.1 = 127.0.0.1:{stream_port}\n"
        "log.file.level = error\n",
        "utf-8",
    )
    (directory / "enabled_plugins").write_text("[rabbitmq_stream].\n", "utf-8")
    environment = {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(mapper_port),
        "RABBITMQ_NODENAME": f"bench{amqp_port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
    }

    def is_ready() -> bool:
        return accepts_connections(amqp_port) and accepts_connections(stream_port)

    try:
        with server_process([str(_SCRIPTS / "rabbitmq-server")], directory, is_ready, environment) as pid:
            yield Node(pid, amqp_port, stream_port)
    finally:
        subprocess.run(["epmd", "-port", str(mapper_port), "-kill"], capture_output=True, check=False)
