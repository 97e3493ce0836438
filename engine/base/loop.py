"""The event loop of brokers and bookies: the stock one, and callbacks at the end of a wake-up; and what keeps the
garbage collector from holding it up.

What one wake-up of the loop brings (a bookie's answers, receipts for many clients) is gathered and written once. With
``call_soon`` each such step costs a further turn of the loop with its system call, six for a message that is alone on
its way; ``call_last`` runs them in the turn that caused them.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Mapping


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


def shorten_collections() -> None:
    """Have the garbage collector look at each object while it is young, and then no more; to be called once a process
    has started. Looking through 100,000 objects holds up everybody for 0.1 s, and CPython does it whenever there are
    a quarter more. What lives long here (topics, cursors, connections) is in no circles and goes by its reference
    counts; circles that grew old are looked for when the heap has doubled."""
    gc.collect()
    gc.freeze()
    if sys.version_info < (3, 14):  # later ones look at a little at a time
        gc.callbacks.append(_Collections())


class _Collections:
    """What the collector calls before and after it looks."""

    def __init__(self) -> None:
        self._blocks = sys.getallocatedblocks()
        """Of the heap, when it was last looked through."""

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] > 0:
            gc.freeze()
        elif info["generation"] == 2 and (blocks := sys.getallocatedblocks()) > 2 * self._blocks:
            self._blocks = blocks
            gc.unfreeze()
