"""IntervalCounts, latencies and exceptions of one instance, and their texts. Pure: times are given."""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

BUCKETS_MS = (0.1, 0.5, 1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000)
TROUBLES_KEPT = 10
TROUBLE_BYTES_MAX = 16 * 1024
"""Characters of an exception's text that are kept: its end, which names the exception."""
USER_METRICS_MAX = 1000
MINUTE_MS = 60_000
_NAME = re.compile(r"[^a-zA-Z0-9_:]")


class IntervalCounts:
    """Counts of one interval."""

    __slots__ = ("kinds", "latency_ms", "processed", "received")

    def __init__(self) -> None:
        self.received = 0
        self.processed = 0
        self.latency_ms = 0.0
        self.kinds = dict.fromkeys(("user", "system", "source", "sink"), 0)

    def shown(self) -> dict[str, Any]:
        average = self.latency_ms / self.processed if self.processed else None
        return {
            "received": self.received,
            "processed": self.processed,
            "user_exceptions": self.kinds["user"],
            "system_exceptions": self.kinds["system"],
            "average_latency_ms": average,
        }


class InstanceFigures:
    """Figures of an instance. ``labels``: of every metric. Only the loop's thread changes them."""

    def __init__(self, labels: Mapping[str, str], component: str = "function") -> None:
        self.total = IntervalCounts()
        self.written = 0
        self.last_invocation_ms: int | None = None
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self._labels = labels
        self._component = component
        self._minute = IntervalCounts()
        self._last_minute = IntervalCounts()
        self._minute_began = 0
        self._troubles: dict[str, deque[dict[str, Any]]] = {
            kind: deque(maxlen=TROUBLES_KEPT) for kind in self.total.kinds
        }
        self._user: dict[str, list[float]] = {}

    def _both(self, now_ms: int) -> tuple[IntervalCounts, IntervalCounts]:
        """Return the counts of all time and of the running minute."""
        if now_ms - self._minute_began >= MINUTE_MS:
            whole = now_ms - self._minute_began < 2 * MINUTE_MS
            self._last_minute = self._minute if whole else IntervalCounts()
            self._minute, self._minute_began = IntervalCounts(), now_ms - now_ms % MINUTE_MS
        return self.total, self._minute

    def received(self, count: int, now_ms: int) -> None:
        for counts in self._both(now_ms):
            counts.received += count

    def processed(self, latencies_s: Sequence[float], now_ms: int) -> None:
        """Count messages whose processing succeeded, in seconds each."""
        buckets = self.buckets
        for latency in latencies_s:
            buckets[bisect_left(BUCKETS_MS, latency * 1000)] += 1
        summed = sum(latencies_s) * 1000
        for counts in self._both(now_ms):
            counts.processed += len(latencies_s)
            counts.latency_ms += summed
        self.last_invocation_ms = now_ms

    def trouble(self, kind: str, text: str, now_ms: int) -> None:
        """Count an exception of ``kind``: user, system, source or sink."""
        for counts in self._both(now_ms):
            counts.kinds[kind] += 1
        self._troubles[kind].appendleft({"text": text[-TROUBLE_BYTES_MAX:], "at_ms": now_ms})

    def user_metric(self, name: str, value: float) -> None:
        """Record a value of the user's. Names above USER_METRICS_MAX are not kept."""
        summary = self._user.get(name)
        if summary is None:
            if len(self._user) >= USER_METRICS_MAX:
                return
            summary = self._user[name] = [0, 0.0]
        summary[0] += 1
        summary[1] += value

    def status(self) -> dict[str, Any]:
        """Return the fields of InstanceStatus that are counted here."""
        total = self.total
        return {
            "received": total.received,
            "processed": total.processed,
            "written": self.written,
            **{f"{kind}_exceptions": count for kind, count in total.kinds.items()},
            **{f"latest_{kind}_exceptions": list(kept) for kind, kept in self._troubles.items()},
            "average_latency_ms": total.shown()["average_latency_ms"],
            "last_invocation_ms": self.last_invocation_ms,
        }

    def user_metrics(self) -> dict[str, float]:
        shown: dict[str, float] = {}
        for name, (count, summed) in self._user.items():
            shown[f"user_metric_{name}_count"] = count
            shown[f"user_metric_{name}_sum"] = summed
        return shown

    def stats(self, now_ms: int) -> dict[str, Any]:
        """Return the fields of InstanceStats."""
        self._both(now_ms)
        cumulative, buckets = 0, {}
        for bound, count in zip((*BUCKETS_MS, float("inf")), self.buckets, strict=True):
            cumulative += count
            buckets["+Inf" if bound == float("inf") else f"{bound:g}"] = cumulative
        return {
            "total": self.total.shown(),
            "last_minute": self._last_minute.shown(),
            "last_invocation_ms": self.last_invocation_ms,
            "user_metrics": self.user_metrics(),
            "latency_buckets": buckets,
        }

    def prometheus(self, now_ms: int) -> str:
        """Return the lines of Prometheus under Apache's names."""
        self._both(now_ms)
        prefix, total, last = f"pulsar_{self._component}", self.total, self._last_minute
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in self._labels.items())
        lines: list[str] = []

        def line(name: str, value: float, more: str = "") -> None:
            lines.append(f"{prefix}_{name}{{{labels}{more}}} {value:g}")

        done = "processed_successfully" if self._component == "function" else "written"
        for name, amount, minute in (
            ("received", total.received, last.received),
            (done, total.processed, last.processed),
            ("user_exceptions", total.kinds["user"], last.kinds["user"]),
            ("system_exceptions", total.kinds["system"], last.kinds["system"]),
            ("source_exceptions", total.kinds["source"], last.kinds["source"]),
            ("sink_exceptions", total.kinds["sink"], last.kinds["sink"]),
        ):
            if name in ("source_exceptions", "sink_exceptions") and not name.startswith(
                self._component
            ):
                continue
            lines.append(f"# TYPE {prefix}_{name}_total counter")
            line(f"{name}_total", amount)
            lines.append(f"# TYPE {prefix}_{name}_1min_total counter")
            line(f"{name}_1min_total", minute)
        lines.append(f"# TYPE {prefix}_process_latency_ms histogram")
        cumulative = 0
        for bound, count in zip((*BUCKETS_MS, "+Inf"), self.buckets, strict=True):
            cumulative += count
            line("process_latency_ms_bucket", cumulative, f',le="{bound}"')
        line("process_latency_ms_count", total.processed)
        line("process_latency_ms_sum", total.latency_ms)
        lines.append(f"# TYPE {prefix}_last_invocation gauge")
        line("last_invocation", self.last_invocation_ms or 0)
        lines.append(f"# TYPE {prefix}_user_metric summary")
        for name, (times, summed) in self._user.items():
            metric = f',metric="{_escaped(name)}"'
            line("user_metric_count", times, metric)
            line("user_metric_sum", summed, metric)
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
