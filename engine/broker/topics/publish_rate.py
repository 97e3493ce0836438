"""Publish rates: messages beyond a rate wait, and their connections are not read meanwhile (D15).

A publish rate is a stage while its limit is set, for one topic, a resource group or all topics of the broker. Runs that
fit pass unchanged. The others pass in order as tokens arrive, a part at a time and at intervals of at least
``PAUSE_S_MIN``. Connections that send nothing to a limited topic are read as before. Stopped connections are resumed a
few at a time and read in small pieces, so that their reading takes no more of a turn of the loop than what may pass.
Waiting messages do not count in the broker's budget of published bytes.
"""

from collections import deque
from itertools import islice

from engine.broker.control.rate_limit import RateLimit, fitting
from engine.broker.outlet import Outlet
from engine.broker.topics.publish import Publish, StagePlace


class PublishRate:
    """One publish rate. ``times`` counts stops of connections; ``name`` identifies the reason for a stop."""

    __slots__ = ("_limit", "_name", "_resumed_at_once", "_stopped", "_waiting", "place", "times")

    def __init__(self, limit: RateLimit, name: str, place: StagePlace) -> None:
        self._limit = limit
        self._name = name
        self.place = place
        # A deque has 620 bytes, and most topics have no such limit: it is created for the first run that waits.
        self._waiting: deque[tuple[Publish, int]] | tuple[()] = ()
        """Runs of one producer each, with the index of their first waiting entry."""
        self._stopped: dict[Outlet, None] = {}
        """Connections that are not read now, in the order in which they were stopped."""
        self._resumed_at_once = 1
        """Number of connections that are resumed together."""
        self.times = 0

    def admit(self, publish: Publish) -> bool:
        run, limit = publish.run, self._limit
        # A run passes only when none waits, so that the order of each producer holds (D9).
        if not self._waiting and limit.admits(self._pass_waiting):
            messages, size = limit.room()
            if run.messages <= messages and run.size <= size:
                limit.charge(run.messages, run.size)
                # The tokens are used up exactly: stop reading now, before a run has to wait.
                if run.messages == messages or run.size == size:
                    self._stop_reading(publish.producer.outlet)
                    limit.wait(self._pass_waiting)
                return True
        waiting = self._waiting = self._waiting or deque()
        parts = [publish] if publish.owners is None else publish.parts()
        waiting.extend((part, 0) for part in parts)
        publish.producer.outlet.publish_budget.give(run.size, run.count)
        self._stop_reading(publish.producer.outlet)
        self._pass_waiting()
        return False

    @property
    def _reason(self) -> str:
        return f"publish rate of {self._name}"

    def _stop_reading(self, outlet: Outlet) -> None:
        if outlet not in self._stopped:
            self._stopped[outlet] = None
            self.times += 1
            outlet.hold(self._reason)
            outlet.limit_reads()

    def _pass_waiting(self) -> None:
        """Pass the runs for which there are tokens; resume reading once none waits."""
        limit, waiting = self._limit, self._waiting
        if not limit.admits(self._pass_waiting):
            limit.wait(self._pass_waiting)
            return
        while waiting and limit.admits(self._pass_waiting):
            publish, start = waiting[0]
            run = publish.run
            if not publish.producer.takes:  # the client sends it again
                waiting.popleft()
                _charged_part(publish, start).drop()
                continue
            stop = start + fitting(run.spans, run.counts, range(start, run.count), limit.room())
            if stop < run.count:
                waiting[0] = (publish, stop)
                part = _charged_part(publish, start, stop)
            else:
                waiting.popleft()
                part = _charged_part(publish, start)
            limit.charge(part.run.messages, part.run.size)
            part.producer.topic.admitted(part, self)
        if waiting:
            self._resumed_at_once = max(self._resumed_at_once // 2, 1)
        elif limit.admits(self._pass_waiting):
            self._resume_some()
        if self._stopped or waiting:
            limit.wait(self._pass_waiting)

    def _resume_some(self) -> None:
        """Resume the connections stopped first, and twice as many next time, while they send less than may pass."""
        for outlet in list(islice(self._stopped, self._resumed_at_once)):
            self._resume(outlet)
        if self._resumed_at_once < len(self._stopped):
            self._resumed_at_once *= 2

    def _resume(self, outlet: Outlet) -> None:
        del self._stopped[outlet]
        outlet.release(self._reason)

    def pass_on(self, topic: object) -> None:
        """Pass the waiting runs of ``topic``, to which the limit no longer applies."""
        waiting, self._waiting = self._waiting, deque()
        for publish, start in waiting:
            if publish.producer.topic is not topic:
                self._waiting.append((publish, start))
            elif publish.producer.takes:
                publish.producer.topic.admitted(_charged_part(publish, start), self)
            else:
                _charged_part(publish, start).drop()
        if not self._waiting:
            self._end_waiting()

    def end(self) -> None:
        """Drop the waiting runs, which the clients send again, and resume reading: the topic is no longer served."""
        waiting, self._waiting = self._waiting, ()
        for publish, start in waiting:
            _charged_part(publish, start).drop()
        self._end_waiting()

    def _end_waiting(self) -> None:
        """Leave the line of the limit and resume all stopped connections, when no run waits."""
        self._limit.leave(self._pass_waiting)
        for outlet in list(self._stopped):
            self._resume(outlet)

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


def _charged_part(publish: Publish, start: int, stop: int | None = None) -> Publish:
    """Return entries ``start`` to ``stop`` of a run that waited, charged to their connection's budget again."""
    count = publish.run.count
    stop = count if stop is None else stop
    part = publish if (start, stop) == (0, count) else publish.part(range(start, stop))
    part.producer.outlet.publish_budget.take(part.run.size, part.run.count)
    return part
