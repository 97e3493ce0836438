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
        self.events: list[str] = []
        self.tenure.on_fenced(lambda: self.events.append("fenced"))
        self.tenure.on_end(lambda: self.events.append(f"ended {self.state.status.value}"))


@pytest.fixture
async def log() -> Log:
    return Log()


async def test_repeated_ends_are_reported_once(log: Log) -> None:
    log.tenure.end()
    log.tenure.end()
    log.tenure.fenced(RuntimeError("too late"))
    assert log.events == ["ended Closed"]
    with pytest.raises(ManagedLedgerClosedError):
        log.state.check()


async def test_a_log_fenced_while_closing_reports_that_it_is_fenced(log: Log) -> None:
    log.tenure.close()
    assert not log.state.ended
    log.tenure.fenced(RuntimeError("another owner"))
    log.tenure.end()
    assert log.events == ["ended Fenced", "fenced"]
    assert log.state.status is LogStatus.FENCED
    with pytest.raises(ManagedLedgerFencedError, match="another owner"):
        log.state.check()


async def test_a_failing_end_callback_does_not_keep_the_next_from_running(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.tenure.on_end(lambda: log.events.extend(1 // 0 for _ in "x"))
    log.tenure.on_end(lambda: log.events.append("last"))
    log.tenure.end()
    assert log.events == ["ended Closed", "last"]
    assert "end of t failed" in caplog.text


async def test_a_lost_session_is_no_proof_of_ownership_and_fences(log: Log) -> None:
    assert log.tenure.proven()
    await log.store.close()
    assert not log.tenure.proven()
    assert log.events == ["ended Fenced", "fenced"]


async def test_a_change_that_meets_another_owner_ends_it(log: Log) -> None:
    with pytest.raises(ZeroDivisionError), log.tenure.owned():
        raise ZeroDivisionError
    assert log.events == []
    with pytest.raises(ManagedLedgerFencedError), log.tenure.owned():
        raise ManagedLedgerFencedError("lost race")
    assert log.events == ["ended Fenced", "fenced"]
    with pytest.raises(ManagedLedgerFencedError, match="lost race"), log.tenure.owned():
        raise AssertionError("not reached")
