"""The functions workers as parts of the instance: all that are registered, and those that ceased to be."""

from collections.abc import Callable
from functools import partial

from engine.functions.registered_workers import WorkerRecord, registered_workers
from engine.metadata.store import MetadataStore
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.net.tls import ContextSource
from gateway.services.health.checks import ANSWER_S, Checks, UnwellError
from gateway.services.health.hops import HopState, Kind

ANSWER_BYTES_MAX = 4096
ALIVE_PAGE = "/live"
REPLACED_MS = 10_000
"""Time after which a worker that is not registered any more is forgotten while another one answers, which runs its
instances then."""
GONE_KEPT_MS = 3_600_000
"""Time after which it is forgotten in any case."""
UNREGISTERED = "is not registered any more: it ended, or lost its session"


class FunctionWorkers:
    """Checks of the functions workers, for one event loop.

    A cluster that never had one has none that is missing. ``now``: ms since the epoch. ``tls``: context for the
    workers' encrypted ports; None: their plain ones are used.
    """

    def __init__(
        self, checks: Checks, now: Callable[[], int], tls: ContextSource | None = None
    ) -> None:
        self._checks = checks
        self._now = now
        self._encrypted = tls is not None
        self._client = HttpClient(
            LoopNetwork(), timeout_s=2 * ANSWER_S, answer_bytes_max=ANSWER_BYTES_MAX, tls=tls
        )
        self._records: dict[str, WorkerRecord] = {}
        """Workers by id, also those that ceased to be registered."""
        self._missing: dict[str, int] = {}
        """Times since when workers are not registered any more, ms."""

    async def refresh(self, store: MetadataStore) -> None:
        """Read the registrations. Store errors pass through, and what was known stays. Cancel-safe."""
        registered = await registered_workers(store)
        self._records |= registered
        at = self._now()
        for worker in self._records:
            if worker in registered:
                self._missing.pop(worker, None)
            else:
                self._missing.setdefault(worker, at)
            self._checks.start(Kind.FUNCTIONS, worker, partial(self._check, worker))
        is_replaced = any(
            self._checks.hops.expect(Kind.FUNCTIONS, worker).state is HopState.OK
            for worker in registered
        )
        for worker, since in list(self._missing.items()):
            if at - since > (REPLACED_MS if is_replaced else GONE_KEPT_MS):
                del self._missing[worker], self._records[worker]
                self._checks.stop(Kind.FUNCTIONS, worker)

    async def _check(self, worker: str) -> None:
        record = self._records[worker]
        url = record.rpc_url_tls if self._encrypted else record.rpc_url
        is_missing = worker in self._missing
        if not url:
            if is_missing:
                raise UnwellError(UNREGISTERED)
            return  # without a port that can be called, its registration is all that is known of it
        try:
            await self._client.request("GET", url + ALIVE_PAGE)
        except HttpError as error:
            why = UNREGISTERED if is_missing else f"does not answer: {error}"
            raise UnwellError(why) from None
        if is_missing:
            raise UnwellError("answers, and is not registered", slow=True)

    def close(self) -> None:
        self._client.close()
