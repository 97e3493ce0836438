"""A peer without a sign of life is disconnected; one that is not read from, or that answers late, is not."""

import asyncio

import pytest

from engine.net.keepalive import KeepAlive
from tests.support.net.lines import Line

pytestmark = pytest.mark.virtual_time
SILENT = ["aborted: no answer to PING"]


def started() -> tuple[Line, KeepAlive]:
    line = Line()
    keepalive = KeepAlive(line, 10.0)
    keepalive.start()
    return line, keepalive


async def test_silence_for_a_whole_interval_after_a_ping_ends_the_connection() -> None:
    line, _ = started()
    await asyncio.sleep(15)
    assert line.kinds() == ["PING"]
    assert line.ends == []
    await asyncio.sleep(10)
    assert line.ends == SILENT


async def test_any_received_bytes_are_a_sign_of_life() -> None:
    line, keepalive = started()
    for _ in range(5):
        await asyncio.sleep(10.5)
        keepalive.received()
    assert line.kinds() == ["PING"] * 5
    assert line.ends == []


@pytest.mark.parametrize("released_after_s", [3, 12])
async def test_silence_while_the_connection_is_not_read_is_not_counted(
    released_after_s: int,
) -> None:
    line, _ = started()
    await asyncio.sleep(11)
    line.hold("test")
    await asyncio.sleep(released_after_s)
    line.release("test")
    await asyncio.sleep(20 - 11 - released_after_s + 10.5)
    assert line.ends == ([] if released_after_s == 12 else SILENT)


async def test_only_the_answer_to_the_ping_proves_that_the_peer_is_alive() -> None:
    """Take no other bytes as proof: they may have been sent just before the connection ended."""
    _, keepalive = started()
    gone = asyncio.ensure_future(keepalive.is_alive(5.0))
    await asyncio.sleep(1)
    keepalive.received()
    await asyncio.sleep(1)
    assert not gone.done()
    keepalive.stop()
    assert await gone is False


async def test_an_answer_to_an_earlier_ping_proves_nothing_and_one_to_each_is_proof() -> None:
    line, keepalive = started()
    await asyncio.sleep(11)
    asked = asyncio.ensure_future(keepalive.is_alive(5.0))
    await asyncio.sleep(1)
    assert line.kinds() == ["PING", "PING"]
    keepalive.pong(None)
    await asyncio.sleep(1)
    assert not asked.done()
    keepalive.pong(None)
    assert await asked is True


@pytest.mark.parametrize("sends", [True, False])
async def test_a_peer_too_busy_for_the_ping_counts_as_alive_and_a_silent_one_does_not(
    sends: bool,
) -> None:
    line, keepalive = started()
    asked = asyncio.ensure_future(keepalive.is_alive(5.0))
    await asyncio.sleep(1)
    if sends:
        keepalive.received()
    assert await asked is sends
    assert line.ends == ([] if sends else ["aborted: no sign of life when asked for one"])


async def test_the_peer_of_a_held_connection_counts_as_alive_after_two_pings_without_a_reset() -> (
    None
):
    line, keepalive = started()
    line.hold("test")
    assert await keepalive.is_alive(5.0) is True
    assert line.kinds() == ["PING", "PING"]
    line.close()
    assert await keepalive.is_alive(5.0) is False


class ResetLine(Line):
    """A line whose peer is gone: the second write and all later ones fail."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0
        self.keepalive: KeepAlive | None = None

    def flush(self) -> None:
        self.flushes += 1
        # A transport notifies its protocol of the end in the loop's next turn.
        if self.keepalive is not None:
            asyncio.get_running_loop().call_soon(self.keepalive.stop)


async def test_the_peer_of_a_held_connection_that_resets_it_is_not_alive() -> None:
    line = ResetLine()
    keepalive = line.keepalive = KeepAlive(line, 10.0)
    line.hold("test")
    assert await keepalive.is_alive(5.0) is False
    assert line.flushes == 1


@pytest.mark.parametrize("held_s", [(0.0, 0.2), (1.0, 4.9)])
async def test_a_peer_that_was_not_read_during_a_probe_is_not_disconnected(
    held_s: tuple[float, float],
) -> None:
    line, keepalive = started()
    asyncio.get_running_loop().call_later(held_s[1], line.release, "test")
    if held_s[0]:
        asyncio.get_running_loop().call_later(held_s[0], line.hold, "test")
    else:
        line.hold("test")
    assert await keepalive.is_alive(5.0) is True
    assert line.ends == []
