"""A server as a process: the real seams, the signals, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import uvloop

from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.entropy import SystemEntropy
from goqueue.seams.network import Address, RealNetwork
from goqueue.seams.sink import Sink
from goqueue.server.lifecycle import Server
from goqueue.server.settings import Settings

# Each flush holds a thread while the disk works; more of them would only queue up in the kernel.
_THREADS = 16
_COLLECT_AFTER = 20_000


def run(settings: Settings, sink: Sink, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the line that says where."""
    uvloop.run(_run(settings, sink, announce))


async def _run(settings: Settings, sink: Sink, announce: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="goqueue") as threads:
        server = Server(
            settings,
            disk=RealDisk(),
            network=RealNetwork(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            sink=sink,
            threads=threads,
        )
        await server.start()
        # What exists now stays, and requests leave no cycles behind: the collector need not look so often.
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        announce("ready " + " ".join(f"{name}={_shown(address)}" for name, address in server.addresses.items()))
        await stop.wait()
        await server.stop()


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
