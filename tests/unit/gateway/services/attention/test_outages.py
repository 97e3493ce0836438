"""Clients that left together, distinguished from those that connect and leave one by one."""

from random import Random

from gateway.services.attention.outages import KEPT_MS, Outages

NOW = 1_000_000_000


class Clients:
    """A number of clients over time, looked at every ``every_ms``."""

    def __init__(self, count: int, every_ms: int = 1_000) -> None:
        self.outages = Outages()
        self.now, self.every_ms = NOW, every_ms
        self(count, seconds=90)

    def __call__(self, count: int, *, seconds: float = 1, fault: str = "") -> None:
        until = self.now + int(seconds * 1_000)
        while self.now < until:
            self.now += self.every_ms
            self.outages.update(self.now, count // 2, count - count // 2, fault)


def test_clients_that_leave_at_once_are_one_event_however_often_it_is_checked() -> None:
    for every_ms in (100, 700, 1_000, 2_500):
        clients = Clients(431, every_ms)
        left_at = clients.now
        clients(431, fault="when broker b went away", seconds=3)
        clients(200, seconds=3)
        clients(3, seconds=10)
        event = clients.outages.current
        assert event is not None, every_ms
        assert left_at < event.at <= left_at + 3_000 + 2 * every_ms
        assert (event.before, event.left, event.back) == (431, 428, 0)
        assert event.why == "when broker b went away"
        clients(9)
        event = clients.outages.current
        assert event is not None
        assert event.back == 6
        clients(390)
        assert clients.outages.current is None, "nine of ten are back"
        clients(390, seconds=120)
        assert clients.outages.current is None


def test_clients_that_connect_and_leave_one_by_one_are_no_event() -> None:
    random, clients = Random(1), Clients(100)
    for _ in range(1_000):
        clients(100 + random.randrange(-30, 30))
        assert clients.outages.current is None
    few = Clients(4)
    few(0, seconds=100)
    assert few.outages.current is None
    less = Clients(100)
    less(85, seconds=100)
    assert less.outages.current is None, "a service with fewer instances"


def test_while_a_part_is_unavailable_fewer_departures_are_an_event() -> None:
    clients = Clients(100)
    clients(100, fault="when broker b went away")
    clients(85)
    assert clients.outages.current is not None


def test_an_event_ends_after_a_time_though_no_client_returns() -> None:
    clients = Clients(100)
    clients(0, seconds=KEPT_MS / 1_000)
    assert clients.outages.current is not None
    assert clients.outages.is_recent(clients.now)
    clients(0, seconds=5)
    assert clients.outages.current is None
    clients(0, seconds=KEPT_MS / 1_000)
    assert clients.outages.current is None
    assert not clients.outages.is_recent(clients.now)
