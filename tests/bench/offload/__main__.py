"""Tiered storage against a local store: bytes per second of moving ledgers and of cold reads, and the latency of
publishing meanwhile.

Run: python -m tests.bench.offload [--dir DIRECTORY] [--mb MB] [--store-mb-s MB]

Metadata server and bookie are processes of their own, as in every installation; with --together they share the
broker's process and its event loop. All share one disk with the store. The tail is another topic of the same broker, to
which one message of 1 KiB is appended every 5 ms. The store's own sequential read reads the data objects with the same
store, with as many requests at once as the broker makes. With --store-mb-s the store answers after 20 ms and has that
bandwidth for each direction, as a bucket has.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

from engine.base.ids import LATEST
from engine.base.slices import Slice
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
from tests.bench.offload.cluster import (
    MakeBroker,
    PacedStores,
    apart,
    storage_servers,
    together,
)
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import NAME, Brokers, Sink
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

MIB = 1 << 20
ENTRY = 64 << 10
LEDGER_BYTES = 64 * MIB
PACE_S = 0.005
REQUEST_BYTES = 4 * MIB
AT_ONCE = 2
"""Requests of the store's own read at once, as many as a broker makes with its default read-ahead."""
QUIET_S = 10.0


class Tail:
    """Appends to another topic at a pace; ``latencies``: seconds of each since the last ``restart``."""

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._over = False
        self.latencies: list[float] = []

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self.latencies.append(time.perf_counter() - run.facts)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        raise error

    async def run(self) -> None:
        while not self._over:
            run = run_of(bytes(1024))
            run.facts = time.perf_counter()
            self._ledger.append(run, self)
            await asyncio.sleep(PACE_S)

    def stop(self) -> None:
        self._over = True

    def p99_ms(self) -> float:
        """Return the 99th percentile since the last call."""
        ranked, self.latencies = sorted(self.latencies), []
        return 1000 * ranked[int(0.99 * (len(ranked) - 1))] if ranked else float("nan")


