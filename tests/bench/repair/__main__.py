"""The rate at which the copies of a lost bookie are made again, and a writer's latency meanwhile.

    python -m tests.bench.repair [--gigabytes 2] [--size 65536] [--limit 0]

Four bookies on one disk, each with auto-recovery; ledgers are written with quorums 3/3/2. One bookie is killed, and its
data is removed. The time runs from the first mark until no ledger is marked. A writer adds 1 KB 200 times a second to
a ledger on the other three, alone and meanwhile. ``--limit``: MB/s that each process copies at most
(``replication_rate_by_bytes``). Asserts nothing.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.loop import EventLoop
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerState
from engine.metadata.store import MetadataStore
from engine.repair.ledger_listing import ledgers
from engine.repair.marks import RepairRecords
from gateway.standalone.plan import MALLOC
from tests.bench.contenders import cpu_s
from tests.bench.figures import percentile
from tests.bench.load_ledger import DEFAULTS, Load, ledger_client
from tests.oracle.servers import OurBookies, connected, make_root
from tests.support.zookeeper.process import ZooKeeperProcess, find_java

QUORUM = (3, 3, 2)
LEDGERS = 32
WRITES_PER_S = 200
ALONE_S = 10.0
POLL_S = 0.1
BOUND_S = 300.0


class SteadyWriter:
    """Adds of 1 KB, one after another at a fixed rate. ``took``: the seconds of each until it was confirmed."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._confirmed = asyncio.Event()
        self._error: LedgerError | None = None

    async def open(self, client: LedgerClient) -> None:
        self._writer = await client.create(*QUORUM, listener=self)

    @property
    def bookies(self) -> tuple[str, ...]:
        return tuple(self._writer.metadata.segments[-1].bookies)

    async def run(self) -> None:
        """Write until cancelled. Raises LedgerError."""
        payload, next_at = os.urandom(1024), time.perf_counter()
        while True:
            next_at += 1 / WRITES_PER_S
            await asyncio.sleep(max(next_at - time.perf_counter(), 0))
            self._confirmed.clear()
            began = time.perf_counter()
            self._writer.append(Slice(payload, [0, 1024], 1024))
            await self._confirmed.wait()
            if self._error is not None:
                raise self._error
            self.took.append(time.perf_counter() - began)

    def confirmed(self, below: int) -> None:
        self._confirmed.set()

    def failed(self, error: LedgerError) -> None:
        self._error = error
        self._confirmed.set()

    def figures(self) -> str:
        """Return the percentiles since the last call."""
        took, self.took = self.took, []
        p50, p99 = (percentile(took, share) * 1e3 for share in (0.5, 0.99))
        return f"{len(took)} writes, p50 {p50:.2f} ms, p99 {p99:.2f} ms"


async def held_by(store: MetadataStore, bookie: str) -> int:
    """Return the bytes of closed ledgers that have a copy on ``bookie``."""
    held = 0
    async for batch in ledgers(store):
        for _, metadata in batch:
            members = [name for segment in metadata.segments for name in segment.bookies]
            if metadata.state is LedgerState.CLOSED and bookie in members:
                held += metadata.length
    return held


async def repair(bookies: OurBookies, lost: str, store: MetadataStore) -> float:
    """Kill and wipe a bookie; return the seconds from the first mark until no ledger is marked."""
    records = RepairRecords(store, SystemClock(), RandomEntropy())
    bookies.named(lost).kill()
    shutil.rmtree(bookies.named(lost).data)
    began = 0.0
    async with asyncio.timeout(BOUND_S):
        while True:
            marked = [n async for n in records.marked()]
            if marked and not began:
                began = time.perf_counter()
            if began and not marked and not await held_by(store, lost):
                return time.perf_counter() - began
            await asyncio.sleep(POLL_S)


async def measure(bookies: OurBookies, zk: str, total: int, size: int) -> None:
    """Fill, lose a bookie, and print the figures."""
    store = await connected(zk)
    client = ledger_client(store)
    try:
        for _ in range(LEDGERS):
            await Load(size, max(total // size // LEDGERS, 1)).write(client, QUORUM)
        await asyncio.to_thread(os.sync)  # so that the fill is not written back beside the writer
        writer = SteadyWriter()
        await writer.open(client)
        lost = next(b.id for b in bookies.each if b.id not in writer.bookies)
        writing = asyncio.create_task(writer.run())
        await asyncio.sleep(ALONE_S)
        print(f"writer alone: {writer.figures()}", flush=True)
        size_lost = await held_by(store, lost)
        pids = [b.process.pid for b in bookies.each if b.process is not None and b.id != lost]
        cpu = cpu_s(pids)
        took = await repair(bookies, lost, store)
        print(f"writer beside the repair: {writer.figures()}")
        print(
            f"repaired {size_lost / 1e6:.0f} MB in {took:.1f} s: {size_lost / took / 1e6:.0f} MB/s"
        )
        print(f"CPU of three bookies: {(cpu_s(pids) - cpu) / size_lost * 1e9:.2f} s/GB")
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    finally:
        await client.close()
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--size", type=int, default=65536, help="bytes of an entry")
    parser.add_argument("--limit", type=float, default=0, help="MB/s of each process; 0: none")
    args = parser.parse_args()
    java = find_java()
    if java is None:
        raise SystemExit("no Java: ZooKeeper cannot be started")
    env = MALLOC | {
        "MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED": "true",
        "MAGNETAR_LOST_BOOKIE_RECOVERY_DELAY": "0",
        "MAGNETAR_RW_REREPLICATE_BACKOFF_S": "0.5",
        "MAGNETAR_REPLICATION_RATE_BY_BYTES": str(int(args.limit * 1e6)),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        zookeeper = ZooKeeperProcess(java, Path(folder))
        zookeeper.start()
        stack.callback(zookeeper.stop)
        zk = f"{zookeeper.hosts}/repair"
        asyncio.run(make_root(zk))
        bookies = OurBookies(Path(folder), zk, 4, env=env, **DEFAULTS)
        stack.callback(bookies.kill)
        for bookie in bookies.each:
            bookie.start()
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(measure(bookies, zk, int(args.gigabytes * 1e9), args.size))
        print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
