"""The console's numbers: one per process that follows every broker and the metadata, and indexes what they tell.

Nobody else asks brokers for lists: REST windows and live pushes all read the index. It starts at the first use, or with
history, and then runs for the life of the process. What a broker, a bookie or the metadata
store does not tell stays as it was last known, and ``health`` says which of them does not answer.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from engine.admin import api
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
from gateway.services.catalog import Catalog, Changed
from gateway.services.engine_link import Engine, EngineLink, Work, link
from gateway.services.health.hops import HopError, HopState, Kind
from gateway.services.health.watch import Health
from gateway.services.index.figures import Values
from gateway.services.index.rows import RATES, Row
from gateway.services.index.selection import Chosen, Selection
from gateway.services.index.topic_index import STEP, TopicIndex

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
FIRST_S = 1.8
"""How long who asks first waits for numbers."""
READ_S = 1.5
"""How long a page waits for something before the hop that does not answer is blamed."""
STORE_TIMEOUT_S = 1.0
"""For what a round reads of the metadata; it mostly comes from memory."""
BROKER_TIMEOUT_S = 4.0
"""For an answer of a broker, which waits up to 1.5 s for something to tell."""
PAUSE_S = 0.1
"""From question to question: a broker that always has something new is asked so often at most."""
RETRY_S = 0.5
"""Between a failure and the next question."""
ATTEND_SHARE = 20
"""Of the time at most one in so many parts goes into looking what needs attention, beside once a round."""
JUDGE_S = 0.25
LATE_MS = 2_000
"""Numbers that are older than this are not those of now."""
SILENT_MS = 1_500
"""A broker, which tells something every second, is late after this time."""
DOWN_MS = 5_000
"""And down after this one."""
READ_TIMEOUT_S = 15.0
GONE_MS = 2_000
"""A broker that is not registered any more may only have lost its session for a moment."""
REGISTERS_MS = 10_000
"""One that answers meanwhile is given so long to register again."""
GONE_KEPT_MS = 3_600_000
"""One that is gone is shown for so long, as long as there are topics that it had and nobody has now."""
UNUSED_ROUNDS = 60
"""An order of the list that nobody looked at for so many rounds is not kept any more."""
UNREGISTERED = "is not registered any more: it ended, or lost its session"
FAILURES = (MagnetarError, TimeoutError, OSError)

T = TypeVar("T")


def now_ms() -> int:
    """Wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at any moment; ``taken``: when the last round was. Read it only on the link's loop, without an
    await in between."""

    taken: int
    lines: Callable[[], list[dict[str, Any]]]
    """See ``brokers``."""
    room: Bookies
    topics: TopicIndex
    heard: Callable[[], int | None]
    """See ``Collector.heard``."""
    attention: Board

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """Lines of the overview, by id."""
        return self.lines()

    @property
    def bookies(self) -> list[dict[str, Any]]:
        """Lines of the overview, by id."""
        return self.room.rows

    @property
    def at(self) -> int:
        """When the newest numbers were counted, by the brokers' clocks, ms; without brokers the last round."""
        return self.topics.at or self.taken

    def select(self, chosen: Chosen) -> Selection:
        """The topics that are chosen, in order."""
        return self.topics.select(chosen, self.attention.topics_of(chosen.attention))

    def rows(self, chosen: Chosen, start: int, stop: int) -> tuple[int, list[Row]]:
        """How many topics are chosen, and the rows from ``start`` to ``stop`` of them."""
        selection = self.select(chosen)
        return len(selection), list(self.rows_of(selection.names(start, stop)))

    def rows_of(self, names: Iterable[str]) -> Iterator[Row]:
        """The rows of those topics that are still there."""
        for name in names:
            if name in self.topics:
                yield self.topics.row(name, self.taken)


class Followed:
    """A broker that is followed."""

    def __init__(self, address: BrokerAddress) -> None:
        self.address = address
        self.asked = api.TopicRows()
        self.since = now_ms()
        """Since when it is followed, ms."""
        self.heard = 0
        """When it last told numbers that it had counted since it was last heard, ms; 0: never."""
        self.counted = 0
        """The time of that count, by its clock."""
        self.told_all = False
        """Whether it told all that it has loaded, once."""
        self.failures = 0
        """Questions that failed since the last answer."""
        self.error = ""
        self.missing_since = 0
        """When it was first found not to be registered, ms; 0: it is."""
        self.work: asyncio.Task[None] | None = None
        self.alarm: asyncio.TimerHandle | None = None
        """When it is looked at although it told nothing."""

    def end(self) -> None:
        """Follow it no more."""
        for each in (self.work, self.alarm):
            if each is not None:
                each.cancel()


