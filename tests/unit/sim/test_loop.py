"""The simulated loop: virtual time, one order per seed, nodes that end without notice."""

import asyncio

import pytest

from tests.sim.kit.loop import NODE, Deadlock, Node, SimLoop, simulate
from tests.sim.kit.network import SimNetwork, World


def test_a_simulated_hour_passes_at_once_and_time_is_exact() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3600)
        return loop.now

    assert simulate(1, main, limit_s=4000) == pytest.approx(3600)


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="seed 5"):
        simulate(5, main, limit_s=10)


def test_a_killed_node_runs_nothing_more_not_even_finally() -> None:
    ran: list[str] = []

    async def victim() -> None:
        try:
            while True:
                ran.append("step")
                await asyncio.sleep(1)
        finally:
            ran.append("finally")

    async def main(loop: SimLoop) -> None:
        node = Node("v")
        loop.spawn(node, victim())
        await asyncio.sleep(2.5)
        loop.kill(node)
        await asyncio.sleep(10)

    simulate(1, main, limit_s=100)
    assert ran == ["step"] * 3


def test_a_paused_node_resumes_where_it_stopped() -> None:
    ticks: list[float] = []

    async def ticker(loop: SimLoop) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks.append(loop.now)

    async def main(loop: SimLoop) -> None:
        node = Node("t")
        loop.spawn(node, ticker(loop))
        await asyncio.sleep(1.5)
        loop.pause(node)
        await asyncio.sleep(10)
        loop.resume(node)
        await asyncio.sleep(5)

    simulate(1, main, limit_s=100)
    assert ticks[0] == pytest.approx(1)
    assert ticks[1] == pytest.approx(11.5)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.got = b""
        self.lost: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.transport.write(data)  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Sink(Echo):
    def data_received(self, data: bytes) -> None:
        self.got += data


async def echo_run(loop: SimLoop) -> str:
    world = World(loop)
    server, client = Node("server"), Node("client")

    async def serve() -> None:
        await SimNetwork(world).listen("server", 1, Echo)

    async def call() -> bytes:
        _, sink = await SimNetwork(world).connect("server", 1, Sink)
        assert isinstance(sink, Sink)
        text = bytes(range(256)) * 40
        for i in range(0, len(text), 100):
            sink.transport.write(text[i : i + 100])  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert sink.got == text
        world.kill(server, silent=False)
        loop.kill(server)
        await asyncio.sleep(1)
        assert len(sink.lost) == 1
        return sink.got

    await loop.spawn(server, serve())
    await loop.spawn(client, call())
    return loop.trace.hexdigest()


def test_bytes_arrive_in_order_and_a_seed_repeats_the_run() -> None:
    first, again, other = (simulate(seed, echo_run, limit_s=60) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("power", [False, True])
def test_a_write_to_a_node_that_is_gone_is_reset_unless_its_machine_is_off(power: bool) -> None:
    async def main(loop: SimLoop) -> list[Exception | None]:
        world = World(loop)
        server, client = Node("server"), Node("client")

        async def serve() -> None:
            await SimNetwork(world).listen("server", 1, Echo)

        async def call() -> list[Exception | None]:
            transport, sink = await SimNetwork(world).connect("server", 1, Sink)
            assert isinstance(sink, Sink)
            transport.pause_reading()
            await asyncio.sleep(1)
            world.kill(server, silent=power)
            for _ in range(2):
                transport.write(b"x")
                assert sink.lost == []
                await asyncio.sleep(1)
            return sink.lost

        await loop.spawn(server, serve())
        return await loop.spawn(client, call())

    lost = simulate(1, main, limit_s=60)
    assert [type(error) for error in lost] == ([] if power else [BrokenPipeError])


def test_a_connection_to_a_silent_node_is_refused() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await SimNetwork(World(loop)).connect("nobody", 1, Sink)

    simulate(1, main, limit_s=10)
    assert NODE.get().name == "world"
