"""Links between clusters that can be cut, delayed and reset: TCP proxies in a process of their own.

``python -m tests.geo.links PORTS`` runs them: PORTS is JSON, by the link's name a list of (own port, target's port) on
loopback. Each line of standard input is the JSON of a ``Fault`` with the link's name; the process ends with its input.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELD_MAX = 4 << 20
"""Bytes of a direction that the proxy holds before it reads no more."""

Ports = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Fault:
    """Faults of a link; none without arguments. ``there`` is the direction of who connects.

    A cut holds what is sent, as TCP does until its packets pass again, and answers no new connection. ``reset_share``:
    share of the pieces read that reset their connection instead of passing.
    """

    there_cut: bool = False
    back_cut: bool = False
    delay_s: float = 0.0
    """Delay of each direction."""
    reset_share: float = 0.0
    reset_all: bool = False
    """Reset all connections, once."""


HEALED = Fault()


class _Link:
    """The proxies of one link, with the directions of their connections."""

    def __init__(self) -> None:
        self.fault = HEALED
        self.flows: set[_Flow] = set()

    def set(self, fault: Fault) -> None:
        self.fault = fault
        for flow in list(self.flows):
            if fault.reset_all:
                flow.reset()
            else:
                flow.move()


class _Flow(asyncio.Protocol):
    """One direction of a connection: what arrives on its own transport is passed to that of ``other``."""

    def __init__(self, link: _Link, there: bool) -> None:
        self.link = link
        self.there = there
        self.other: _Flow | None = None
        self._transport: asyncio.Transport | None = None
        self._held: list[tuple[float, bytes]] = []
        self._held_bytes = 0
        self._ended = False
        self._full = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.link.flows.add(self)
        if self.other is not None:
            self.other.move()

    def data_received(self, data: bytes) -> None:
        fault = self.link.fault
        if fault.reset_share and random.random() < fault.reset_share:
            self.reset()
            return
        self._held.append((asyncio.get_running_loop().time() + fault.delay_s, data))
        self._held_bytes += len(data)
        self.move()
        self._pace()

    def eof_received(self) -> bool:
        self._ended = True
        self.move()
        return True

    def move(self) -> None:
        """Pass on what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        fault, target = self.link.fault, self._target()
        if target is None or (fault.there_cut if self.there else fault.back_cut):
            return
        now, count = asyncio.get_running_loop().time(), 0
        while count < len(self._held) and self._held[count][0] <= now and not self._full:
            if target.is_closing():
                return  # the end of both sides follows
            data = self._held[count][1]
            target.write(data)
            self._held_bytes -= len(data)
            count += 1
        del self._held[:count]
        self._pace()
        if self._held and not self._full:
            self._timer = asyncio.get_running_loop().call_at(self._held[0][0], self.move)
        elif self._ended and not self._held:
            target.close()

    def _target(self) -> asyncio.Transport | None:
        return None if self.other is None else self.other._transport

    def _pace(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._held_bytes >= HELD_MAX:
            transport.pause_reading()
        elif not transport.is_reading():
            transport.resume_reading()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other._full = True

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other._full = False
            self.other.move()

    def reset(self) -> None:
        """End the connection of both sides."""
        for flow in (self, self.other):
            if flow is not None and flow._transport is not None:
                flow._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.link.flows.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if error is not None and self.other is not None and self.other._transport is not None:
            self.other._transport.abort()
        elif not self._ended and self.other is not None and self.other._transport is not None:
            self.other._transport.close()


class _Accepted(_Flow):
    """The side of a connection that the proxy accepted; it connects to the target."""

    def __init__(self, link: _Link, target: int, tasks: set[asyncio.Task[None]]) -> None:
        super().__init__(link, there=True)
        self._port = target
        self._tasks = tasks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        task = asyncio.ensure_future(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        back = _Flow(self.link, there=False)
        back.other = self
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: back, "127.0.0.1", self._port
            )
        except OSError:
            self.reset()
            return
        self.other = back
        self.move()


async def _serve(ports: Ports) -> None:
    loop = asyncio.get_running_loop()
    links: dict[str, _Link] = defaultdict(_Link)
    tasks: set[asyncio.Task[None]] = set()
    for name, pairs in ports.items():
        for own, target in pairs:
            link = links[name]
            await loop.create_server(
                lambda link=link, target=target: _Accepted(link, target, tasks),  # type: ignore[misc]
                "127.0.0.1",
                own,
            )
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        order = json.loads(line)
        links[order.pop("link")].set(Fault(**order))
        print("done", flush=True)


class Links:
    """The proxies' process. ``set`` changes how a link fails."""

    def __init__(self, ports: Ports) -> None:
        self.names = list(ports)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.geo.links", json.dumps(ports)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer("ready")

    def set(self, link: str, fault: Fault = HEALED) -> None:
        """Let a link fail so from now on; return when it does."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"link": link} | asdict(fault)) + "\n")
        self._process.stdin.flush()
        self._answer("done")

    def _answer(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            raise RuntimeError(f"the links' process answered {line!r}, not {word!r}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
