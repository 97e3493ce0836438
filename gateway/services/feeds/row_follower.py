"""Following of one feed of one broker: the long poll for rows that changed since the last answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import RowsSince
from engine.admin.client import BrokerAddress
from engine.rpc.operation import Operation
from gateway.services.engine_link import FAILURES, Engine
from gateway.services.feeds.row_list import RowChanges, RowList

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 4.0
"""Timeout of an answer; the broker waits up to 1.5 s for a change to report."""
PAUSE_S = 0.1
"""Least time between the starts of two requests."""
RETRY_S = 0.5
"""Time between a failure and the next request."""
LATE_S = 0.25
"""Lateness of a timer that shows that this process was too busy to judge others."""


class Rows(Protocol):
    """Rows of all brokers, to which changes are applied; ``version`` grows with every change of what they show."""

    version: int

    def reported(self, broker: str) -> Iterable[str]:
        """Return the names that have a row of this broker."""
        ...

    def apply(self, broker: str, changes: RowChanges) -> None: ...


class RowFollower:
    """A broker's feed, whose answers are applied to ``rows`` at once, independently of other brokers.

    ``on_change`` is called when ``rows`` changed; ``after`` after each request, with the answer once it is applied, or
    None when the request failed.
    """

    def __init__(
        self,
        broker: BrokerAddress,
        feed: Operation[RowsSince, JsonObject],
        rows: Rows,
        on_change: Callable[[], None],
        after: Callable[[dict[str, Any] | None], None] = lambda answer: None,
    ) -> None:
        self.broker = broker
        """Address for the next request."""
        self.failures = 0
        """Requests that failed since the last answer."""
        self.error = ""
        """Reason of the last failure."""
        self._feed = feed
        self._rows = rows
        self._on_change = on_change
        self._after = after
        self._list = RowList(lambda: rows.reported(broker.id))
        self._request = RowsSince()

    @property
    def is_complete(self) -> bool:
        """True once everything that the broker has was received; see ``RowList``."""
        return self._list.is_complete

    async def run(self, engine: Engine) -> None:
        """Request changes until cancelled."""
        while True:
            pause_s, began = RETRY_S, time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(self.broker, self._feed, self._request)
                await self._apply(answer)
                self._after(answer)
                if answer["more"]:
                    continue
                pause_s = PAUSE_S - (time.monotonic() - began)
            except FAILURES as error:
                if time.monotonic() - began > ANSWER_TIMEOUT_S + LATE_S:
                    # This process was too busy: the answer may have arrived in time and not been read.
                    continue
                if not self.failures:
                    log.info(
                        "broker does not report %s broker=%s error=%r",
                        self._feed.name,
                        self.broker.id,
                        error,
                    )
                    pause_s = PAUSE_S  # one lost answer is no outage: the second failure counts
                self._fail(f"does not answer: {error.__cause__ or error}")
            # An answer in an unknown form must not end the loop.
            except Exception:
                if not self.failures:
                    log.exception(
                        "broker reports %s in an unknown form broker=%s",
                        self._feed.name,
                        self.broker.id,
                    )
                # The failed answer may be applied in part: the next request is for everything.
                self._request = RowsSince()
                self._fail("answers in another form: is it of another version?")
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    async def _apply(self, answer: dict[str, Any]) -> None:
        before = self._rows.version
        for number, changes in enumerate(self._list.changes(answer)):
            if number:
                await asyncio.sleep(0)
            self._rows.apply(self.broker.id, changes)
            if self._rows.version != before:
                before = self._rows.version
                self._on_change()
        # Only now: an answer that failed or was cancelled midway is requested again.
        self._request = RowsSince.after(answer)
        self.failures = 0

    def _fail(self, error: str) -> None:
        self.error = error
        self.failures += 1
        self._after(None)
