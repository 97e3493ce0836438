"""Messages of topics at an Apache Pulsar cluster: its REST interface returns one entry by its position.

A broker opens a topic to answer that. Positions are those of the topic's ledgers, so that nothing is searched for; no
cursor and no subscription is affected.
"""

import asyncio
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from engine.admin.api.messages import LATEST_ENTRIES, NEXT_ENTRIES, LatestEntries, NextEntries
from engine.base.errors import Failed, NotFound
from engine.base.names import TopicName
from gateway.apache.brokers import Handlers, Target
from gateway.apache.browsing.cursors import EntryPosition
from gateway.apache.browsing.entries import GivenEntry, entry_of
from gateway.apache.rest import topic_path

Json = dict[str, Any]
AT_ONCE = 8
"""Requests for entries that are pending at a time."""
ENTRIES_MAX = 64
"""Entries of one page: each is a request."""


class _Entry(NamedTuple):
    """An entry, or the reason why Apache does not return it."""

    position: EntryPosition
    given: GivenEntry | None
    problem: str = ""


def ledger_entries(internal: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the ledgers of a topic, each with the number of its entries, by its internal statistics."""
    ledgers = [
        (int(item["ledgerId"]), int(item.get("entries", 0)))
        for item in internal.get("ledgers") or ()
    ]
    if ledgers and internal.get("state") == "LedgerOpened":
        # Of the open ledger the list does not have the entries.
        ledger, entries = ledgers[-1]
        ledgers[-1] = ledger, int(internal.get("currentLedgerEntries", entries))
    return ledgers


def positions_from(
    ledgers: Sequence[tuple[int, int]], start: EntryPosition
) -> Iterator[EntryPosition]:
    """Yield the positions of the entries from ``start`` on."""
    for ledger, entries in ledgers:
        if ledger >= start.ledger:
            first = max(start.entry, 0) if ledger == start.ledger else 0
            yield from (EntryPosition(ledger, entry) for entry in range(first, entries))


def positions_before(
    ledgers: Sequence[tuple[int, int]], end: EntryPosition | None
) -> Iterator[EntryPosition]:
    """Yield the positions of the entries before ``end``, the newest first; None: those of all."""
    for ledger, entries in reversed(ledgers):
        if end is None or ledger < end.ledger:
            last = entries
        elif ledger == end.ledger:
            last = min(end.entry, entries)
        else:
            continue
        yield from (EntryPosition(ledger, entry) for entry in range(last - 1, -1, -1))


async def _next_entries(target: Target, args: NextEntries) -> Json:
    internal = await target.rest.get(topic_path(args.topic, "internalStats"))
    start = EntryPosition(*args.start.position)
    positions = positions_from(ledger_entries(internal), start)
    answer, last = await _page(target, args, positions)
    following = start if last is None else EntryPosition(last.ledger, last.entry + 1)
    return answer | {"next": list(following)}


async def _latest_entries(target: Target, args: LatestEntries) -> Json:
    internal = await target.rest.get(topic_path(args.topic, "internalStats"))
    end = None if args.before is None else EntryPosition(*args.before.position)
    answer, _ = await _page(target, args, positions_before(ledger_entries(internal), end))
    return answer


async def _page(
    target: Target, args: NextEntries | LatestEntries, positions: Iterator[EntryPosition]
) -> tuple[Json, EntryPosition | None]:
    """Return a page of entries in the order of their positions, and the position of the last one that was read."""
    rows: list[list[Any]] = []
    notes: dict[str, Json] = {}
    last: EntryPosition | None = None
    size = read = 0
    more = True
    # Pages backwards go on before their last row: without one the same entries would be read again.
    while len(rows) < args.messages and size < args.bytes_max and (not rows or read < ENTRIES_MAX):
        wanted = list(islice(positions, min(AT_ONCE, args.messages - len(rows))))
        if not wanted:
            more = False
            break
        for entry in await asyncio.gather(*(_entry(target, args.topic, at) for at in wanted)):
            last, read = entry.position, read + 1
            if entry.given is None and not entry.problem:
                continue  # deleted meanwhile
            if entry.given is not None and entry.given.hidden:
                continue
            content = b"" if entry.given is None else entry.given.content
            compression = "" if entry.given is None else entry.given.compression
            notes[str(entry.position)] = {"compression": compression, "problem": entry.problem}
            rows.append([*entry.position, b64encode(content).decode()])
            size += len(content)
    return {"entries": rows, "more": more, "notes": notes}, last


async def _entry(target: Target, topic: TopicName, at: EntryPosition) -> _Entry:
    path = topic_path(topic, "ledger", str(at.ledger), "entry", str(at.entry))
    try:
        answer = await target.rest.get_with_fields(path)
        return _Entry(at, entry_of(answer.fields, answer.body))
    except NotFound:
        return _Entry(at, None)
    except Failed as error:
        # One entry that Apache cannot return must not hide those behind it.
        return _Entry(at, None, f"Apache does not return it: {error}")


MESSAGES: Handlers = {
    NEXT_ENTRIES.name: _next_entries,
    LATEST_ENTRIES.name: _latest_entries,
}
