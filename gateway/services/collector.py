"""The console's numbers: one per process that follows every broker and the metadata, and indexes what they tell.

Nobody else asks brokers for lists: REST windows and live pushes all read the index. It starts at the first use and then
runs for the life of the process, so that the history of totals has no holes.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.base.errors import InvalidNameError, MagnetarError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from gateway.services.bookies import Bookies
from gateway.services.catalog import Catalog
from gateway.services.engine_link import Engine, EngineLink, link
from gateway.services.rows import Row
from gateway.services.selection import Chosen
from gateway.services.topic_index import TopicIndex

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
BROKER_TIMEOUT_S = 4.0
"""For an answer of a broker, which waits up to 1.5 s for something to tell."""
PAUSE_S = 0.1
"""Between an answer and the next question: a broker that always has something new is asked so often at most."""
READ_TIMEOUT_S = 15.0
STALE_MS_MAX = 30_000
"""Rows of a broker that stopped answering are shown, with their age, for this long."""
GONE_MS = 2_000
"""And of one that is not registered any more: it may only have lost its session."""
HISTORY_POINTS = 900
"""Totals kept, one per second: 15 minutes."""
HISTORY_COLUMNS = (
    "at",
    "msg_rate_in",
    "msg_rate_out",
    "bytes_rate_in",
    "bytes_rate_out",
    "backlog",
)
UNUSED_ROUNDS = 60
"""An order of the list that nobody looked at for so many rounds is not kept any more."""


def now_ms() -> int:
    """Wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known now: ``brokers`` and ``bookies`` as of the last round, ``topics`` as they are at any moment. Read
    it only on the link's loop, without an await in between."""

    taken: int
    brokers: list[dict[str, Any]]
    bookies: list[dict[str, Any]]
    topics: TopicIndex

    @property
    def at(self) -> int:
        """When the newest numbers were counted, by the brokers' clocks, ms; without brokers the last round."""
        return self.topics.at or self.taken

    def rows(self, chosen: Chosen, start: int, stop: int) -> tuple[int, list[Row]]:
        """How many topics are chosen, and the rows from ``start`` to ``stop`` of them."""
        selection = self.topics.select(chosen)
        return len(selection), list(self.rows_of(selection.names(start, stop)))

    def rows_of(self, names: Iterable[str]) -> Iterator[Row]:
        """The rows of those topics that are still there."""
        for name in names:
            if name in self.topics:
                yield self.topics.row(name, self.taken)


class Followed:
    """A broker that is followed. ``heard`` is set once it told everything, or failed to."""

    def __init__(self, address: BrokerAddress) -> None:
        self.address = address
        self.asked = api.TopicRows()
        self.heard = asyncio.Event()
        self.up = False
        self.missing_since = 0
        """When it was first found not to be registered, ms; 0: it is."""
        self.work: asyncio.Task[None] | None = None


