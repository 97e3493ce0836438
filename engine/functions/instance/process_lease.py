"""The end of an instance's process at the time at which another worker may start the same instance (F2).

The worker renews the lease while its session with the metadata store is proven. A worker that is suspended by the
operating system, or that hangs, renews nothing, and cannot end its instances.
"""

import asyncio
import logging
import os
import signal

from engine.base.clock import Clock

log = logging.getLogger(__name__)

EARLY_S = 0.05
"""Seconds before the end at which the event loop ends the process group; the kernel's timer is for one that hangs."""
LEASE_OVER = (
    "the instance ended itself: its lease was not renewed. Its worker was suspended or has lost its session, or the "
    "code held Python's lock for that long"
)


class ProcessLease:
    """The lease of this process, which has a process group of its own; made inside the running loop of the main thread.

    The kernel ends a process that was suspended beyond its lease before it runs again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def renew(self, end_s: float) -> None:
        """End this process at ``end_s`` of the monotonic clock, instead of at the former time."""
        if self._timer is not None:
            self._timer.cancel()
        remaining_s = end_s - self._clock.monotonic_s()
        if remaining_s <= EARLY_S:
            self._end()
            return
        # Nothing has to run for it: neither a loop that hangs nor code that keeps Python's lock holds it up.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, remaining_s)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(remaining_s - EARLY_S, self._end)

    def _end(self) -> None:
        log.error("%s", LEASE_OVER)
        os.killpg(os.getpgrp(), signal.SIGKILL)
