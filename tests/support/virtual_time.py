"""Time that does not depend on the machine, for tests marked ``virtual_time``: they may wait for timers and for nothing
outside of the process, such as sockets, files or threads."""

import asyncio

TURNS_MAX = 500_000
"""Turns of the loop at one moment: only a test that polls with ``sleep(0)`` has as many, and would never end."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that advances its time to the next timer as soon as it is idle."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        selector = self._selector  # type: ignore[attr-defined]
        wait = selector.select

        def select(timeout: float | None = None) -> object:
            self._turns = 0 if timeout else self._turns + 1
            if self._turns > TURNS_MAX:
                raise RuntimeError(
                    f"{TURNS_MAX} turns of the loop while no time passed: wait with sleep(0.001)"
                )
            if timeout is not None:
                self._now += max(timeout, 0.0)
                timeout = 0.0
            return wait(timeout)

        selector.select = select

    def time(self) -> float:
        return self._now
