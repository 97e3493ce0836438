"""Polling of the statistics of one broker of an Apache Pulsar cluster, and the feeds that are made of them.

One request returns the figures of all topics of the broker, so that the number of requests does not depend on the
number of topics.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from engine.admin.api.rows import RowsSince
from engine.base.errors import MagnetarError, NotReady
from engine.base.tasks import TaskScope
from gateway.apache.ages import BacklogAges
from gateway.apache.rest import ApacheRest
from gateway.apache.rows import BrokerRows, Seen, rows_of
from gateway.apache_settings import POLL_S
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)

STATS = "/admin/v2/broker-stats/topics"
WAIT_S = 1.5
"""Time that a request for changes waits, as at our brokers."""
RETRY_S = 2.0
UNUSED_S = 30.0
"""Time without requests after which polling ends."""
GONE_MAX = 50_000
"""Names of topics without rows that a feed remembers; beyond them everything is reported anew."""


class PolledRows:
    """The rows of a broker by topic, each with the revision of its last change."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: Mapping[str, list[Any]] = {}
        self._changed: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._whole_from = 0
        """Requests after an earlier revision are answered with all rows."""

    def replace(self, rows: Mapping[str, list[Any]]) -> None:
        """Have these rows, and no others, from now on."""
        self.revision += 1
        for name in self._rows.keys() - rows.keys():
            del self._changed[name]
            self._gone[name] = self.revision
        for name, row in rows.items():
            if self._rows.get(name) != row:
                self._changed[name] = self.revision
                self._gone.pop(name, None)
        self._rows = rows
        if len(self._gone) > GONE_MAX:
            self._gone.clear()
            self._whole_from = self.revision

    def since(self, revision: int) -> tuple[bool, list[list[Any]], list[str]]:
        """Return whether the rows are all there are, the rows that changed after a revision, and the names that have
        none any more."""
        if not 0 < revision <= self.revision or revision < self._whole_from:
            return True, list(self._rows.values()), []
        rows = [self._rows[name] for name, changed in self._changed.items() if changed > revision]
        return False, rows, [name for name, changed in self._gone.items() if changed > revision]


class BrokerReports:
    """The figures of one broker, for one event loop; polled while they are requested.

    ``counted_s`` returns the longest time between two counts of the broker.
    """

    def __init__(
        self, rest: ApacheRest, url: str, counted_s: Callable[[], float], tasks: TaskScope
    ) -> None:
        self.topics, self.subscriptions, self.links = PolledRows(), PolledRows(), PolledRows()
        self._rest = rest
        self._url = url
        self._counted_s = counted_s
        self._tasks = tasks
        self._work: asyncio.Task[None] | None = None
        self._used_at = 0.0
        self._error: MagnetarError | None = None
        self._asked = 0
        """Time of the last answer, ms; 0 before the first."""
        self._counted = 0
        """The broker had counted at this time at the latest, ms."""
        self._digest = b""
        self._seen: dict[tuple[str, str], Seen] = {}
        self._rows = BrokerRows({}, {}, {}, {})
        self._ages = BacklogAges(rest, url)
        self._incarnation = str(now_ms())
        self._news = asyncio.Event()

    async def answer(self, feed: PolledRows, request: RowsSince) -> dict[str, Any]:
        """Return a feed's answer, at the latest after WAIT_S. Raises the error of the last poll. Cancel-safe."""
        self._used_at = time.monotonic()
        if self._work is None or self._work.done():
            self._work = self._tasks.spawn(f"poll {self._url}", self._poll_repeatedly())
        revision = request.revision if request.incarnation == self._incarnation else 0
        if self._error is None and (not self._asked or revision == feed.revision):
            try:
                async with asyncio.timeout(WAIT_S):
                    await self._news.wait()
            except TimeoutError:
                pass
        if self._error is not None:
            raise NotReady(str(self._error))
        if not self._asked:
            raise NotReady(f"{self._url} has not answered yet")
        whole, rows, gone = feed.since(revision)
        return {
            "at": self._counted,
            "asked": self._asked,
            "incarnation": self._incarnation,
            "revision": feed.revision,
            "begun": 0,
            "whole": whole,
            "more": False,
            "rows": rows,
            "gone": gone,
        }

    async def _poll_repeatedly(self) -> None:
        ages = self._tasks.spawn(f"ages {self._url}", self._ages.read_repeatedly())
        try:
            await self._poll_while_used()
        finally:
            ages.cancel()

    async def _poll_while_used(self) -> None:
        while time.monotonic() - self._used_at < UNUSED_S:
            pause_s = POLL_S
            try:
                await self._poll()
                self._error = None
            except (MagnetarError, OSError, TimeoutError) as error:
                self._error = error if isinstance(error, MagnetarError) else NotReady(str(error))
                pause_s = RETRY_S
            # An answer in an unknown form must not end the loop.
            except Exception as error:
                log.exception("broker answers in an unknown form broker=%s", self._url)
                self._error = NotReady(f"{self._url} answers in an unknown form: {error!r}")
            news, self._news = self._news, asyncio.Event()
            news.set()
            await asyncio.sleep(pause_s)

    async def _poll(self) -> None:
        before = self._asked
        content = await self._rest.call("GET", STATS, at=self._url)
        at = now_ms()
        digest = blake2b(content).digest()
        counted_ms = int(self._counted_s() * 1000)
        if digest == self._digest:
            # Nothing changed, or the broker has not counted again.
            self._counted = max(self._counted, at - counted_ms)
        else:
            self._counted = max(before, at - counted_ms)
            self._rows = rows = rows_of(json.loads(content), at, self._seen)
            self._seen, self._digest = rows.seen, digest
            self.links.replace(rows.links)
            self._ages.follow(rows.topics)
        topics, subscriptions = self._ages.added(self._rows.topics, self._rows.subscriptions)
        self.topics.replace(topics)
        self.subscriptions.replace(subscriptions)
        self._asked = at
