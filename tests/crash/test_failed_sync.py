"""A sync of the real bookie process fails with EIO: it ends, tries nothing again, and has promised nothing false."""

from typing import Any

import pytest

from tests.crash.kit.lossy_disk import Plan

JOURNAL = ("journal.sync", "journal.sync_header", "journal.sync_fill")
FLUSH = ("entrylog.sync", "manifest.sync", "lastmark.sync", "index.flush")


@pytest.mark.parametrize("operation", [*JOURNAL, *FLUSH])
async def test_a_failed_sync_ends_the_bookie(places: Any, operation: str) -> None:
    place = await places("eio")
    await place.start(Plan(operation, act="eio", armed=False, nth=3))
    place.bookie.arm()
    status = await place.write_until_dead()
    assert status == 1, place.bookie.log_end()
    words = place.words()
    assert words["operation"] == operation
    assert "planned at" in place.bookie.log_end()
    assert not words["retried"]
    await place.start()
    await place.verify()
    assert place.entries >= place.load.confirmed_kept > 0
