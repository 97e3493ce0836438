"""Tiered storage against a local store: bytes per second of moving ledgers and of cold reads, and the latency of
publishing meanwhile.

Run: python -m tests.bench.offload [--dir DIRECTORY] [--store DIRECTORY] [--mb MB] [--rounds N] [--uncached]

Metadata server and bookie are processes of their own, as in every installation; with --together they share the
broker's process and its event loop. All share one disk with the store, unless --store names a folder of another. The
tail is another topic of the same broker, to which one message of 1 KiB is appended every 5 ms. Windows in which it is
alone alternate with those in which ledgers are moved, then with those in which all moved entries are read.

The store's own sequential read reads the data objects with the same store, with as many requests at once as the broker
makes. With --store-mb-s the store answers after 20 ms and has that bandwidth for each direction, as a bucket has.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

from engine.base.ids import Position
from engine.managed.cursors.cursor_set import InitialPosition
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig
from engine.managed.stats import OffloadPhase
from engine.managed.stored.offloads import offload_of
from engine.offload.bucket import FILES, S3, Bucket
from engine.offload.object_names import INDEX_ENDING, attributes_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TieredStorage, TierLimits
from gateway.standalone.plan import MALLOC
from tests.bench.figures import percentile
from tests.bench.offload.cluster import (
    MakeBroker,
    PacedStores,
    apart,
    storage_servers,
    together,
)
from tests.bench.offload.gauges import Gauges, Tail, TimedLoop, Window, joined, rate_text, tail_text
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import NAME, Brokers, Sink
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

MIB = 1 << 20
ENTRY = 64 << 10
LEDGER_BYTES = 64 * MIB
REQUEST_BYTES = 4 * MIB
AT_ONCE = 4
"""Requests of the store's own read at once, as many as a broker makes with its default read-ahead."""
QUIET_S = 2.0


