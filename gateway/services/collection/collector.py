"""The console's figures: a cluster's one collector in a process follows every broker and the metadata store, and
indexes their reports.

Only the collector requests lists from brokers: REST windows and live pushes all read the index. It starts at the first
use, or with the history, and runs for the life of the process. Figures of a broker, bookie or metadata store that does
not answer stay as last known, and ``health`` names it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from engine.auth.viewer import ALL
from engine.base.errors import NotReady, WorldError
from engine.base.tasks import TaskScope
from gateway.services.attention.board import Board
from gateway.services.attention.findings import Findings
from gateway.services.attention.memory import RecordedProblem
from gateway.services.attention.overdue import late_findings
from gateway.services.attention.part_items import Instance
from gateway.services.bookies import Bookies
from gateway.services.clock import now_ms
from gateway.services.collection.followed_broker import Reports
from gateway.services.collection.followed_brokers import FollowedBrokers
from gateway.services.collection.resting import RestingReads
from gateway.services.collection.snapshot import Snapshot
from gateway.services.collection.stored_topics import StoredTopics
from gateway.services.engine_link import FAILURES, Engine, EngineLink, Work
from gateway.services.feeds.turns import in_turns
from gateway.services.geo.link_figures import LinkFigures, figures_of
from gateway.services.geo.link_index import LinkIndex
from gateway.services.health.hops import HopError, HopState, Kind
from gateway.services.health.repair_watch import RepairWatch
from gateway.services.health.watch import Health
from gateway.services.index.figures import Values
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import SubscriptionIndex

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
FIRST_S = 1.8
"""Time that the first caller waits for figures."""
READ_S = 1.5
"""Time that a page waits before it is failed for a hop that does not answer."""
RECHECK_S = 0.5
"""Time between checks of a page that waits longer."""
STORE_TIMEOUT_S = 1.0
"""Timeout of a round's reads of the metadata store, which mostly come from the cache."""
ATTEND_SHARE = 20
"""Share of the time, one in so many parts, for finding what needs attention between rounds."""
UNUSED_ROUNDS = 60
"""Rounds after which a selection that was not requested is dropped."""

T = TypeVar("T")


