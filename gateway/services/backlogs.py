"""How fast a backlog moves, from samples of it. Pure but for the samples it keeps."""

from collections import OrderedDict, deque

WINDOW_MS = 20_000
SPAN_MS_MIN = 2_000
"""Shortest history that is trusted more than the broker's own rates."""
SUBSCRIPTIONS_MAX = 4_096
STILL = 0.5
"""A backlog that changes by less than this many entries per second stands still."""


class Backlogs:
    """Recent backlog samples of the subscriptions somebody looks at; the longest unseen are forgotten."""

    def __init__(self) -> None:
        self._samples: OrderedDict[tuple[str, str], deque[tuple[int, int]]] = OrderedDict()

    def net_rate(
        self, topic: str, subscription: str, at_ms: int, backlog: int, rates: float
    ) -> float:
        """Entries per second by which the backlog grows (negative: drains), over the last ``WINDOW_MS``.

        ``rates`` is the difference of the broker's in and out rates, used until the history is long enough.
        """
        key = (topic, subscription)
        samples = self._samples.setdefault(key, deque(maxlen=64))
        self._samples.move_to_end(key)
        if len(self._samples) > SUBSCRIPTIONS_MAX:
            self._samples.popitem(last=False)
        if not samples or at_ms - samples[-1][0] >= 500:
            samples.append((at_ms, backlog))
        while at_ms - samples[0][0] > WINDOW_MS:
            samples.popleft()
        span_ms = at_ms - samples[0][0] if samples else 0
        if span_ms < SPAN_MS_MIN:
            return rates
        return (backlog - samples[0][1]) * 1000.0 / span_ms
