"""``python -m tests.crash.bits [--rounds 40]``: a bookie of three has a flipped bit or a cut tail in a file.

Each round writes ledgers on three real bookies (entries on all, two answers needed), the last entries of those left
open on two bookies only, one of them the victim. The victim is killed, one of its files is damaged, and it starts
again or refuses to. Then it is the first to answer reads and a recovery, and then the only one there is. It may say
that it cannot read; it may neither hand out other bytes nor make a recovery lose what was confirmed. At last all
three serve again, and everything that was confirmed is read.

The last group of the journal is left alone: a bit flipped there cannot be distinguished from a write that was torn by a
crash before its sync, and a torn write is cut off (docs/formats/journal.md).
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from tests.crash.kit.processes import BookieProcess, Cluster, running_cluster, zookeeper_process
from tests.crash.ledgers import PATIENT, LedgerLoad, Written, check, payload
from tests.support.ledger_cluster import run_of
from tests.support.zookeeper.process import ZooKeeperProcess

BLOCK = 4096
GROUP_MAGIC = b"MGGROUP1"
CLOSED, OPEN = 4, 3
"""Ledgers of a round: closed ones, and such as their writer left open."""
ENTRIES, TAIL = 300, 40
"""Entries of each, and how many of an open one's last are on two bookies only."""
ALONE_S = 3.0
HEAD_START_S = 1.0
SETTLES_S = 30.0
BOOKIE = {
    "journal_file_bytes": str(1 << 20),
    "write_cache_bytes": str(1 << 20),
    "entry_log_bytes_max": str(1 << 20),
    "flush_interval_s": "0.2",
}
READ_BYTES = 1 << 20
QUICK = replace(
    PATIENT, read_entry_timeout_s=1.0, speculative_read_timeout_s=0.3, recovery_timeout_s=ALONE_S
)


@dataclass
class Counts:
    """Counts of all rounds. ``wrong``: descriptions of what must not happen."""

    outcomes: Counter[str] = field(default_factory=Counter)
    confirmed: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        rows = [f"{name:<58} {count:>6}" for name, count in sorted(self.outcomes.items())]
        rows += [f"{'entries confirmed':<58} {self.confirmed:>6}"]
        rows += [f"{'entries read at the end, each as it was written':<58} {self.read:>6}"]
        return "\n".join([*rows, f"{'lost or other':<58} {len(self.wrong):>6}", *self.wrong])


def current(bookie: BookieProcess, part: str) -> Path:
    return bookie.data_dir / part / "current"


def entry_logs(bookie: BookieProcess) -> list[Path]:
    return sorted(current(bookie, "ledgers").glob("*.log"))


def index_files(bookie: BookieProcess) -> list[Path]:
    folder = current(bookie, "ledgers") / "index"
    return sorted([*folder.glob("*.sst"), *folder.glob("*.log"), *folder.glob("MANIFEST-*")])


def manifests(bookie: BookieProcess) -> list[Path]:
    return sorted(current(bookie, "ledgers").glob("manifest-*"))


def marks(bookie: BookieProcess) -> list[Path]:
    return [current(bookie, "ledgers") / "lastMark"]


def cookies(bookie: BookieProcess) -> list[Path]:
    return [current(bookie, part) / "VERSION" for part in ("ledgers", "journal")]


def journals(bookie: BookieProcess) -> list[Path]:
    return sorted(current(bookie, "journal").glob("journal-*"))


FILES: dict[str, Callable[[BookieProcess], list[Path]]] = {
    "entry log": entry_logs,
    "index": index_files,
    "manifest": manifests,
    "mark": marks,
    "cookie": cookies,
    "journal": journals,
}
DAMAGES = [(name, how) for name in FILES for how in ("flipped bit", "cut tail")]


def last_group(path: Path) -> int:
    """Return the offset of a journal file's last group, before which damage can be distinguished from a torn write."""
    data = path.read_bytes()
    starts = [at for at in range(0, len(data), BLOCK) if data.startswith(GROUP_MAGIC, at)]
    return starts[-1] if starts else 0


def damage(bookie: BookieProcess, name: str, how: str, draw: random.Random) -> str:
    """Damage one file of a dead bookie; return what was done, empty when it has no such file."""
    sizes = {
        path: last_group(path) if name == "journal" else path.stat().st_size
        for path in FILES[name](bookie)
    }
    paths = [path for path, size in sizes.items() if size > 0]
    if not paths:
        return ""
    path = draw.choice(paths)
    at = draw.randrange(sizes[path])
    if how == "cut tail":
        with path.open("r+b") as file:
            file.truncate(at)
    else:
        with path.open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes((byte ^ 1 << draw.randrange(8),)))
    return f"{path.name} at {at}"


