"""Keys that become due a fixed time after they were added: one timer for all of them."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")

TICK_S = 0.1
"""Least delay in seconds. Keys due within half of it are reported together."""


class Delays(Generic[K]):
    """Keys waiting for one delay. ``on_due`` is called with keys whose ``delay_s`` is over, at least one, in the order
    of adding."""

    def __init__(self, delay_s: float, on_due: Callable[[list[K]], None]) -> None:
        self._delay_s = max(delay_s, TICK_S)
        self._on_due = on_due
        self._due: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K) -> None:
        """Make a key due after the delay from now, also when it waits already."""
        self._due.pop(key, None)
        self._due[key] = self._loop.time() + self._delay_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._delay_s, self._fire)

    def discard(self, key: K) -> None:
        """Remove a key."""
        self._due.pop(key, None)

    def keep(self, condition: Callable[[K], bool]) -> None:
        """Remove all keys except those for which ``condition`` is true."""
        self._due = {key: due for key, due in self._due.items() if condition(key)}

    def expire_all(self) -> None:
        """Make all keys due now."""
        due_keys = list(self._due)
        self.close()
        if due_keys:
            self._on_due(due_keys)

    def close(self) -> None:
        """Remove all keys."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        until = self._loop.time() + TICK_S / 2
        due_keys: list[K] = []
        for key, due in self._due.items():
            if due > until:
                self._timer = self._loop.call_at(due, self._fire)
                break
            due_keys.append(key)
        for key in due_keys:
            del self._due[key]
        if due_keys:
            self._on_due(due_keys)
