"""Periodic checks of the instance's parts, one task per part.

The state of a part is thereby known before a request needs it. While no client watches, the checks are rare.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from gateway.services.health.hops import Hops, HopState, Kind

log = logging.getLogger(__name__)

PERIOD_S = 0.5
"""Time between two checks while a client watches. All checks start at multiples of their period, so that those of one
moment wake the process once."""
IDLE_PERIOD_S = 5.0
"""Time between two checks while no client watches."""
VIEWED_S = 5.0
"""Time that a client counts as watching after it requested the state."""
ANSWER_S = 1.0
"""An answer that takes longer is late."""
DOWN_S = 4.0
"""A part that is late for this long counts as down."""
OWN_DELAY_S = 0.25
"""Delay of this process's event loop from which on a late answer is not counted against the part."""
FIRST_S = 0.4
"""Bound on the wait for the first checks."""

Check = Callable[[], Awaitable[None]]


class UnwellError(MagnetarError):
    """The part answers that it is not well, or certainly does not answer; the text continues after the part's name.

    ``slow``: it is late rather than down.
    """

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


class NotKnownError(MagnetarError):
    """The part cannot be checked because another one does not answer; the text continues after the part's name."""


class Checks:
    """Checks of all parts, for one event loop. ``close`` ends them."""

    def __init__(self, hops: Hops) -> None:
        self.hops = hops
        self._tasks = TaskScope("health")
        self._checks: dict[tuple[Kind, str], asyncio.Task[None]] = {}
        self._first: dict[tuple[Kind, str], asyncio.Event] = {}
        """Events that are set once their part was checked."""
        self._due: dict[tuple[Kind, str], asyncio.Event] = {}
        """Events that end the pause before the next check of a part."""
        self.late_s = 0.0
        """Delay of this process's timer before the last check."""
        self._viewed_at = -VIEWED_S

    def note_viewer(self) -> None:
        """Note that a client watches: checks become frequent for ``VIEWED_S``."""
        if time.monotonic() - self._viewed_at > VIEWED_S:
            for due in self._due.values():
                due.set()
        self._viewed_at = time.monotonic()

    def check_now(self, kind: Kind, id: str = "") -> None:
        """Check a part at once instead of at the end of the pause, after an event such as the loss of its connection;
        without effect for a part that is not checked. During a check, one more follows it."""
        due = self._due.get((kind, id))
        if due is not None:
            due.set()

    async def first(self) -> None:
        """Wait until every part was checked once, at most ``FIRST_S``. Cancel-safe."""
        try:
            async with asyncio.timeout(FIRST_S):
                for checked in list(self._first.values()):
                    await checked.wait()
        except TimeoutError:
            pass

    def start(
        self,
        kind: Kind,
        id: str,
        check: Check,
        *,
        period_s: float | None = None,
        idle_s: float = IDLE_PERIOD_S,
    ) -> None:
        """Call ``check`` periodically until ``stop``; without effect when the part is checked already.

        ``check`` returns when the part is well. It raises UnwellError, another MagnetarError or OSError when it is not,
        and NotKnownError when that cannot be determined. It is cancelled after ``ANSWER_S``.
        """
        if (kind, id) not in self._checks:
            self.hops.expect(kind, id)
            self._first[kind, id] = asyncio.Event()
            self._due[kind, id] = asyncio.Event()
            work = self._run_checks(kind, id, check, period_s or PERIOD_S, idle_s)
            self._checks[kind, id] = self._tasks.spawn(f"{kind.value} {id}", work)

    def stop(self, kind: Kind, id: str) -> None:
        """End the checks of a part that no longer belongs to the instance."""
        task = self._checks.pop((kind, id), None)
        self._first.pop((kind, id), None)
        self._due.pop((kind, id), None)
        if task is not None:
            task.cancel()
        self.hops.forget(kind, id)

    def checked(self, kind: Kind) -> list[str]:
        """Return the ids of the parts of this kind that are checked."""
        return [id for checked_kind, id in self._checks if checked_kind is kind]

    async def close(self) -> None:
        await self._tasks.close()

    async def _run_checks(
        self, kind: Kind, id: str, check: Check, period_s: float, idle_s: float
    ) -> None:
        silent_since = 0.0
        hops, first, due = self.hops, self._first[kind, id], self._due[kind, id]
        while True:
            due.clear()
            began = time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_S):
                    await check()
                hops.answered(kind, id)
                silent_since = 0.0
            except TimeoutError:
                now = time.monotonic()
                # Past this bound the loop itself was held up: the answer may have arrived in time.
                if now - began < ANSWER_S + OWN_DELAY_S:
                    silent_since = silent_since or began
                    silent_s = now - silent_since
                    never = hops.expect(kind, id).state is HopState.UNKNOWN
                    slow = silent_s < DOWN_S and not never
                    hops.failed(kind, id, f"has not answered for {silent_s:.0f} s", slow=slow)
            except NotKnownError as error:
                silent_since = 0.0
                hops.unknown(kind, id, str(error))
            except UnwellError as error:
                hops.failed(kind, id, str(error), slow=error.slow)
            except (MagnetarError, OSError) as error:
                hops.failed(kind, id, f"does not answer: {error}", slow=False)
            except Exception as error:  # without another check the last state would stay for good
                if hops.expect(kind, id).state is not HopState.DOWN:
                    log.exception("a part cannot be checked part=%s %s", kind.value, id)
                hops.failed(kind, id, f"cannot be checked: {error!r}", slow=False)
            first.set()
            self.late_s = await self._pause(due, period_s, idle_s)

    async def _pause(self, due: asyncio.Event, period_s: float, idle_s: float) -> float:
        """Wait for the next check or for ``due``; return by how many seconds the wait exceeded its time."""
        now = time.monotonic()
        is_viewed = now - self._viewed_at < VIEWED_S
        pause_s = until_next(period_s if is_viewed else idle_s)
        try:
            async with asyncio.timeout(pause_s):
                await due.wait()
        except TimeoutError:
            pass
        return max(time.monotonic() - now - pause_s, 0.0)


def until_next(period_s: float) -> float:
    """Return the seconds until the next multiple of the period on the clock of the loop's timers."""
    return period_s - time.monotonic() % period_s