async def fill(ledger: ManagedLedger, size: int) -> None:
    sink = Sink()
    payload = bytes(range(256)) * (ENTRY // 256)
    for at in range(size // ENTRY):
        ledger.append(run_of(payload), sink)
        if at % 32 == 31:
            await sink.settle(at - 15)
    await sink.settle(size // ENTRY)


async def move(ledger: ManagedLedger, before: Position) -> int:
    """Move all closed ledgers before that of ``before``; return their bytes."""
    ledger.offload(before)
    while ledger.offload_status.phase is OffloadPhase.RUNNING:
        await asyncio.sleep(0.01)
    assert ledger.offload_status.phase is OffloadPhase.SUCCESS, ledger.offload_status
    return ledger.offload_progress.bytes


async def read_cold(factory: ManagedLedgerFactory, config: LedgerConfig) -> int:
    """Read all moved entries by a new subscription; return their bytes."""
    ledger = await factory.open(NAME, config)
    cursor = await ledger.open_cursor("cold", InitialPosition.EARLIEST, durable=False)
    wanted, size = ledger.offloaded_bytes, 0
    while size < wanted:
        for view in await cursor.read(1000, 8 * MIB):
            spans = view.run.spans[2 * view.start : 2 * view.stop]
            size += sum(spans[1::2]) - sum(spans[::2])
    return size


async def read_objects(stores: PacedStores, bucket: Bucket) -> int:
    """Read all data objects in order with the store itself, AT_ONCE requests at a time; return their bytes."""
    store = stores.open(bucket)
    objects = [listed async for listed in store.listed() if not listed.key.endswith(INDEX_ENDING)]
    ranges = [
        (listed.key, start) for listed in objects for start in range(0, listed.size, REQUEST_BYTES)
    ]
    size = 0
    for at in range(0, len(ranges), AT_ONCE):
        answers = await asyncio.gather(
            *(
                store.get_ranges(key, (start, start + REQUEST_BYTES))
                for key, start in ranges[at : at + AT_ONCE]
            )
        )
        size += sum(len(data) for ranges in answers for data in ranges)
    return size


@contextmanager
def s3_server() -> Iterator[Bucket]:
    """Run moto's server of the S3 protocol, with a bucket."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def made() -> bool:
        try:
            urlopen(Request(f"{url}/cold", method="PUT")).close()
        except OSError:
            return False
        return True

    try:
        until_blocking(made, bound_s=60)
        yield Bucket(S3, "cold", "us-east-1", url)
    finally:
        process.terminate()
        process.wait(10)


def forget_pages(folder: Path) -> None:
    """Drop the files of ``folder`` from the page cache."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


class Bench:
    """The measurement; ``uncached``: the store's files are read from the disk."""

    def __init__(
        self,
        make: MakeBroker,
        stores: PacedStores,
        bucket: Bucket,
        limits: TierLimits,
        uncached: bool,
    ) -> None:
        self._make = make
        self._stores = stores
        self._bucket = bucket
        self._limits = limits
        self._uncached = uncached
        self._gauges = Gauges()
        self._config = LedgerConfig(1, 1, 1, ledger_bytes_max=LEDGER_BYTES, ledger_age_min_s=0)
        self._tiered = replace(self._config, offload=OffloadPolicy(bucket, deletion_lag_s=-1.0))

    def _broker(self) -> ManagedLedgerFactory:
        return self._make(TieredStorage(self._stores, attributes_of("bench", "0"), self._limits))

    @asynccontextmanager
    async def _tail(self, factory: ManagedLedgerFactory) -> AsyncIterator[Tail]:
        tail = Tail(await factory.open(f"{NAME}-tail", self._config))
        running = asyncio.ensure_future(tail.run())
        await asyncio.sleep(1)
        yield tail
        tail.stop()
        await running

    async def _quiet(self, tail: Tail) -> Window:
        self._gauges.begin(tail)
        await asyncio.sleep(QUIET_S)
        return self._gauges.end()

    async def run(self, size: int, rounds: int) -> None:
        """Measure, by turns, the tail alone and while ledgers are moved, then alone and while cold is read."""
        factory = self._broker()
        ledger = await factory.open(NAME, self._tiered)
        await ledger.open_cursor("s", InitialPosition.EARLIEST)
        await fill(ledger, size)
        ids = [span.ledger_id for span in ledger.line.ledgers]
        quiet, busy = [], []
        async with self._tail(factory) as tail:
            for number in range(1, rounds + 1):
                quiet.append(await self._quiet(tail))
                before = Position(ids[(len(ids) - 1) * number // rounds], 0)
                self._gauges.begin(tail)
                busy.append(self._gauges.end(await move(ledger, before)))
        assert all(offload_of(span).complete for span in ledger.line.ledgers[:-1])
        show("ledgers are moved", "moved, written and read back", quiet, busy)
        quiet, busy, raw = [], [], []
        for _ in range(rounds):
            Brokers.crash(factory)
            factory = self._broker()
            async with self._tail(factory) as tail:
                await self._forget()
                self._gauges.begin(tail)
                raw.append(self._gauges.end(await read_objects(self._stores, self._bucket)))
                quiet.append(await self._quiet(tail))
                await self._forget()
                self._gauges.begin(tail)
                busy.append(self._gauges.end(await read_cold(factory, self._tiered)))
        show("cold is read", "cold read by a subscription", quiet, busy)
        ratios = sorted(
            cold.size / cold.seconds * own.seconds / own.size
            for cold, own in zip(busy, raw, strict=True)
        )
        print(f"the store's own read: {rate_text(joined(raw))}")
        print(f"cold read to that: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")

    async def _forget(self) -> None:
        if self._uncached:
            await asyncio.to_thread(forget_pages, Path(self._bucket.name))


def show(what: str, work: str, quiet: Sequence[Window], busy: Sequence[Window]) -> None:
    alone, meanwhile = joined(quiet), joined(busy)
    print(f"{work}: {rate_text(meanwhile)}")
    print(f"tail alone: {tail_text(alone)}")
    print(f"tail while {what}: {tail_text(meanwhile)}")
    for share in (0.5, 0.99):
        ratio = percentile(meanwhile.latencies, share) / percentile(alone.latencies, share)
        print(f"tail p{100 * share:.0f} while {what} to that alone: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.offload", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where bookie and store are")
    parser.add_argument("--mb", type=int, default=512, help="MB to be moved (512)")
    parser.add_argument("--moved-mb-s", type=int, default=0, help="bound of moving, MB/s")
    parser.add_argument("--read-mb-s", type=int, default=0, help="bound of cold reads, MB/s")
    parser.add_argument("--s3", action="store_true", help="moto's server in place of a folder")
    parser.add_argument("--store-mb-s", type=int, default=0, help="bandwidth of the store, MB/s")
    parser.add_argument("--together", action="store_true", help="bookie in the broker's process")
    parser.add_argument("--rounds", type=int, default=4, help="windows of each kind, by turns (4)")
    parser.add_argument("--store", type=Path, help="where the store is, instead of --dir")
    parser.add_argument("--uncached", action="store_true", help="read objects from the disk")
    given = parser.parse_args()
    if not MALLOC.items() <= os.environ.items():
        command = [sys.executable, "-m", "tests.bench.offload", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **MALLOC})
    limits = TierLimits(
        moved_per_s=given.moved_mb_s * 1_000_000, read_per_s=given.read_mb_s * 1_000_000
    )
    stores = PacedStores(given.store_mb_s * 1_000_000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.dir)))
        store = stack.enter_context(tempfile.TemporaryDirectory(dir=given.store or folder))
        bucket = stack.enter_context(s3_server()) if given.s3 else Bucket(FILES, store)
        cluster = (
            together(folder)
            if given.together
            else apart(storage_servers(stack, folder / "data"), folder)
        )

        async def measure() -> None:
            async with cluster as make:
                bench = Bench(make, stores, bucket, limits, given.uncached)
                await bench.run(given.mb * 1_000_000, given.rounds)

        with asyncio.Runner(loop_factory=TimedLoop) as runner:
            runner.run(measure())


if __name__ == "__main__":
    main()
