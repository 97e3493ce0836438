"""One run of any kind, and its violations."""

import contextlib
import gc
import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tests.sim.kit import tripwire
from tests.sim.kit.loop import NODE, Deadlock, SimLoop, simulate


@dataclass
class Result:
    """A run and its violations. ``violations`` is empty when every promise held; each begins with the name of the
    violated promise and a colon."""

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    events: int = 0
    trace: str = ""
    plan: str = ""


class StandsStill(SystemExit):
    """Simulated code runs without returning to the loop."""


CPU_S_MAX = 30
"""CPU seconds after which a run of minutes counts as an endless loop; the longest take a tenth."""
CPU_S_PER_DAY = 60


class Played(Protocol):
    """One run. It is made inside the loop; ``result.plan`` describes what was drawn."""

    async def main(self) -> None:
        """Make the run. Violations noticed on the way are added to the result."""

    def judge(self) -> None:
        """Add counts and the checkers' violations to the result. Called after the loop has ended, however it did."""


Make = Callable[[SimLoop, Result, bool], Played]


class _Errors(logging.Handler):
    """The log of simulated code: lines for ``--verbose``, and ERROR as a violation."""

    def __init__(self, loop: SimLoop, verbose: bool) -> None:
        super().__init__(logging.DEBUG if verbose else logging.ERROR)
        self.loop = loop
        self.verbose = verbose
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{self.loop.now:8.3f} {NODE.get().name} {record.levelname} {record.name} {record.getMessage()}"
        if record.levelno >= logging.ERROR and NODE.get().name not in self.loop.excused:
            if record.exc_info and record.exc_info[1] is not None:
                text += "\n" + trace_of(record.exc_info[1])
            self.found.append(text)
        if self.verbose:
            print(text, flush=True)


@contextlib.contextmanager
def _bounded(limit_s: float) -> Iterator[None]:
    """Raise StandsStill, wherever the code is, after the CPU seconds that a run of ``limit_s`` may take."""

    def over(*_: object) -> None:
        raise StandsStill(f"the loop was not given back\n{''.join(traceback.format_stack()[-8:])}")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_MAX + CPU_S_PER_DAY * limit_s / 86_400)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-6:])


def play(seed: int, make: Make, limit_s: float, *, verbose: bool = False) -> Result:
    """Run one seed of what ``make`` gives, at most ``limit_s`` simulated seconds.

    Nothing is raised: whatever went wrong is in the result.
    """
    result = Result(seed)
    made: list[tuple[SimLoop, Played | None]] = []
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    started = time.process_time()

    async def main(loop: SimLoop) -> None:
        made.append((loop, None))
        errors = _Errors(loop, verbose)
        root.handlers[:] = [errors]
        root.setLevel(logging.DEBUG if verbose else logging.ERROR)
        run = make(loop, result, verbose)
        made[0] = (loop, run)
        try:
            await run.main()
        finally:
            result.violations += [f"error logged: {text}" for text in errors.found[:3]]

    gc.collect()
    gc.freeze()  # tasks of earlier runs stay for ever: no need to look at them again
    gc.disable()
    try:
        with tripwire.armed(), _bounded(limit_s):
            simulate(seed, main, limit_s)
    except (Deadlock, TimeoutError, StandsStill) as error:
        result.violations.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        result.violations.append(f"the run failed: {trace_of(error)}")
    finally:
        gc.enable()
        root.handlers[:], root.level = before[0], before[1]
    if made:
        _judge(result, *made[0])
    result.cpu_s = time.process_time() - started
    return result


def _judge(result: Result, loop: SimLoop, run: Played | None) -> None:
    result.simulated_s, result.events = loop.now, loop.events
    for context in loop.failures[:3]:
        error = context.get("exception")
        text = trace_of(error) if error is not None else ""
        result.violations.append(f"not caught: {context.get('message')} {text}")
    if run is not None:
        run.judge()
    loop.note("counts", result.counts)
    result.trace = loop.trace.hexdigest()
