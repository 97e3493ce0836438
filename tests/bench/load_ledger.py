"""One ledger at a time on our bookies and on Apache's, by turns: the same client, ours, on both.

    python -m tests.bench.load_ledger [--rounds 3] [--scale 1] [--only 'write 1 KB']

Three bookies of each side on one ZooKeeper, journals synced. Written with quorums 1/1/1 and 3/3/2 in runs of up to
64 KiB as a broker makes them, 4 MiB in flight; then read back from the first entry to the last. CPU per entry is that
of the three bookies together and does not count the client. Prints medians and ratios; asserts nothing.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.loop import EventLoop
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from gateway.standalone.plan import MALLOC
from tests.bench.contenders import apache_missing, cpu_s
from tests.bench.figures import Figures, medians, percentile
from tests.oracle.servers import PEER, OurBookie, connected, make_root, peer_status
from tests.support.ports import free_ports
from tests.support.zookeeper.process import ZooKeeperProcess, find_java

RUN_BYTES = 64 << 10
IN_FLIGHT_BYTES = 4 << 20
READ_BYTES = 4 << 20
SIZES = {"128 B": (128, 300_000), "1 KB": (1024, 120_000), "64 KB": (65536, 4_000)}
DEFAULTS = {"journal_file_bytes": 64 << 20, "write_cache_bytes": 64 << 20}
"""Files of a bookie, with its sizes; tests use smaller ones."""
QUORUMS = {"1/1/1": (1, 1, 1), "3/3/2": (3, 3, 2)}


@dataclass
class Side:
    """Three bookies. ``zk``: host, port and chroot of their metadata."""

    name: str
    zk: str
    pids: list[int]

    def cpu_s(self) -> float:
        return cpu_s(self.pids)


@contextmanager
def our_side(work: Path, zk: str) -> Iterator[Side]:
    asyncio.run(make_root(f"{zk}/ours"))
    bookies = [OurBookie(work, f"ours-{i}", f"{zk}/ours", env=MALLOC, **DEFAULTS) for i in range(3)]
    with ExitStack() as stack:
        for bookie in bookies:
            stack.callback(bookie.kill)
            bookie.start()
        yield Side("ours", f"{zk}/ours", [b.process.pid for b in bookies if b.process is not None])


@contextmanager
def apache_side(work: Path, zk: str) -> Iterator[Side]:
    """Apache's bookies as their configuration ships: a synced journal."""
    folder = work / "apache"
    folder.mkdir()
    asyncio.run(make_root(f"{zk}/apache"))
    ports = free_ports(1)
    start = [sys.executable, str(PEER), "bookies", "--dir", str(folder), "--zk", f"{zk}/apache"]
    start += ["--count", "3", "--base-port", str(ports[0])]
    done = subprocess.run(start, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"Apache's bookies do not start: {done.stderr[-2000:]}")
    try:
        yield Side("apache", f"{zk}/apache", [int(s["pid"]) for s in peer_status(folder)])
    finally:
        stop = [sys.executable, str(PEER), "stop", "--dir", str(folder)]
        subprocess.run(stop, check=True, capture_output=True, timeout=120)


