"""Rates at which backlogs change, estimated from samples. Pure but for the samples that it keeps."""

from collections import OrderedDict, deque

WINDOW_MS = 20_000
SPAN_MS_MIN = 2_000
"""Shortest history that is trusted more than the broker's own rates."""
SUBSCRIPTIONS_MAX = 4_096
STILL = 0.5
"""Change in entries per second below which a backlog counts as constant."""


class Backlogs:
    """Recent backlog samples of the subscriptions that are shown; the least recently sampled ones are dropped."""

    def __init__(self) -> None:
        self._samples: OrderedDict[tuple[str, str], deque[tuple[int, int]]] = OrderedDict()

    def net_rate(
        self, topic: str, subscription: str, at_ms: int, backlog: int, rates: float
    ) -> float:
        """Add a sample; return the entries per second by which the backlog grew over the last ``WINDOW_MS``, negative
        when it shrank.

        ``rates``, the difference of the broker's in and out rates, is returned while the history is too short.
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