class Collector:
    """Owns the numbers. All methods but ``latest``, ``start`` and ``version`` run on the link's loop."""

    def __init__(self, link: EngineLink) -> None:
        self.health = Health(link, now_ms, self._tell)
        self._link = link
        self._started = False
        self._snapshot: Snapshot | None = None
        self._error: Exception | None = None
        self._ready = asyncio.Event()
        self._topics = TopicIndex()
        self._topics.begin()
        self.recall: Callable[[], Awaitable[dict[str, tuple[int, Values]]]] | None = None
        """Asked once, before anything is heard, for figures of topics from an earlier life, with their times."""
        self.recall_causes: Callable[[], Awaitable[list[Kept]]] | None = None
        """Asked then, too, for when problems began."""
        self._registered: list[BrokerAddress] = []
        self._followed: dict[str, Followed] = {}
        self._gone: dict[str, _Gone] = {}
        self._heard_last = 0
        """When any broker was last heard, ms; 0: never."""
        self._tasks = TaskScope("collector")
        self.findings = Findings()
        """What is behind, by subscription."""
        self.attention = Board(self.findings)
        self._topics.on_clients = self.attention.clients_changed
        self._lags = Following(self._tasks, self.findings, self._attend, self._needs)
        self._attend_after = 0.0
        self._bookies: Bookies | None = None
        self._catalog: Catalog | None = None
        self._cataloguing: asyncio.Task[Changed | Exception] | None = None
        self._complete = False
        """Whether the metadata named every topic once."""
        self._reading: asyncio.Task[None] | None = None
        self._turn = 0
        self._rounds = 0
        self._failed_rounds = 0
        """Since the last one that did not fail."""
        self._succeeded_ms = 0
        """When the last round began that did not."""
        self._watchers: set[Callable[[], None]] = set()
        self._told: object = None
        """The version that watchers know of."""

    @property
    def latest(self) -> Snapshot | None:
        """The last snapshot, from any thread; None before the first."""
        return self._snapshot

    @property
    def version(self) -> object:
        """Changes whenever a snapshot would show something else, times left out; from any thread."""
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
        """Have ``changed`` called on the link's loop whenever ``version`` may be another, until what is returned is
        called. From any thread."""
        self._watchers.add(changed)
        return lambda: self._watchers.discard(changed)

    def _tell(self) -> None:
        version = self.version
        if version != self._told:
            self._told = version
            for changed in tuple(self._watchers):
                changed()

    def _look_through(self, at: int) -> None:
        """For what needs attention."""
        told = all(self._lags.is_whole(broker.id) for broker in self._registered)
        whole = told and self._topics.complete and not self._topics.totals["unknown"]
        bookies = self._bookies.rows if self._bookies is not None else []
        instance = Instance(self.health.hops.bad, (), bookies)
        self.attention.round(self._topics, at, whole=whole, instance=instance)

    def _needs(self, broker_id: str, answer: dict[str, Any]) -> None:
        """A broker reports how many bookies its topics' ledgers need."""
        needs = self.attention.needs
        needs.report(broker_id, answer)
        needs.forget(broker.id for broker in self._registered)
        self.health.hops.session_ms = needs.session_ms

    def _attend(self) -> None:
        """Brokers find something else behind."""
        began = time.monotonic()
        if self._snapshot is not None and began >= self._attend_after:
            self._look_through(now_ms())
            self._attend_after = began + ATTEND_SHARE * (time.monotonic() - began)
        self._tell()

    def heard(self) -> int | None:
        """When every registered broker and the metadata store were last heard, ms: what is shown is as of then. Without
        a registered broker, when the last one was. None before all of them were. While rounds fail it stands still: the
        store may answer, but nothing new is shown."""
        store_ms = self.health.store.heard_ms
        failing = self._failed_rounds > 1  # one says little: it may have been slow
        times = [min(store_ms, self._succeeded_ms) if failing else store_ms]
        times += [
            self._followed[broker.id].heard or self._before(broker) for broker in self._registered
        ]
        if not self._registered:
            times.append(self._heard_last)
        return min(times) or None

    def _before(self, broker: BrokerAddress) -> int:
        """As of when all was known before this broker came, which was not heard yet; 0: never."""
        since = self._followed[broker.id].since
        return min(since, self._heard_last) if self._topics.complete else 0

    def start(self) -> None:
        """Begin, unless it did. From any thread."""
        if not self._started:
            self._started = True
            self._link.start(self._run)

    async def snapshot(self) -> Snapshot:
        """What is known; the first caller waits for the first round, at most ``FIRST_S``. Raises HopError for the hop
        for want of which nothing is known yet, and what the first round raised; AssertionError on another loop than
        the link's. Cancel-safe."""
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
        """``work`` of a page: when it takes longer than ``READ_S`` while a hop is down, or fails while one does not
        answer, HopError for that hop is raised. One that is only late is waited for; a broker's other than the topic's
        is not blamed. From any loop; cancelling it cancels the work."""
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
        """The hop that something of the topic is waiting for; without one of any. ``late``: also one that answered a
        moment ago."""
        owner = self._topics.owner(topic)
        for hop in self.health.hops.bad:
            if hop.state is HopState.SLOW and not late:
                continue
            of_topic = hop.kind is Kind.BROKER and owner in ("", hop.id)
            if of_topic or hop.kind in (Kind.STORE, Kind.BOOKIE):
                return HopError(hop)
        return None

    async def _recall(self) -> None:
        """Take over what an earlier life knew. Whatever fails of it, only that is lost."""
        if self.recall is not None:
            try:
                self._topics.recall(await self.recall())
            except Exception as error:
                log.warning("figures of before are not known error=%r", error)
        if self.recall_causes is not None:
            try:
                self.attention.recall(await self.recall_causes(), now_ms())
            except Exception as error:  # problems began when they are found then
                log.warning("when problems began is not known error=%r", error)

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
                    # The loop must outlive a bug in one round; the next one may succeed.
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
        """Look at everything once. What the metadata store does not tell is as before; raises what it raised, when
        nothing is known yet or else at the end."""
        began = now_ms()
        try:
            await self._look_at_everything(engine)
        except Exception:
            self._failed_rounds += 1
            raise
        self._succeeded_ms, self._failed_rounds = began, 0

    async def _look_at_everything(self, engine: Engine) -> None:
        failed = await self._read_metadata(engine)
        if failed is not None and not self._complete:
            raise failed
        at = now_ms()
        if not self._topics.complete and all(one.told_all for one in self._followed.values()):
            await in_turns(self._topics.become_complete())
        await self._let_go(at, {broker.id for broker in self._registered})
        self._read_resting(engine, at)
        self._look_through(at)
        self._rounds += 1
        if self._rounds % UNUSED_ROUNDS == 0:
            self._topics.drop_unused()
        assert self._bookies is not None
        self._snapshot = Snapshot(
            at, self._lines, self._bookies, self._topics, self.heard, self.attention
        )
        self._tell()
        if failed is not None:
            raise failed

    async def _read_metadata(self, engine: Engine) -> Exception | None:
        """Brokers, bookies, topics; the error by which that ended."""
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
        except (
            Exception
        ) as error:  # brokers are looked at whatever it is; the round raises it at its end
            return error
        return None

    async def _read_catalog(self, engine: Engine) -> None:
        """Not before the reading under way has ended; the first one, and changes, may take longer than a round."""
        if self._catalog is None:
            self._catalog = Catalog(engine.store)
        if self._cataloguing is None:
            if self._complete and self._catalog.is_current:
                return
            self._cataloguing = self._tasks.spawn("catalog", _caught(self._catalog.refresh()))
        done, _ = await asyncio.wait([self._cataloguing], timeout=STORE_TIMEOUT_S)
        if not done:
            raise TimeoutError
        topics = self._cataloguing.result()  # whatever it is, the next round asks anew
        self._cataloguing = None
        if isinstance(topics, Exception):
            raise topics
        self._topics.catalog({}, topics.gone)
        for known in _some_at_a_time(topics.known.items()):
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
                self._look_at(followed, SILENT_MS / 1000)
                self._gone.pop(broker.id, None)
                self.health.hops.expect(Kind.BROKER, broker.id)
            followed.address = broker
            self._lags.follow(engine, broker)

    async def _wait_for_brokers(self) -> None:
        """For what each tells first, or its failure, but not long."""
        until = now_ms() + int(STORE_TIMEOUT_S * 1000)
        while any(not (one.heard or one.failures) for one in self._followed.values()):
            if self._complete or now_ms() > until:
                return
            await asyncio.sleep(0.01)

    async def _follow(self, engine: Engine, followed: Followed) -> None:
        """Ask on and on. Each answer counts as soon as it is there, whatever other brokers do."""
        broker_id = followed.address.id
        while True:
            pause_s, began = RETRY_S, time.monotonic()
            try:
                async with asyncio.timeout(BROKER_TIMEOUT_S):
                    answer = await engine.call_on(followed.address, api.TOPIC_ROWS, followed.asked)
                await self._hear(followed, answer)
                if answer["more"]:
                    continue
                pause_s = PAUSE_S - (time.monotonic() - began)
            except FAILURES as error:
                if time.monotonic() - began > BROKER_TIMEOUT_S + JUDGE_S:
                    continue  # we were late ourselves, and its answer may have waited for us
                if not followed.failures:
                    log.info("broker does not tell its topics broker=%s error=%r", broker_id, error)
                    pause_s = PAUSE_S  # one lost answer says little
                followed.error = f"does not answer: {error.__cause__ or error}"
                followed.failures += 1
            except Exception:  # a form that nobody thought of; it must be followed on all the same
                if not followed.failures:
                    log.exception("broker tells its topics in another form broker=%s", broker_id)
                followed.asked = api.TopicRows()
                followed.error = "answers in another form: is it of another version?"
                followed.failures += 1
            self._judge(followed, now_ms())
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    async def _hear(self, followed: Followed, answer: dict[str, Any]) -> None:
        for part in _in_parts(answer):
            self._topics.hear(followed.address.id, part)
            self._tell()
            if part["more"]:
                await asyncio.sleep(0)
        followed.asked = api.TopicRows.after(answer)
        followed.failures = 0
        counted = int(answer["at"])
        followed.told_all = followed.told_all or not answer["more"]
        if counted != followed.counted or answer["more"]:
            followed.counted = counted
            followed.heard = self._heard_last = now_ms()
            self._look_at(followed, SILENT_MS / 1000)

    def _look_at(self, followed: Followed, after_s: float) -> None:
        """When it has told nothing for so long, and then again and again: silence is noticed without an answer."""
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s

        def alarm() -> None:
            self._look_at(followed, JUDGE_S)  # first: whatever comes of this look, there is a next
            if loop.time() - due < JUDGE_S:  # else we were late, and its answer may wait for us
                self._judge(followed, now_ms())

        if followed.alarm is not None:
            followed.alarm.cancel()
        followed.alarm = loop.call_at(due, alarm)

    def _judge(self, followed: Followed, at: int) -> None:
        broker_id, hops = followed.address.id, self.health.hops
        silent_ms = at - (followed.heard or followed.since)
        if followed.missing_since and followed.failures:
            hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        elif followed.failures > 1:
            hops.failed(Kind.BROKER, broker_id, followed.error, slow=False)
        elif silent_ms >= SILENT_MS:
            why = f"has not reported for {silent_ms // 1000} s"
            hops.failed(Kind.BROKER, broker_id, why, slow=silent_ms < DOWN_MS)
        elif followed.missing_since:
            hops.failed(Kind.BROKER, broker_id, "answers, and is not registered", slow=True)
        elif followed.heard and not followed.failures:
            hops.answered(Kind.BROKER, broker_id)
        state = hops.expect(Kind.BROKER, broker_id).state
        silent = state is not HopState.OK
        source = self._topics.sources.get(broker_id)
        if source is not None and source.silent != silent:
            self._tasks.spawn("silence", in_turns(self._topics.silence(broker_id, silent)))

    async def _let_go(self, at: int, registered: set[str]) -> None:
        """Of brokers that are not registered any more."""
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
                had = set(source.parts) if source is not None else set()
                await in_turns(self._topics.forget(broker_id))
                hop = self.health.hops.expect(Kind.BROKER, broker_id)
                self.health.hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
                line |= {
                    "state": "down",
                    "since": hop.since,
                    "known": "last",
                    **dict.fromkeys(RATES),
                }
                self._gone[broker_id] = _Gone(line, had, at)
        for broker_id, gone in list(self._gone.items()):
            gone.had = {name for name in gone.had if self._topics.has_nobody(name)}
            gone.line = {**gone.line, "topics": len(gone.had)}
            if not gone.had or at - gone.at > GONE_KEPT_MS:
                del self._gone[broker_id]
                self.health.hops.forget(Kind.BROKER, broker_id)

    def _lines(self) -> list[dict[str, Any]]:
        lines = [*map(self._line, self._registered), *(gone.line for gone in self._gone.values())]
        return sorted(lines, key=lambda line: str(line["id"]))

    def _line(self, broker: BrokerAddress) -> dict[str, Any]:
        """The broker's line of the overview."""
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

    # Topics that nobody has loaded

    def _read_resting(self, engine: Engine, at: int) -> None:
        """Have one broker, each in its turn, look at some of them; not before the one asked last has answered."""
        up = [
            one.address
            for one in self._followed.values()
            if self.health.hops.expect(Kind.BROKER, one.address.id).state is HopState.OK
        ]
        if not up or (self._reading is not None and not self._reading.done()):
            return
        names = self._topics.due(at, api.TOPICS_AT_REST_MAX)
        if names:
            self._turn += 1
            broker = up[self._turn % len(up)]
            self._reading = self._tasks.spawn("at rest", self._read(engine, broker, names))

    async def _read(self, engine: Engine, broker: BrokerAddress, names: list[str]) -> None:
        answer: dict[str, Any] | None = None
        try:
            asked = api.TopicsAtRest(list(_parsed(names)))
            async with asyncio.timeout(READ_TIMEOUT_S):
                answer = await engine.call_on(broker, api.TOPICS_AT_REST, asked)
            self._topics.rested(answer)
        except FAILURES as error:
            log.debug("topics at rest not read broker=%s error=%r", broker.id, error)
        finally:
            if answer is None:
                self._topics.postpone(names, now_ms())