class Collector:
    """The owner of the figures. All methods but ``latest``, ``start`` and ``version`` run on the link's loop."""

    def __init__(self, link: EngineLink) -> None:
        self.health = Health(link, now_ms, self._notify)
        self._link = link
        self._started = False
        self._snapshot: Snapshot | None = None
        self._error: Exception | None = None
        self._ready = asyncio.Event()
        self._topics = TopicIndex()
        self._topics.begin()
        self.recall: Callable[[], Awaitable[dict[str, tuple[int, Values]]]] | None = None
        """Called once, before the first report, for figures of topics that an earlier process recorded, with their
        times."""
        self.recall_causes: Callable[[], Awaitable[list[RecordedProblem]]] | None = None
        """Called then, too, for the problems that an earlier process knew and when they began."""
        self._tasks = TaskScope("collector")
        self.findings = Findings()
        """Subscriptions that fall behind."""
        self.subscriptions = SubscriptionIndex()
        self._topics.placed = self.findings.followers = self.subscriptions
        self.links = LinkIndex(self._topics.is_unloaded, now_ms)
        """Replication to and from other clusters."""
        self.attention = Board(self.findings)
        self.repair = RepairWatch(now_ms, self._notify)
        """Ledgers with too few copies, and their repair."""
        self._topics.on_clients = self.attention.clients_changed
        reports = Reports(
            *(self._topics, self.findings, self.links),
            on_change=self._notify,
            on_findings=self._on_findings,
            on_needs=self._on_quorum_needs,
            pace=link.source.pace,
        )
        self._brokers = FollowedBrokers(reports, self.health.hops, self._tasks)
        self._stored = StoredTopics(self._topics, self._tasks)
        self._resting = RestingReads(self._topics, self.subscriptions, self._tasks)
        self._findings_after = 0.0
        self._bookies: Bookies | None = None
        self._rounds = 0
        self._failed_rounds = 0
        """Rounds that failed since the last success."""
        self._succeeded_ms = 0
        """Time when the last successful round began."""
        self._watchers: set[Callable[[], None]] = set()
        self._notified: object = None
        """The version that watchers were notified of."""

    @property
    def late_ms(self) -> int:
        """Age from which figures do not count as current, ms."""
        return self._link.source.pace.late_ms

    @property
    def latest(self) -> Snapshot | None:
        """The last snapshot, for any thread; None before the first."""
        return self._snapshot

    @property
    def topics(self) -> TopicIndex:
        """The index, whose contents change with the reports of brokers."""
        return self._topics

    @property
    def version(self) -> object:
        """A value that changes whenever a snapshot's content does, times left out; for any thread."""
        of_topics = self.version_of_topics
        if of_topics is None:
            return None
        return (
            of_topics,
            self.subscriptions.version,
            self.links.version,
            [(link.remote, causes) for link, causes in self.attention.broken_links],
            self.repair.version,
        )

    @property
    def version_of_topics(self) -> object:
        """A value that changes whenever the rows of topics do, times and trends left out; for any thread."""
        if self._snapshot is None or self._bookies is None:
            return None
        return (
            self._topics.version,
            self.findings.version,
            self.attention.version,
            self.attention.last_round,
            self.health.hops.version,
            self._bookies.version,
            self._brokers.version,
        )

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` on the link's loop whenever ``version`` may have changed, until the returned function is
        called. For any thread."""
        self._watchers.add(changed)
        return lambda: self._watchers.discard(changed)

    def _notify(self) -> None:
        version = self.version
        if version != self._notified:
            self._notified = version
            for changed in tuple(self._watchers):
                changed()

    def _update_attention(self, at: int) -> None:
        """Derive what needs attention from everything that is known."""
        reported = self._brokers.have_all_subscriptions and self._brokers.have_all_links
        whole = reported and self._topics.complete and not self._topics.sums.totals(ALL)["unknown"]
        bookies = self._bookies.rows if self._bookies is not None else []
        instance = Instance(self.health.hops.bad, (), bookies, repair=self.repair.last)
        self.attention.round(
            *(self._topics, at),
            whole=whole,
            instance=instance,
            links=self.link_figures(),
            late=late_findings(self.subscriptions, at),
        )

    @property
    def has_all_links(self) -> bool:
        """True while every registered broker answers and has reported all its replicated topics."""
        registered = {broker.id for broker in self._brokers.registered}
        return bool(registered) and registered <= self._brokers.with_links()

    def link_figures(self) -> list[LinkFigures]:
        """Return the figures of the links to and from all clusters, by their names."""
        return [self.link_to(remote) for remote in sorted(self.links.remotes())]

    def link_to(self, remote: str) -> LinkFigures:
        """Return the figures of the link to and from a cluster."""
        registered = [broker.id for broker in self._brokers.registered]
        answering = self._brokers.with_links()
        return figures_of(self.links, remote, answering=answering, registered=registered)

    def _on_quorum_needs(self, broker_id: str, answer: dict[str, Any]) -> None:
        """Apply a broker's report of how many bookies its topics' ledgers need."""
        needs = self.attention.needs
        needs.report(broker_id, answer)
        needs.forget(broker.id for broker in self._brokers.registered)
        self.health.hops.session_ms = needs.session_ms

    def _on_findings(self) -> None:
        """Update what needs attention after brokers reported changed findings, within ``ATTEND_SHARE``."""
        began = time.monotonic()
        if self._snapshot is not None and began >= self._findings_after:
            self._update_attention(now_ms())
            self._findings_after = began + ATTEND_SHARE * (time.monotonic() - began)
        self._notify()

    def known_until(self) -> int | None:
        """Return the time in ms up to which every registered broker and the metadata store have reported; the figures
        that are shown are of that time. None before all of them have.

        Without a registered broker it is the time of the last report of any. While rounds fail it does not advance: the
        store may answer, but no new figures are shown.
        """
        store_ms = self.health.known_ms
        failing = self._failed_rounds > 1  # a single round may fail for slowness alone
        times = [min(store_ms, self._succeeded_ms) if failing else store_ms]
        times += self._brokers.known_until()
        return min(times) or None

    @property
    def is_current(self) -> bool:
        """False while the metadata store or a registered broker is down: its figures are as last known, however recent
        its last report is."""
        stores = self.health.hops.of(Kind.STORE)
        if any(hop.is_metadata_store and hop.state is HopState.DOWN for hop in stores):
            return False
        return not self._brokers.any_is_down

    def start(self) -> None:
        """Start collecting, unless started before. For any thread."""
        if not self._started:
            self._started = True
            self._link.start(self._run)

    async def snapshot(self) -> Snapshot:
        """Return what is known; before the first round has ended, wait for it at most ``FIRST_S``.

        While nothing is known, raises HopError for the hop that does not answer, else what the first round raised.
        Raises AssertionError on another loop than the link's. Cancel-safe.
        """
        self._link.check_loop()
        self.start()
        self.health.checks.note_viewer()
        if self._snapshot is None:
            try:
                async with asyncio.timeout(FIRST_S):
                    await self._ready.wait()
            except TimeoutError:
                pass
        if self._snapshot is None:
            raise self.blame() or self._error or NotReady("No numbers yet; try again in a second")
        return self._snapshot

    async def read(self, work: Work[T], *, principal: str = "", topic: str = "") -> T:
        """Run ``work`` of a page on the link's loop and return its result.

        Raises HopError for a hop that is down when the work takes longer than ``READ_S``, and for one that is slow or
        down when the work fails; a hop that is only slow is waited for. A broker that is not the owner of ``topic``
        is not blamed. For any loop; cancelling it cancels the work.
        """
        self.start()
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def check() -> None:
            nonlocal timer
            if self.blame(topic, late=False) is not None:
                limit.reschedule(loop.time())
            else:
                timer = loop.call_later(RECHECK_S, check)

        timer = loop.call_later(READ_S, check)
        try:
            async with asyncio.timeout(None) as limit:
                return await self._link.arun(work, principal=principal)
        except (NotReady, WorldError, TimeoutError, OSError) as error:
            blamed = self.blame(topic)
            if blamed is None:
                raise
            raise blamed from error
        finally:
            timer.cancel()

    def blame(self, topic: str = "", *, late: bool = True) -> HopError | None:
        """Return the error for the hop that requests about the topic wait for, or without a topic requests about any;
        None when all answer. ``late``: also for a hop that is slow but not down."""
        owner = self._topics.owner(topic)
        for hop in self.health.hops.bad:
            if hop.state is HopState.SLOW and not late:
                continue
            of_topic = hop.kind is Kind.BROKER and owner in ("", hop.id)
            if of_topic or hop.kind in (Kind.STORE, Kind.BOOKIE):
                return HopError(hop)
        return None

    async def _recall(self) -> None:
        """Load what an earlier process recorded. A failure costs only the part that failed."""
        if self.recall is not None:
            try:
                self._topics.recall(await self.recall())
            except Exception as error:
                log.warning("recorded figures not loaded error=%r", error)
        if self.recall_causes is not None:
            try:
                self.attention.recall(await self.recall_causes(), now_ms())
            except Exception as error:  # problems then count from when they are found
                log.warning("recorded problems not loaded error=%r", error)

    async def _run(self) -> None:
        self.health.checks.note_viewer()
        await self._recall()
        failing = False
        try:
            while True:
                started = time.monotonic()
                try:
                    await self._round(await self._link.engine())
                    failing = False
                except FAILURES as error:
                    self._error = error
                    if not failing:  # one line per outage, not one per second
                        log.warning("no fresh numbers for the console error=%r", error)
                    failing = True
                except Exception:
                    # The loop must survive a bug in one round: the next one may succeed.
                    log.exception("a round of the collector failed")
                    self._error = RuntimeError("the collector failed; see the gateway's log")
                self._ready.set()
                await asyncio.sleep(max(0.05, INTERVAL_S - (time.monotonic() - started)))
        finally:
            self._brokers.end()
            await self._tasks.close()
            await self.repair.close()
            await self.health.close()
            if self._bookies is not None:
                self._bookies.close()

    async def _round(self, engine: Engine) -> None:
        """Read the metadata store and update everything derived, once.

        When the store fails, what was read before stays. Its error is raised at the end, or at once while not all
        topics are known.
        """
        began = now_ms()
        try:
            await self._read_everything(engine)
        except Exception:
            self._failed_rounds += 1
            raise
        self._succeeded_ms, self._failed_rounds = began, 0

    async def _read_everything(self, engine: Engine) -> None:
        failed = await self._read_metadata(engine)
        if failed is not None and not self._stored.complete:
            raise failed
        at = now_ms()
        if not self._topics.complete and self._brokers.have_all_topics:
            await in_turns(self._topics.become_complete())
        await self._brokers.forget_gone(at)
        self.repair.refresh(engine.store)
        self._resting.read_next(engine, self._brokers.answering(), at)
        self._update_attention(at)
        self._rounds += 1
        if self._rounds % UNUSED_ROUNDS == 0:
            self._topics.drop_unused()
            self.subscriptions.drop_unused()
        assert self._bookies is not None
        self._snapshot = Snapshot(
            *(at, self._brokers.lines, self._bookies, self._topics, self.subscriptions),
            *(self.known_until, self.attention),
        )
        self._notify()
        if failed is not None:
            raise failed

    async def _read_metadata(self, engine: Engine) -> Exception | None:
        """Read brokers, bookies and topics; return the error of the first that failed."""
        if self._bookies is None:
            self._bookies = Bookies(self.health.checks, now_ms)
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                self._brokers.follow(engine, await engine.admin.brokers())
                await self._bookies.refresh(engine.store)
                if engine.workers is not None:
                    await self.health.function_workers.refresh(engine.store)
            if not self._stored.complete:  # the first snapshot is to have figures
                await self._brokers.wait_for_reports(STORE_TIMEOUT_S)
            await self._stored.read(engine, STORE_TIMEOUT_S)
        except Exception as error:
            # Brokers are judged in any case; the round raises the error at its end.
            return error
        return None
