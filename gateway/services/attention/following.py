"""Asks each broker what is behind there, again and again, beside what the collector asks."""

import asyncio
import logging

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
RETRY_S = 1.0


class Following:
    """Feeds ``findings``; what a broker told last stays until ``forget``."""

    def __init__(self, tasks: TaskScope, findings: Findings) -> None:
        self._tasks = tasks
        self._findings = findings
        self._addresses: dict[str, BrokerAddress] = {}
        self._work: dict[str, asyncio.Task[None]] = {}

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
        self._findings.forget(broker_id)

    async def _ask(self, engine: Engine, broker_id: str) -> None:
        asked, failing = api.TopicRows(), False
        while True:
            address = self._addresses[broker_id]
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(address, api.SUBSCRIPTION_ROWS, asked)
                self._findings.hear(broker_id, answer)
                asked, failing = api.TopicRows.after(answer), False
                if answer["more"]:
                    continue
                pause_s = PAUSE_S
            except (MagnetarError, TimeoutError, OSError) as error:
                if not failing:
                    log.info("broker does not tell what is behind broker=%s: %r", broker_id, error)
                failing, pause_s = True, RETRY_S
            except (KeyError, TypeError, ValueError):
                if not failing:
                    log.exception("broker tells lags in another form broker=%s", broker_id)
                asked, failing, pause_s = api.TopicRows(), True, RETRY_S
            await asyncio.sleep(pause_s)
