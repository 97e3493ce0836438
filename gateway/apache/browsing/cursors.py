"""Changes of cursors at an Apache Pulsar cluster: a preview by statistics, and the change to the previewed position.

Apache counts entries only, and not those that were acknowledged singly behind the cursor: what a reset would lose is an
upper bound. A change is refused when the cursor moved since the preview, which is read just before it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.admin.api.arguments import OnTopic
from engine.admin.api.cursors import (
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    MoveCursor,
    PreviewChange,
)
from engine.base.errors import NotFound, Unsupported
from gateway.apache.brokers import Handlers, Target
from gateway.apache.rest import topic_path

Json = dict[str, Any]


class EntryPosition(NamedTuple):
    """The position of an entry; ``entry`` -1 is before the first of its ledger."""

    ledger: int
    entry: int

    @classmethod
    def parse(cls, text: str) -> "EntryPosition":
        """Parse ``ledger:entry``. Raises ValueError."""
        ledger, _, entry = text.partition(":")
        return cls(int(ledger), int(entry))

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


def entries_up_to(internal: Mapping[str, Any], position: EntryPosition) -> int:
    """Return the number of stored entries up to and including a position, by a topic's internal statistics."""
    total = 0
    ledgers = internal.get("ledgers") or []
    for number, item in enumerate(ledgers, 1):
        ledger, entries = int(item["ledgerId"]), int(item.get("entries", 0))
        if number == len(ledgers) and internal.get("state") == "LedgerOpened":
            entries = int(internal.get("currentLedgerEntries", entries))
        if ledger < position.ledger:
            total += entries
        elif ledger == position.ledger:
            total += min(position.entry + 1, entries)
    return total


class _Read(NamedTuple):
    """A subscription as it is now. ``mark``: its mark-delete position."""

    sub: Json
    internal: Json
    mark: EntryPosition
    last: EntryPosition


async def _read(target: Target, args: PreviewChange | MoveCursor) -> _Read:
    stats = await target.rest.get(topic_path(args.topic, "stats"), getPreciseBacklog=True)
    sub = (stats.get("subscriptions") or {}).get(args.subscription)
    internal = await target.rest.get(topic_path(args.topic, "internalStats"))
    cursor = (internal.get("cursors") or {}).get(args.subscription)
    if sub is None or cursor is None:
        raise NotFound("Subscription not found")
    mark = EntryPosition.parse(str(cursor["markDeletePosition"]))
    return _Read(sub, internal, mark, EntryPosition.parse(str(internal["lastConfirmedEntry"])))


async def _preview(target: Target, args: PreviewChange) -> Json:
    if args.change == "undo":
        raise Unsupported("Changes of cursors are not undone at a cluster of Apache Pulsar")
    read = await _read(target, args)
    backlog = int(read.sub.get("msgBacklog", 0))
    lost = again = 0
    if args.change == "skip-all":
        lost, call, to = backlog, f"to {read.last}", str(read.last)
    elif args.change == "skip":
        assert args.count is not None
        lost, call, to = min(args.count, backlog), f"skip {args.count}", ""
    else:
        before = await _position_of(target, args, read)
        moved = entries_up_to(read.internal, before) - entries_up_to(read.internal, read.mark)
        lost, again = min(max(moved, 0), backlog), max(-moved, 0)
        call, to = f"to {before}", str(before)
    return {
        "lost": lost,
        "again": again,
        "lost_messages": None if lost else 0,
        "again_messages": None if again else 0,
        "exact": not (lost or again),
        "from": str(read.mark),
        "to": to,
        "holes": 0,
        "delayed": None,
        "first": None,
        "last": None,
        "consumers": [
            {
                "name": item.get("consumerName", ""),
                "address": str(item.get("address", "")).removeprefix("/"),
            }
            for item in read.sub.get("consumers") or ()
        ],
        "undoable": False,
        "kept_ms": 0,
        "base": str(read.mark),
        "target": call,
        "gone": 0,
        "moved": 0,
    }


async def _position_of(target: Target, args: PreviewChange, read: _Read) -> EntryPosition:
    """Return the position before the first message that a reset leaves unacknowledged."""
    if args.position is not None:
        return EntryPosition(args.position.ledger_id, args.position.entry_id - 1)
    path = topic_path(args.topic, "messageid", str(args.timestamp_ms))
    first = await target.rest.get(path)
    position = EntryPosition(int(first["ledgerId"]), int(first["entryId"]))
    if position > read.last:  # nothing was published since
        return read.last
    return position._replace(entry=position.entry - 1)


async def _move(target: Target, args: MoveCursor) -> Json:
    read = await _read(target, args)
    if str(read.mark) != args.base:
        apart = abs(
            entries_up_to(read.internal, read.mark)
            - entries_up_to(read.internal, EntryPosition.parse(args.base))
        )
        reason = f"The subscription moved since the preview, from {args.base} to {read.mark}"
        return {
            "done": False,
            "why": "moved",
            "reason": reason,
            "mark_delete": str(read.mark),
            "entries": apart,
        }
    answer: Json = {
        "done": True,
        "changed": bool(args.lost or args.again),
        "lost": args.lost,
        "again": args.again,
        "lost_messages": args.lost_messages,
        "again_messages": args.again_messages,
        "exact": args.exact,
        "meanwhile": 0,
        "from": str(read.mark),
        "to": str(read.mark),
        "mark_delete": str(read.mark),
        "undoable": False,
        "kept_until": 0,
    }
    if args.dry or not answer["changed"]:
        return answer
    verb, _, what = args.target.partition(" ")
    path = topic_path(args.topic, "subscription", args.subscription)
    if verb == "skip":
        await target.rest.call("POST", f"{path}/skip/{int(what)}")
    else:
        # To the previewed position: what was published since then stays unacknowledged.
        before = EntryPosition.parse(what)
        body = {
            "ledgerId": before.ledger,
            "entryId": before.entry,
            "partitionIndex": args.topic.partition,
            "excluded": True,
        }
        await target.rest.call("POST", f"{path}/resetcursor", body)
    after = str((await _read(target, args)).mark)
    return answer | {"before": str(read.mark), "after": after, "to": after, "mark_delete": after}


async def _last_changes(target: Target, args: OnTopic) -> list[Json]:
    """Return none: Apache remembers no changes; the audit log has those that were made here."""
    return []


CURSORS: Handlers = {
    PREVIEW_CHANGE.name: _preview,
    MOVE_CURSOR.name: _move,
    LAST_CHANGES.name: _last_changes,
}
