"""The console's figures: one collector per process follows every broker and the metadata store, and indexes their
reports.

Only the collector requests lists from brokers: REST windows and live pushes all read the index. It starts at the first
use, or with the history, and runs for the life of the process. Figures of a broker, bookie or metadata store that does
not answer stay as last known, and ``health`` names it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from engine.admin.api.rows import (
    TOPIC_ROWS,
    TOPICS_AT_REST,
    TOPICS_AT_REST_MAX,
    TopicRows,
    TopicsAtRest,
)
from engine.admin.client import BrokerAddress
from engine.base.errors import InvalidNameError, MagnetarError, NotReady, WorldError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from gateway.services.attention.board import Board
from gateway.services.attention.findings import Findings
from gateway.services.attention.following import Following
from gateway.services.attention.memory import Kept
from gateway.services.attention.part_items import Instance
from gateway.services.bookies import Bookies
from gateway.services.catalog import Changed, TopicCatalog
from gateway.services.engine_link import Engine, EngineLink, Work, link
from gateway.services.health.hops import HopError, HopState, Kind
from gateway.services.health.watch import Health
from gateway.services.index.figures import Values
from gateway.services.index.rows import RATES, Row
from gateway.services.index.selection import Chosen, TopicSelection
from gateway.services.index.topic_index import STEP, TopicIndex

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
FIRST_S = 1.8
"""Time that the first caller waits for figures."""
READ_S = 1.5
"""Time that a page waits before it is failed for a hop that does not answer."""
STORE_TIMEOUT_S = 1.0
"""Timeout of a round's reads of the metadata store, which mostly come from the cache."""
BROKER_TIMEOUT_S = 4.0
"""Timeout of a broker's answer; the broker waits up to 1.5 s for a change to report."""
PAUSE_S = 0.1
"""Least time between the starts of two requests to a broker."""
RETRY_S = 0.5
"""Time between a failure and the next request."""
ATTEND_SHARE = 20
"""Share of the time, one in so many parts, for finding what needs attention between rounds."""
JUDGE_S = 0.25
"""Time between checks of a silent broker. A timer that fires this much late shows that this process was too busy to
judge others."""
LATE_MS = 2_000
"""Age from which figures do not count as current."""
SILENT_MS = 1_500
"""Silence after which a broker, which reports every second, counts as slow."""
DOWN_MS = 5_000
"""Silence after which a broker counts as down."""
READ_TIMEOUT_S = 15.0
GONE_MS = 2_000
"""Time after which an unregistered broker that does not answer is gone; it may have lost its session for a moment."""
REGISTERS_MS = 10_000
"""Time that an unregistered broker which answers has to register again."""
GONE_KEPT_MS = 3_600_000
"""Time that a gone broker stays in the overview, while it had topics that no broker has loaded since."""
UNUSED_ROUNDS = 60
"""Rounds after which a selection that was not requested is dropped."""
UNREGISTERED = "is not registered any more: it ended, or lost its session"
FAILURES = (MagnetarError, TimeoutError, OSError)

T = TypeVar("T")


def now_ms() -> int:
    """Wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A view of what is known, which changes with it; ``taken``: time of the last round, ms. Consistent only on the
    link's loop and without an await in between."""

    taken: int
    lines: Callable[[], list[dict[str, Any]]]
    """See ``brokers``."""
    room: Bookies
    topics: TopicIndex
    known_until: Callable[[], int | None]
    """The collector's method that returns the time up to which everything is known, ms."""
    attention: Board

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """Brokers' lines of the overview, by id."""
        return self.lines()

    @property
    def bookies(self) -> list[dict[str, Any]]:
        """Bookies' lines of the overview, by id."""
        return self.room.rows

    @property
    def at(self) -> int:
        """Time when the newest figures were counted, by the brokers' clocks, ms; without any, that of the last
        round."""
        return self.topics.at or self.taken

    def select(self, chosen: Chosen) -> TopicSelection:
        """Return the chosen topics, in order."""
        return self.topics.select(chosen, self.attention.topics_of(chosen.attention))

    def rows(self, chosen: Chosen, start: int, stop: int) -> tuple[int, list[Row]]:
        """Return the number of chosen topics, and their rows from ``start`` to ``stop``."""
        selection = self.select(chosen)
        return len(selection), list(self.rows_of(selection.names(start, stop)))

    def rows_of(self, names: Iterable[str]) -> Iterator[Row]:
        """Yield the rows of those topics that still exist."""
        for name in names:
            if name in self.topics:
                yield self.topics.row(name, self.taken)


