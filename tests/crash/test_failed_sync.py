"""A sync of the real bookie process fails with EIO: it ends, tries nothing again, and has promised nothing false."""

from typing import Any

import pytest

from tests.crash.lossy_disk import Plan

JOURNAL = ("journal.sync", "journal.sync_header", "journal.sync_fill")
FLUSH = ("entrylog.sync", "manifest.sync", "lastmark.sync", "index.flush")


def later(words: dict[str, Any], kind: str) -> dict[str, int]:
    """Writes and syncs of files of that kind after the failure."""
    return {
        operation: count - words["seen"].get(operation, 0)
        for operation, count in words["seen_at_end"].items()
        if operation.startswith(f"{kind}.")
        and operation.partition(".")[2] not in ("remove", "create")
        and count != words["seen"].get(operation, 0)
    }


@pytest.mark.timeout(60)
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
    kind = operation.partition(".")[0]
    if operation == "journal.sync_fill":  # a spare file, which nobody was promised anything of
        assert "journal.sync_fill" not in later(words, kind)
    else:
        assert not later(words, kind)
    await place.start()
    await place.verify()
    assert place.entries >= place.load.confirmed_kept > 0
