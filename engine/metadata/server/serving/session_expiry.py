"""Expiry of sessions (Z7): one timer for all, moved by nothing but its own run."""

import asyncio
import heapq
from collections.abc import Callable

LATE_S = 0.2
"""Lateness of the timer above which the process was stopped or busy: clients could not be served meanwhile."""


class LiveSession:
    """A session's timing. ``seen``: loop time of the last request, which the connection sets."""

    __slots__ = ("seen", "session_id", "timeout_s")

    def __init__(self, session_id: int, timeout_s: float, seen: float) -> None:
        self.session_id = session_id
        self.timeout_s = timeout_s
        self.seen = seen


class SessionExpiry:
    """Sessions by their deadlines. ``expire(session_id)`` is called for those that were not seen for their timeout.

    A session is checked once in each of its timeouts, however many requests it makes.
    """

    def __init__(self, expire: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._expire = expire
        self._sessions: dict[int, LiveSession] = {}
        self._heap: list[tuple[float, int]] = []
        self._timer: asyncio.TimerHandle | None = None

    def get(self, session_id: int) -> LiveSession | None:
        return self._sessions.get(session_id)

    def begin(self, session_id: int, timeout_ms: int) -> LiveSession:
        """Begin to watch a session, or give it another timeout, from now on."""
        session = LiveSession(session_id, timeout_ms / 1000, self._loop.time())
        self._sessions[session_id] = session
        heapq.heappush(self._heap, (session.seen + session.timeout_s, session_id))
        self._set_timer()
        return session

    def end(self, session_id: int) -> None:
        """Forget a session that ended. Safe to repeat."""
        self._sessions.pop(session_id, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if not self._heap:
            return
        due = self._heap[0][0]
        if self._timer is None or due < self._timer.when():
            self.stop()
            self._timer = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        now = self._loop.time()
        assert self._timer is not None
        late = now - self._timer.when()
        self._timer = None
        if late > LATE_S:
            # What clients sent meanwhile has not been read yet: their time did not run.
            for live in self._sessions.values():
                live.seen += late
        while self._heap and self._heap[0][0] <= now:
            _, session_id = heapq.heappop(self._heap)
            session = self._sessions.get(session_id)
            if session is None:
                continue
            deadline = session.seen + session.timeout_s
            if deadline > now:
                heapq.heappush(self._heap, (deadline, session_id))
            else:
                self.end(session_id)
                self._expire(session_id)
        self._set_timer()
