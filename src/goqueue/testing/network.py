"""A network in memory, with the faults of a real one, all drawn from a seed.

Hosts are names. Each gets its own view, a `goqueue.seams.network.Network`, and every ordered pair of hosts
has a `Link` with delay, jitter and loss. Owns hosts, ports and the ways to hurt them; how bytes travel on an
open connection, and what holds for them, is written in `stream`.

Kernels here never time out an established connection: a fault that is never healed is silence forever.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
from collections.abc import Callable
from dataclasses import replace

from goqueue.seams.network import Address, ProtocolT
from goqueue.testing.entropy import SeededEntropy
from goqueue.testing.stream import End, Link, Pipe, SimTransport, socket_error

_FIRST_EPHEMERAL_PORT = 49_152
_WINDOW_BYTES = 64 * 1024
# Linux sends a SYN again after 1 s, 2 s, ... and gives up after 127 s.
_SYN_WAITS_S = (1, 2, 4, 8, 16, 32, 64)
# Names that mean "this host", whichever host asks.
_LOCAL_NAMES = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})


class SimNetwork:
    """All hosts, links and connections of one simulation; a link starts as a copy of `defaults`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        entropy: SeededEntropy,
        *,
        delay_s: float = 0.0005,
        jitter_s: float = 0.001,
        loss: float = 0.0,
        window_bytes: int = _WINDOW_BYTES,
    ) -> None:
        self.loop = loop
        self.entropy = entropy
        self.window_bytes = window_bytes
        self.listeners: dict[Address, SimListener] = {}
        self.defaults = Link(delay_s, jitter_s, loss)
        self._links: dict[tuple[str, str], Link] = {}
        self._hosts: dict[str, SimHost] = {}
        self._ends: list[SimTransport] = []

    def host(self, name: str) -> SimHost:
        """Return the network as the host of that name sees it; a new name is a new host."""
        if name not in self._hosts:
            self._hosts[name] = SimHost(self, name)
        return self._hosts[name]

    def knows(self, name: str) -> bool:
        """Return whether there is a host of that name."""
        return name in self._hosts

    def link(self, source: str, target: str) -> Link:
        """Return the link from one host to another, to read or change it."""
        return self._links.setdefault((source, target), replace(self.defaults))

    def transports(self) -> list[SimTransport]:
        """Return the ends of connections that have not been lost, so that a test can see that none leaked."""
        return [end for end in self._ends if not end.is_lost]

    def drop(self, source: str, target: str) -> None:
        """Drop everything from one host to the other silently: no error is raised, and connects hang."""
        self.link(source, target).is_dropped = True

    def isolate(self, name: str) -> None:
        """Drop every link from and to a host."""
        for other in self._hosts:
            if other != name:
                self.drop(name, other)
                self.drop(other, name)

    def heal(self, source: str, target: str) -> None:
        """End a drop: some of the affected connections retransmit the lost bytes, the others are reset."""
        self.link(source, target).is_dropped = False
        for end in self._ends_between(source, target):
            if end.outgoing.is_stalled and self.entropy.chance(0.5):
                end.reset_both()
            else:
                end.outgoing.retransmit()
                end.incoming.acknowledge()

    def heal_all(self) -> None:
        """End every drop."""
        for (source, target), link in self._links.items():
            if link.is_dropped:
                self.heal(source, target)

    def cut(self, a: str, b: str) -> None:
        """Reset all connections between two hosts; new ones can be made at once."""
        for end in self._ends_between(a, b):
            end.reset_both()

    def crash(self, name: str) -> None:
        """Kill the process on a host: its ports close, its protocols are never called again.

        Its kernel lives on: it sends what it already has, and ends each connection with a reset if there are
        bytes unread, otherwise in the ordinary way. For a loss of power, `isolate` the host first and heal it
        later. Cancelling the tasks of the dead process is up to the caller.
        """
        for address in [address for address in self.listeners if address[0] == name]:
            self.listeners[address].close()
        for end in self.transports():
            if end.local[0] == name:
                end.kill()

    def join(self, client: Address, server: Address) -> tuple[SimTransport, SimTransport]:
        """Make a connection whose protocols are yet to come."""
        there, back = self.link(client[0], server[0]), self.link(server[0], client[0])
        outgoing, incoming = self._pipe(there, back), self._pipe(back, there)
        near = SimTransport(self.loop, client, server, incoming, outgoing)
        far = SimTransport(self.loop, server, client, outgoing, incoming)
        # Bytes of a lost end may still be on the way; a connection is over when both ends are lost.
        self._ends = [end for end in self._ends if not (end.is_lost and end.outgoing.receiver.is_lost)]
        self._ends += (near, far)
        return near, far

    def _pipe(self, link: Link, back: Link) -> Pipe:
        return Pipe(self.loop, self.entropy, link, back, window_bytes=self.window_bytes)

    def _ends_between(self, source: str, target: str) -> list[SimTransport]:
        return [end for end in self._ends if (end.local[0], end.remote[0]) == (source, target)]


