"""The admission of a WebSocket's client: what it is judged by while the socket is open.

A socket ends when its client loses a right that the socket needs, or when its credentials end (A20).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from engine.auth.identity import Identity
from engine.base.clock import SystemClock
from engine.base.errors import MagnetarError
from engine.base.loop import from_any_thread
from engine.base.tasks import TaskScope
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import AccessRefusedError, Need, authorize_needs, judge_of, needs_of
from gateway.http.auth.cluster_judge import ClusterJudge
from gateway.http.auth.handshakes import watch_credentials
from gateway.ws.rights import RIGHTS, Opening

EXPIRED = "The credentials have ended"
WITHDRAWN = "The credentials were withdrawn"
Lost = Callable[[str], None]


class Admission:
    """The rights of an open socket, on the socket's event loop."""

    __slots__ = (
        *("_identity", "_needs", "_cluster", "_loop", "_reason", "_lost", "_tasks", "_unwatch"),
        "_unwatch_credentials",
        *("_is_judging", "_changed_again", "_timer"),
    )

    def __init__(
        self, identity: Identity, needs: Sequence[Need], cluster: Cluster, scope: dict[str, Any]
    ) -> None:
        self._identity = identity
        self._needs = needs
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._reason = ""
        self._lost: Lost | None = None
        # Created with the first change of a policy.
        self._tasks: TaskScope | None = None
        self._is_judging = False
        self._changed_again = False
        judge = judge_of(cluster)
        self._unwatch: Callable[[], None] | None = None
        if isinstance(judge, ClusterJudge):
            notify = from_any_thread(self._loop, self._judge_soon)
            self._unwatch = judge.watch((resource for _, resource in needs), notify)
        withdrawn = from_any_thread(self._loop, lambda: self._end(WITHDRAWN))
        self._unwatch_credentials = watch_credentials(scope, identity, withdrawn)
        self._timer: asyncio.TimerHandle | None = None
        if identity.expires_at is not None:
            left_s = identity.expires_at - SystemClock().wall_ms() / 1000
            self._timer = self._loop.call_later(max(left_s, 0), self._end, EXPIRED)

    def guard(self, lost: Lost) -> None:
        """Call ``lost`` with the reason when the client is no longer admitted: at once if that is so already."""
        self._lost = lost
        if self._reason:
            lost(self._reason)

    def close(self) -> None:
        """End the guard. Safe to call twice."""
        self._lost = None
        self._unwatch_credentials()
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._timer is not None:
            self._timer.cancel()
        if self._tasks is not None:
            self._tasks.cancel()

    def _end(self, reason: str) -> None:
        self._reason = reason
        if self._lost is not None:
            self._lost(reason)

    def _judge_soon(self) -> None:
        """Judge again, after a change of a record."""
        if self._unwatch is None or self._reason:
            return
        self._changed_again = True
        if self._is_judging:
            return
        self._is_judging = True
        if self._tasks is None:
            self._tasks = TaskScope("admission")
        self._tasks.spawn("judge", self._judge_again())

    async def _judge_again(self) -> None:
        try:
            while self._changed_again:
                self._changed_again = False
                await self.judge()
        except AccessRefusedError as error:
            self._end(error.reason)
        except (MagnetarError, TimeoutError):
            # Not known while the store is unavailable; the records change again when it is available.
            pass
        finally:
            self._is_judging = False

    async def judge(self) -> None:
        """Check that the client has the rights. Raises as ``authorize``."""
        await authorize_needs(self._needs, self._identity, self._cluster)


async def admit(
    kind: str, opening: Opening, identity: Identity, cluster: Cluster, scope: dict[str, Any]
) -> Admission:
    """Return the admission of a client that has the rights that an endpoint of this kind needs (A3), before a broker is
    asked; the caller closes it.

    Raises AccessRefusedError, and the retriable error of a judge that cannot know now.
    """
    # Its records are watched from before they are judged, so that no change is missed.
    admission = Admission(identity, tuple(needs_of(RIGHTS[kind], opening)), cluster, scope)
    try:
        await admission.judge()
    except BaseException:
        admission.close()
        raise
    return admission
