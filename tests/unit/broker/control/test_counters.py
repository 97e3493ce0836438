"""Rates follow counters and fall to zero."""

from engine.broker.control.counters import Rate, Traffic


def test_a_steady_flow_is_shown_as_its_rate() -> None:
    rate = Rate()
    for _ in range(30):
        rate.total += 50
        rate.tick(0.5)
    assert abs(rate.per_second - 100) < 0.01


def test_a_rate_is_zero_again_when_nothing_flows() -> None:
    rate = Rate()
    rate.total = 10_000
    rate.tick(1.0)
    for _ in range(40):
        rate.tick(1.0)
    assert rate.per_second == 0.0


def test_average_size_is_bytes_per_message() -> None:
    traffic = Traffic()
    assert traffic.average_size == 0.0
    traffic.messages.total, traffic.bytes.total = 10, 1280
    traffic.tick(1.0)
    assert traffic.average_size == 128.0
