"""Calls from the user's thread to the event loop, woken once for many."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Bridge:
    """Runs what threads ``post`` on the loop that made it, in order. ``on_error`` is called with what a call raises;
    nothing is run behind it."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._waking = False

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Run ``call`` on the loop soon. From any thread."""
        self._calls.append((call, arguments))
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        # Before the calls: what is posted meanwhile wakes the loop again or is run here.
        self._waking = False
        calls = self._calls
        try:
            while calls:
                call, arguments = calls.popleft()
                call(*arguments)
        except Exception as error:
            # Without that call, messages would stay unacknowledged for ever: the instance is to start again.
            calls.clear()
            self._waking = True
            self._on_error(error)
