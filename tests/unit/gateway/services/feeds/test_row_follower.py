"""Following a broker's feed: what is requested after answers and failures."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from engine.admin.api.rows import TOPIC_ROWS, RowsSince
from engine.admin.client import BrokerAddress
from engine.base.errors import NotReady
from gateway.services.engine_link import Engine
from gateway.services.feeds import row_follower
from gateway.services.feeds.row_follower import RowFollower
from gateway.services.feeds.row_list import RowChanges

BROKER = BrokerAddress("b:1", "http://b:1", "pulsar://b:2")


def answer(revision: int, *rows: list[Any], **flags: bool) -> dict[str, Any]:
    flags = {"whole": False, "more": False, **flags}
    return {
        "incarnation": "x",
        "revision": revision,
        "begun": 1,
        "at": 5,
        "rows": [*rows],
        **flags,
    } | {"gone": []}


class Broker:
    """An engine whose broker gives the answers of a script, and none after its end."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.requests: list[RowsSince] = []
        self.ended = asyncio.Event()
        self._answers = iter(answers)

    async def call_on(self, broker: BrokerAddress, feed: object, request: RowsSince) -> Any:
        self.requests.append(request)
        for scripted in self._answers:
            if isinstance(scripted, Exception):
                raise scripted
            return scripted
        self.ended.set()
        await asyncio.Event().wait()


class Table:
    """Rows with a number each."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: dict[str, Any] = {}

    def reported(self, broker: str) -> Iterable[str]:
        return self.rows

    def apply(self, broker: str, changes: RowChanges) -> None:
        for name, value in changes.rows:
            self.version += 1
            self.rows[name] = value.real
        for name in changes.gone:
            del self.rows[name]


class Run:
    """A follower, run to the end of the broker's script."""

    def __init__(self) -> None:
        self.table = Table()
        self.changes = 0
        self.after: list[tuple[bool, int]] = []
        """Return for each request whether it was answered, and the failures by then."""
        self.follower = RowFollower(
            *(BROKER, TOPIC_ROWS, self.table, self._changed),
            after=lambda got: self.after.append((got is not None, self.follower.failures)),
        )

    def _changed(self) -> None:
        self.changes += 1

    async def to_end(self, broker: Broker) -> list[RowsSince]:
        work = asyncio.create_task(self.follower.run(cast(Engine, broker)))
        async with asyncio.timeout(60):
            await broker.ended.wait()
        work.cancel()
        return broker.requests


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_follower, "PAUSE_S", 0.0)
    monkeypatch.setattr(row_follower, "RETRY_S", 0.0)


async def test_each_request_continues_the_last_answer() -> None:
    run = Run()
    broker = Broker(answer(3, ["a", 1], whole=True, more=True), answer(5, ["b", 2]), answer(5))
    requests = await run.to_end(broker)
    assert [request.revision for request in requests] == [0, 3, 5, 5]
    assert run.table.rows == {"a": 1, "b": 2}
    assert run.changes == 2, "an answer without changes is none"
    assert run.follower.is_complete


async def test_a_request_that_failed_is_repeated_and_counted() -> None:
    run = Run()
    broker = Broker(answer(3, whole=True), NotReady("it starts"), TimeoutError(), answer(4))
    requests = await run.to_end(broker)
    assert [request.revision for request in requests] == [0, 3, 3, 3, 4]
    assert run.after == [(True, 0), (False, 1), (False, 2), (True, 0)]


async def test_an_answer_in_an_unknown_form_is_followed_by_a_request_for_all_rows() -> None:
    run = Run()
    broken = answer(4, ["a", "text"])  # of another type than the table expects
    requests = await run.to_end(
        Broker(answer(3, ["a", 1], whole=True), broken, answer(6, whole=True))
    )
    assert [request.revision for request in requests] == [0, 3, 0, 6]
    assert [failures for _, failures in run.after] == [0, 1, 0]
    assert "another form" in run.follower.error
    assert run.table.rows == {}, "what the new list lacks is gone"


async def test_a_timeout_of_a_busy_process_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_follower, "ANSWER_TIMEOUT_S", -1.0)
    monkeypatch.setattr(row_follower, "LATE_S", 0.5)
    run = Run()
    work = asyncio.create_task(run.follower.run(cast(Engine, Broker())))
    for _ in range(10):
        await asyncio.sleep(0)
    work.cancel()
    assert run.after == []
    assert run.follower.failures == 0
