"""What a subscription has still to acknowledge, counted by looking at it: Pulsar's AnalyzeSubscriptionBacklogResult."""

import asyncio

from engine.admin.api import JsonObject
from engine.base.ids import Position
from engine.broker.topics.ports import Log, SubscriptionCursor

ENTRIES_MAX = 10_000
"""As Pulsar's subscriptionBacklogScanMaxEntries."""
SCAN_S_MAX = 120.0
"""As Pulsar's subscriptionBacklogScanMaxTimeMs."""
STEP = 100
BYTES_MAX = 4 << 20
"""Bytes of the buffers in which the entries of a step lie."""


async def scan(log: Log, cursor: SubscriptionCursor, start: Position | None) -> JsonObject:
    """Unacknowledged entries from ``start``, or all; ``aborted`` when there are more than are looked at.

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
        found = cursor.unacknowledged(at, end, min(STEP, ENTRIES_MAX - entries))
        if not found:
            break
        views = await cursor.replay(found, BYTES_MAX)
        if views:  # those behind them did not fit
            found = [position for position in found if position <= views[-1].last_position]
        messages += sum(view.messages for view in views)
        entries += len(found)
        first, last = first or found[0], found[-1]
        at = log.next_position(last)
        aborted = at <= end and (entries >= ENTRIES_MAX or loop.time() > until_s)
    ids = {"firstMessageId": first, "lastMessageId": last}
    return {
        "entries": entries,
        "messages": messages,
        # Without filters all of it passes.
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": aborted,
        **{name: str(position) for name, position in ids.items() if position is not None},
    }
