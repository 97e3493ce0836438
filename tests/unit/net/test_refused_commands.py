"""Refused commands are counted, and logged once a minute for each connection and type of command."""

import logging

import pytest

from engine.net import refused_commands
from engine.net.refused_commands import LINE_S, RefusedCommands


class StoppedClock:
    """A clock that shows ``now_s`` until it is set."""

    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def test_a_repeated_refusal_is_one_line_a_minute(
    clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    refused = RefusedCommands(clock)
    for _ in range(3):
        refused.note("c:1", "Subscribe", "app", "lacks consume")
    refused.note("c:1", "Producer", "app", "lacks produce")
    refused.note("c:2", "Subscribe", "app", "lacks consume")
    clock.now_s += LINE_S
    refused.note("c:1", "Subscribe", "app", "lacks consume")
    start = "not authorized client"
    assert caplog.messages == [
        f"{start}=c:1 command=Subscribe role=app: lacks consume",
        f"{start}=c:1 command=Producer role=app: lacks produce",
        f"{start}=c:2 command=Subscribe role=app: lacks consume",
        f"{start}=c:1 command=Subscribe role=app: lacks consume (2 more since the last line)",
    ]
    assert refused.counts == {"Subscribe": 5, "Producer": 1}


def test_the_memory_of_last_lines_is_bounded(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(refused_commands, "REMEMBERED_MAX", 2)
    refused = RefusedCommands(clock)
    for client in ("a", "b", "c", "c", "a"):
        refused.note(client, "Lookup", None, "no")
    assert [message.split()[2] for message in caplog.messages] == [
        *("client=a", "client=b", "client=c", "client=a"),
    ]
