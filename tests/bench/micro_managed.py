"""CPU of managed ledgers: appends and tail reads per slice, catch-up per entry, the encoding of acknowledgements.

Run: python -m tests.bench.micro_managed [--dir DIRECTORY]

Appends go to a writer that only counts, so that nothing but the managed ledger is measured. Catch-up reads come from a
bookie in this process: its CPU is part of the figure, that of fetching alone is given beside it.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from engine.base.slices import Slice
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.ack_state import AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.ledger import InitialPosition
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.settings import LedgerConfig, ManagedSettings
from tests.support.managed_cluster import LAZY, NAME, Brokers

SLICES = 20_000
HOLES = 50_000
ROUNDS = 5
WIDE = LedgerConfig(1, 1, 1, ledger_entries_max=1 << 40)
CATCH_UP = ((1024, 60_000), (65536, 3_000))
"""Entry size and count."""
IN_FLIGHT_BYTES = 4 << 20


class CountingWriter:
    """Takes appends and does nothing with them."""

    def __init__(self, real: LedgerWriter) -> None:
        self.ledger_id = real.ledger_id
        self.next = real.last_pushed + 1
        self.closed = False

    @property
    def last_pushed(self) -> int:
        return self.next - 1

    def append(self, run: Slice) -> int:
        run.ledger_id, run.first = self.ledger_id, self.next
        self.next += run.count
        return run.first


class Sink:
    def __init__(self) -> None:
        self.pending = 0
        self.room = asyncio.Event()

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self.pending -= sum(run.spans[2 * start + 1 : 2 * stop : 2]) - sum(
            run.spans[2 * start : 2 * stop : 2]
        )
        self.room.set()

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        raise error


def report(what: str, figures: list[float], unit: str) -> None:
    figures.sort()
    print(f"{what:<46} {figures[len(figures) // 2]:8.2f} {unit}")


async def tail(directory: Path) -> None:
    """Slices of two entries of 100 B through append, confirmation and a cursor at the tail."""
    brokers = Brokers(directory)
    await brokers.start()
    ledger = await brokers.broker(LAZY).open(NAME, WIDE)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    appender = ledger._appender
    real = appender._writer
    assert real is not None
    writer = CountingWriter(real)
    appender._writer = writer  # type: ignore[assignment]
    sink = Sink()
    costs: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(ROUNDS):
        runs = [Slice(bytes(200), [0, 100, 100, 200], 200) for _ in range(SLICES)]
        marks = [time.process_time()]
        for run in runs:
            ledger.append(run, sink)
        marks.append(time.process_time())
        appender.confirmed(writer.next)
        marks.append(time.process_time())
        while cursor.read_nowait(2, 1 << 20):
            pass
        marks.append(time.process_time())
        for i, figures in enumerate(costs):
            figures.append((marks[i + 1] - marks[i]) / SLICES * 1e6)
    for what, figures in zip(("append", "confirmation", "read_nowait"), costs, strict=True):
        report(f"{what}, a slice", figures, "µs")
    appender._writer = real
    await brokers.close()


async def catch_up(directory: Path, size: int, count: int) -> None:
    """Read a cold backlog from an in-process bookie by one cursor, then by ten at once."""
    brokers = Brokers(directory)
    await brokers.start()
    settings = ManagedSettings(cache_bytes_max=1 << 20, cursor_persist_interval_s=3600)
    ledger = await brokers.broker(settings).open(NAME, WIDE)
    names = [f"c{i}" for i in range(11)]
    cursors = [await ledger.open_cursor(name, InitialPosition.EARLIEST) for name in names]
    sink = Sink()
    batch = max(65536 // size, 1)
    spans = [x for i in range(batch) for x in (i * size, i * size + size)]
    for _ in range(count // batch):
        sink.pending += batch * size
        ledger.append(Slice(bytes(batch * size), spans, batch * size), sink)
        while sink.pending > IN_FLIGHT_BYTES:
            sink.room.clear()
            await sink.room.wait()
    while sink.pending:
        sink.room.clear()
        await sink.room.wait()
    entries = count // batch * batch

    async def drain(i: int) -> None:
        seen = 0
        while views := await cursors[i].read(1000, 1 << 20):
            seen += sum(view.count for view in views)
        assert seen == entries, (seen, entries)

    for who in ([0], list(range(1, 11))):
        began, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(drain(i) for i in who))
        cost, took = time.process_time() - began, time.perf_counter() - wall
        name = f"catch-up {size} B, {len(who)} cursor{'s' if len(who) > 1 else ''}, with the bookie"
        print(
            f"{name:<46} {cost / entries * 1e6:8.2f} µs an entry, "
            f"{entries * size / took / 1e6:.0f} MB/s"
        )
    await brokers.close()


def acknowledgements() -> None:
    """50,000 holes: every second, every third, every hundredth entry."""
    for step in (2, 3, 100):
        line = LedgerLine([LedgerSpan(5, HOLES * step * 2, 1)])
        acks = AckState(0, [(1 + i * step, 2 + i * step) for i in range(HOLES)])
        taking: list[float] = []
        whole: list[float] = []
        longest: list[float] = []
        for _ in range(ROUNDS):
            began = time.process_time()
            snapshot = AckSnapshot.of(acks, line, {})
            taking.append((time.process_time() - began) * 1e3)
            steps, pause, total = snapshot.encoding(), 0.0, 0.0
            while True:
                began = time.process_time()
                try:
                    next(steps)
                except StopIteration:
                    break
                finally:
                    spent = (time.process_time() - began) * 1e3
                    pause, total = max(pause, spent), total + spent
            whole.append(total)
            longest.append(pause)
        what = f"{HOLES} holes, one in {step}"
        report(f"{what}: snapshot", taking, "ms")
        report(f"{what}: encoding", whole, "ms")
        report(f"{what}: longest step", longest, "ms")


async def measure(directory: str | None) -> None:
    for i, (size, count) in enumerate((*CATCH_UP, (0, 0))):
        with tempfile.TemporaryDirectory(dir=directory) as made:
            if size:
                await catch_up(Path(made) / str(i), size, count)
            else:
                await tail(Path(made))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", help="where the bookie keeps its files (the system's default)")
    asyncio.run(measure(parser.parse_args().dir))
    acknowledgements()
