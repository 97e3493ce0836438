"""Polling of each broker for its lagging subscriptions, beside the collector's polling for topics."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import REPLICATION
from engine.admin.api.rows import SUBSCRIPTION_ROWS, RowsSince
from engine.admin.client import BrokerAddress
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from gateway.services.attention.findings import Findings
from gateway.services.engine_link import Engine

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 4.0
"""Above the 1.5 s that a broker may hold a request until it has changes."""
PAUSE_S = 0.2
"""The shortest time between the starts of two requests to a broker."""
RETRY_S = 1.0
NEEDS_S = 15.0
"""The time between two requests for the quorums in force."""


class Following:
    """Pollers of all brokers, which feed ``findings``; a broker's last answer counts until ``forget``.

    ``on_change`` is called when findings changed, ``needs`` with each broker's answer to ``REPLICATION``.
    """

    def __init__(
        self,
        tasks: TaskScope,
        findings: Findings,
        on_change: Callable[[], None],
        needs: Callable[[str, dict[str, Any]], None] = lambda broker, answer: None,
    ) -> None:
        self._needs = needs
        self._on_change = on_change
        self._tasks = tasks
        self._findings = findings
        self._addresses: dict[str, BrokerAddress] = {}
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._complete: set[str] = set()
        """Brokers whose list of lagging subscriptions was received to its end."""

    def is_whole(self, broker_id: str) -> bool:
        """Return whether the broker's complete list was received."""
        return broker_id in self._complete

    def follow(self, engine: Engine, broker: BrokerAddress) -> None:
        """Start to poll a broker, or continue at its new address."""
        self._addresses[broker.id] = broker
        if broker.id not in self._pollers:
            name = f"lags of {broker.id}"
            self._pollers[broker.id] = self._tasks.spawn(name, self._poll(engine, broker.id))

    def forget(self, broker_id: str) -> None:
        """Stop polling a broker that has left, and remove its findings."""
        poller = self._pollers.pop(broker_id, None)
        if poller is not None:
            poller.cancel()
        self._addresses.pop(broker_id, None)
        self._complete.discard(broker_id)
        self._findings.forget(broker_id)

    async def _poll(self, engine: Engine, broker_id: str) -> None:
        request, failing, needs_due = RowsSince(), False, 0.0
        while True:
            address, began = self._addresses[broker_id], time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(address, SUBSCRIPTION_ROWS, request)
                before = self._findings.version
                self._findings.apply(broker_id, answer)
                request, failing = RowsSince.after(answer), False
                if answer["whole"]:
                    self._complete.discard(broker_id)
                if not answer["more"]:
                    self._complete.add(broker_id)
                if self._findings.version != before:
                    self._on_change()
                if answer["more"]:
                    continue
                if began >= needs_due:
                    needs_due = began + NEEDS_S
                    await self._request_needs(engine, address)
                pause_s = PAUSE_S - (time.monotonic() - began)
            except (MagnetarError, TimeoutError, OSError) as error:
                if not failing:
                    log.info("broker does not report its lags broker=%s: %r", broker_id, error)
                failing, pause_s = True, RETRY_S
            except Exception:  # an answer of an unknown form must not end the polling
                if not failing:
                    log.exception("broker reports its lags in an unknown form broker=%s", broker_id)
                # The failed answer may be applied in part: only a complete list is consistent again.
                request, failing, pause_s = RowsSince(), True, RETRY_S
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    async def _request_needs(self, engine: Engine, address: BrokerAddress) -> None:
        """Request the quorums in force and report them.

        A broker of an earlier version, which does not know the request, is left out. The next request for lags detects
        a broker that has left.
        """
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await engine.call_on(address, REPLICATION, NoArguments())
        except (MagnetarError, TimeoutError, OSError) as error:
            log.debug("broker does not report its quorums broker=%s: %r", address.id, error)
        else:
            self._needs(address.id, answer)
