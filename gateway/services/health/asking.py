"""Parts of the instance are asked on and on, each in a task of its own, so that what one does not answer is known
before anybody needs it. While nobody looks they are asked seldom."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from gateway.services.health.hops import Hops, HopState, Kind

log = logging.getLogger(__name__)

PERIOD_S = 0.5
"""From question to question while somebody looks. All are asked at multiples of their periods: parts that are asked at
the same moment wake the process once."""
IDLE_PERIOD_S = 5.0
"""While nobody does."""
LOOKED_S = 5.0
"""Whoever asks how things stand is taken to look for so long."""
ANSWER_S = 1.0
"""An answer that takes longer is late."""
DOWN_S = 4.0
"""A part that is late for so long counts as down."""
OWN_DELAY_S = 0.25
"""When our own loop was this late, an answer that is late says nothing about who gave it."""
FIRST_S = 0.4
"""How long somebody waits who asks before anything was asked."""

Ask = Callable[[], Awaitable[None]]


class UnwellError(MagnetarError):
    """The part answers, or it is certain that it does not; the text goes on after its name."""

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


class NotKnownError(MagnetarError):
    """Whether the part is well cannot be found out now, for another part is away; the text goes on after its name."""


class Asker:
    """For one event loop. ``close`` ends all questions."""

    def __init__(self, hops: Hops) -> None:
        self.hops = hops
        self._tasks = TaskScope("health")
        self._asked: dict[tuple[Kind, str], asyncio.Task[None]] = {}
        self._first: dict[tuple[Kind, str], asyncio.Event] = {}
        """Set once the part was asked."""
        self.late_s = 0.0
        """How late our own timer was that led to the present question."""
        self._looked_at = -LOOKED_S
        self._look = asyncio.Event()

    def look(self) -> None:
        """Somebody wants to know how things stand."""
        if time.monotonic() - self._looked_at > LOOKED_S:
            self._look.set()
            self._look = asyncio.Event()
        self._looked_at = time.monotonic()

    async def first(self) -> None:
        """Returns when every part was asked once, or after ``FIRST_S``. Cancel-safe."""
        try:
            async with asyncio.timeout(FIRST_S):
                for asked in list(self._first.values()):
                    await asked.wait()
        except TimeoutError:
            pass

    def ask(
        self,
        kind: Kind,
        id: str,
        ask: Ask,
        *,
        period_s: float | None = None,
        idle_s: float = IDLE_PERIOD_S,
    ) -> None:
        """Have ``ask`` called until ``stop``, unless it is already. It returns when the part is well; it raises
        UnwellError, another MagnetarError or OSError when it is not, NotKnownError when that cannot be found out, and
        is cancelled after ``ANSWER_S``."""
        if (kind, id) not in self._asked:
            self.hops.expect(kind, id)
            self._first[kind, id] = asyncio.Event()
            work = self._keep_asking(kind, id, ask, period_s or PERIOD_S, idle_s)
            self._asked[kind, id] = self._tasks.spawn(f"{kind.value} {id}", work)

    def stop(self, kind: Kind, id: str) -> None:
        """The part belongs to the instance no more."""
        task = self._asked.pop((kind, id), None)
        self._first.pop((kind, id), None)
        if task is not None:
            task.cancel()
        self.hops.forget(kind, id)

    def asked(self, kind: Kind) -> list[str]:
        """The ids of those that are asked."""
        return [id for each, id in self._asked if each is kind]

    async def close(self) -> None:
        await self._tasks.close()

    async def _keep_asking(
        self, kind: Kind, id: str, ask: Ask, period_s: float, idle_s: float
    ) -> None:
        silent_since = 0.0
        hops, first = self.hops, self._first[kind, id]
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_S):
                    await ask()
                hops.answered(kind, id)
                silent_since = 0.0
            except TimeoutError:
                now = time.monotonic()
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
            except Exception as error:  # the part must be asked again: its last state is no state
                if hops.expect(kind, id).state is not HopState.DOWN:
                    log.exception("a part cannot be asked part=%s %s", kind.value, id)
                hops.failed(kind, id, f"cannot be asked: {error!r}", slow=False)
            first.set()
            self.late_s = await self._pause(period_s, idle_s)

    async def _pause(self, period_s: float, idle_s: float) -> float:
        """How many seconds too late it ended."""
        now = time.monotonic()
        if now - self._looked_at < LOOKED_S:
            pause_s = until_next(period_s)
            await asyncio.sleep(pause_s)
        else:
            look, pause_s = self._look, until_next(idle_s)
            try:
                async with asyncio.timeout(pause_s):
                    await look.wait()
            except TimeoutError:
                pass
        return max(time.monotonic() - now - pause_s, 0.0)


def until_next(period_s: float) -> float:
    """Seconds until the next multiple of the period, by the clock that timers go by."""
    return period_s - time.monotonic() % period_s
