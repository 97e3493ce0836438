"""A log's ownership ends once: closed, abandoned or fenced, and nothing is confirmed after the session's end."""

import pytest

from engine.base.clock import SystemClock
from engine.managed.errors import ManagedLedgerClosedError, ManagedLedgerFencedError
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig
from engine.managed.state import LogState, LogStatus
from engine.managed.tenure import Tenure
from engine.metadata.memory import MemoryServer, MemoryStore


class Log:
    def __init__(self) -> None:
        self.store: MemoryStore = MemoryServer(SystemClock()).session()
        tail = EntryCache(1000).tail()
        self.state = LogState("t", LedgerConfig(), LedgerLine(), tail, None, {})
        self.tenure = Tenure(self.state, self.store)
        self.told: list[str] = []
        self.tenure.on_fenced(lambda: self.told.append("fenced"))
        self.tenure.on_end(lambda: self.told.append(f"ended {self.state.status.value}"))


@pytest.fixture
async def log() -> Log:
    return Log()


async def test_it_ends_once_however_often_it_is_told(log: Log) -> None:
    log.tenure.end()
    log.tenure.end()
    log.tenure.fenced(RuntimeError("too late"))
    assert log.told == ["ended Closed"]
    with pytest.raises(ManagedLedgerClosedError):
        log.state.check()


async def test_whoever_is_fenced_while_closing_says_so(log: Log) -> None:
    log.tenure.close()
    assert not log.state.ended
    log.tenure.fenced(RuntimeError("another owner"))
    log.tenure.end()
    assert log.told == ["ended Fenced", "fenced"]
    assert log.state.status is LogStatus.FENCED
    with pytest.raises(ManagedLedgerFencedError, match="another owner"):
        log.state.check()


async def test_its_end_reaches_those_behind_one_that_fails(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.tenure.on_end(lambda: log.told.extend(1 // 0 for _ in "x"))
    log.tenure.on_end(lambda: log.told.append("last"))
    log.tenure.end()
    assert log.told == ["ended Closed", "last"]
    assert "end of t failed" in caplog.text


async def test_a_lost_session_proves_nothing_and_fences(log: Log) -> None:
    assert log.tenure.proven()
    await log.store.close()
    assert not log.tenure.proven()
    assert log.told == ["ended Fenced", "fenced"]


async def test_a_change_that_meets_another_owner_ends_it(log: Log) -> None:
    with pytest.raises(ZeroDivisionError), log.tenure.owned():
        raise ZeroDivisionError
    assert log.told == []
    with pytest.raises(ManagedLedgerFencedError), log.tenure.owned():
        raise ManagedLedgerFencedError("lost race")
    assert log.told == ["ended Fenced", "fenced"]
    with pytest.raises(ManagedLedgerFencedError, match="lost race"), log.tenure.owned():
        raise AssertionError("not reached")