class Followed:
    """A broker whose reports are requested."""

    def __init__(self, address: BrokerAddress) -> None:
        self.address = address
        self.request = TopicRows()
        """The next request."""
        self.since = now_ms()
        """Time from which it is followed, ms."""
        self.last_seen = 0
        """Time of its last report with a new count, ms; 0: none yet."""
        self.counted = 0
        """Time of that count, by its clock, ms."""
        self.has_reported_all = False
        """True once it has reported everything that it has loaded."""
        self.failures = 0
        """Requests that failed since the last answer."""
        self.error = ""
        self.missing_since = 0
        """Time when it was first missing from the registered brokers, ms; 0: it is registered."""
        self.work: asyncio.Task[None] | None = None
        self.alarm: asyncio.TimerHandle | None = None
        """Timer that has it judged when it reports nothing."""

    def end(self) -> None:
        """Stop requesting the broker's reports, and cancel its timer."""
        if self.work is not None:
            self.work.cancel()
        if self.alarm is not None:
            self.alarm.cancel()


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
        self.recall_causes: Callable[[], Awaitable[list[Kept]]] | None = None
        """Called then, too, for the problems that an earlier process knew and when they began."""
        self._registered: list[BrokerAddress] = []
        self._followed: dict[str, Followed] = {}
        self._gone: dict[str, _Gone] = {}
        self._last_seen = 0
        """Time of the last report of any broker, ms; 0: none yet."""
        self._tasks = TaskScope("collector")
        self.findings = Findings()
        """Subscriptions that fall behind."""
        self.attention = Board(self.findings)
        self._topics.on_clients = self.attention.clients_changed
        self._lags = Following(self._tasks, self.findings, self._on_findings, self._on_quorum_needs)
        self._findings_after = 0.0
        self._bookies: Bookies | None = None
        self._catalog: TopicCatalog | None = None
        self._cataloguing: asyncio.Task[Changed | Exception] | None = None
        self._complete = False
        """True once the topics of all namespaces were read."""
        self._reading: asyncio.Task[None] | None = None
        self._turn = 0
        self._rounds = 0
        self._failed_rounds = 0
        """Rounds that failed since the last success."""
        self._succeeded_ms = 0
        """Time when the last successful round began."""
        self._watchers: set[Callable[[], None]] = set()
        self._notified: object = None
        """The version that watchers were notified of."""

    @property
    def latest(self) -> Snapshot | None:
        """The last snapshot, for any thread; None before the first."""
        return self._snapshot

    @property
    def version(self) -> object:
        """A value that changes whenever a snapshot's content does, times left out; for any thread."""
        if self._snapshot is None or self._bookies is None:
            return None
        return (
            self._topics.version,
            self.findings.version,
            self.attention.version,
            self.attention.looked,
            self.health.hops.version,
            self._bookies.version,
            self._registered,
            [gone.line for gone in self._gone.values()],
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
        reported = all(self._lags.is_whole(broker.id) for broker in self._registered)
        whole = reported and self._topics.complete and not self._topics.totals["unknown"]
        bookies = self._bookies.rows if self._bookies is not None else []
        instance = Instance(self.health.hops.bad, (), bookies)
        self.attention.round(self._topics, at, whole=whole, instance=instance)

    def _on_quorum_needs(self, broker_id: str, answer: dict[str, Any]) -> None:
        """Apply a broker's report of how many bookies its topics' ledgers need."""
        needs = self.attention.needs
        needs.report(broker_id, answer)
        needs.forget(broker.id for broker in self._registered)
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
        store_ms = self.health.store.heard_ms
        failing = self._failed_rounds > 1  # a single round may fail for slowness alone
        times = [min(store_ms, self._succeeded_ms) if failing else store_ms]
        times += [
            self._followed[broker.id].last_seen or self._known_before(broker)
            for broker in self._registered
        ]
        if not self._registered:
            times.append(self._last_seen)
        return min(times) or None

    def _known_before(self, broker: BrokerAddress) -> int:
        """Return the time in ms up to which everything was known before this broker registered, which has not reported
        yet; 0: none."""
        since = self._followed[broker.id].since
        return min(since, self._last_seen) if self._topics.complete else 0

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
        self.health.asker.look()
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
                timer = loop.call_later(RETRY_S, check)

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
        self.health.asker.look()
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
            for followed in self._followed.values():
                followed.end()
            await self._tasks.close()
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
        if failed is not None and not self._complete:
            raise failed
        at = now_ms()
        if not self._topics.complete and all(
            followed.has_reported_all for followed in self._followed.values()
        ):
            await in_turns(self._topics.become_complete())
        await self._forget_gone(at, {broker.id for broker in self._registered})
        self._read_resting(engine, at)
        self._update_attention(at)
        self._rounds += 1
        if self._rounds % UNUSED_ROUNDS == 0:
            self._topics.drop_unused()
        assert self._bookies is not None
        self._snapshot = Snapshot(
            at, self._lines, self._bookies, self._topics, self.known_until, self.attention
        )
        self._notify()
        if failed is not None:
            raise failed

    async def _read_metadata(self, engine: Engine) -> Exception | None:
        """Read brokers, bookies and topics; return the error of the first that failed."""
        if self._bookies is None:
            self._bookies = Bookies(self.health.asker, now_ms)
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                registered = await engine.admin.brokers()
                self._follow_all(engine, registered)
                self._registered = registered
                await self._bookies.refresh(engine.store)
            await self._wait_for_brokers()
            await self._read_catalog(engine)
        except Exception as error:
            # Brokers are judged in any case; the round raises the error at its end.
            return error
        return None

    async def _read_catalog(self, engine: Engine) -> None:
        """Read the topics that changed in the store. Raises TimeoutError when that takes longer than
        ``STORE_TIMEOUT_S``, as the first reading may: it then continues, and the next round waits for it."""
        if self._catalog is None:
            self._catalog = TopicCatalog(engine.store)
        if self._cataloguing is None:
            if self._complete and self._catalog.is_current:
                return
            self._cataloguing = self._tasks.spawn("catalog", _caught(self._catalog.refresh()))
        done, _ = await asyncio.wait([self._cataloguing], timeout=STORE_TIMEOUT_S)
        if not done:
            raise TimeoutError
        topics = self._cataloguing.result()
        self._cataloguing = None  # before the raise: after a failure too the next round reads again
        if isinstance(topics, Exception):
            raise topics
        self._topics.catalog({}, topics.gone)
        for known in _batches(topics.known.items()):
            self._topics.catalog(dict(known), ())
            await asyncio.sleep(0)
        self._complete = True

    # Brokers

    def _follow_all(self, engine: Engine, registered: list[BrokerAddress]) -> None:
        for broker in registered:
            followed = self._followed.get(broker.id)
            if followed is None:
                followed = self._followed[broker.id] = Followed(broker)
                followed.work = self._tasks.spawn(broker.id, self._follow(engine, followed))
                self._set_alarm(followed, SILENT_MS / 1000)
                self._gone.pop(broker.id, None)
                self.health.hops.expect(Kind.BROKER, broker.id)
            followed.address = broker
            self._lags.follow(engine, broker)

    async def _wait_for_brokers(self) -> None:
        """Wait for the first report or failure of every broker, at most ``STORE_TIMEOUT_S``, before the first round
        ends: its snapshot then has figures."""
        until = now_ms() + int(STORE_TIMEOUT_S * 1000)
        while any(not (broker.last_seen or broker.failures) for broker in self._followed.values()):
            if self._complete or now_ms() > until:
                return
            await asyncio.sleep(0.01)

    async def _follow(self, engine: Engine, followed: Followed) -> None:
        """Request the broker's rows repeatedly. Each answer is applied at once, independently of other brokers."""
        broker_id = followed.address.id
        while True:
            pause_s, began = RETRY_S, time.monotonic()
            try:
                async with asyncio.timeout(BROKER_TIMEOUT_S):
                    answer = await engine.call_on(followed.address, TOPIC_ROWS, followed.request)
                await self._receive(followed, answer)
                if answer["more"]:
                    continue
                pause_s = PAUSE_S - (time.monotonic() - began)
            except FAILURES as error:
                if time.monotonic() - began > BROKER_TIMEOUT_S + JUDGE_S:
                    # This process was too busy: the answer may have arrived in time and not been read.
                    continue
                if not followed.failures:
                    log.info("broker does not report topics broker=%s error=%r", broker_id, error)
                    pause_s = PAUSE_S  # one lost answer is no outage: the second failure counts
                followed.error = f"does not answer: {error.__cause__ or error}"
                followed.failures += 1
            # An answer in an unknown form must not end the loop.
            except Exception:
                if not followed.failures:
                    log.exception("broker reports topics in an unknown form broker=%s", broker_id)
                # The failed answer may be applied in part: the next request is for everything.
                followed.request = TopicRows()
                followed.error = "answers in another form: is it of another version?"
                followed.failures += 1
            self._judge(followed, now_ms())
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    async def _receive(self, followed: Followed, answer: dict[str, Any]) -> None:
        for piece in _pieces(answer):
            self._topics.hear(followed.address.id, piece)
            self._notify()
            if piece["more"]:
                await asyncio.sleep(0)
        # Only now: an answer that failed or was cancelled midway is requested again.
        followed.request = TopicRows.after(answer)
        followed.failures = 0
        counted = int(answer["at"])
        followed.has_reported_all = followed.has_reported_all or not answer["more"]
        # An answer with the old count brings no figures that are newer than the last ones.
        if counted != followed.counted or answer["more"]:
            followed.counted = counted
            followed.last_seen = self._last_seen = now_ms()
            self._set_alarm(followed, SILENT_MS / 1000)

    def _set_alarm(self, followed: Followed, after_s: float) -> None:
        """Have the broker judged after ``after_s``, and then every ``JUDGE_S``, until the next call: a broker that
        reports nothing is noticed without an answer."""
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s

        def alarm() -> None:
            # First, so that a failure below does not end the timer.
            self._set_alarm(followed, JUDGE_S)
            # A late timer means that this process was too busy: an answer may have arrived and not been read.
            if loop.time() - due < JUDGE_S:
                self._judge(followed, now_ms())

        if followed.alarm is not None:
            followed.alarm.cancel()
        followed.alarm = loop.call_at(due, alarm)

    def _judge(self, followed: Followed, at: int) -> None:
        broker_id, hops = followed.address.id, self.health.hops
        silent_ms = at - (followed.last_seen or followed.since)
        if followed.missing_since and followed.failures:
            hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        elif followed.failures > 1:
            hops.failed(Kind.BROKER, broker_id, followed.error, slow=False)
        elif silent_ms >= SILENT_MS:
            why = f"has not reported for {silent_ms // 1000} s"
            hops.failed(Kind.BROKER, broker_id, why, slow=silent_ms < DOWN_MS)
        elif followed.missing_since:
            hops.failed(Kind.BROKER, broker_id, "answers, and is not registered", slow=True)
        elif followed.last_seen and not followed.failures:
            hops.answered(Kind.BROKER, broker_id)
        state = hops.expect(Kind.BROKER, broker_id).state
        silent = state is not HopState.OK
        source = self._topics.sources.get(broker_id)
        if source is not None and source.silent != silent:
            self._tasks.spawn("silence", in_turns(self._topics.silence(broker_id, silent)))

    async def _forget_gone(self, at: int, registered: set[str]) -> None:
        """Stop following brokers that are not registered any more. The overview keeps one while no other broker has
        loaded all of its topics."""
        for broker_id, followed in list(self._followed.items()):
            if broker_id in registered:
                followed.missing_since = 0
            elif not followed.missing_since:
                followed.missing_since = at
            elif at - followed.missing_since > (GONE_MS if followed.failures else REGISTERS_MS):
                followed.end()
                self._lags.forget(broker_id)
                line = self._line(followed.address)
                del self._followed[broker_id]
                source = self._topics.sources.get(broker_id)
                topics = set(source.parts) if source is not None else set()
                await in_turns(self._topics.forget(broker_id))
                hop = self.health.hops.expect(Kind.BROKER, broker_id)
                self.health.hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
                line |= {
                    "state": "down",
                    "since": hop.since,
                    "known": "last",
                    **dict.fromkeys(RATES),
                }
                self._gone[broker_id] = _Gone(line, topics, at)
        for broker_id, gone in list(self._gone.items()):
            gone.topics = {name for name in gone.topics if self._topics.has_nobody(name)}
            gone.line = {**gone.line, "topics": len(gone.topics)}
            if not gone.topics or at - gone.at > GONE_KEPT_MS:
                del self._gone[broker_id]
                self.health.hops.forget(Kind.BROKER, broker_id)

    def _lines(self) -> list[dict[str, Any]]:
        lines = [*map(self._line, self._registered), *(gone.line for gone in self._gone.values())]
        return sorted(lines, key=lambda line: str(line["id"]))

    def _line(self, broker: BrokerAddress) -> dict[str, Any]:
        """Return the broker's line of the overview."""
        source = self._topics.sources.get(broker.id)
        hop = self.health.hops.expect(Kind.BROKER, broker.id)
        states = {HopState.SLOW: "slow", HopState.DOWN: "down"}
        return {
            "id": broker.id,
            "url": broker.service_url,
            "state": states.get(hop.state, "up"),
            "since": hop.since,
            "started": broker.started_ms or None,
            "known": "no" if source is None else "last" if source.silent else "live",
            "at": source.at if source else 0,
            "topics": len(source.parts) if source else None,
            "msg_rate_in": source.rate_in / 1000 if source else None,
            "msg_rate_out": source.rate_out / 1000 if source else None,
            "bytes_rate_in": source.bytes_in / 1000 if source else None,
            "bytes_rate_out": source.bytes_out / 1000 if source else None,
        }

    # Topics that no broker has loaded

    def _read_resting(self, engine: Engine, at: int) -> None:
        """Have the next broker in turn read some of them from the store, unless the last reading is under way."""
        up = [
            followed.address
            for followed in self._followed.values()
            if self.health.hops.expect(Kind.BROKER, followed.address.id).state is HopState.OK
        ]
        if not up or (self._reading is not None and not self._reading.done()):
            return
        names = self._topics.due(at, TOPICS_AT_REST_MAX)
        if names:
            self._turn += 1
            broker = up[self._turn % len(up)]
            self._reading = self._tasks.spawn("at rest", self._read(engine, broker, names))

    async def _read(self, engine: Engine, broker: BrokerAddress, names: list[str]) -> None:
        answer: dict[str, Any] | None = None
        try:
            request = TopicsAtRest(list(_parsed(names)))
            async with asyncio.timeout(READ_TIMEOUT_S):
                answer = await engine.call_on(broker, TOPICS_AT_REST, request)
            self._topics.rested(answer)
        except FAILURES as error:
            log.debug("topics at rest not read broker=%s error=%r", broker.id, error)
        finally:
            if answer is None:
                self._topics.postpone(names, now_ms())


@dataclass(slots=True)
class _Gone:
    """A broker that is not registered any more, with its line of the overview. ``topics``: those that it had loaded
    and no broker has loaded since."""

    line: dict[str, Any]
    topics: set[str]
    at: int


async def in_turns(steps: Iterator[None]) -> None:
    """Run all steps; other tasks run between them."""
    for _ in steps:
        await asyncio.sleep(0)


def _pieces(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split an answer to ``TOPIC_ROWS`` into answers of at most ``STEP`` rows each."""
    rows, gone = answer["rows"], answer["gone"]
    whole = answer["whole"]
    while len(rows) + len(gone) > STEP:
        rows_now, rows = rows[:STEP], rows[STEP:]
        room = STEP - len(rows_now)
        gone_now, gone = gone[:room], gone[room:]
        yield {**answer, "whole": whole, "rows": rows_now, "gone": gone_now, "more": True}
        whole = False
    yield {**answer, "whole": whole, "rows": rows, "gone": gone}


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while batch := list(islice(remaining, STEP)):
        yield batch


async def _caught(work: Awaitable[T]) -> T | Exception:
    """Return the result of ``work``, or the exception that it raises: its task must not fail while no round waits for
    it."""
    try:
        return await work
    except Exception as error:
        return error


def _parsed(names: list[str]) -> Iterator[TopicName]:
    """Yield the valid topic names; a stored name that is not valid can be loaded by no broker."""
    for name in names:
        try:
            yield TopicName.parse(name)
        except InvalidNameError as error:
            log.debug("stored name is not a topic's: %s", error)


_lock = threading.Lock()
_current: tuple[EngineLink, Collector] | None = None


def collector() -> Collector:
    """Return the collector on this process's link, created at first use."""
    global _current
    with _lock:
        present = link()
        # Another link means that tests installed one, or that this is a forked child.
        if _current is None or _current[0] is not present:
            _current = (present, Collector(present))
        return _current[1]
