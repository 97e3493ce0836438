"""The workload of ``ledger`` on bookies that join, are drained and taken out, or are lost for good, one after another,
while auto-recovery makes their copies again. In the end every entry of every ledger must be on its whole write set."""

import asyncio
import errno
import random
from dataclasses import dataclass

from bookie import scrubbing
from bookie.cookies import IdentityError
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, decode
from engine.ledger.quorum import write_set
from engine.metadata import paths
from engine.metadata.records import BookieRacks
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from engine.repair import auditor, worker
from engine.repair.checking import ends, lacks
from engine.repair.decommissions import DRAINED, read_decommission, request_decommission
from engine.repair.marks import RepairRecords
from engine.wire.availability import merged
from tests.sim.kit.cluster import BOOKIE_PORT, EPOCH_MS, SECOND_DISK, Machine
from tests.sim.kit.damage import _swap_disk
from tests.sim.kit.nemesis import Nemesis
from tests.sim.kit.scenario import Run
from tests.sim.ledgers import history as h
from tests.sim.ledgers.hosts import Habits, marker
from tests.sim.ledgers.workload import Ledgers, LedgerWorkload
from tests.sim.plants.planting import Patches
from tests.sim.repairing.conduct import Conduct

LOSE_BOOKIE = "lose_bookie"
FAIL_DISK = "fail_disk"
TAKE_OUT = "take_out"
SWITCH = "switch"
RACKS = 2
SETTLED_MS = 3000
RECENT_S = 12.0
"""Time after a loss in which the lost bookie may still be registered, and so be taken for one that serves."""
FLIPPED = 8
"""Bits that rot at the end in the entry logs of one bookie."""
LOOKED_AT = 8
"""Entries of a copied segment whose durability is checked at the moment that metadata names the copy."""


def _rack(bookie: str) -> int:
    return int(bookie.partition(":")[0].rpartition("-")[2]) % RACKS


def _flip_a_bit(machine: Machine, rng: random.Random) -> None:
    """Flip a bit of a durable entry log, behind its header."""
    files = machine.disk.durable_files(".log")
    if files:
        path = rng.choice(sorted(files))
        if files[path] > FILE_HEADER_BYTES:
            machine.disk.damage(
                path, rng.randrange(FILE_HEADER_BYTES, files[path]), 1 << rng.randrange(8)
            )


@dataclass(frozen=True)
class Repairing(Ledgers):
    """``racks``: the bookies are in two racks, and every write set must touch both."""

    racks: bool = False

    @classmethod
    def draw(cls, rng: random.Random) -> "Repairing":
        return cls(
            hosts=2,
            habits=Habits(
                hands=rng.choice((1, 2)),
                run_entries=rng.choice((1, 4, 12)),
                entry_bytes=rng.choice((80, 400, 3000)),
            ),
            racks=rng.random() < 0.5,
        )

    def setup(self, run: Run) -> "RepairWorkload":
        return RepairWorkload(run, self)