class Round:
    """One damage of one bookie, and what three bookies hold afterwards."""

    def __init__(
        self, cluster: Cluster, store: MetadataStore, seed: int, what: tuple[str, str], to: Counts
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._draw = random.Random(seed)
        self._load = LedgerLoad(store, seed)
        self._what = what
        self._counts = to
        self._about = f"seed {seed}, {' '.join(what)}"
        self._victim, self._whole, self._behind = self._draw.sample(cluster.bookies, 3)

    async def run(self) -> None:
        await self._write()
        self._victim.end(signal.SIGKILL)
        where = damage(self._victim, *self._what, self._draw)
        self._about = f"{self._about}: {self._victim.name}, {where}"
        self._victim.start()
        serves = await asyncio.to_thread(self._comes_up)
        name = " ".join(self._what)
        outcome = "serves on" if serves else "refuses to start"
        self._counts.outcomes[f"{name}: {outcome if where else 'no such file'}"] += 1
        self._behind.start()
        await asyncio.to_thread(self._behind.wait_ready)
        if serves:
            await self._alone()
            await self._fastest()
        await self._verify()
        await asyncio.to_thread(self._renew)

    def _comes_up(self) -> bool:
        """Return whether the victim serves; False when it ended by itself."""
        with suppress(RuntimeError):
            self._victim.wait_ready()
        return self._victim.alive

    async def _wait_registered(self) -> None:
        """Wait for the bookies of this round, and for the end of the session of the one that was replaced."""
        names = {bookie.name for bookie in self._cluster.bookies}
        while names != {*await self._store.children(paths.AVAILABLE)} - {"readonly"}:
            await asyncio.sleep(0.05)

    async def _write(self) -> None:
        await self._wait_registered()
        client = self._load.client()
        try:
            open_ledgers = []
            for number in range(CLOSED + OPEN):
                written = Written()
                writer = await client.create(3, 3, 2, listener=written.listener)
                self._load.ledgers[writer.ledger_id] = written
                await self._append(writer, written, ENTRIES)
                if number < CLOSED:
                    await writer.close()
                    written.stop = written.sent
                else:
                    open_ledgers.append((writer, written))
            self._behind.send(signal.SIGSTOP)
            for writer, written in open_ledgers:
                await self._append(writer, written, TAIL)
            self._behind.send(signal.SIGKILL)  # the unread requests in its sockets are lost with it
            await asyncio.to_thread(self._behind.wait)
        finally:
            await client.close()
        self._counts.confirmed += self._load.confirmed

    async def _append(self, writer: LedgerWriter, written: Written, count: int) -> None:
        for _ in range(count):
            writer.append(run_of(payload(writer.ledger_id, written.sent)))
            written.sent += 1
            if written.sent % 10 == 0:  # several groups of the journal
                await written.listener.reach(written.sent)
        await written.listener.reach(written.sent)

    async def _alone(self) -> None:
        """Try all ledgers with the victim alone: it must report what it cannot read, and can recover nothing alone."""
        others = [self._whole, self._behind]
        for bookie in others:
            bookie.send(signal.SIGSTOP)
        try:
            await self._try(list(self._load.ledgers))
        finally:
            for bookie in others:
                bookie.send(signal.SIGCONT)

    async def _fastest(self) -> None:
        """Try all ledgers while the others answer a second later, also to a recovery that the victim has begun to
        answer."""
        others = [self._whole, self._behind]
        for bookie in others:
            bookie.send(signal.SIGSTOP)
        ledgers = asyncio.ensure_future(self._try(list(self._load.ledgers)))
        try:
            await asyncio.wait([ledgers], timeout=HEAD_START_S)
        finally:
            for bookie in others:
                bookie.send(signal.SIGCONT)
        await ledgers

    async def _try(self, ledgers: list[int]) -> None:
        """Open, recover and read ledgers; refusals count, other bytes or a lost entry are wrong."""
        client = self._load.client(QUICK)
        try:
            await asyncio.gather(*(self._try_one(client, ledger_id) for ledger_id in ledgers))
        finally:
            await client.close()

    async def _try_one(self, client: LedgerClient, ledger_id: int) -> None:
        written = self._load.ledgers[ledger_id]
        try:
            reader = await client.open(ledger_id, recover=written.stop is None)
            await check(reader, written)
        except LedgerError:
            self._counts.outcomes["(reads or recoveries refused meanwhile)"] += 1
        except AssertionError as error:
            self._counts.wrong.append(f"{self._about}: {error}")

    async def _verify(self) -> None:
        for bookie in (self._whole, self._behind):
            await asyncio.to_thread(bookie.wait_ready)
        for ledger_id, written in self._load.ledgers.items():
            try:
                self._counts.read += await self._settled(ledger_id, written)
            except (AssertionError, LedgerError) as error:
                self._counts.wrong.append(f"{self._about}: ledger {ledger_id}: {error!r}")

    async def _settled(self, ledger_id: int, written: Written) -> int:
        """Recover and read a ledger, again while bookies come back. Raises AssertionError, LedgerError."""
        until = time.monotonic() + SETTLES_S
        while True:
            client = self._load.client()
            try:
                return await check(await client.open(ledger_id, recover=True), written)
            except LedgerError:
                if time.monotonic() > until:
                    raise
            finally:
                await client.close()

    def _renew(self) -> None:
        self._victim.end()
        self._cluster.replace_bookie(self._victim)


async def rounds(
    cluster: Cluster, chosen: list[tuple[str, str]], seed: int, say: Callable[[str], None]
) -> Counts:
    counts = Counts()
    store = await connect(cluster.metadata, session_timeout_s=10.0)
    try:
        for number, what in enumerate(chosen):
            await Round(cluster, store, seed * 1000 + number, what, counts).run()
            say(f"{number + 1}: {' '.join(what)}, {len(counts.wrong)} wrong {counts.wrong[-1:]}")
    finally:
        await store.close()
    return counts


def run(
    directory: Path,
    zookeeper: ZooKeeperProcess,
    *,
    count: int,
    seed: int,
    say: Callable[[str], None] = print,
) -> Counts:
    """Play ``count`` rounds, each damage in turn."""
    chosen = [DAMAGES[number % len(DAMAGES)] for number in range(count)]
    directory.mkdir(parents=True, exist_ok=True)
    with running_cluster(directory, zookeeper, brokers=0, bookie_settings=BOOKIE) as cluster:
        return asyncio.run(rounds(cluster, chosen, seed, say))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.bits", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2 * len(DAMAGES))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bits-"))
    with zookeeper_process(directory / "zookeeper") as zookeeper:
        counts = run(directory / "cluster", zookeeper, count=arguments.rounds, seed=arguments.seed)
    print(counts.text())
    if counts.wrong:
        print(f"data and logs: {directory}")
    else:
        shutil.rmtree(directory)
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
