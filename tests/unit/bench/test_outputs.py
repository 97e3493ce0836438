"""Figures in the outputs of other systems' load programs."""

from collections.abc import Callable

import pytest

from tests.bench.figures import Figures
from tests.bench.systems import outputs

PRODUCER = """\
1200000 records sent, 80000.5 records/sec (7.63 MB/sec), 9.25 ms avg latency, 700.00 ms max latency
1000000 steady state records sent, 95000.2 records/sec (9.06 MB/sec), 2.50 ms avg latency, 31.00 ms max latency
"""
CONSUMER = """\
start.time, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.nMsg.sec
2026-11-01 10:00:00:000, 100000, 20000.0, 3000, 2000, 50000.0
"""
MANY = "NATS JetStream asynchronous publisher stats: 63,270 msgs/sec ~ 6.0 MiB/sec\n"
ONE = (
    "NATS JetStream synchronous publisher stats: 1,065 msgs/sec ~ min: 210.01us ~ avg: 1,937.00us\n"
)
REDIS = """\
"test","rps","avg_latency_ms","min_latency_ms"
"XADD a * v xx","178571.42","0.250","0.1"
"""


@pytest.mark.parametrize(
    ("read", "output", "figures"),
    [
        (outputs.kafka_producer, PRODUCER, {"messages/s": 95000.2, "mean ms": 2.5}),
        (outputs.kafka_consumer, CONSUMER, {"messages/s": 50000.0}),
        (outputs.nats, MANY, {"messages/s": 63270.0}),
        (outputs.nats, ONE, {"messages/s": 1065.0, "mean ms": 1.937}),
        (outputs.redis, REDIS, {"messages/s": 178571.42, "mean ms": 0.25}),
    ],
)
def test_figures_are_read_from_the_summary(
    read: Callable[[str], Figures], output: str, figures: Figures
) -> None:
    assert read(output) == pytest.approx(figures)
    with pytest.raises(RuntimeError, match="no figures in: it failed"):
        read("it failed")
