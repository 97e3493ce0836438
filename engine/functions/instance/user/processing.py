"""The thread that runs the user's code on runs of messages and hands back slices of results."""

import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from engine.base.clock import Clock
from engine.client.consuming.incoming import Incoming
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee
from engine.functions.instance.user.function_context import FunctionContext
from engine.functions.instance.user.user_code import Call, load
from engine.functions.instance.user.value_codecs import Codec
from engine.functions.instance.user.windows import WindowCall, Windows

SLICE_S = 0.002
"""Seconds of results that are handed back together, so that the first does not wait for a slow last one."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 60.0
TICKS = 10
"""Checks of the time in one interval of a window."""


class PartitionTenure:
    """The time during which this instance alone handles a partition. ``over``: what was begun in it has no effect any
    more."""

    __slots__ = ("claimed", "logged", "over")

    def __init__(self) -> None:
        self.over = False
        self.logged = -1
        """The sequence id of the last input that was logged with the state before the tenure."""
        self.claimed = False
        """True when no other instance can log inputs of the partition."""


class MessageRun(NamedTuple):
    """Messages in order, and the codec of their values. ``tenure``: of their partition, None where others may process
    them as well."""

    codec: Codec
    messages: Sequence[Incoming]
    tenure: PartitionTenure | None = None


class ProcessingFailure(NamedTuple):
    """An exception and the messages that it concerns. ``kind``: whose fault it is, user or system. ``given_up``: their
    retries are used up. ``retried``: their processing is repeated here."""

    messages: Sequence[Incoming]
    kind: str
    text: str
    given_up: bool
    retried: bool


class WorkSlice:
    """Messages processed one after another, and their results. They are acknowledged together, when everything that
    they caused is stored."""

    __slots__ = (
        "changes", "done", "failures", "late", "latencies_s", "logged", "pending", "refused", "results", "source",
        "taken", "tenure",
    )  # fmt: skip

    def __init__(self, tenure: PartitionTenure | None) -> None:
        self.tenure = tenure
        self.source: Any = None
        """The attachment of its messages."""
        self.taken = 0
        """Messages that the thread has processed or dropped."""
        self.done: list[Incoming] = []
        """Messages to acknowledge."""
        self.results: list[tuple[Incoming, bytes]] = []
        self.late: list[Incoming] = []
        """Messages that are too late for every window, which are among those done."""
        self.failures: list[ProcessingFailure] = []
        self.latencies_s: list[float] = []
        self.changes: dict[bytes, bytes | None] = {}
        """Registers of the state that it changed, and their last values."""
        self.pending = 1
        """Publications without a receipt, and one until it is handed back."""
        self.refused: set[Incoming] = set()
        """Messages whose results could not be stored."""
        self.logged = True
        """False where its results leave without having been logged with the state."""


class UserThread:
    """Runs the user's code. ``hand_back`` is called on this thread with each slice, ``on_end`` with what ended it.

    An ordered function retries a failed message in place with rising pauses, until ``plan.retries``; the messages
    behind it wait (F6). Nothing more is processed of a partition that was lost (F7).
    """

    def __init__(
        self,
        plan: InstancePlan,
        call: Call,
        context: FunctionContext,
        output: Codec,
        clock: Clock,
        hand_back: Callable[[WorkSlice], None],
        on_end: Callable[[BaseException], None],
    ) -> None:
        self.call = call
        self._context = context
        self._encode = output.encode
        self._clock = clock
        self._hand_back = hand_back
        self._on_end = on_end
        self._retries = plan.retries
        self._in_place = plan.ordered and plan.guarantee is not ProcessingGuarantee.EFFECTIVELY_ONCE
        self._in_order = plan.ordered
        self._queue: queue.SimpleQueue[MessageRun | Callable[[], None] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._room = threading.Semaphore(plan.output.pending_max)
        self._windows: Windows[tuple[Incoming, Any]] | None = None
        self._timestamps: Any = None
        if plan.window is not None:
            self._windows = Windows(plan.window)
            if plan.window.timestamps:
                self._timestamps = load(plan.window.timestamps)()
        self.slice = WorkSlice(None)
        """The slice that is under way, for what the context does."""
        self._thread = threading.Thread(target=self._main, name="function", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, run: MessageRun) -> None:
        """Have a run processed after those before it."""
        self._queue.put(run)

    def between(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the thread, between runs."""
        self._queue.put(call)

    def wait_for_room(self) -> None:
        """Wait until fewer than ``pending_max`` publications of the user's code have no receipt. From its thread."""
        while not self._room.acquire(timeout=0.5):
            if self._stopping.is_set():
                return

    def add_room(self) -> None:
        """Note that a publication of the user's code has its receipt, or failed."""
        self._room.release()

    def stop(self) -> None:
        """End after the present message."""
        self._stopping.set()
        self._queue.put(None)

    def join(self, wait_s: float) -> bool:
        """Wait for the end after ``stop``; return whether it came in time."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    # --- on the thread ---------------------------------------------------------------------------

    def _main(self) -> None:
        tick_s = None
        if self._windows is not None and self._windows.tick_ms:
            tick_s = min(max(self._windows.tick_ms / TICKS / 1000, 0.01), 1.0)
        try:
            while not self._stopping.is_set():
                try:
                    taken = self._queue.get(timeout=tick_s)
                except queue.Empty:
                    taken = self._tick
                if taken is None:
                    return
                if isinstance(taken, MessageRun):
                    self._process(taken)
                else:
                    taken()
        except (
            BaseException
        ) as error:  # of this module: what user code raises is handled where it is called
            self._on_end(error)

    def _flush(self) -> None:
        """Hand back the slice and begin another."""
        part = self.slice
        self.slice = following = WorkSlice(part.tenure)
        following.source = part.source
        self._hand_back(part)

    def _process(self, run: MessageRun) -> None:
        tenure = run.tenure
        self.slice = WorkSlice(tenure)
        self.slice.source = run.messages[0].source
        until = perf_counter() + SLICE_S
        step = self._one if self._windows is None else self._into_window
        for index, message in enumerate(run.messages):
            if self._stopping.is_set():
                break
            if tenure is not None and tenure.over:
                # Dropped ones count as taken: their room in the queue is for others.
                self.slice.taken += len(run.messages) - index
                break
            step(run.codec, message)
            self.slice.taken += 1
            now = perf_counter()
            if now >= until:
                self._flush()
                until = now + SLICE_S
        if self._windows is not None:
            self._evaluate(self._windows.tick(self._clock.wall_ms()))
        self._flush()

    def _one(self, codec: Codec, message: Incoming) -> None:
        """Process one message; an ordered function's until it succeeds or is given up."""
        self._context.message = message
        attempts = 0
        while True:
            began = perf_counter()
            kind = "system"
            try:
                content = message.content
                value = None if content is None else codec.decode(content)
                kind = "user"
                result = self.call(value, self._context)
                kind = "system"
                data = None if result is None else self._encode(result)
            except Exception:
                part = self.slice
                part.failures.append(self._failure((message,), kind, attempts))
                attempts += 1
                if not part.failures[-1].retried or self._pause(attempts):
                    return
                continue
            part = self.slice
            if data is not None:
                part.results.append((message, data))
            part.latencies_s.append(perf_counter() - began)
            part.done.append(message)
            return

    def _pause(self, attempts: int) -> bool:
        """Hand back what is done, then wait before another attempt; return whether it is time to end instead."""
        self._flush()
        return self._stopping.wait(min(RETRY_FIRST_S * 2**attempts, RETRY_MAX_S))

    def _failure(self, messages: Sequence[Incoming], kind: str, attempts: int) -> ProcessingFailure:
        given_up = False
        if self._retries is not None and messages:
            tried = attempts if self._in_order else messages[0].redelivery_count
            given_up = tried >= self._retries
        return ProcessingFailure(
            messages, kind, traceback.format_exc(), given_up, self._in_place and not given_up
        )

    # --- windows ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        assert self._windows is not None
        self.slice = WorkSlice(None)
        self._evaluate(self._windows.tick(self._clock.wall_ms()))
        self._flush()

    def _into_window(self, codec: Codec, message: Incoming) -> None:
        windows = self._windows
        assert windows is not None
        try:
            value = None if message.content is None else codec.decode(message.content)
            at_ms = self._clock.wall_ms()
            if self._timestamps is not None:
                at_ms = int(self._timestamps.extract_timestamp(value))
        except Exception:
            self.slice.failures.append(self._failure((message,), "system", 0))
            return
        if windows.is_late(at_ms):
            self.slice.late.append(message)
            self.slice.done.append(message)
            return
        self._evaluate(windows.add((message, value), at_ms))

    def _evaluate(self, calls: Sequence[WindowCall[tuple[Incoming, Any]]]) -> None:
        context = self._context
        for call in calls:
            leaving = [message for message, _ in call.leaving]
            if not call.items:
                self.slice.done += leaving
                continue
            context.window = [message for message, _ in call.items]
            context.message = last = context.window[-1]
            began = perf_counter()
            kind = "user"
            try:
                result = self.call([value for _, value in call.items], context)
                kind = "system"
                data = None if result is None else self._encode(result)
            except Exception:
                self.slice.failures.append(self._failure(leaving, kind, 0))
                continue
            if data is not None:
                self.slice.results.append((last, data))
            self.slice.latencies_s.append(perf_counter() - began)
            self.slice.done += leaving
