"""The way of a change to the worker that leads: this one, another of ours, or one of Apache's; and back to this one,
which reads all changes."""

from collections.abc import Callable

from engine.base.errors import MagnetarError, NotReady
from engine.functions.registered_workers import WorkerRecord, leading_worker, registered_workers
from engine.functions.worker.apaches.apache_link import ApacheLink
from engine.functions.worker.apaches.apache_members import ApacheWorker
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.leading import NOT_LEADER, FunctionLeader
from engine.metadata.store import MetadataStore
from engine.rpc.server import MovedError

STARTING = "Function worker service is not done initializing. Please try again in a little while."
"""Apache's text."""


class LeaderRouting:
    """The leader as one worker knows it. ``joined`` is true once that has read both topics."""

    def __init__(
        self,
        store: MetadataStore,
        record: WorkerRecord,
        followed: FollowedTopics,
        leader: FunctionLeader,
        apaches: ApacheLink,
        joined: Callable[[], bool],
    ) -> None:
        self._store = store
        self._record = record
        self._followed = followed
        self._leader = leader
        self._apaches = apaches
        self._joined = joined

    async def all_read(self) -> None:
        """Return when every change that was answered before is known here. Raises NotReady."""
        self._require_joined()
        try:
            await self._followed.caught_up()
        except MagnetarError as error:
            raise NotReady(f"The functions cannot be read now: {error}") from error

    async def apaches_leader(self) -> ApacheWorker | None:
        """Return None if this worker leads, and the worker that does if it is one of Apache's.

        Raises MovedError that names another worker of ours, NotReady while no worker leads.
        """
        self._require_joined()
        if self._leader.ready:
            return None
        name = await leading_worker(self._store)
        record = (await registered_workers(self._store)).get(name or "")
        if record is not None and record.id != self._record.id:
            raise MovedError(record.rpc_url, record.rpc_url_tls)
        leader = (await self._apaches.members.now()).leader
        if leader is None:
            raise NotReady(NOT_LEADER)
        return leader

    def _require_joined(self) -> None:
        if not self._joined():
            raise NotReady(STARTING)
