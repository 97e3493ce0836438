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

LOOK_EVERY = 16
"""Collections of generation 1 between two looks at how large the heap is, which takes 3 ms for half a gigabyte."""


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
    """What the collector calls before and after it looks: generation 0 is the youngest, 2 is all that is not frozen."""

    def __init__(self) -> None:
        self._blocks = sys.getallocatedblocks()
        """Of the heap, when all of it was last looked through."""
        self._turns = 0
        self._due = False
        """Whether nothing is frozen, and the next collection of generation 2 looks through all of the heap."""

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        generation = info["generation"]
        if phase == "start":
            if generation == 2:
                self._look()
            return
        if generation == 1 and not self._due:
            self._turns += 1
            if self._turns % LOOK_EVERY == 0:
                self._look()
        if generation == 2 and self._due:
            self._blocks = sys.getallocatedblocks()
            self._due = False
        if generation > 0 and not self._due:
            gc.freeze()

    def _look(self) -> None:
        """Thaw all of the heap once it has doubled. Nothing is frozen until it was looked through: freezing begins the
        collector's count of collections anew, and it would never come to generation 2 by itself."""
        if not self._due and sys.getallocatedblocks() > 2 * self._blocks:
            self._due = True
            gc.unfreeze()
