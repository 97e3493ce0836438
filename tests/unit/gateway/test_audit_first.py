"""A change is recorded before it is made: what cannot be recorded is not done; and entries are written in groups."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from asgiref.sync import sync_to_async
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from admin_ui.audit import audit_writer
from admin_ui.audit.audit_writer import AuditWriter, NotRecordedError
from admin_ui.audit.recording import AuditRecorder
from admin_ui.models import AuditEntry
from engine.metadata import account
from gateway.clusters.registry import KEY, Clusters
from tests.support.admin.clusters import cluster_without_link
from tests.support.admin.gateway_client import audited, let_go_of_connections

pytestmark = pytest.mark.usefixtures("database")
Handle = Callable[[HttpRequest], Awaitable[HttpResponse]]


@pytest.fixture
def database(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clusters = Clusters(cluster_without_link())
    monkeypatch.setattr(Change, "clusters", clusters, raising=False)
    yield
    clusters.part(AuditWriter).close()
    asyncio.run(sync_to_async(let_go_of_connections)())


class Signed:
    is_authenticated = False


class Change(WSGIRequest):
    """A changing call to a gateway."""

    clusters: ClassVar[Clusters]
    """The clusters of the test."""

    def __init__(self, path: str) -> None:
        super().__init__(RequestFactory().put(path).environ)
        self.scope = {KEY: self.clusters}

    async def auser(self) -> Any:
        return Signed()


async def changed(handle: Handle, path: str = "/admin/v2/persistent/public/default/t") -> int:
    """Return the status of a changing call that ``handle`` handles."""
    request = Change(path)
    return (await AuditRecorder(handle)(request)).status_code


async def handled(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def hide() -> None:
    run("ALTER TABLE admin_ui_auditentry RENAME TO hidden")


def show() -> None:
    run("ALTER TABLE hidden RENAME TO admin_ui_auditentry")


@contextmanager
def no_table() -> Iterator[None]:
    hide()
    try:
        yield
    finally:
        show()


@contextmanager
def locked() -> Iterator[None]:
    run("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        run("ROLLBACK")


def entry(number: int = 0) -> AuditEntry:
    return AuditEntry(at_ms=number, actor="a", address="b", method="PUT", target=f"/{number}")


@pytest.mark.parametrize("broken", [no_table, locked])
def test_a_change_that_cannot_be_recorded_is_not_made(
    broken: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    async def handle(request: HttpRequest) -> HttpResponse:
        done.append(request.path)
        return HttpResponse()

    async def several() -> list[int]:
        return [await changed(handle) for _ in range(3)]

    with broken(), caplog.at_level(logging.WARNING):
        assert asyncio.run(several()) == [503, 503, 503]
    assert done == []
    assert caplog.text.count("audit log cannot be written, changes are refused") == 1
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(changed(handle)) == 200
    assert "audit log is written again" in caplog.text
    assert "refused=3" in caplog.text


def test_an_entry_is_there_before_the_change_and_its_outcome_before_the_answer() -> None:
    async def handle(request: HttpRequest) -> HttpResponse:
        assert [row.status async for row in AuditEntry.objects.all()] == [None]
        return HttpResponse(status=409)

    assert asyncio.run(changed(handle)) == 409
    [row] = AuditEntry.objects.all()
    assert (row.method, row.target, row.actor) == (
        "PUT",
        "/admin/v2/persistent/public/default/t",
        "anonymous",
    )
    assert row.status == 409


def test_an_outcome_that_cannot_be_written_changes_no_answer_and_is_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_writer, "LATE_RETRY_S", 0.01)

    async def handle(request: HttpRequest) -> HttpResponse:
        await sync_to_async(hide)()
        return HttpResponse(status=204)

    async def play() -> None:
        assert await changed(handle) == 204
        await sync_to_async(show)()
        assert [row.status async for row in AuditEntry.objects.all()] in ([None], [204])
        await audited(204)

    asyncio.run(play())


class HeldWriter(AuditWriter):
    """A writer whose commits wait for ``go``; ``groups`` counts the entries of each."""

    def __init__(self, clusters: Clusters) -> None:
        self.go = threading.Event()
        self.held = threading.Event()
        self.groups: list[tuple[int, int]] = []
        super().__init__(clusters)

    def _commit(self, entries: Any, outcomes: Any) -> None:
        self.held.set()
        self.go.wait(60)
        self.groups.append((len(entries), len(outcomes)))
        super()._commit(entries, outcomes)


def test_entries_that_wait_are_one_transaction() -> None:
    """Check that calls made while a group is held form the next one: fifty at once are two transactions at most."""
    writer = HeldWriter(Clusters(cluster_without_link()))

    async def together(*calls: Coroutine[Any, Any, None]) -> None:
        writer.go.clear()
        tasks = [asyncio.get_running_loop().create_task(call) for call in calls]
        await asyncio.sleep(0)  # each has come now
        writer.go.set()
        await asyncio.gather(*tasks)

    async def play() -> list[AuditEntry]:
        entries = [entry(number) for number in range(50)]
        await together(*(writer.begin(item) for item in entries))
        await together(*(writer.end(item, 200 + item.at_ms % 2) for item in entries))
        return entries

    entries = asyncio.run(play())
    writer.close()
    assert len([group for group in writer.groups if any(group)]) <= 4
    stored = {row.pk: (row.target, row.status) for row in AuditEntry.objects.all()}
    assert stored == {item.pk: (item.target, 200 + item.at_ms % 2) for item in entries}


def test_a_cancelled_caller_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = HeldWriter(Clusters(cluster_without_link()))

    async def play() -> None:
        first = asyncio.get_running_loop().create_task(writer.begin(entry(1)))
        await asyncio.sleep(0)
        first.cancel()
        writer.go.set()
        await writer.begin(entry(2))

    asyncio.run(play())
    writer.close()
    assert AuditEntry.objects.count() == 2


def test_no_more_wait_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_writer, "WAITING_MAX", 3)
    writer = HeldWriter(Clusters(cluster_without_link()))

    async def play() -> None:
        loop = asyncio.get_running_loop()
        held = loop.create_task(writer.begin(entry()))
        await asyncio.to_thread(writer.held.wait, 5)
        tasks = [loop.create_task(writer.begin(entry(number))) for number in range(1, 11)]
        await asyncio.sleep(0)
        writer.go.set()
        await held
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [end for end in ends if isinstance(end, NotRecordedError)]
        assert len(refused) == 7
        assert "3 entries are waiting already" in str(refused[0])

    asyncio.run(play())
    writer.close()


def test_a_call_that_was_to_read_only_and_changed_something_is_recorded_after_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(request: HttpRequest) -> HttpResponse:
        accounted = account.current()
        assert accounted is not None
        accounted.add("/admin/policies/t", b"1", b"2")
        return HttpResponse()

    async def quiet(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    question = "/admin/v2/persistent/public/default/t/backlogSize"
    assert asyncio.run(changed(quiet, question)) == 200
    assert not AuditEntry.objects.exists()
    assert asyncio.run(changed(handle, question)) == 200
    [row] = AuditEntry.objects.all()
    assert (row.target, row.status) == (question, 200)
    assert "/admin/policies/t" in row.changes
    assert "a call that is declared as a read changed something" in caplog.text


class KeepingWriter(AuditWriter):
    """A writer that keeps ``kept``: days and number of entries."""

    kept = (0, 0)

    def _retention(self) -> tuple[int, int]:
        return self.kept


def test_old_entries_are_removed_in_parts_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_writer, "PRUNED_AT_ONCE", 4)
    day = audit_writer.DAY_MS
    AuditEntry.objects.bulk_create(entry(number * day) for number in range(10))
    writer = KeepingWriter(Clusters(cluster_without_link()))

    def left(days: int, entries_max: int) -> list[int]:
        writer.kept = (days, entries_max)
        while writer._prune(10 * day):
            pass
        return [row.at_ms // day for row in AuditEntry.objects.order_by("id")]

    try:
        assert left(0, 0) == left(100, 100) == list(range(10))
        assert left(8, 0) == list(range(2, 10))
        assert left(0, 3) == [7, 8, 9]
    finally:
        writer.close()


def test_the_log_is_pruned_in_the_background_and_a_failure_of_that_refuses_no_change(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_writer, "FIRST_PRUNE_S", 0.0)
    monkeypatch.setattr(KeepingWriter, "kept", (0, 2))
    writer = KeepingWriter(Clusters(cluster_without_link()))

    async def write(count: int) -> None:
        for number in range(count):
            await writer.begin(entry(number))

    asyncio.run(write(3))
    writer.close()
    assert AuditEntry.objects.count() in (2, 3)
    monkeypatch.setattr(KeepingWriter, "_prune", lambda self, now_ms: 1 // 0)
    writer = KeepingWriter(Clusters(cluster_without_link()))
    asyncio.run(write(2))
    writer.close()
    assert "old entries of the audit log are not removed" in caplog.text