class Collector:
    """Owns the numbers. All methods but ``latest`` run on the link's loop."""

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self._started = False
        self._snapshot: Snapshot | None = None
        self._error: Exception | None = None
        self._ready = asyncio.Event()
        self._topics = TopicIndex()
        self._followed: dict[str, Followed] = {}
        self._tasks = TaskScope("collector")
        self._bookies = Bookies()
        self._catalog: Catalog | None = None
        self._reading: asyncio.Task[None] | None = None
        self._turn = 0
        self._rounds = 0
        self.history: deque[tuple[float | None, ...]] = deque(maxlen=HISTORY_POINTS)

    @property
    def latest(self) -> Snapshot | None:
        """The last snapshot, from any thread; None before the first."""
        return self._snapshot

    @property
    def version(self) -> object:
        """Changes whenever a snapshot would show something else, times left out; from any thread."""
        latest = self._snapshot
        return (self._topics.version, latest.brokers, latest.bookies) if latest else None

    async def snapshot(self) -> Snapshot:
        """What is known; the first caller waits for the first round. Raises what the first round raised, and
        StoreUnavailableError's kind again while the metadata store stays away. Cancel-safe."""
        if not self._started:
            self._started = True
            self._link.start(self._run)
        await self._ready.wait()
        stale = self._snapshot is None or now_ms() - self._snapshot.taken > STALE_MS_MAX
        if stale and self._error is not None:
            raise self._error
        assert self._snapshot is not None
        return self._snapshot

    async def _run(self) -> None:
        failing = False
        try:
            while True:
                started = time.monotonic()
                try:
                    await self._round(await self._link.engine())
                    self._error = None
                    failing = False
                except (MagnetarError, TimeoutError, OSError) as error:
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
            await self._tasks.close()

    async def _round(self, engine: Engine) -> None:
        registered = await engine.admin.brokers()
        self._follow_all(engine, registered)
        for followed in list(self._followed.values()):
            await followed.heard.wait()
        bookies = await self._bookies.rows(engine.store)
        if self._catalog is None:
            self._catalog = Catalog(engine.store)
        topics = await self._catalog.refresh()
        self._topics.catalog(topics.known, topics.gone)
        at = now_ms()
        self._let_go(at, {broker.id for broker in registered})
        self._read_resting(engine, at)
        brokers = [self._line(broker) for broker in registered]
        totals = self._topics.totals
        partial = bool(totals["unknown"])
        self.history.append(
            (
                at,
                *(
                    None if partial and column == "backlog" else totals[column]
                    for column in HISTORY_COLUMNS[1:]
                ),
            )
        )
        self._rounds += 1
        if self._rounds % UNUSED_ROUNDS == 0:
            self._topics.drop_unused()
        self._snapshot = Snapshot(at, brokers, bookies, self._topics)

    # Brokers

    def _follow_all(self, engine: Engine, registered: list[BrokerAddress]) -> None:
        for broker in registered:
            followed = self._followed.get(broker.id)
            if followed is None:
                followed = self._followed[broker.id] = Followed(broker)
                followed.work = self._tasks.spawn(broker.id, self._follow(engine, followed))
            followed.address = broker

    async def _follow(self, engine: Engine, followed: Followed) -> None:
        """Ask on and on. Each answer counts as soon as it is there, whatever other brokers do."""
        broker_id = followed.address.id
        while True:
            try:
                async with asyncio.timeout(BROKER_TIMEOUT_S):
                    answer = await engine.call_on(followed.address, api.TOPIC_ROWS, followed.asked)
                self._topics.hear(broker_id, answer)
                revision, begun = int(answer["revision"]), int(answer["begun"])
                followed.asked = api.TopicRows(str(answer["incarnation"]), revision, begun)
                followed.up = True
                if answer["more"]:
                    continue
                pause_s = PAUSE_S
            except (MagnetarError, TimeoutError, OSError) as error:
                if followed.up:
                    log.info("broker does not tell its topics broker=%s error=%r", broker_id, error)
                followed.up = False
                pause_s = INTERVAL_S
            except (KeyError, TypeError, ValueError):
                if followed.up or not followed.heard.is_set():
                    log.exception("broker tells its topics in another form broker=%s", broker_id)
                followed.up = False
                followed.asked = api.TopicRows()
                pause_s = INTERVAL_S
            followed.heard.set()
            await asyncio.sleep(pause_s)

    def _let_go(self, at: int, registered: set[str]) -> None:
        """Of what brokers told that do not tell any more."""
        for broker_id, followed in list(self._followed.items()):
            source = self._topics.sources.get(broker_id)
            if broker_id in registered:
                followed.missing_since = 0
                if not followed.up and source is not None and at - source.at > STALE_MS_MAX:
                    self._topics.lose(broker_id)
            elif not followed.missing_since:
                followed.missing_since = at
            elif at - followed.missing_since > GONE_MS:
                assert followed.work is not None
                followed.work.cancel()
                del self._followed[broker_id]
                self._topics.forget(broker_id)

    def _line(self, broker: BrokerAddress) -> dict[str, Any]:
        """The broker's line of the overview."""
        followed = self._followed[broker.id]
        source = self._topics.sources.get(broker.id)
        return {
            "id": broker.id,
            "url": broker.service_url,
            "state": "up" if followed.up else "unreachable",
            "topics": len(source.parts) if source else 0,
            "msg_rate_in": source.rate_in / 1000 if source else 0.0,
            "msg_rate_out": source.rate_out / 1000 if source else 0.0,
        }

    # Topics that nobody has loaded

    def _read_resting(self, engine: Engine, at: int) -> None:
        """Have one broker, each in its turn, look at some of them; not before the one asked last has answered."""
        up = [one.address for one in self._followed.values() if one.up]
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
        except (MagnetarError, TimeoutError, OSError) as error:
            log.debug("topics at rest not read broker=%s error=%r", broker.id, error)
        finally:
            if answer is None:
                self._topics.postpone(names, now_ms())


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
