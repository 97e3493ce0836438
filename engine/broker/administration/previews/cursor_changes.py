"""Changes of a subscription's cursor that are previewed, confirmed and counted.

The user confirms the cursor's state at the preview and the state that it is to have (``managed/cursors/moves``). The
owner of the topic makes exactly the difference, and stores both states with the cursor, in the same write.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass

from engine.admin.api.arguments import JsonObject
from engine.admin.api.cursors import PREVIEW_AGE_MAX_S, MoveCursor, PreviewChange
from engine.base.clock import Clock
from engine.base.errors import Conflict, InvalidField, MagnetarError
from engine.base.ids import Position
from engine.base.ranges import RangeSet
from engine.base.slices import Slice
from engine.broker.dispatch.facts import DELIVERY, facts_of
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.managed.cursors.last_change import KEPT_MS, SPENT_MAX, STATES_BYTES_MAX, LastChange
from engine.managed.cursors.moves import Effect
from engine.managed.errors import StoredRecordError
from engine.wire.batches import BatchFormatError, unpack_entry

MEASURED_BYTES_MAX = 64 << 20
MEASURED_S_MAX = 5.0
"""Limits of reading entries to count messages; the count in the entries behind either is estimated from those read."""
SPENT_KEPT_MS = 2 * PREVIEW_AGE_MAX_S * 1000
"""Time for which ids of applied previews are kept: twice as long as previews are valid, because clocks differ."""


@dataclass(slots=True)
class Counted:
    """The number of messages in some entries, and of delayed ones: None when they could not be read; ``exact``: not
    estimated."""

    count: int | None = 0
    exact: bool = True
    delayed: int | None = 0


class _Refused(Exception):
    """Refusal of a change, with the ``answer`` that states the reason."""

    def __init__(self, why: str, reason: str, cursor: SubscriptionCursor, entries: int = 0) -> None:
        super().__init__(reason)
        stats = cursor.stats()
        self.answer: JsonObject = {
            "done": False,
            "why": why,
            "reason": reason,
            "entries": entries,
            "mark_delete": str(stats.mark_delete),
        }


async def preview(
    subscription: Subscription, args: PreviewChange, target: Position | None, now_ms: int
) -> JsonObject:
    """Return the preview of a change, see ``PREVIEW_CHANGE``. ``target``: the position of a reset."""
    cursor = subscription.cursor
    base = cursor.state()
    undone: JsonObject = {"gone": 0, "moved": 0}
    if args.change == "undo":
        change = _to_undo(cursor, args.undo or "")
        effect = cursor.effect(change.after, change.before)
        undone["gone"] = max(change.lost - effect.released.total, 0)
        undone["moved"] = effect.returned.total
        wanted = cursor.encoded(effect.after)
    elif target is not None:
        wanted = cursor.state_at(target)
    else:
        wanted = cursor.state_passed(args.count if args.change == "skip" else None)
    effect = cursor.effect(base, wanted)
    lost, again = await _measure_both(cursor, effect, now_ms)
    here, there = cursor.next_positions(effect)
    start, stop = sorted((effect.now.mark, effect.after.mark))
    delayed = None
    if lost.delayed is not None and again.delayed is not None:
        delayed = lost.delayed + again.delayed
    return undone | {
        "from": str(here),
        "to": str(there),
        "lost": effect.lost.total,
        "again": effect.again.total,
        "lost_messages": lost.count,
        "again_messages": again.count,
        "exact": lost.exact and again.exact,
        "holes": effect.now.holes.count(start, stop),
        "delayed": delayed,
        "first": await _summary(cursor, effect.first, 0),
        "last": await _summary(cursor, effect.last, -1),
        "consumers": [
            {"name": c.name, "address": c.outlet.address} for c in subscription.consumers
        ],
        "base": base64.b64encode(base).decode(),
        "target": base64.b64encode(wanted).decode(),
        "undoable": len(base) + len(wanted) <= STATES_BYTES_MAX,
        "kept_ms": _kept_ms(cursor),
    }


async def passed(
    subscription: Subscription, last: Position | None, now_ms: int, *, measured: bool = True
) -> JsonObject:
    """Return what a subscription would lose if all entries up to ``last`` (None: all) counted as acknowledged:
    ``entries`` and their ``messages``, which are estimated unless ``exact``, and None when they cannot be read or
    ``measured`` is False."""
    cursor = subscription.cursor
    wanted = cursor.state_passed(None) if last is None else cursor.state_passed_to(last)
    effect = cursor.effect(cursor.state(), wanted)
    entries = effect.lost.total
    if not measured and entries:
        return {"entries": entries, "messages": None, "exact": False}
    lost, _ = await _measure_both(cursor, effect, now_ms)
    return {"entries": entries, "messages": lost.count, "exact": lost.exact}


async def make(subscription: Subscription, args: MoveCursor, clock: Clock) -> JsonObject:
    """Make a previewed change, see ``MOVE_CURSOR``."""
    cursor = subscription.cursor
    base, target = _state("base", args.base), _state("target", args.target)

    def plan() -> tuple[Effect, LastChange]:
        now_ms = clock.wall_ms()
        spent = _spent(cursor, args.id, now_ms)
        try:
            effect = cursor.effect(base, target)
        except StoredRecordError as error:
            raise InvalidField("base", str(error)) from error
        _check(cursor, effect, args)
        is_as_previewed = effect.lost.total == args.lost and not effect.narrowed
        return effect, LastChange(
            id=args.id,
            at_ms=now_ms,
            by=args.by,
            what=args.change,
            lost=effect.lost.total,
            again=effect.again.total,
            lost_messages=args.lost_messages if is_as_previewed else None,
            again_messages=args.again_messages,
            exact=args.exact,
            undoes=args.undoes,
            spent=spent,
        )

    try:
        if args.dry:
            plan()
            return {"done": True}
        effect = await subscription.moves.move(plan)
    except _Refused as refused:
        return refused.answer
    return await _receipt(cursor, effect, args, clock.wall_ms())


async def last_changes(subscriptions: Mapping[str, Subscription]) -> list[JsonObject]:
    """Return the last change of each subscription that has one, see ``LAST_CHANGES``. It is durable."""
    changes = []
    for name, subscription in sorted(subscriptions.items()):
        if subscription.cursor.change_in_doubt:
            # Its write may have failed: it is written again before it is reported.
            await subscription.cursor.persisted()
        change = subscription.cursor.last_change
        if change is not None:
            changes.append(
                {
                    "subscription": name,
                    "id": change.id,
                    "at": change.at_ms,
                    "by": change.by,
                    "change": change.what,
                    "lost": change.lost,
                    "again": change.again,
                    "lost_messages": change.lost_messages,
                    "again_messages": change.again_messages,
                    "exact": change.exact,
                    "undoable": change.can_be_undone,
                    "kept_until": change.at_ms + _kept_ms(subscription.cursor),
                    "undoes": change.undoes,
                }
            )
    return changes


def _kept_ms(cursor: SubscriptionCursor) -> int:
    """Return the time after a change for which its entries are kept. Only durable cursors keep ledgers."""
    return KEPT_MS if cursor.durable else 0


def _to_undo(cursor: SubscriptionCursor, wanted: str) -> LastChange:
    change = cursor.last_change
    if change is None or change.id != wanted:
        raise Conflict(
            "The subscription was changed again after that change: only the last can be undone"
        )
    if not change.can_be_undone:
        raise Conflict(
            f"The state before the change was not kept: with the one after it took more than {STATES_BYTES_MAX} bytes"
        )
    return change


def _state(field: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidField(field, "must be as the preview answered it") from error


def _spent(cursor: SubscriptionCursor, wanted: str, now_ms: int) -> dict[str, int]:
    """Return the ids of applied previews. Raises _Refused if ``wanted`` is among them."""
    change = cursor.last_change
    spent = {} if change is None else change.spent_since(now_ms - SPENT_KEPT_MS)
    if wanted in spent:
        raise _Refused("used", "This preview was applied already", cursor)
    if len(spent) >= SPENT_MAX:
        raise Conflict(
            f"At most {SPENT_MAX} changes of a subscription in {SPENT_KEPT_MS // 60_000} minutes"
        )
    return spent


def _check(cursor: SubscriptionCursor, effect: Effect, args: MoveCursor) -> None:
    """Raise _Refused when the cursor changed since the preview by more than acknowledgements."""
    if effect.returned:
        raise _Refused(
            "moved",
            "The subscription was moved since the preview: entries that were acknowledged are due again",
            cursor,
            effect.returned.total,
        )
    gone = args.again - effect.released.total
    if gone > 0:
        raise _Refused("trimmed", "Entries to be delivered again were deleted since", cursor, gone)


async def _receipt(
    cursor: SubscriptionCursor, effect: Effect, args: MoveCursor, now_ms: int
) -> JsonObject:
    here, there = cursor.next_positions(effect)
    lost, exact = await _lost_messages(cursor, effect, args, now_ms)
    change = cursor.last_change
    is_made = change is not None and change.id == args.id  # a change without effect is not recorded
    kept = change is not None and is_made and change.can_be_undone
    return {
        "done": True,
        "from": str(here),
        "to": str(there),
        "mark_delete": str(cursor.stats().mark_delete),
        "lost": effect.lost.total,
        "again": effect.again.total,
        "lost_messages": lost,
        "again_messages": args.again_messages,
        "exact": exact,
        "meanwhile": max(args.lost - effect.lost.total, 0),
        "changed": is_made,
        "undoable": kept,
        "kept_until": change.at_ms + _kept_ms(cursor) if change is not None and kept else None,
    }


async def _lost_messages(
    cursor: SubscriptionCursor, effect: Effect, args: MoveCursor, now_ms: int
) -> tuple[int | None, bool]:
    """Return the number of lost messages, which is that of the preview without those acknowledged since, and whether it
    is exact."""
    if effect.lost.total + effect.meanwhile.total < args.lost:
        # Entries acknowledged since were deleted, too: their messages cannot be subtracted, so the rest is counted.
        lost, _ = await _measure_both(cursor, effect, now_ms)
        return lost.count, lost.exact
    narrowed = effect.narrowed
    since = RangeSet([*effect.meanwhile, *((o, o + 1) for o in narrowed)])
    masks = {o: bits & ~effect.now.bits(o) for o, bits in effect.base.batches.items()}
    masks |= {o: effect.base.bits(o) & ~effect.now.bits(o) for o in narrowed}
    acknowledged = await _measure(cursor, since, masks, now_ms)
    if args.lost_messages is None or acknowledged.count is None:
        return None, False
    return max(args.lost_messages - acknowledged.count, 0), args.exact and acknowledged.exact


# --- messages in entries --------------------------------------------------------------------------


async def _measure_both(
    cursor: SubscriptionCursor, effect: Effect, now_ms: int
) -> tuple[Counted, Counted]:
    """Return the lost messages, and those to be delivered again."""
    now, after = effect.now, effect.after
    partly = [(o, o + 1) for o in effect.partly]
    special = now.batches.keys() | after.batches.keys()
    lost = await _measure(
        cursor,
        RangeSet([*effect.lost, *partly]),
        {o: now.bits(o) & ~after.bits(o) for o in special},
        now_ms,
    )
    again = await _measure(
        cursor,
        RangeSet([*effect.again, *partly]),
        {o: after.bits(o) & ~now.bits(o) for o in special},
        now_ms,
    )
    return lost, again


async def _measure(
    cursor: SubscriptionCursor, entries: RangeSet, masks: Mapping[int, int], now_ms: int
) -> Counted:
    """Count the messages in ``entries``; in the entries of ``masks`` only the messages whose bits are set."""
    counted = Counted()
    loop = asyncio.get_running_loop()
    until_s, bytes_left = loop.time() + MEASURED_S_MAX, MEASURED_BYTES_MAX
    seen = 0
    try:
        for start, stop in entries:
            async for base, run in cursor.entries_of(start, stop):
                first, last = max(start - base, 0), min(stop - base, run.count)
                _add(counted, run, first, last, base, masks, now_ms)
                seen += last - first
                bytes_left -= run.size_of(first, last)
                if bytes_left <= 0 or loop.time() > until_s:
                    assert counted.count is not None
                    if seen < entries.total:
                        return Counted(counted.count * entries.total // seen, False, None)
    except MagnetarError:
        return Counted(None, False, None)
    return counted


def _add(
    counted: Counted,
    run: Slice,
    first: int,
    last: int,
    base: int,
    masks: Mapping[int, int],
    now_ms: int,
) -> None:
    assert counted.count is not None
    assert counted.delayed is not None
    counted.count += run.messages_of(first, last)
    if masks:
        for i in range(first, last):
            mask = masks.get(base + i)
            if mask is not None:
                size = run.messages_of(i, i + 1)
                counted.count += (mask & ((1 << size) - 1)).bit_count() - size
    special = facts_of(run, DELIVERY).special
    counted.delayed += sum(
        run.messages_of(i, i + 1)
        for i, facts in special.items()
        if first <= i < last and facts.deliver_at_ms > now_ms
    )


async def _summary(
    cursor: SubscriptionCursor, ordinal: int | None, index: int
) -> JsonObject | None:
    """Return an entry's position, publish time and the key of the message at ``index``; None when it cannot be
    read."""
    if ordinal is None:
        return None
    try:
        async for base, run in cursor.entries_of(ordinal, ordinal + 1):
            i = ordinal - base
            summary: JsonObject = {"id": str(run.position(i)), "publish_time": None, "key": None}
            try:
                opened = unpack_entry(run.entry(i))
            except BatchFormatError:
                return summary
            summary["publish_time"] = opened.metadata.publish_time or None
            if opened.messages:
                summary["key"] = opened.messages[index].key
            return summary
    except MagnetarError:
        return None
    return None
