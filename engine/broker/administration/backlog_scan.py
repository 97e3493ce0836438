"""Counts of a subscription's backlog, found by reading its entries: Pulsar's AnalyzeSubscriptionBacklogResult."""

import asyncio

from engine.admin.api.arguments import JsonObject
from engine.base.ids import Position
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor

ENTRIES_MAX = 10_000
"""Default of Pulsar's subscriptionBacklogScanMaxEntries."""
SCAN_S_MAX = 120.0
"""Default of Pulsar's subscriptionBacklogScanMaxTimeMs."""
STEP = 100
BYTES_MAX = 4 << 20
"""Bytes of the buffers that hold the entries of a step."""


async def scan(log: ReadableLog, cursor: SubscriptionCursor, start: Position | None) -> JsonObject:
    """Count the unacknowledged entries from ``start``, or all; ``aborted`` when a limit ended the scan before the last.

    Raises LedgerError. Cancel-safe.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SCAN_S_MAX
    first: Position | None = None
    last: Position | None = None
    entries = messages = 0
    aborted = False
    at, end = start or log.next_position(cursor.mark_delete), log.last_confirmed
    while at <= end and not aborted:
        positions = cursor.unacknowledged(at, end, min(STEP, ENTRIES_MAX - entries))
        if not positions:
            break
        views = await cursor.replay(positions, BYTES_MAX)
        if views:  # later entries exceeded BYTES_MAX: the next step reads them
            read_up_to = views[-1].last_position
            positions = [position for position in positions if position <= read_up_to]
        messages += sum(view.messages for view in views)
        entries += len(positions)
        first, last = first or positions[0], positions[-1]
        at = log.next_position(last)
        aborted = at <= end and (entries >= ENTRIES_MAX or loop.time() > until_s)
    ids = {"firstMessageId": first, "lastMessageId": last}
    return {
        "entries": entries,
        "messages": messages,
        # There are no entry filters: all entries are accepted.
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": aborted,
        **{name: str(position) for name, position in ids.items() if position is not None},
    }
