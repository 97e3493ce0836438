"""The audit log's chain of hashes: what is changed behind the gateways' back is found and named."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from admin_ui.audit import audit_writer
from admin_ui.audit.audit_writer import AuditWriter
from admin_ui.audit.chain import CHAINED, entry_link
from admin_ui.audit.verifying import Report, verify
from admin_ui.models import AuditEntry
from gateway.clusters.registry import Clusters
from tests.support.admin.clusters import cluster_without_link
from tests.support.admin.gateway_client import let_go_of_connections


class Gateways:
    """Two gateways that share the database."""

    def __init__(self) -> None:
        clusters = Clusters(cluster_without_link())
        self.writers = [AuditWriter(clusters), AuditWriter(clusters)]

    def record(self, count: int, *, status: int | None = 204) -> list[int]:
        """Record changes at both in turn, and return the keys of the entries."""

        async def change(number: int) -> int:
            writer = self.writers[number % 2]
            entry = AuditEntry(
                at_ms=number, actor="ann", address="::1", method="PUT", target=f"/é/{number}"
            )
            await writer.begin(entry)
            if status is not None:
                await writer.end(entry, status, '[{"path":"/x"}]')
            return entry.pk

        async def changes() -> list[int]:
            return [await change(number) for number in range(count)]

        return asyncio.run(changes())

    def prune(self, keep: int) -> None:
        """Remove all entries but the newest."""
        kept = SimpleNamespace(audit_days=0, audit_entries_max=keep)
        writer = self.writers[0]
        writer._retention = lambda: (kept.audit_days, kept.audit_entries_max)  # type: ignore[method-assign]
        writer._prune(0)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@pytest.fixture
def gateways(transactional_db: None) -> Iterator[Gateways]:
    gateways = Gateways()
    yield gateways
    gateways.close()
    asyncio.run(sync_to_async(let_go_of_connections)())


def run(sql: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def problem() -> str:
    return verify().problem


def test_entries_and_outcomes_of_all_gateways_are_one_chain(gateways: Gateways) -> None:
    gateways.record(40)
    gateways.record(2, status=None)
    report = verify()
    assert report.problem == ""
    assert (report.entries, report.links, report.seq) == (42, 82, 82)


def test_a_digest_covers_every_field_that_is_written_once() -> None:
    fields = {field.name for field in AuditEntry._meta.fields}
    assert fields == {*CHAINED, "id", "status", "changes"}


def test_an_empty_log_is_whole(gateways: Gateways) -> None:
    assert verify() == Report(0, 0, 0, "", 0)


@pytest.mark.parametrize("field", ["at_ms", "actor", "target", "given", "request_id", "tenant"])
def test_a_changed_entry_is_named(field: str, gateways: Gateways) -> None:
    keys = gateways.record(3)
    run(f"UPDATE admin_ui_auditentry SET {field} = '7' WHERE id = %s", keys[1])
    assert problem().startswith(f"entry {keys[1]} or link ")


def test_a_link_that_was_made_for_a_changed_entry_does_not_fit_the_next(
    gateways: Gateways,
) -> None:
    keys = gateways.record(2)
    entry = AuditEntry.objects.get(pk=keys[0])
    entry.actor = "eve"
    entry.save()
    run("UPDATE admin_ui_auditlink SET digest = %s WHERE seq = 1", entry_link(entry).digest(""))
    assert problem() == f"the outcome of entry {keys[0]} or link 2 of the chain was changed"


@pytest.mark.parametrize("change", ["status = 500", "changes = ''", "status = NULL"])
def test_a_changed_outcome_is_named(change: str, gateways: Gateways) -> None:
    keys = gateways.record(3)
    run(f"UPDATE admin_ui_auditentry SET {change} WHERE id = %s", keys[2])
    assert problem().startswith(f"the outcome of entry {keys[2]} or link ")


def test_a_removed_entry_is_named(gateways: Gateways) -> None:
    keys = gateways.record(3)
    run("DELETE FROM admin_ui_auditentry WHERE id = %s", keys[0])
    assert problem() == f"entry {keys[0]} was removed"
    run("DELETE FROM admin_ui_auditlink WHERE entry_id = %s", keys[0])
    assert "of the chain was removed" in problem()


def test_the_newest_entry_that_is_removed_with_its_links_is_noticed(gateways: Gateways) -> None:
    [key] = gateways.record(1)
    [newest] = gateways.record(1)
    run("DELETE FROM admin_ui_auditentry WHERE id = %s", newest)
    run("DELETE FROM admin_ui_auditlink WHERE entry_id = %s", newest)
    assert problem() == "links behind link 2 of the chain were removed or added"
    assert key < newest


def test_an_inserted_entry_is_named(gateways: Gateways) -> None:
    keys = gateways.record(2)
    run(
        "INSERT INTO admin_ui_auditentry"
        " (id, at_ms, actor, address, method, target, request_id, given, changes,"
        " role, operation, cluster, tenant, namespace, topic)"
        " VALUES (%s, 1, 'eve', '', 'PUT', '/', '', '', '', '', '', '', '', '', '')",
        keys[1] + 5,
    )
    assert problem() == f"entry {keys[1] + 5} was inserted"


def test_an_outcome_that_no_gateway_wrote_is_named(gateways: Gateways) -> None:
    [key] = gateways.record(1, status=None)
    run("UPDATE admin_ui_auditentry SET status = 204 WHERE id = %s", key)
    assert problem() == f"the outcome of entry {key} was inserted"


def test_the_chain_goes_on_behind_removed_entries(gateways: Gateways) -> None:
    keys = gateways.record(20)
    for keep in (12, 5):
        gateways.prune(keep)
        report = verify()
        assert report.problem == ""
        assert report.entries == keep
        assert report.removed_id == keys[-keep - 1]
    assert report.links < 20
    last = gateways.record(2)[-1]
    gateways.prune(1)
    assert problem() == ""
    assert list(AuditEntry.objects.values_list("pk", flat=True)) == [last]


def test_a_removal_that_no_gateway_made_is_noticed(gateways: Gateways) -> None:
    keys = gateways.record(20)
    gateways.prune(12)
    run("DELETE FROM admin_ui_auditentry WHERE id = %s", keys[10])
    assert problem() == f"entry {keys[10]} was removed"
    run("UPDATE admin_ui_audithead SET removed_id = %s", keys[10])
    assert problem() == "the record of the last removal of old entries was changed"


def test_a_link_that_was_noted_is_found_again(gateways: Gateways) -> None:
    gateways.record(3)
    noted = verify()
    gateways.record(3)
    assert verify((noted.seq, noted.digest)).problem == ""
    other = verify((noted.seq, "0" * 64)).problem
    assert other == f"link {noted.seq} is another than the one that was noted"
    assert verify((99, "0" * 64)).problem == "link 99, which was noted, was removed"


def test_an_outcome_that_is_written_late_is_chained(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_writer, "LATE_RETRY_S", 0.01)
    writer = gateways.writers[0]
    commit = writer._commit

    async def change() -> None:
        entry = AuditEntry(at_ms=1, actor="ann", address="", method="PUT", target="/")
        await writer.begin(entry)
        loop, is_late = asyncio.get_running_loop(), asyncio.Event()

        def failing(entries: Any, outcomes: Any) -> None:
            writer._commit = later  # type: ignore[method-assign]
            raise OSError("no database")

        def later(entries: Any, outcomes: Any) -> None:
            writer._commit = commit  # type: ignore[method-assign]
            commit(entries, outcomes)
            loop.call_soon_threadsafe(is_late.set)

        writer._commit = failing  # type: ignore[method-assign]
        await writer.end(entry, 204)
        # Not by the database: while the writer commits, SQLite's tables in memory are locked for readers.
        await is_late.wait()

    asyncio.run(change())
    assert verify()[:3] == (1, 2, 2)
    assert problem() == ""


def test_the_command_prints_the_last_link_and_fails_with_the_first_problem(
    gateways: Gateways,
) -> None:
    [key] = gateways.record(1)
    out = StringIO()
    call_command("audit_verify", stdout=out)
    assert out.getvalue().startswith("1 entries verified; last link 2:")
    link = out.getvalue().rpartition(" ")[2].strip()
    call_command("audit_verify", noted=link, stdout=out)
    with pytest.raises(CommandError, match="NUMBER:DIGEST"):
        call_command("audit_verify", noted="2", stdout=out)
    run("UPDATE admin_ui_auditentry SET actor = 'eve' WHERE id = %s", key)
    with pytest.raises(CommandError, match=f"audit log: entry {key} or link 1"):
        call_command("audit_verify", stdout=out)


def test_the_migration_begins_the_chain_behind_the_entries_that_exist(gateways: Gateways) -> None:
    AuditEntry.objects.create(at_ms=1, actor="ann", address="", method="PUT", target="/")
    migration = import_module("admin_ui.migrations.0004_audit_chain")
    migration.begin_chain(apps, None)
    gateways.record(2)
    report = verify()
    assert report.problem == ""
    assert (report.entries, report.links) == (2, 5)
