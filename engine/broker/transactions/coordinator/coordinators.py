"""The transaction coordinators of one broker: those whose partition of the assignment topic it owns.

A coordinator is opened as soon as its partition is owned, not by its first client: its time-outs hold the messages of
others (X9).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, UnderWay, contained, restarting
from engine.broker.context import Context
from engine.broker.errors import BrokerError, TopicNotFound, TransactionCoordinatorNotFound
from engine.broker.policies import TopicPolicies
from engine.broker.ports import Namespaces, Ownership
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinator_log import CoordinatorLog
from engine.broker.transactions.coordinator.participants import Participants
from engine.broker.transactions.ports import OwnedEnds
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import LedgerConfig
from engine.tenancy.initialization import COORDINATORS

log = logging.getLogger(__name__)

CHECK_S = 5.0
"""Seconds between checks which coordinators are owned, and whether one has no owner."""


class Coordinators:
    """Created inside a running loop; ``start`` is called once when the broker is registered, ``close`` at its end."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        namespaces: Namespaces,
        factory: ManagedLedgerFactory,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        context: Context,
        participants: Participants,
        owned: OwnedEnds,
    ) -> None:
        self.participants = participants
        self.owned = owned
        self._ownership = ownership
        self._namespaces = namespaces
        self._factory = factory
        self._ledger_config = ledger_config
        self._context = context
        self._tasks = TaskScope("coordinators", self._task_failed)
        self._open: dict[int, Coordinator] = {}
        self._opening = UnderWay[int, Coordinator](self._tasks)
        self._closing = UnderWay[int, None](self._tasks)

    def __iter__(self) -> Iterator[Coordinator]:
        """Iterate over the open coordinators by number."""
        return iter([self._open[number] for number in sorted(self._open)])

    def _task_failed(self, name: str, error: BaseException) -> None:
        # The caller of an opening receives a MagnetarError; any other error is a fault of the broker.
        if not isinstance(error, MagnetarError):
            log.error("task failed name=%s", name, exc_info=error)

    def start(self) -> None:
        """Begin to open the coordinators that this broker owns, and to acquire those that no broker does."""
        self._tasks.spawn("keeper", restarting("keeping of coordinators", self._keep))

    async def count(self) -> int:
        """Return the number of coordinators of the cluster. Raises BrokerError."""
        with suppress(TopicNotFound):
            return await self._namespaces.partitions(COORDINATORS, allow_create=False)
        return 0

    async def _keep(self) -> None:
        while True:
            try:
                count = await self.count()
            except BrokerError as error:
                log.debug("the number of coordinators is not known: %s", error)
                count = 0
            for number in range(count):
                await self._keep_one(number)
            await asyncio.sleep(CHECK_S)

    async def _keep_one(self, number: int) -> None:
        """Open a coordinator that is owned, close one that is not, acquire one without an owner."""
        topic = COORDINATORS.partition_at(number)
        try:
            if number not in self._open:
                await self._ownership.lookup(topic, authoritative=False, listener="")
            self._ownership.check_owned(topic)
        except BrokerError:
            self._drop(number)
            return
        try:
            await self._get(number)
        except MagnetarError as error:
            log.warning("coordinator %d is not opened: %s", number, error)

    async def of(self, number: int) -> Coordinator:
        """Return a coordinator, which is opened when it is owned here. Cancel-safe.

        Raises TransactionCoordinatorNotFound when it is not, or cannot be opened now.
        """
        topic = COORDINATORS.partition_at(number)
        try:
            await self._ownership.resume(topic)
            self._ownership.check_owned(topic)
            if number not in self._open and number >= await self.count():
                raise TransactionCoordinatorNotFound(
                    f"There is no transaction coordinator {number}"
                )
            return await self._get(number)
        except TransactionCoordinatorNotFound:
            raise
        except MagnetarError as error:
            raise TransactionCoordinatorNotFound(
                f"Transaction coordinator {number} is not served here now: {error}"
            ) from error

    def ready(self, number: int) -> Coordinator | None:
        """Return a coordinator that is open and owned here; None when it has to be asked for by ``of``."""
        coordinator = self._open.get(number)
        if coordinator is None:
            return None
        try:
            self._ownership.check_owned(coordinator.topic)
        except BrokerError:
            return None
        return coordinator

    def opened(self, number: int) -> Coordinator:
        """Return a coordinator that is open. Raises TransactionCoordinatorNotFound."""
        coordinator = self._open.get(number)
        if coordinator is None:
            raise TransactionCoordinatorNotFound(
                f"Transaction coordinator not found! coordinator id : {number}"
            )
        return coordinator

    async def _get(self, number: int) -> Coordinator:
        coordinator = self._open.get(number)
        if coordinator is not None:
            return coordinator
        opening = self._opening.of(number)
        if opening is None:
            if self._tasks.closed:
                raise TransactionCoordinatorNotFound("The broker is shutting down")
            opening = self._opening.begin(number, f"open {number}", self._begin(number))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise TransactionCoordinatorNotFound("The broker is shutting down") from None
            raise

    async def _begin(self, number: int) -> Coordinator:
        """Open a coordinator, once the one before it here has ended."""
        closing = self._closing.of(number)
        if closing is not None:
            await asyncio.wait([closing])
        topic = COORDINATORS.partition_at(number)
        config = self._ledger_config(await self._namespaces.policies(topic))
        coordinator = Coordinator(
            number,
            await CoordinatorLog.open(
                self._factory, number, config, self._context.transactions.log_batches
            ),
            self.participants,
            self._context.transactions,
            self._context.clock,
            self._failed,
        )
        try:
            await coordinator.recover()
            self._ownership.check_owned(topic)
            coordinator.check_ready()
        except BaseException:
            await coordinator.close()
            raise
        self._open[number] = coordinator
        return coordinator

    def _failed(self, coordinator: Coordinator) -> None:
        """Close a coordinator that cannot continue; the next request or check opens it again if it is owned."""
        if self._open.get(coordinator.id) is coordinator:
            self._drop(coordinator.id)

    def _drop(self, number: int) -> None:
        coordinator = self._open.pop(number, None)
        if coordinator is not None and not self._tasks.closed:
            self._closing.begin(number, f"close {number}", coordinator.close())

    async def close(self) -> None:
        """Close all coordinators. Safe to call twice."""
        closing = list(self._closing.tasks.values())
        if closing:
            await asyncio.wait(closing, timeout=5.0)
        await self._tasks.close()
        # One that fails meanwhile is removed by ``_failed``.
        while self._open:
            number, coordinator = self._open.popitem()
            with contained(f"end of coordinator {number}"):
                await coordinator.close()
        await self.participants.close()
