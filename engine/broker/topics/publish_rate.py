"""Publish rates: what is sent beyond one waits, and nothing more is read from whoever sent it (D15).

A stage of a topic while a limit is set, for the topic alone or one for all topics of the broker. What fits passes as it
came; of what does not the entries pass in order as tokens come, a run at a time (never more often than each
``PAUSE_S_MIN``). Connections that send nothing to a limited topic are read as before, whoever waits: those that were
stopped are read again a few at a time, in small pieces, so that they take no more of a turn of the loop than what
passes is worth, and what waits has no part in the broker's budget for what is published.
"""

from collections import deque
from itertools import islice

from engine.broker.control.rate_limit import RateLimit, fitting
from engine.broker.outlet import Outlet
from engine.broker.topics.publish import Publish, StagePlace


class PublishRate:
    """``times``: how often a connection was stopped. ``name`` is told apart from other reasons to stop it."""

    __slots__ = ("_at_once", "_held", "_limit", "_name", "_waiting", "place", "times")

    def __init__(self, limit: RateLimit, name: str, place: StagePlace) -> None:
        self._limit = limit
        self._name = name
        self.place = place
        # A deque is 620 bytes, and most topics have no such limit: made when something waits.
        self._waiting: deque[tuple[Publish, int]] | tuple[()] = ()
        """Runs of one producer each, and their first entry that waits."""
        self._held: dict[Outlet, None] = {}
        self._at_once = 1
        """How many of them are read on together."""
        self.times = 0

    def admit(self, publish: Publish) -> bool:
        run, limit = publish.run, self._limit
        if not self._waiting and limit.admits(self._go_on):
            messages, size = limit.room()
            if run.messages <= messages and run.size <= size:
                limit.charge(run.messages, run.size)
                if run.messages == messages or run.size == size:
                    self._stop_reading(publish.producer.outlet)
                    limit.wait(self._go_on)
                return True
        waiting = self._waiting = self._waiting or deque()
        parts = [publish] if publish.owners is None else publish.parts()
        waiting.extend((part, 0) for part in parts)
        publish.producer.outlet.publish_budget.give(run.size, run.count)
        self._stop_reading(publish.producer.outlet)
        self._go_on()
        return False

    @property
    def _reason(self) -> str:
        return f"publish rate of {self._name}"

    def _stop_reading(self, outlet: Outlet) -> None:
        if outlet not in self._held:
            self._held[outlet] = None
            self.times += 1
            outlet.hold(self._reason)
            outlet.read_little()

    def _go_on(self) -> None:
        """Let pass what may now; once nothing waits, read on."""
        limit, waiting = self._limit, self._waiting
        if not limit.admits(self._go_on):
            limit.wait(self._go_on)
            return
        while waiting and limit.admits(self._go_on):
            publish, start = waiting[0]
            run = publish.run
            if not publish.producer.takes:  # the client sends it again
                waiting.popleft()
                _taken(publish, start).drop()
                continue
            stop = start + fitting(run.spans, run.counts, range(start, run.count), limit.room())
            if stop < run.count:
                waiting[0] = (publish, stop)
                part = _taken(publish, start, stop)
            else:
                waiting.popleft()
                part = _taken(publish, start)
            limit.charge(part.run.messages, part.run.size)
            part.producer.topic.admitted(part, self)
        if waiting:
            self._at_once = max(self._at_once // 2, 1)
        elif limit.admits(self._go_on):
            self._read_on()
        if self._held or waiting:
            limit.wait(self._go_on)

    def _read_on(self) -> None:
        """Those who were stopped first are read; next time twice as many, while they bring less than may pass."""
        for outlet in list(islice(self._held, self._at_once)):
            self._read(outlet)
        if self._at_once < len(self._held):
            self._at_once *= 2

    def _read(self, outlet: Outlet) -> None:
        del self._held[outlet]
        outlet.release(self._reason)

    def pass_on(self, topic: object) -> None:
        """``topic`` is under the limit no more: what waits for it passes."""
        waiting, self._waiting = self._waiting, deque()
        for publish, start in waiting:
            if publish.producer.topic is not topic:
                self._waiting.append((publish, start))
            elif publish.producer.takes:
                publish.producer.topic.admitted(_taken(publish, start), self)
            else:
                _taken(publish, start).drop()
        if not self._waiting:
            self._leave()

    def end(self) -> None:
        """Its topic is served no more: what waits is dropped, for the clients to send it again, and whoever was stopped
        is read."""
        waiting, self._waiting = self._waiting, ()
        for publish, start in waiting:
            _taken(publish, start).drop()
        self._leave()

    def _leave(self) -> None:
        """Nothing waits any more, and whoever was stopped is read."""
        self._limit.leave(self._go_on)
        for outlet in list(self._held):
            self._read(outlet)

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


def _taken(publish: Publish, start: int, stop: int | None = None) -> Publish:
    """Entries ``start`` to ``stop`` of what waited, from now on in the budget of their connection again."""
    count = publish.run.count
    stop = count if stop is None else stop
    part = publish if (start, stop) == (0, count) else publish.part(range(start, stop))
    part.producer.outlet.publish_budget.take(part.run.size, part.run.count)
    return part