async def fill(ledger: ManagedLedger, size: int) -> None:
    sink = Sink()
    payload = bytes(range(256)) * (ENTRY // 256)
    for at in range(size // ENTRY):
        ledger.append(run_of(payload), sink)
        if at % 32 == 31:
            await sink.settle(at - 15)
    await sink.settle(size // ENTRY)


async def moved(ledger: ManagedLedger) -> float:
    """Move all closed ledgers; return the bytes per second, with the reading back."""
    began = time.perf_counter()
    ledger.offload(LATEST)
    while ledger.offload_status.phase is OffloadPhase.RUNNING:
        await asyncio.sleep(0.01)
    assert ledger.offload_status.phase is OffloadPhase.SUCCESS, ledger.offload_status
    return ledger.offload_progress.bytes / (time.perf_counter() - began)


async def read_cold(factory: ManagedLedgerFactory, config: LedgerConfig) -> float:
    """Read all moved entries by a new subscription; return the bytes per second."""
    ledger = await factory.open(NAME, config)
    cursor = await ledger.open_cursor("cold", InitialPosition.EARLIEST, durable=False)
    wanted = ledger.offloaded_bytes
    began, size = time.perf_counter(), 0
    while size < wanted:
        for view in await cursor.read(1000, 8 * MIB):
            spans = view.run.spans[2 * view.start : 2 * view.stop]
            size += sum(spans[1::2]) - sum(spans[::2])
    return size / (time.perf_counter() - began)


async def read_objects(stores: PacedStores, bucket: Bucket) -> float:
    """Read all data objects in order with the store itself, AT_ONCE requests at a time; return the bytes per second."""
    store = stores.open(bucket)
    objects = [listed async for listed in store.listed() if not listed.key.endswith(INDEX_ENDING)]
    ranges = [
        (listed.key, start) for listed in objects for start in range(0, listed.size, REQUEST_BYTES)
    ]
    began, size = time.perf_counter(), 0
    for at in range(0, len(ranges), AT_ONCE):
        answers = await asyncio.gather(
            *(
                store.get_range(key, start, start + REQUEST_BYTES)
                for key, start in ranges[at : at + AT_ONCE]
            )
        )
        size += sum(map(len, answers))
    return size / (time.perf_counter() - began)


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


async def measure(
    make: MakeBroker, stores: PacedStores, bucket: Bucket, size: int, limits: TierLimits
) -> None:
    def broker() -> ManagedLedgerFactory:
        return make(TieredStorage(stores, attributes_of("bench", "0"), limits))

    config = LedgerConfig(1, 1, 1, ledger_bytes_max=LEDGER_BYTES, ledger_age_min_s=0)
    tiered = replace(config, offload=OffloadPolicy(bucket, deletion_lag_s=-1.0))
    factory = broker()
    ledger = await factory.open(NAME, tiered)
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await fill(ledger, size)
    tail = Tail(await factory.open(f"{NAME}-tail", config))
    tailing = asyncio.ensure_future(tail.run())
    await asyncio.sleep(2)
    tail.p99_ms()
    await asyncio.sleep(QUIET_S)
    quiet_ms = tail.p99_ms()
    rate = await moved(ledger)
    moving_ms = tail.p99_ms()
    assert all(offload_of(span).complete for span in ledger.line.ledgers[:-1])
    tail.stop()
    await tailing
    other = broker()
    Brokers.crash(factory)
    tail = Tail(await other.open(f"{NAME}-tail", config))
    tailing = asyncio.ensure_future(tail.run())
    raw = await read_objects(stores, bucket)
    tail.p99_ms()
    cold = await read_cold(other, tiered)
    reading_ms = tail.p99_ms()
    tail.stop()
    await tailing
    print(f"moved, written and read back     {rate / 1e6:8.0f} MB/s")
    print(
        f"cold read by a subscription      {cold / 1e6:8.0f} MB/s, {cold / raw:.2f} of the store's {raw / 1e6:.0f}"
    )
    print(f"tail p99 quiet                   {quiet_ms:8.2f} ms")
    print(f"tail p99 while ledgers are moved {moving_ms:8.2f} ms, {moving_ms / quiet_ms - 1:+.0%}")
    print(
        f"tail p99 while cold is read      {reading_ms:8.2f} ms, {reading_ms / quiet_ms - 1:+.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.offload", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where bookie and store are")
    parser.add_argument("--mb", type=int, default=512, help="MB to be moved (512)")
    parser.add_argument("--moved-mb-s", type=int, default=0, help="bound of moving, MB/s")
    parser.add_argument("--read-mb-s", type=int, default=0, help="bound of cold reads, MB/s")
    parser.add_argument("--s3", action="store_true", help="moto's server in place of a folder")
    parser.add_argument("--store-mb-s", type=int, default=0, help="bandwidth of the store, MB/s")
    parser.add_argument("--together", action="store_true", help="bookie in the broker's process")
    given = parser.parse_args()
    limits = TierLimits(
        moved_per_s=given.moved_mb_s * 1_000_000, read_per_s=given.read_mb_s * 1_000_000
    )
    stores = PacedStores(given.store_mb_s * 1_000_000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.dir)))
        bucket = Bucket(FILES, str(folder / "cold"))
        if given.s3:
            bucket = stack.enter_context(s3_server())
        cluster = (
            together(folder)
            if given.together
            else apart(storage_servers(stack, folder / "data"), folder)
        )
        asyncio.run(run(cluster, stores, bucket, given.mb * 1_000_000, limits))


async def run(
    cluster: AbstractAsyncContextManager[MakeBroker],
    stores: PacedStores,
    bucket: Bucket,
    size: int,
    limits: TierLimits,
) -> None:
    async with cluster as make:
        await measure(make, stores, bucket, size, limits)


if __name__ == "__main__":
    main()
