"""Changes of cursors at an Apache Pulsar cluster: previewed by statistics, and refused when the cursor moved."""

from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.cursors import (
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    MoveCursor,
    PreviewChange,
)
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from gateway.apache.browsing.cursors import EntryPosition, entries_up_to
from gateway.services.engine_link import Engine, EngineLink
from tests.support.net.recorded_apache import RecordedApache

BEHIND = TopicName.parse("persistent://acme/ns5/orders-0005")
PATH = "/admin/v2/persistent/acme/ns5/orders-0005"
MOVED = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")


def preview(link: EngineLink, args: PreviewChange) -> Any:
    return link.run(lambda engine: engine.call(PREVIEW_CHANGE, args))


def moved_by(seen: Any, **more: Any) -> MoveCursor:
    values = {name: seen[name] for name in MOVED}
    return MoveCursor(BEHIND, "worker", id="1", change="skip-all", **values, **more)


def test_a_preview_counts_entries_and_knows_no_messages(link: EngineLink) -> None:
    seen = preview(link, PreviewChange(BEHIND, "worker", "skip-all"))
    assert (seen["lost"], seen["lost_messages"], seen["exact"]) == (200, None, False)
    assert (seen["from"], seen["to"], seen["undoable"]) == ("17:-1", "17:199", False)
    assert preview(link, PreviewChange(BEHIND, "worker", "skip", count=7))["lost"] == 7


def test_a_reset_counts_the_entries_between(link: EngineLink, apache: RecordedApache) -> None:
    apache.answers[f"{PATH}/messageid/1234"] = {"ledgerId": 17, "entryId": 50}
    seen = preview(link, PreviewChange(BEHIND, "worker", "reset", timestamp_ms=1234))
    assert (seen["lost"], seen["again"], seen["target"]) == (50, 0, "to 17:49")
    apache.answers[f"{PATH}/internalStats"]["cursors"]["worker"]["markDeletePosition"] = "17:99"
    seen = preview(link, PreviewChange(BEHIND, "worker", "reset", timestamp_ms=1234))
    assert (seen["lost"], seen["again"]) == (0, 50)


def test_all_that_was_previewed_is_skipped_and_nothing_later(
    link: EngineLink, apache: RecordedApache
) -> None:
    seen = preview(link, PreviewChange(BEHIND, "worker", "skip-all"))
    apache.answers[f"{PATH}/internalStats"]["lastConfirmedEntry"] = "17:300"

    async def move(engine: Engine, args: MoveCursor) -> Any:
        return await engine.call(MOVE_CURSOR, args)

    dry = link.run(lambda engine: move(engine, replace(moved_by(seen), dry=True)))
    assert dry["done"]
    assert apache.changes == []
    assert link.run(lambda engine: move(engine, moved_by(seen)))["done"]
    (made,) = apache.changes
    assert made.path == f"{PATH}/subscription/worker/resetcursor"
    assert (made.body["ledgerId"], made.body["entryId"], made.body["excluded"]) == (17, 199, True)


def test_a_cursor_that_moved_since_the_preview_is_left(
    link: EngineLink, apache: RecordedApache
) -> None:
    seen = preview(link, PreviewChange(BEHIND, "worker", "skip-all"))
    apache.answers[f"{PATH}/internalStats"]["cursors"]["worker"]["markDeletePosition"] = "17:9"

    async def move(engine: Engine) -> Any:
        return await engine.call(MOVE_CURSOR, moved_by(seen))

    answer = link.run(move)
    assert (answer["done"], answer["why"], answer["entries"]) == (False, "moved", 10)
    assert "moved since the preview, from 17:-1 to 17:9" in answer["reason"]
    assert apache.changes == []


def test_nothing_is_undone_and_nothing_is_remembered(link: EngineLink) -> None:
    with pytest.raises(Unsupported, match="not undone"):
        preview(link, PreviewChange(BEHIND, "worker", "undo", undo="x"))
    with pytest.raises(NotFound):
        preview(link, PreviewChange(BEHIND, "missing", "skip-all"))

    async def last(engine: Engine) -> Any:
        return await engine.call(LAST_CHANGES, OnTopic(BEHIND))

    assert link.run(last) == []


def test_entries_are_counted_over_ledgers_the_open_one_by_its_own_count() -> None:
    internal = {
        "state": "LedgerOpened",
        "currentLedgerEntries": 5,
        "ledgers": [{"ledgerId": 1, "entries": 10}, {"ledgerId": 4, "entries": 0}],
    }
    assert entries_up_to(internal, EntryPosition(1, -1)) == 0
    assert entries_up_to(internal, EntryPosition(1, 3)) == 4
    assert entries_up_to(internal, EntryPosition(4, 1)) == 12
    assert entries_up_to(internal, EntryPosition(4, 99)) == 15