class Load:
    """Writes ``count`` entries of ``size`` bytes with IN_FLIGHT_BYTES unconfirmed."""

    def __init__(self, size: int, count: int) -> None:
        self.size = size
        self.count = count
        self.took: list[float] = []
        self.error: LedgerError | None = None
        self._per_run = max(RUN_BYTES // size, 1)
        self._left: list[tuple[int, float]] = []
        self._sent = self._confirmed = 0
        self._done = asyncio.Event()

    async def write(self, client: LedgerClient, quorum: tuple[int, int, int]) -> int:
        """Id of the closed ledger. Raises LedgerError."""
        buf = os.urandom(self.size * self._per_run)
        spans = [at for i in range(self._per_run) for at in (i * self.size, (i + 1) * self.size)]
        self._writer = await client.create(*quorum, listener=self)
        self._run = (buf, spans)
        self._push()
        await self._done.wait()
        if self.error is not None:
            raise self.error
        await self._writer.close()
        return self._writer.ledger_id

    def _push(self) -> None:
        buf, spans = self._run
        room = max(IN_FLIGHT_BYTES // self.size, 1)
        while self._sent < self.count and self._sent - self._confirmed < room:
            entries = min(self._per_run, self.count - self._sent)
            some = spans[: 2 * entries]
            self._writer.append(Slice(buf, some, some[-1]))
            self._sent += entries
            self._left.append((self._sent, time.perf_counter()))

    def confirmed(self, below: int) -> None:
        now = time.perf_counter()
        self._confirmed = below
        while self._left and self._left[0][0] <= below:
            self.took.append(now - self._left.pop(0)[1])
        if below == self.count:
            self._done.set()
        else:
            self._push()

    def failed(self, error: LedgerError) -> None:
        self.error = error
        self._done.set()


def ledger_client(store: MetadataStore) -> LedgerClient:
    return LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=LedgerSettings(add_entry_timeout_s=30),
    )


async def _with_client(zk: str, work: Callable[[LedgerClient], Awaitable[Any]]) -> Any:
    store = await connected(zk)
    client = ledger_client(store)
    try:
        return await work(client)
    finally:
        await client.close()
        await store.close()


def run(side: Side, size: int, count: int, quorum: tuple[int, int, int]) -> tuple[Figures, Figures]:
    """Figures of writing and of reading one ledger."""

    async def work(client: LedgerClient) -> tuple[Figures, Figures]:
        load = Load(size, count)
        cpu, began = side.cpu_s(), time.perf_counter()
        ledger_id = await load.write(client, quorum)
        took = time.perf_counter() - began
        await asyncio.sleep(0.3)  # what is written behind belongs to the work
        written = _figures(count, size, took, side.cpu_s() - cpu)
        written["p50 ms"] = percentile(load.took, 0.5) * 1e3
        written["p99 ms"] = percentile(load.took, 0.99) * 1e3
        reader = await client.open(ledger_id, recover=False)
        cpu, began, at = side.cpu_s(), time.perf_counter(), 0
        async with reader.scan(0, count - 1, READ_BYTES) as scan:
            async for pieces in scan:
                at += sum(piece.count for piece in pieces)
        assert at == count
        took = time.perf_counter() - began
        return written, _figures(count, size, took, side.cpu_s() - cpu)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        figures: tuple[Figures, Figures] = runner.run(_with_client(side.zk, work))
    return figures


def _figures(count: int, size: int, took_s: float, cpu_s: float) -> Figures:
    return {
        "entries/s": count / took_s,
        "MB/s": count * size / took_s / 1e6,
        "CPU µs/entry": cpu_s / count * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="run the works whose name contains this")
    args = parser.parse_args()
    java = find_java()
    if java is None:
        raise SystemExit("no Java: ZooKeeper cannot be started")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        zookeeper = ZooKeeperProcess(java, Path(folder))
        zookeeper.start()
        stack.callback(zookeeper.stop)
        sides = [stack.enter_context(our_side(Path(folder), zookeeper.hosts))]
        reason = apache_missing()
        if reason is None:
            sides.append(stack.enter_context(apache_side(Path(folder), zookeeper.hosts)))
        else:
            print(f"Apache's bookies are not at hand ({reason})")
        results: dict[tuple[str, str], list[Figures]] = {}
        for turn in range(args.rounds + 1):
            for label, (size, count) in SIZES.items():
                for quorum_name, quorum in QUORUMS.items():
                    name = f"write {label} {quorum_name}"
                    if args.only not in name:
                        continue
                    for side in sides if turn % 2 else sides[::-1]:
                        written, read = run(side, size, max(int(count * args.scale), 500), quorum)
                        if turn:  # the first round warms both sides up
                            results.setdefault((name, side.name), []).append(written)
                            results.setdefault((f"read {name[6:]}", side.name), []).append(read)
        _print(results, [side.name for side in sides])


def _print(results: dict[tuple[str, str], list[Figures]], sides: list[str]) -> None:
    print(f"\n| work | figure | {' | '.join(sides)} | ratio |\n|---|---|{'---|' * len(sides)}---|")
    for name in dict.fromkeys(name for name, _ in results):
        columns = [medians(results[name, side]) for side in sides]
        for figure in columns[0]:
            values = [column[figure] for column in columns]
            shown = " | ".join(f"{value:.4g}" for value in values)
            ratio = f"{values[0] / values[1]:.2f}" if len(values) > 1 and values[1] else "–"
            print(f"| {name} | {figure} | {shown} | {ratio} |")
    print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
