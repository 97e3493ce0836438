"""Verified credentials are remembered for a bounded time and number, and never longer than they are valid."""

from collections.abc import Awaitable

import pytest

from engine.auth.authenticators import remembered
from engine.auth.authenticators.provider import Authenticated, Check, Presented
from engine.auth.authenticators.remembered import REMEMBERED_S, Remembered
from engine.auth.credentials import AuthenticationFailed


class Counting:
    """A provider that accepts everything but ``bad``, until ``ends_at``."""

    name, method = "ProviderCounting", "token"
    key_ids, files = (), ()

    def __init__(self, *, slow: bool = False) -> None:
        self.asked = 0
        self.ends_at: float | None = None
        self.changes = 0
        self._slow = slow

    def revision(self) -> object:
        return self.changes

    def authenticate(self, presented: Presented) -> Check:
        self.asked += 1
        if presented.data == b"bad":
            raise AuthenticationFailed("bad")
        answer = Authenticated(presented.data.decode(), self.ends_at)
        return self._later(answer) if self._slow else answer

    async def _later(self, answer: Authenticated) -> Authenticated:
        return answer


class Wall:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def role(provider: Remembered, data: bytes) -> str:
    check = provider.authenticate(Presented(data))
    return (await check if isinstance(check, Awaitable) else check).role


@pytest.mark.parametrize("slow", [False, True])
async def test_verified_credentials_are_checked_once_a_minute(slow: bool) -> None:
    provider, wall = Counting(slow=slow), Wall()
    memory = Remembered(provider, wall)
    for now_s, asked in ((1000.0, 1), (1000.0 + REMEMBERED_S - 1, 1), (1000.0 + REMEMBERED_S, 2)):
        wall.now_s = now_s
        assert await role(memory, b"app") == "app"
        assert provider.asked == asked
    wall.now_s -= 7200.0  # the clock was set back
    await role(memory, b"app")
    assert provider.asked == 3
    assert await role(memory, b"other") == "other"


async def test_credentials_are_not_remembered_beyond_their_end_or_a_change() -> None:
    provider, wall = Counting(), Wall()
    memory = Remembered(provider, wall)
    provider.ends_at = 1010.0
    await role(memory, b"app")
    wall.now_s = 1010.0
    await role(memory, b"app")
    assert provider.asked == 2
    provider.ends_at = None
    await role(memory, b"new")
    provider.changes += 1
    await role(memory, b"new")
    assert provider.asked == 4


async def test_refused_credentials_are_not_remembered() -> None:
    provider = Counting()
    memory = Remembered(provider, Wall())
    for _ in range(2):
        with pytest.raises(AuthenticationFailed):
            await role(memory, b"bad")
    assert provider.asked == 2


async def test_the_number_of_results_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED_MAX", 2)
    provider = Counting()
    memory = Remembered(provider, Wall())
    for data in (b"a", b"b", b"a", b"c", b"a"):
        await role(memory, data)
    assert provider.asked == 3
    await role(memory, b"b")
    assert provider.asked == 4
