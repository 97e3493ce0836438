"""Long polls: readers that wait until a ledger's LAC passes the one they know.

Nothing is kept for a ledger without waiting readers. Adds check ``by_ledger`` once per journal record.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from bookie.requests.connection import BookieConnection

K = TypeVar("K")


class _Waiter:
    __slots__ = ("connection", "ledger_id", "previous", "timer", "wake")

    def __init__(
        self,
        connection: BookieConnection,
        ledger_id: int,
        previous: int,
        wake: Callable[[bool], None],
    ) -> None:
        self.connection = connection
        self.ledger_id = ledger_id
        self.previous = previous
        self.wake = wake
        self.timer: asyncio.TimerHandle | None = None


class LacWaiters:
    """Waiting long polls, at most ``waiters_max``, each with one timer."""

    def __init__(self, waiters_max: int) -> None:
        self._waiters_max = waiters_max
        self.by_ledger: dict[int, dict[_Waiter, None]] = {}
        self._by_connection: dict[BookieConnection, dict[_Waiter, None]] = {}
        self.waiting = 0

    def wait(
        self,
        connection: BookieConnection,
        ledger_id: int,
        previous: int,
        timeout_s: float,
        wake: Callable[[bool], None],
    ) -> bool:
        """Call ``wake(advanced)`` once: True when an entry above ``previous`` is confirmed, False after the time or a
        fence.

        ``wake`` is not called after ``connection`` was dropped. Return False when too many wait already.
        """
        if self.waiting >= self._waiters_max:
            return False
        waiter = _Waiter(connection, ledger_id, previous, wake)
        self.by_ledger.setdefault(ledger_id, {})[waiter] = None
        self._by_connection.setdefault(connection, {})[waiter] = None
        self.waiting += 1
        loop = asyncio.get_running_loop()
        waiter.timer = loop.call_later(timeout_s, self._end, waiter, False)
        return True

    def advanced(self, ledger_id: int, lac: int) -> None:
        """Wake the readers of a ledger that wait for an entry up to ``lac``."""
        for waiter in list(self.by_ledger.get(ledger_id, ())):
            if waiter.previous < lac:
                self._end(waiter, True)

    def fenced(self, ledger_id: int) -> None:
        """Wake all readers of a ledger: its writer confirms nothing more."""
        for waiter in list(self.by_ledger.get(ledger_id, ())):
            self._end(waiter, False)

    def drop(self, connection: BookieConnection) -> None:
        """Remove the waiters of a closed connection."""
        for waiter in list(self._by_connection.get(connection, ())):
            self._remove(waiter)

    def _end(self, waiter: _Waiter, advanced: bool) -> None:
        self._remove(waiter)
        waiter.wake(advanced)

    def _remove(self, waiter: _Waiter) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
        self.waiting -= 1
        _take_out(self.by_ledger, waiter.ledger_id, waiter)
        _take_out(self._by_connection, waiter.connection, waiter)


def _take_out(table: dict[K, dict[_Waiter, None]], key: K, waiter: _Waiter) -> None:
    del table[key][waiter]
    if not table[key]:
        del table[key]
