"""The simulated network: streams that behave like TCP, faults that really happen, a race that it finds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from goqueue.seams.network import Listener, Network
from goqueue.testing.network import SimHost
from goqueue.testing.simulation import Simulation, simulate

PORT = 9092
LEASE_S = 1.0
T = TypeVar("T")


class Recorder(asyncio.Protocol):
    """Writes down every callback; keeps the connection open at the peer's end."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.chunks: list[bytes] = []
        self.lost: Exception | None = None
        self.on_data: Callable[[bytes], object] = self.chunks.append
        self.transport: asyncio.Transport

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.calls.append("made")

    @override
    def data_received(self, data: bytes) -> None:
        self.calls.append("data")
        self.on_data(data)

    @override
    def eof_received(self) -> bool:
        self.calls.append("eof")
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost = exc

    @override
    def pause_writing(self) -> None:
        self.calls.append("pause")

    @override
    def resume_writing(self) -> None:
        self.calls.append("resume")


class Buffered(asyncio.BufferedProtocol):
    """Reads into one small buffer of its own."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.sizes: list[int] = []
        self._buffer = bytearray(100)

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.sizes.append(nbytes)
        self.data += self._buffer[:nbytes]


@dataclass
class Pair:
    """Two hosts, `a` (the client) and `b` (the server), and one connection between them."""

    simulation: Simulation
    a: Recorder
    accepted: list[Recorder]
    listener: Listener

    @property
    def b(self) -> Recorder:
        return self.accepted[0]

    @classmethod
    async def join(cls, simulation: Simulation) -> Pair:
        network = simulation.network
        accepted: list[Recorder] = []

        def accept() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        listener = await network.host("b").listen("b", PORT, accept)
        _, client = await network.host("a").connect("b", PORT, Recorder)
        await quiet()
        return cls(simulation, client, accepted, listener)


async def quiet() -> None:
    """Let everything that is on the way arrive."""
    await asyncio.sleep(10)


def outcomes(main: Callable[[Simulation], Coroutine[Any, Any, T]], seeds: int = 40) -> set[T]:
    return {simulate(main, seed) for seed in range(seeds)}


def test_bytes_arrive_in_order_cut_and_joined_at_drawn_points() -> None:
    sent = bytes(range(256)) * 40

    async def main(simulation: Simulation) -> tuple[int, ...]:
        pair = await Pair.join(simulation)
        for start in range(0, len(sent), 256):
            pair.a.transport.write(sent[start : start + 256])
        await quiet()
        assert pair.b.data == sent
        return tuple(len(chunk) for chunk in pair.b.chunks)

    sizes = outcomes(main, 20)
    assert len(sizes) == 20
    assert any(size < 256 for chunks in sizes for size in chunks)
    assert any(size > 256 for chunks in sizes for size in chunks)


def test_a_buffered_protocol_reads_through_its_own_buffer() -> None:
    async def main(simulation: Simulation) -> None:
        network = simulation.network
        readers: list[Buffered] = []

        def accept() -> Buffered:
            readers.append(Buffered())
            return readers[-1]

        await network.host("b").listen("0.0.0.0", PORT, accept)
        transport, _ = await network.host("a").connect("b", PORT, asyncio.Protocol)
        transport.writelines([b"x" * 300, bytearray(b"y" * 300), memoryview(b"z" * 300)])
        await quiet()
        assert readers[0].data == b"x" * 300 + b"y" * 300 + b"z" * 300
        assert max(readers[0].sizes) <= 100

    for seed in range(20):
        simulate(main, seed)


def test_connections_overtake_each_other() -> None:
    async def main(simulation: Simulation) -> str:
        pair = await Pair.join(simulation)
        _, other = await simulation.network.host("a").connect("b", PORT, Recorder)
        await quiet()
        order: list[str] = []
        pair.accepted[0].on_data = lambda _: order.append("first")
        pair.accepted[1].on_data = lambda _: order.append("second")
        pair.a.transport.write(b"1")
        other.transport.write(b"2")
        await quiet()
        return " ".join(order)

    assert outcomes(main) == {"first second", "second first"}


def test_delay_and_jitter_of_a_link_decide_when_bytes_arrive() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        link = simulation.network.link("a", "b")
        link.delay_s, link.jitter_s = 3.0, 1.0
        sent_at = simulation.clock.monotonic()
        arrived: list[float] = []
        pair.b.on_data = lambda _: arrived.append(simulation.clock.monotonic())
        pair.a.transport.write(b"x")
        await quiet()
        assert 3.0 <= arrived[0] - sent_at < 4.0

    for seed in range(20):
        simulate(main, seed)


def test_a_lossy_link_delivers_everything_but_late() -> None:
    async def main(simulation: Simulation) -> bool:
        pair = await Pair.join(simulation)
        simulation.network.link("a", "b").loss = 0.5
        pair.a.transport.write(b"x" * 100)
        await asyncio.sleep(0.1)
        is_late = len(pair.b.data) < 100
        await asyncio.sleep(60)
        assert pair.b.data == b"x" * 100
        return is_late

    assert outcomes(main) == {True, False}


def test_links_start_as_copies_of_the_defaults() -> None:
    async def main(simulation: Simulation) -> None:
        network = simulation.network
        network.defaults.delay_s = 2.0
        network.link("a", "b").delay_s = 5.0
        assert [network.link(*ends).delay_s for ends in (("a", "b"), ("b", "a"))] == [5.0, 2.0]

    simulate(main, 1)


def test_both_ends_know_their_addresses() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        client, server = pair.a.transport, pair.b.transport
        assert pair.listener.address == ("b", PORT) == client.get_extra_info("peername")
        assert client.get_extra_info("sockname") == server.get_extra_info("peername")
        assert server.get_extra_info("sockname") == ("b", PORT)

    simulate(main, 1)


def test_an_address_is_taken_once_and_belongs_to_its_host() -> None:
    async def main(simulation: Simulation) -> None:
        host = simulation.network.host("b")
        listener = await host.listen("b", PORT, asyncio.Protocol)
        with pytest.raises(OSError, match="in use"):
            await host.listen("b", PORT, asyncio.Protocol)
        with pytest.raises(OSError, match="not an address of b"):
            await host.listen("elsewhere", PORT, asyncio.Protocol)
        listener.close()
        listener.close()
        free = await host.listen("b", 0, asyncio.Protocol)
        assert free.address[1] > 0
        with pytest.raises(socket.gaierror):
            await host.connect("nowhere", PORT, asyncio.Protocol)

    simulate(main, 1)


def test_a_connect_is_refused_where_nobody_listens_and_existing_connections_outlive_the_port() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        pair.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await simulation.network.host("a").connect("b", PORT, Recorder)
        pair.a.transport.write(b"still here")
        await quiet()
        assert pair.b.data == b"still here"

    simulate(main, 1)


def test_a_half_closed_connection_carries_bytes_the_other_way() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        pair.a.transport.write(b"question")
        pair.a.transport.write_eof()
        with pytest.raises(RuntimeError):
            pair.a.transport.write(b"more")
        await quiet()
        assert (pair.b.data, pair.b.calls[-1]) == (b"question", "eof")
        pair.b.transport.write(b"answer")
        pair.b.transport.close()
        await quiet()
        assert (pair.a.data, pair.a.calls[-1]) == (b"answer", "eof")
        assert (pair.b.calls[-1], pair.b.lost) == ("lost", None)

    for seed in range(20):
        simulate(main, seed)


@pytest.mark.parametrize(("ending", "arrives"), [("close", 500_000), ("abort", 64 * 1024)])
def test_close_flushes_the_buffer_and_abort_does_not(ending: str, arrives: int) -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        transport = pair.a.transport
        transport.write(b"x" * 500_000)
        getattr(transport, ending)()
        assert transport.is_closing()
        transport.write(b"ignored")
        await quiet()
        # What had left the buffer before the abort is the window's worth.
        assert len(pair.b.data) == arrives
        assert (pair.a.calls[-1], pair.a.lost) == ("lost", None)
        assert pair.b.calls[-1] == "eof"

    for seed in range(10):
        simulate(main, seed)


def test_a_reader_that_pauses_fills_the_buffer_of_the_writer() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        writer = pair.a.transport
        writer.set_write_buffer_limits(high=1000, low=100)
        pair.b.transport.pause_reading()
        assert not pair.b.transport.is_reading()
        writer.write(b"x" * (64 * 1024))
        assert (writer.get_write_buffer_size(), pair.a.calls) == (0, ["made"])
        writer.write(b"y" * 1001)
        await quiet()
        assert (writer.get_write_buffer_size(), pair.a.calls, pair.b.data) == (1001, ["made", "pause"], b"")
        pair.b.transport.resume_reading()
        await quiet()
        assert (writer.get_write_buffer_size(), pair.a.calls) == (0, ["made", "pause", "resume"])
        assert pair.b.data == b"x" * (64 * 1024) + b"y" * 1001

    for seed in range(20):
        simulate(main, seed)


def test_closing_with_bytes_unread_resets_the_peer() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        pair.b.transport.pause_reading()
        pair.a.transport.write(b"never read")
        await quiet()
        pair.b.transport.close()
        await quiet()
        assert isinstance(pair.a.lost, ConnectionResetError)

    simulate(main, 1)


def test_writing_to_a_peer_that_has_closed_ends_in_a_reset() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        pair.b.transport.close()
        await quiet()
        assert pair.a.calls == ["made", "eof"]
        pair.a.transport.write(b"too late")
        await quiet()
        assert isinstance(pair.a.lost, ConnectionResetError)

    simulate(main, 1)


def test_a_dropped_link_swallows_one_direction_and_tells_nobody() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        simulation.network.drop("a", "b")
        pair.a.transport.write(b"lost")
        pair.b.transport.write(b"fine")
        await asyncio.sleep(3600)
        assert (pair.b.calls, pair.a.data) == (["made"], b"fine")
        assert not pair.a.transport.is_closing()

    simulate(main, 1)


def test_after_a_drop_bytes_are_sent_again_or_the_connection_is_reset() -> None:
    async def main(simulation: Simulation) -> str:
        pair = await Pair.join(simulation)
        simulation.network.drop("a", "b")
        pair.a.transport.write(b"first ")
        await asyncio.sleep(60)
        pair.a.transport.write(b"second")
        simulation.network.heal_all()
        await quiet()
        if pair.b.lost is not None:
            assert isinstance(pair.b.lost, ConnectionResetError)
            assert isinstance(pair.a.lost, ConnectionResetError)
            assert pair.b.data == b""
            return "reset"
        assert pair.b.data == b"first second"
        return "sent again"

    assert outcomes(main) == {"reset", "sent again"}


def test_bytes_of_a_closed_connection_still_arrive_after_a_drop() -> None:
    async def main(simulation: Simulation) -> str:
        pair = await Pair.join(simulation)
        simulation.network.drop("a", "b")
        pair.a.transport.write(b"goodbye")
        pair.a.transport.close()
        await asyncio.sleep(60)
        simulation.network.heal("a", "b")
        await quiet()
        return f"{pair.b.data.decode()} {pair.b.calls[-1]}"

    assert outcomes(main) == {"goodbye eof", " lost"}


def test_without_acknowledgements_a_writer_stops_at_the_window() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        simulation.network.drop("b", "a")
        pair.a.transport.write(b"x" * 200_000)
        await quiet()
        assert len(pair.b.data) == 64 * 1024
        simulation.network.heal("b", "a")
        await quiet()
        assert len(pair.b.data) == 200_000

    simulate(main, 1)


def test_a_connect_over_a_dropped_link_gives_up_after_two_minutes_or_succeeds_once_healed() -> None:
    async def main(simulation: Simulation) -> None:
        network, loop = simulation.network, simulation.loop
        await network.host("b").listen("b", PORT, Recorder)
        network.host("a")
        network.isolate("b")
        with pytest.raises(TimeoutError, match="does not answer"):
            await network.host("a").connect("b", PORT, Recorder)
        assert loop.time() == 127
        loop.call_later(20, network.heal_all)
        await network.host("a").connect("b", PORT, Recorder)
        assert 147 < loop.time() < 160

    simulate(main, 1)


def test_a_cancelled_connect_leaves_nothing_behind() -> None:
    async def main(simulation: Simulation) -> int:
        network = simulation.network
        await network.host("b").listen("b", PORT, asyncio.Protocol)
        try:
            async with asyncio.timeout(simulation.entropy.fraction() * 0.003):
                transport, _ = await network.host("a").connect("b", PORT, asyncio.Protocol)
        except TimeoutError:
            await quiet()
            return len(network.transports())
        transport.close()
        await quiet()
        return len(network.transports())

    assert outcomes(main) == {0}


def test_a_cut_resets_both_ends_and_nothing_comes_afterwards() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        pair.a.transport.write(b"x" * 100_000)
        await asyncio.sleep(simulation.entropy.fraction() * 0.002)
        simulation.network.cut("b", "a")
        pair.b.transport.write(b"y")
        await quiet()
        for end in (pair.a, pair.b):
            assert isinstance(end.lost, ConnectionResetError)
            assert end.calls.count("lost") == 1
            assert end.calls[-1] == "lost"
        assert (b"x" * 100_000).startswith(pair.b.data)
        await simulation.network.host("a").connect("b", PORT, Recorder)

    for seed in range(20):
        simulate(main, seed)


def test_a_crash_silences_the_process_and_its_kernel_ends_the_connections() -> None:
    async def main(simulation: Simulation) -> str:
        pair = await Pair.join(simulation)
        pair.a.transport.write(b"request")
        await asyncio.sleep(simulation.entropy.fraction() * 0.003)
        heard = list(pair.b.calls)
        simulation.network.crash("b")
        with pytest.raises(ConnectionRefusedError):
            await simulation.network.host("a").connect("b", PORT, Recorder)
        await quiet()
        assert pair.b.calls == heard
        await simulation.network.host("b").listen("b", PORT, Recorder)
        return "reset" if isinstance(pair.a.lost, ConnectionResetError) else pair.a.calls[-1]

    assert outcomes(main) == {"reset", "eof"}


def test_a_protocol_that_fails_on_input_loses_its_connection() -> None:
    async def main(simulation: Simulation) -> None:
        pair = await Pair.join(simulation)
        failures: list[object] = []
        simulation.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        pair.b.on_data = lambda _: [].pop()
        pair.a.transport.write(b"poison")
        await quiet()
        assert isinstance(pair.b.lost, IndexError)
        assert failures == [pair.b.lost]
        assert pair.a.calls[-1] in {"eof", "lost"}

    simulate(main, 1)


def test_streams_work_on_top_of_it() -> None:
    async def main(simulation: Simulation) -> bytes:
        loop = simulation.loop

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line.upper())
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        def accept() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), serve, loop=loop)

        await simulation.network.host("b").listen("b", PORT, accept)
        reader = asyncio.StreamReader(loop=loop)
        transport, protocol = await simulation.network.host("a").connect(
            "b", PORT, lambda: asyncio.StreamReaderProtocol(reader, loop=loop)
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        for _ in range(200):
            writer.write(b"x" * 999 + b"\n")
            await writer.drain()
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await quiet()
        assert simulation.network.transports() == []
        return answer

    for seed in range(5):
        assert simulate(main, seed) == (b"X" * 999 + b"\n") * 200


def test_the_same_seed_replays_the_same_faults() -> None:
    def run(seed: int) -> tuple[object, ...]:
        async def main(simulation: Simulation) -> tuple[object, ...]:
            pair = await Pair.join(simulation)
            simulation.network.link("a", "b").loss = 0.2
            for number in range(50):
                pair.a.transport.write(b"%d " % number)
                await asyncio.sleep(0.01)
                if simulation.entropy.chance(0.05):
                    simulation.network.drop("a", "b")
                if simulation.entropy.chance(0.1):
                    simulation.network.heal("a", "b")
            await quiet()
            return simulation.loop.fingerprint(), pair.b.chunks, pair.b.calls, type(pair.b.lost)

        return simulate(main, seed)

    assert run(3) == run(3)
    assert len({run(seed)[0] for seed in range(10)}) == 10


class Leases:
    """Serves a lease to one holder at a time: a request is one byte, a reply the epoch, or 0 for not now."""

    def __init__(self, simulation: Simulation) -> None:
        self._clock = simulation.clock
        self._epoch = 0
        self._ends_at = 0.0

    def connection(self) -> Recorder:
        holder = Recorder()
        holder.on_data = lambda data: holder.transport.write(bytes(self._grant() for _ in data))
        return holder

    def _grant(self) -> int:
        if self._clock.monotonic() < self._ends_at:
            return 0
        self._epoch += 1
        self._ends_at = self._clock.monotonic() + LEASE_S
        return self._epoch


class Store:
    """Takes writes, each the epoch of its writer; a fenced store refuses those older than what it has."""

    def __init__(self, *, is_fenced: bool) -> None:
        self.written: list[int] = []
        self._is_fenced = is_fenced

    def connection(self) -> Recorder:
        writer = Recorder()
        writer.on_data = self._take
        return writer

    def _take(self, epochs: bytes) -> None:
        for epoch in epochs:
            if not self._is_fenced or epoch >= max(self.written, default=0):
                self.written.append(epoch)


async def hold(simulation: Simulation, host: SimHost) -> None:
    """Ask for the lease again and again, and write whenever it is granted."""
    loop = simulation.loop
    reader = asyncio.StreamReader(loop=loop)
    leases, _ = await host.connect("leases", PORT, lambda: asyncio.StreamReaderProtocol(reader, loop=loop))
    store, _ = await host.connect("store", PORT, asyncio.Protocol)
    for _ in range(10):
        leases.write(b"?")
        (epoch,) = await reader.readexactly(1)
        if epoch:
            # The lease is good now; whether it still is when the write arrives, the holder cannot know.
            store.write(bytes([epoch]))
        await asyncio.sleep(LEASE_S * simulation.entropy.fraction())


async def lease_race(simulation: Simulation, *, is_fenced: bool) -> bool:
    """Let two holders write over a slow network; tell whether an old holder wrote after a new one."""
    network = simulation.network
    leases, store = Leases(simulation), Store(is_fenced=is_fenced)
    await network.host("leases").listen("leases", PORT, leases.connection)
    await network.host("store").listen("store", PORT, store.connection)
    async with asyncio.TaskGroup() as group:
        for name in ("left", "right"):
            network.link(name, "store").jitter_s = 2 * LEASE_S
            group.create_task(hold(simulation, network.host(name)))
    await quiet()
    assert store.written
    return store.written != sorted(store.written)


def test_the_simulation_finds_the_lease_race_and_passes_the_fenced_store() -> None:
    async def unfenced(simulation: Simulation) -> bool:
        return await lease_race(simulation, is_fenced=False)

    async def fenced(simulation: Simulation) -> bool:
        return await lease_race(simulation, is_fenced=True)

    broken = [seed for seed in range(200) if simulate(unfenced, seed)]
    assert 10 < len(broken) < 190
    assert simulate(unfenced, broken[0])
    assert not any(simulate(fenced, seed) for seed in range(200))


def test_a_simulated_host_is_a_network() -> None:
    async def main(simulation: Simulation) -> None:
        network: Network = simulation.network.host("a")
        listener: Listener = await network.listen("localhost", 0, Recorder)
        transport, protocol = await network.connect("127.0.0.1", listener.address[1], Recorder)
        assert protocol.transport is transport

    simulate(main, 1)
