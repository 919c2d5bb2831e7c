"""A server as a process: the real seams, the signals, the one line that says it is ready.

| signal          | what it does                                                                              |
|-----------------|-------------------------------------------------------------------------------------------|
| SIGTERM, SIGINT | requests under way are answered, then the server stops                                    |
| SIGHUP          | nothing: the server outlives the terminal that it was started from                        |
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import uvloop

from goqueue.protocols.kafka.apis import warm_up
from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.entropy import SystemEntropy
from goqueue.seams.network import Address, RealNetwork
from goqueue.seams.sink import Sink
from goqueue.seams.syncs import kernel_syncs
from goqueue.server.lifecycle import Server
from goqueue.server.settings import Settings

# Each flush holds a thread while the disk works; more of them would only queue up in the kernel.
_THREADS = 16
# By generation of the garbage collector. It stops the loop, for 2 ms in 10,000 new objects: so the middle generation is
# collected before it is large. Requests create no cycles, so the oldest one is seldom collected.
_COLLECT_AFTER = (10_000, 2, 70)


def run(settings: Settings, sink: Sink, announce: Callable[[Mapping[str, Address]], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address of each listener when all are open."""
    _open_closed_streams()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _allow_many_files()
    uvloop.run(_run(settings, sink, announce))


async def _run(settings: Settings, sink: Sink, announce: Callable[[Mapping[str, Address]], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="goqueue") as threads, kernel_syncs() as syncs:
        server = Server(
            settings,
            disk=RealDisk(),
            network=RealNetwork(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            sink=sink,
            threads=threads,
            syncs=syncs,
        )
        # Loaded objects stay: the collector would scan them again and again, and free nothing.
        gc.disable()
        await server.start()
        # Objects that exist now stay, and requests create no cycles: the collector need not scan them again.
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_COLLECT_AFTER)
        announce(server.addresses)
        warming = loop.run_in_executor(threads, warm_up)
        await stop.wait()
        await server.stop()
        await warming


def _open_closed_streams() -> None:
    """Put /dev/null in place of standard streams that the parent has closed.

    Otherwise the event loop's own files would get their numbers, which libuv refuses to close: the process would
    abort at its end.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_RDWR)


def _allow_many_files() -> None:
    """Ask for as many open files as this process may have: connections and logs need one or two each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