@dataclass(slots=True)
class _Gone:
    """A broker that is not registered any more. ``had``: topics that it had loaded and nobody has now."""

    line: dict[str, Any]
    had: set[str]
    at: int


async def in_turns(steps: Iterator[None]) -> None:
    """Others have their turn between steps."""
    for _ in steps:
        await asyncio.sleep(0)


def _in_parts(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An answer to ``TOPIC_ROWS`` as several with few rows each."""
    rows, gone = answer["rows"], answer["gone"]
    whole = answer["whole"]
    while len(rows) + len(gone) > STEP:
        some = rows[:STEP]
        rows = rows[len(some) :]
        left = gone[: STEP - len(some)]
        gone = gone[len(left) :]
        yield {**answer, "whole": whole, "rows": some, "gone": left, "more": True}
        whole = False
    yield {**answer, "whole": whole, "rows": rows, "gone": gone}


def _some_at_a_time(items: Iterable[T]) -> Iterator[list[T]]:
    ahead = iter(items)
    while some := list(islice(ahead, STEP)):
        yield some


async def _caught(work: Awaitable[T]) -> T | Exception:
    """What ``work`` gives or raises. A task that keeps an exception for whoever asks next must not end by it."""
    try:
        return await work
    except Exception as error:
        return error


def _parsed(names: list[str]) -> Iterator[TopicName]:
    """Without those that are stored and are no topic's: nobody can load them."""
    for name in names:
        try:
            yield TopicName.parse(name)
        except InvalidNameError as error:
            log.debug("not a topic's name: %s", error)


_lock = threading.Lock()
_current: tuple[EngineLink, Collector] | None = None


def collector() -> Collector:
    """The collector on this process's link."""
    global _current
    with _lock:
        mine = link()
        if _current is None or _current[0] is not mine:
            _current = (mine, Collector(mine))
        return _current[1]
