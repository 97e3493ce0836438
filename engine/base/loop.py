"""The event loop of brokers and bookies: the stock one, and callbacks at the end of a wake-up.

What one wake-up of the loop brings (a bookie's answers, receipts for many clients) is gathered and written once. With
``call_soon`` each such step costs a further turn of the loop with its system call, six for a message that is alone on
its way; ``call_last`` runs them in the turn that caused them.
"""

import asyncio
from collections.abc import Callable


class EventLoop(asyncio.SelectorEventLoop):
    """For ``asyncio.Runner(loop_factory=EventLoop)``."""

    def __init__(self) -> None:
        super().__init__()
        self._last: list[Callable[[], object]] = []

    def call_last(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when everything that is ready now has run, before the loop looks for more.

        Only from callbacks of this loop. Callbacks run in order, in no particular context; those they add follow.
        """
        self._last.append(callback)

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        while self._last:
            due, self._last = self._last, []
            for callback in due:
                try:
                    callback()
                except Exception as error:
                    self.call_exception_handler(
                        {"message": f"exception in {callback!r}", "exception": error}
                    )


def last_call(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], object]], object]:
    """How to run something at the end of the wake-up: ``call_last``, on other loops (jobs, tests) ``call_soon``."""
    return loop.call_last if isinstance(loop, EventLoop) else loop.call_soon
