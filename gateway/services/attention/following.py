"""Asks each broker what is behind there, again and again, beside what the collector asks."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from gateway.services.attention.findings import Findings
from gateway.services.engine_link import Engine

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 4.0
"""A broker waits up to 1.5 s for something to tell."""
PAUSE_S = 0.2
"""From question to question."""
RETRY_S = 1.0
NEEDS_S = 15.0
"""From one report of the quorums in force to the next."""


class Following:
    """Feeds ``findings``; what a broker told last stays until ``forget``. ``told`` is called when there is news,
    ``needs`` with each broker's answer to ``REPLICATION``."""

    def __init__(
        self,
        tasks: TaskScope,
        findings: Findings,
        told: Callable[[], None],
        needs: Callable[[str, dict[str, Any]], None] = lambda broker, answer: None,
    ) -> None:
        self._needs = needs
        self._told = told
        self._tasks = tasks
        self._findings = findings
        self._addresses: dict[str, BrokerAddress] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        self._whole: set[str] = set()

    def is_whole(self, broker_id: str) -> bool:
        """Whether the broker told all that is behind there."""
        return broker_id in self._whole

    def follow(self, engine: Engine, broker: BrokerAddress) -> None:
        """Begin, or go on at another address."""
        self._addresses[broker.id] = broker
        if broker.id not in self._work:
            name = f"lags of {broker.id}"
            self._work[broker.id] = self._tasks.spawn(name, self._ask(engine, broker.id))

    def forget(self, broker_id: str) -> None:
        """It is gone."""
        work = self._work.pop(broker_id, None)
        if work is not None:
            work.cancel()
        self._addresses.pop(broker_id, None)
        self._whole.discard(broker_id)
        self._findings.forget(broker_id)

    async def _ask(self, engine: Engine, broker_id: str) -> None:
        asked, failing, needs_due = api.TopicRows(), False, 0.0
        while True:
            address, began = self._addresses[broker_id], time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(address, api.SUBSCRIPTION_ROWS, asked)
                before = self._findings.version
                self._findings.hear(broker_id, answer)
                asked, failing = api.TopicRows.after(answer), False
                if answer["whole"]:
                    self._whole.discard(broker_id)
                if not answer["more"]:
                    self._whole.add(broker_id)
                if self._findings.version != before:
                    self._told()
                if answer["more"]:
                    continue
                if began >= needs_due:
                    needs_due = began + NEEDS_S
                    await self._ask_needs(engine, address)
                pause_s = PAUSE_S - (time.monotonic() - began)
            except (MagnetarError, TimeoutError, OSError) as error:
                if not failing:
                    log.info("broker does not tell what is behind broker=%s: %r", broker_id, error)
                failing, pause_s = True, RETRY_S
            except Exception:  # a form that nobody thought of; it must be followed on all the same
                if not failing:
                    log.exception("broker tells lags in another form broker=%s", broker_id)
                asked, failing, pause_s = api.TopicRows(), True, RETRY_S
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    async def _ask_needs(self, engine: Engine, address: BrokerAddress) -> None:
        """A broker that does not know the question, as one of an earlier version, is left out; one that went away is
        missed by what is asked next."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await engine.call_on(address, api.REPLICATION, api.NoArguments())
        except (MagnetarError, TimeoutError, OSError) as error:
            log.debug("broker does not report its quorums broker=%s: %r", address.id, error)
        else:
            self._needs(address.id, answer)
