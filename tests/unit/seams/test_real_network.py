"""The real network, and the simulated one beside it: the same program must see the same behaviour on both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from typing_extensions import override

from goqueue.seams.network import Address, Network, RealNetwork
from goqueue.testing.simulation import Simulation, simulate

DEADLINE_S = 60


class Story(asyncio.Protocol):
    """Tells what a connection went through, apart from how its bytes were cut."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data = b""
        self.ended = asyncio.get_running_loop().create_future()
        self.has_eof = asyncio.Event()
        self.transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.calls.append("made")

    @override
    def data_received(self, data: bytes) -> None:
        self.data += data

    @override
    def eof_received(self) -> bool:
        self.calls.append(f"eof after {len(self.data)} bytes")
        self.has_eof.set()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(f"lost {type(exc).__name__}")
        self.ended.set_result(None)


class Echo(Story):
    """Sends back what it gets, and closes after the peer's end."""

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)

    @override
    def eof_received(self) -> bool:
        super().eof_received()
        return False


class BufferedEcho(asyncio.BufferedProtocol):
    """An echo of the buffered sort, with a buffer that is smaller than most reads."""

    def __init__(self) -> None:
        self.buffer = bytearray(1000)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])


Scenario = Callable[[Network, Network, str], Coroutine[Any, Any, list[object]]]


async def echo_and_half_close(server: Network, client: Network, host: str) -> list[object]:
    served: list[Echo] = []

    def accept() -> Echo:
        served.append(Echo())
        return served[-1]

    listener = await server.listen(host, 0, accept)
    transport, story = await client.connect(*listener.address, Story)
    sent = bytes(range(256)) * 2000
    transport.write(sent)
    transport.write_eof()
    await story.has_eof.wait()
    transport.close()
    await story.ended
    await served[0].ended
    listener.close()
    return [story.calls, story.data == sent, served[0].calls, transport.is_closing()]


async def buffered_echo(server: Network, client: Network, host: str) -> list[object]:
    listener = await server.listen(host, 0, BufferedEcho)
    transport, story = await client.connect(*listener.address, Story)
    transport.writelines([b"x" * 5000, b"y" * 5000])
    transport.write_eof()
    await story.has_eof.wait()
    transport.close()
    await story.ended
    listener.close()
    return [story.calls, story.data == b"x" * 5000 + b"y" * 5000]


async def close_sends_all(server: Network, client: Network, host: str) -> list[object]:
    served: list[Story] = []

    def accept() -> Story:
        served.append(Story())
        return served[-1]

    listener = await server.listen(host, 0, accept)
    transport, story = await client.connect(*listener.address, Story)
    transport.write(b"z" * 3_000_000)
    transport.close()
    transport.write(b"ignored")
    await story.ended
    await served[0].has_eof.wait()
    served[0].transport.abort()
    await served[0].ended
    listener.close()
    return [story.calls, served[0].calls]


async def refused(server: Network, client: Network, host: str) -> list[object]:
    listener = await server.listen(host, 0, Story)
    address: Address = listener.address
    listener.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await client.connect(*address, Story)
    return ["refused"]


async def address_in_use(server: Network, client: Network, host: str) -> list[object]:
    listener = await server.listen(host, 0, Story)
    with pytest.raises(OSError, match="in use"):
        await server.listen(*listener.address, Story)
    listener.close()
    return ["in use"]


async def addresses(server: Network, client: Network, host: str) -> list[object]:
    served: list[Echo] = []

    def accept() -> Echo:
        served.append(Echo())
        return served[-1]

    listener = await server.listen(host, 0, accept)
    transport, story = await client.connect(*listener.address, Story)
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    transport.close()
    await story.ended
    listener.close()
    return [peer == listener.address, own != peer, listener.address[1] > 0]


SCENARIOS: list[Scenario] = [
    echo_and_half_close,
    buffered_echo,
    close_sends_all,
    refused,
    address_in_use,
    addresses,
]


def on_the_real_network(scenario: Scenario) -> list[object]:
    async def main() -> list[object]:
        network = RealNetwork()
        async with asyncio.timeout(DEADLINE_S):
            return await scenario(network, network, "127.0.0.1")

    return asyncio.run(main())


def on_a_simulated_network(scenario: Scenario, seed: int) -> list[object]:
    async def main(simulation: Simulation) -> list[object]:
        network = simulation.network
        return await scenario(network.host("server"), network.host("client"), "server")

    return simulate(main, seed)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_simulated_network_behaves_as_the_real_one(scenario: Scenario) -> None:
    seen = on_the_real_network(scenario)
    for seed in range(10):
        assert on_a_simulated_network(scenario, seed) == seen