class SimHost:
    """The network as one host sees it."""

    def __init__(self, network: SimNetwork, name: str) -> None:
        self.name = name
        self._network = network
        self._ports = itertools.count(_FIRST_EPHEMERAL_PORT)

    def host_name(self) -> str:
        return self.name

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> SimListener:
        if host != self.name and host not in _LOCAL_NAMES:
            raise socket_error(errno.EADDRNOTAVAIL, f"{host} is not an address of {self.name}")
        address = (self.name, port or next(self._ports))
        if address in self._network.listeners:
            raise socket_error(errno.EADDRINUSE, f"{address} is taken")
        listener = SimListener(self._network, address, protocol_factory)
        self._network.listeners[address] = listener
        return listener

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ProtocolT]
    ) -> tuple[SimTransport, ProtocolT]:
        name = self.name if host in _LOCAL_NAMES else host
        if not self._network.knows(name):
            raise socket.gaierror(socket.EAI_NONAME, f"no host is called {host}")
        there, back = self._network.link(self.name, name), self._network.link(name, self.name)
        await self._synchronise(there, back, (name, port))
        await self._travel(there)
        listener = self._network.listeners.get((name, port))
        if listener is None:
            await self._travel(back)
            raise socket_error(errno.ECONNREFUSED, f"nobody listens on {(name, port)}")
        client, server = self._network.join((self.name, next(self._ports)), (name, port))
        self._network.loop.call_soon(listener.accept, server)
        try:
            await self._travel(back)
        except asyncio.CancelledError:
            client.kill()
            raise
        if client.is_lost:
            raise socket_error(errno.ECONNRESET, f"{(name, port)} closed the connection at once")
        protocol = protocol_factory()
        client.start(protocol)
        return client, protocol

    async def _synchronise(self, there: Link, back: Link, target: Address) -> None:
        """Wait until a SYN and its answer get through, with the kernel's patience."""
        for wait in _SYN_WAITS_S:
            is_lost = self._network.entropy.chance(there.loss) or self._network.entropy.chance(back.loss)
            if not (there.is_dropped or back.is_dropped or is_lost):
                return
            await asyncio.sleep(wait)
        raise socket_error(errno.ETIMEDOUT, f"{target} does not answer")

    async def _travel(self, link: Link) -> None:
        await asyncio.sleep(link.delay_s + link.jitter_s * self._network.entropy.fraction())


class SimListener:
    """An open port of a simulated host."""

    def __init__(
        self, network: SimNetwork, address: Address, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self.address = address
        self._network = network
        self._protocol_factory = protocol_factory
        self._is_closed = False

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            del self._network.listeners[self.address]

    def accept(self, transport: SimTransport) -> None:
        """Give a new connection its protocol; one that waited while the port closed is reset."""
        if self._is_closed:
            transport.outgoing.end(End.RESET)
            transport.kill()
        elif not transport.is_lost:
            transport.start(self._protocol_factory())