class RepairWorkload(LedgerWorkload):
    whole_s = 60.0
    """Bound within which all copies are there again after the last fault (simulated seconds)."""
    machines_max = 14
    limits: Patches = [
        *((part, "LOOK_S", 2.0) for part in (auditor, scrubbing)),
        *((worker, "HOPELESS", 10**6), (scrubbing, "RATE_MIN", 1 << 20)),
    ]

    def __init__(self, run: Run, plan: Repairing) -> None:
        super().__init__(run, plan)
        self.record.history.repaired = True
        self._racks = plan.racks
        self._calm = set(run.scenario.faults) <= {LOSE_BOOKIE, FAIL_DISK, TAKE_OUT, SWITCH}
        self._conduct = Conduct(run.cluster, self.record, calm=self._calm)
        self._versions: dict[int, LedgerMetadata] = {}
        self._removed: dict[int, None] = {}
        self._damaged = ""
        self._writers: dict[int, str] = {}
        self._gone_at = -1e9
        self._names = [f"bookie-{i}" for i in range(1, self.machines_max + 9)]
        cluster = run.cluster
        run.faults[LOSE_BOOKIE] = self._lose_bookie
        run.faults[FAIL_DISK] = self._fail_disk
        run.faults[TAKE_OUT] = self._take_out
        run.faults[SWITCH] = self._switch
        run.limits += self.limits
        if plan.racks:
            racks = {
                f"{name}:{BOOKIE_PORT}": {"rack": f"/region/rack-{_rack(name)}"}
                for name in self._names
            }
            cluster.tree.create(
                paths.BOOKIE_RACKS, BookieRacks({"default": racks}).encode(), 0, False, 0
            )
        cluster.tree.taps.append(self._stored)

    async def start(self) -> None:
        self.run.watch(self._conduct.look, self.watch_s)
        await super().start()

    # -- faults

    def _lose_bookie(self, n: Nemesis) -> None:
        """Lose a bookie with its disk for good; another one joins, at once or later."""
        cluster = self.run.cluster
        machine = n.machine("bookie")
        if machine is None or len(cluster.machines) > self.machines_max:
            return
        if not self._may_lose(machine):
            return
        cluster.kill(machine, power=True)
        machine.retired = True
        cluster.loop.call_soon(_swap_disk, machine)
        self._gone_at = cluster.loop.now
        cluster.count("bookies lost for good")
        n.later(n.rng.choice((0.1, 3.0)), lambda: (cluster.add_bookie(), None)[1])

    def _fail_disk(self, n: Nemesis) -> None:
        """Let the disk of a bookie's second ledger directory fail for good."""
        machine = n.machine("bookie")
        if machine is None or machine.disk.broken or not self._may_lose(machine):
            return
        code = n.rng.choice((errno.EIO, errno.EROFS))
        machine.disk.broken[f"{SECOND_DISK}/current"] = code
        self.run.cluster.loop.excused[machine.name] = None
        self._gone_at = self.run.cluster.loop.now
        self.run.cluster.count("disks failed")

    def _take_out(self, n: Nemesis) -> None:
        """Let another bookie join, and ask for one to be drained; stop it for good once nothing is left on it."""
        cluster = self.run.cluster
        machine = n.machine("bookie")
        if machine is None or not self._budget() or len(cluster.machines) > self.machines_max:
            return
        cluster.add_bookie()
        machine.leaving = True
        # It may be down when nothing is left on it, and start again without its cookie.
        machine.excuses = (IdentityError,)
        cluster.loop.create_task(self._drained(machine))

    async def _drained(self, machine: Machine) -> None:
        """Request the drain, and stop the machine when nothing is left on its bookie, or it was lost before."""
        cluster, bookie = self.run.cluster, f"{machine.name}:{BOOKIE_PORT}"
        store = cluster.metadata.session(cluster.shape.session_s)
        requested = False
        while True:
            try:
                if not requested:
                    await request_decommission(store, machine.clock, bookie, "x", drain=True)
                    requested = True
                request = await read_decommission(store, bookie)
                if request is not None and request.waits == DRAINED:
                    self._conduct.left(bookie, self._versions, "I49 it was to be stopped")
                    break
                if request is None:
                    break
            except (StoreUnavailableError, SessionExpiredError):
                cluster.count("requests to drain repeated")
            await asyncio.sleep(0.5)
        await store.close()
        cluster.kill(machine)
        machine.retired = True
        self._gone_at = cluster.loop.now
        cluster.count("bookies drained and stopped")

    def _switch(self, n: Nemesis) -> None:
        """Turn auto-recovery off for some seconds."""
        self.run.cluster.loop.create_task(self._switched(n.rng.choice((1.0, 3.0))))

    async def _switched(self, seconds: float) -> None:
        cluster = self.run.cluster
        store = cluster.metadata.session(cluster.shape.session_s)
        records = RepairRecords(store, LoopClock(EPOCH_MS), RandomEntropy())
        for on in (False, True):
            while True:
                try:
                    await records.enable(on)
                    break
                except (StoreUnavailableError, SessionExpiredError):
                    await asyncio.sleep(0.5)
            await asyncio.sleep(0.0 if on else seconds)
        await store.close()
        cluster.count("times turned off")

    def _may_lose(self, machine: Machine) -> bool:
        """Return whether what a bookie holds may be lost now: only when everything is whole."""
        return self._budget()

    def _budget(self) -> bool:
        """Return whether one more bookie may be lost: all copies are there, and all bookies."""
        cluster = self.run.cluster
        up = all(m.ready and m.node and not m.node.paused for m in cluster.bookies)
        # New ledgers are placed on a lost bookie while its session lasts.
        listed = [f"{name}:{BOOKIE_PORT}" for name in self._names if self._is_gone(name)]
        return (
            up
            and not any(cluster.tree.exists(paths.available_bookie(b)) for b in listed)
            and not self._missing()
        )

    # -- the truth

    def _held(self, name: str, ledger: int) -> list[tuple[int, int]] | None:
        """Return the entries that a bookie has; None while it is down."""
        machine = self.run.cluster.machines.get(name.partition(":")[0])
        if machine is None or machine.retired:
            return []
        serving = machine.bookie._serving if machine.bookie is not None else None
        if serving is None or not machine.ready:
            return None
        storage, broken = serving.storage, machine.disk.broken
        there = {n for n in storage.logs.ids() if storage.logs.directory(n) not in broken}
        stored = serving.scrubber.readable(ledger, storage.entries.ranges(ledger, there))
        return merged([*storage.ledgers.cache.ranges(ledger), *stored])

    def _stored_ledgers(self) -> dict[int, LedgerMetadata]:
        listed = {}
        for ledger in self.record.born:
            stat = self.run.cluster.tree.exists(paths.ledger(ledger))
            if stat is not None and ledger not in self.record.deleted:
                listed[ledger] = decode(self.run.cluster.tree.get(paths.ledger(ledger))[0])
        return listed

    def _lacking(self, ledger: int, metadata: LedgerMetadata) -> list[str]:
        """Return what lacks in the settled segments of a ledger; bookies that are down are not looked at."""
        lacking = []
        for (first, last), segment in zip(ends(metadata), metadata.segments, strict=False):
            for position, bookie in enumerate(segment.bookies):
                ranges = self._held(bookie, ledger)
                gone = ranges == [] and self._is_gone(bookie)
                if gone or (
                    ranges is not None
                    and last >= first
                    and lacks(
                        ranges, first, last, position, metadata.ensemble_size, metadata.write_quorum
                    )
                ):
                    lacking.append(f"ledger {ledger} from {first} to {last} at {bookie}")
        return lacking

    def _is_gone(self, bookie: str) -> bool:
        machine = self.run.cluster.machines.get(bookie.partition(":")[0])
        return machine is None or machine.retired

    def _missing(self) -> list[str]:
        """Return the copies that are not there."""
        missing = []
        for ledger, metadata in self._stored_ledgers().items():
            missing += self._lacking(ledger, metadata)
            if metadata.state is not LedgerState.CLOSED:
                missing += [
                    f"open ledger {ledger} at {bookie}"
                    for bookie in metadata.segments[-1].bookies
                    if self._is_gone(bookie) or self._failed_disk_held(bookie, ledger)
                ]
        return missing

    def _failed_disk_held(self, bookie: str, ledger: int) -> bool:
        """Return whether entries of a ledger were on a bookie's failed disk and are nowhere else there."""
        machine = self.run.cluster.machines[bookie.partition(":")[0]]
        held = self._held(bookie, ledger)
        if held is None or machine.bookie is None or not machine.disk.broken:
            return False
        rows = machine.bookie.serving.storage.entries.blocks(ledger)
        return bool(scrubbing.without([(n, n + p.entries - 1) for n, p in rows], held))

    def _marks(self) -> list[str]:
        """Return the marks that are stored now, but for those of ledgers whose deletion was requested and refused: what
        they lose does not count, so that they may have lost too much."""
        listed, parents = [], [paths.MARKED_LEDGERS]
        tree = self.run.cluster.tree
        while parents:
            path = parents.pop()
            names = tree.children(path) if tree.exists(path) else []
            listed += [name for name in names if name.startswith("urL") and self._counts(name)]
            parents += [f"{path}/{name}" for name in names if not name.startswith("urL")]
        return listed

    def _requests(self) -> list[str]:
        """Return the bookies that are to be taken out, those that were and have their cookies still, and those that are
        registered without one."""
        tree = self.run.cluster.tree
        machines = self.run.cluster.machines.values()
        taken = [f"{m.name}:{BOOKIE_PORT}" for m in machines if m.leaving]
        left = [b for b in taken if tree.exists(paths.decommission(b))]
        left += [
            f"{b} without its cookie"
            for b in taken
            if tree.exists(paths.available_bookie(b)) and not tree.exists(paths.cookie(b))
        ]
        return left + [b for b in taken if self._is_gone(b) and tree.exists(paths.cookie(b))]

    def _counts(self, mark: str) -> bool:
        ledger = int(mark.removeprefix("urL"))
        return ledger not in self.record.deleted or ledger not in self._versions

    # -- what is seen as it happens

    def _stored(self, path: str, value: bytes | None, conditional: bool) -> None:
        ledger = paths.ledger_id(path)
        if ledger is not None:
            before = self._versions.pop(ledger, None)
            if value is not None:
                self._versions[ledger] = after = decode(value)
                if before is not None:
                    self._conduct.changed(ledger, before, after)
                    self._members_changed(ledger, before, after)
                elif ledger in self._removed:
                    self.record.anomaly(f"I45 ledger {ledger} is there again after its deletion")
            else:
                self._removed[ledger] = None
                if ledger not in self.record.deleted:
                    self.record.anomaly(f"I45 ledger {ledger} was deleted without a request")
            return
        self._conduct.stored(path, value, conditional)
        if value is None and path.startswith(f"{paths.COOKIES}/"):
            bookie = path.rpartition("/")[2]
            name = bookie.partition(":")[0]
            self.run.cluster.machines[name].retired = True
            # One that was cut off meanwhile, and comes back, stops.
            self.run.cluster.loop.excused[name] = None
            self._conduct.left(bookie, self._versions, "I44 a cookie was removed")
        elif value is None and path.startswith(paths.MARKED_LEDGERS) and "/urL" in path:
            self._unmarked(int(path.rpartition("urL")[2]))

    def _members_changed(self, ledger: int, before: LedgerMetadata, after: LedgerMetadata) -> None:
        """Check that a repair names a bookie only when it holds the copies durably, and as placement asks."""
        settled = {segment.first: segment for segment in before.segments}
        if before.state is not LedgerState.CLOSED:
            settled.pop(before.segments[-1].first)
        spans, size = dict(ends(before)), after.ensemble_size
        for segment in after.segments:
            old = settled.get(segment.first)
            if old is None or old.bookies == segment.bookies:
                continue
            self.run.cluster.count("segments repaired")
            self._conduct.repaired(ledger, segment.bookies)
            for position, bookie in enumerate(segment.bookies):
                if old.bookies[position] != bookie:
                    self._has_to_leave(ledger, before, segment.first, old.bookies[position])
                    span = (segment.first, spans[segment.first])
                    self._copy_named(ledger, after, span, position, bookie)
            # For a ledger that is not closed, some bookies are not chosen.
            settles = before.state is LedgerState.CLOSED
            if self._racks and self._calm and settles and size == after.write_quorum:
                self._look_at_racks(ledger, segment.bookies)

    def _copy_named(
        self,
        ledger: int,
        metadata: LedgerMetadata,
        span: tuple[int, int],
        position: int,
        bookie: str,
    ) -> None:
        first, last = span
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        entries = [e for e in range(first, last + 1) if position in write_set(e, size, quorum)]
        step = max(len(entries) // LOOKED_AT, 1)
        writer = self._writer(ledger)
        machine = self.run.cluster.machines[bookie.partition(":")[0]]
        for entry in {*entries[::step], *entries[-1:]}:
            if writer and not machine.disk.holds_durably(marker(ledger, entry, writer)):
                self.record.anomaly(
                    f"I33 ledger {ledger}: {bookie} was named for entry {entry} before it held it"
                )
                return

    def _has_to_leave(self, ledger: int, before: LedgerMetadata, first: int, bookie: str) -> None:
        """Check that a member that is replaced is gone, is to be taken out, or lacks entries."""
        machine = self.run.cluster.machines[bookie.partition(":")[0]]
        tree = self.run.cluster.tree
        stat = tree.exists(paths.available_bookie(bookie)) or tree.exists(
            paths.read_only_bookie(bookie)
        )
        if (
            not self._calm  # otherwise a late answer may have completed the copy since it was asked about
            or stat is None
            or stat.ctime_ms > self._now_ms() - RECENT_S * 1000
            or machine.leaving
            or machine.disk.broken
            or machine.name == self._damaged  # its scrubber may have restored what was lacking
        ):
            return
        lacking = [text for text in self._lacking(ledger, before) if text.endswith(f" at {bookie}")]
        if not any(f" from {first} to " in text for text in lacking):
            self.run.cluster.count("copies moved away")
            self.record.anomaly(f"I51 ledger {ledger}: the intact copy of {bookie} was moved")

    def _now_ms(self) -> int:
        return EPOCH_MS + int(self.run.loop.now * 1000)

    def _writer(self, ledger: int) -> str:
        if ledger not in self._writers:
            for event in self.record.history.events:
                if isinstance(event, h.Created):
                    self._writers[event.ledger] = event.who
        return self._writers.get(ledger, "")

    def _look_at_racks(self, ledger: int, bookies: tuple[str, ...]) -> None:
        """Check that copies on all members of an ensemble are in both racks, if a bookie of each is known for long."""
        tree, now_ms = self.run.cluster.tree, self._now_ms()
        known = []
        for machine in self.run.cluster.bookies:
            stat = tree.exists(paths.available_bookie(f"{machine.name}:{BOOKIE_PORT}"))
            if stat is not None and stat.ctime_ms < now_ms - SETTLED_MS:
                known.append(machine.name)
        racks = {_rack(name) for name in known}
        if len({_rack(bookie) for bookie in bookies}) < len(racks):
            self.record.anomaly(f"I46 ledger {ledger}: {bookies} are in one rack")

    def _unmarked(self, ledger: int) -> None:
        """Check that a ledger is whole when its mark is removed."""
        self.run.cluster.count("marks removed")
        now = self.run.cluster.loop.now
        stat = self.run.cluster.tree.exists(paths.ledger(ledger))
        if stat is None or ledger in self.record.deleted or now - self._gone_at < RECENT_S:
            return
        metadata = decode(self.run.cluster.tree.get(paths.ledger(ledger))[0])
        lacking = self._lacking(ledger, metadata)
        if lacking:
            self.record.anomaly(f"I35 the mark was removed, but this lacks: {lacking[0]}")

    # -- the end

    async def quiet(self) -> None:
        await self.hosts.quiet()
        await self.hosts.audit(self._settle_all)
        whole = await self.run.reach(
            "repair every ledger",
            lambda: not self._missing() and not self._marks() and not self._requests(),
            self.whole_s,
            lambda: [
                *self._missing()[:5],
                f"marks {self._marks()[:5]}",
                f"requests {self._requests()}",
            ],
        )
        if whole and await self._damage_and_repair():
            await self.hosts.audit(self._audit)

    async def _damage_and_repair(self) -> bool:
        """Flip bits in the entry logs of one bookie, and lose another one where there are three copies; return whether
        all copies were made again in time."""
        run, rng = self.run, self.run.rng
        damaged, lost = rng.sample([m for m in run.cluster.bookies if not m.leaving], 2)
        self._damaged = damaged.name
        for _ in range(FLIPPED):
            _flip_a_bit(damaged, rng)
        # The end of an open ledger may be on a quorum alone: it does not outlive two losses.
        closed = all(m.state is LedgerState.CLOSED for m in self._versions.values())
        if closed and run.cluster.shape.quorum[1] > 2 and rng.random() < 0.5:
            run.cluster.kill(lost, power=True)
            lost.retired = True
            run.cluster.loop.call_soon(_swap_disk, lost)
            run.cluster.add_bookie()
        run.cluster.loop.excused[damaged.name] = None  # it reports what it finds
        began_ms = damaged.clock.wall_ms()
        before = damaged.bookie.serving.scrubber.last if damaged.bookie else None

        def restored() -> bool:
            scrubber = damaged.bookie.serving.scrubber if damaged.bookie else None
            last = scrubber.last if scrubber else None
            # An earlier pass may be younger by a clock that was set back since.
            done = last is not None and last is not before and last.began_ms > began_ms
            return done and not self._missing() and not self._marks()

        return await run.reach("restore what is damaged", restored, self.whole_s, self._missing)

    async def _settle_all(self, machine: Machine, client: LedgerClient) -> None:
        host = self._make(machine, client)
        for ledger in list(self.record.born):
            if ledger not in self.record.deleted:
                await self._settle(host, ledger)
