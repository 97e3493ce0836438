"""Changes of a subscription's cursor that are previewed, confirmed and counted: what a preview says, and the change.

What is confirmed is a state of the cursor as the preview saw it and one as it is to be (``managed/cursors/moves``); the
broker that owns the topic makes exactly the difference, and keeps both states with the cursor, in the same write.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass

from engine.admin import api
from engine.admin.api import JsonObject
from engine.base.clock import Clock
from engine.base.errors import Conflict, InvalidField, MagnetarError
from engine.base.ids import Position
from engine.base.ranges import RangeSet
from engine.base.slices import Slice
from engine.broker.dispatch.facts import facts_of
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.subscription import Subscription
from engine.managed.cursors.last_change import KEPT_MS, SPENT_MAX, STATES_BYTES_MAX, LastChange
from engine.managed.cursors.moves import Effect
from engine.managed.errors import StoredRecordError
from engine.wire.batches import BatchFormatError, unpack_entry

MEASURED_BYTES_MAX = 64 << 20
MEASURED_S_MAX = 5.0
"""Beyond either, the messages in the entries left are estimated by those that were read."""
SPENT_KEPT_MS = 2 * api.PREVIEW_AGE_MAX_S * 1000
"""Ids of confirmed previews are remembered for twice as long as they are good for: clocks differ."""


@dataclass(slots=True)
class Counted:
    """How many there are in some entries: ``count`` None when storage does not tell, ``exact`` False when estimated."""

    count: int | None = 0
    exact: bool = True
    delayed: int | None = 0


class _Refused(Exception):
    """The change must not be made: ``answer`` says why."""

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
    subscription: Subscription, args: api.PreviewChange, target: Position | None, now_ms: int
) -> JsonObject:
    """See ``PREVIEW_CHANGE``. ``target``: of a reset."""
    cursor = subscription.cursor
    base = cursor.state()
    found: JsonObject = {"gone": 0, "moved": 0}
    if args.change == "undo":
        change = _to_undo(cursor, args.undo or "")
        effect = cursor.effect(change.after, change.before)
        found["gone"] = max(change.lost - effect.released.total, 0)
        found["moved"] = effect.returned.total
        wanted = cursor.encoded(effect.after)
    elif target is not None:
        wanted = cursor.state_at(target)
    else:
        wanted = cursor.state_passed(args.count if args.change == "skip" else None)
    effect = cursor.effect(base, wanted)
    lost, again = await _measure_both(cursor, effect, now_ms)
    here, there = cursor.next_positions(effect)
    start, stop = sorted((effect.now.mark, effect.after.mark))
    delayed = [one.delayed for one in (lost, again)]
    return found | {
        "from": str(here),
        "to": str(there),
        "lost": effect.lost.total,
        "again": effect.again.total,
        "lost_messages": lost.count,
        "again_messages": again.count,
        "exact": lost.exact and again.exact,
        "holes": effect.now.holes.count(start, stop),
        "delayed": None if None in delayed else sum(one or 0 for one in delayed),
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
    """What it would lose if all up to ``last`` (None: all there is) counted as acknowledged: ``entries``, ``messages``
    in them, null when storage does not tell or it is not ``measured``, estimated unless ``exact``."""
    cursor = subscription.cursor
    wanted = cursor.state_passed(None) if last is None else cursor.state_passed_to(last)
    effect = cursor.effect(cursor.state(), wanted)
    entries = effect.lost.total
    if not measured and entries:
        return {"entries": entries, "messages": None, "exact": False}
    lost, _ = await _measure_both(cursor, effect, now_ms)
    return {"entries": entries, "messages": lost.count, "exact": lost.exact}


async def make(subscription: Subscription, args: api.MoveCursor, clock: Clock) -> JsonObject:
    """See ``MOVE_CURSOR``."""
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
        as_said = effect.lost.total == args.lost and not effect.narrowed
        return effect, LastChange(
            id=args.id,
            at_ms=now_ms,
            by=args.by,
            what=args.change,
            lost=effect.lost.total,
            again=effect.again.total,
            lost_messages=args.lost_messages if as_said else None,
            again_messages=args.again_messages,
            exact=args.exact,
            undoes=args.undoes,
            spent=spent,
        )

    try:
        if args.dry:
            plan()
            return {"done": True}
        effect = await subscription.move(plan)
    except _Refused as refused:
        return refused.answer
    return await _receipt(cursor, effect, args, clock.wall_ms())


async def last_changes(subscriptions: Mapping[str, Subscription]) -> list[JsonObject]:
    """See ``LAST_CHANGES``. What is told survives a crash."""
    found = []
    for name, subscription in sorted(subscriptions.items()):
        if subscription.cursor.change_in_doubt:
            await subscription.cursor.persisted()
        change = subscription.cursor.last_change
        if change is not None:
            found.append(
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
    return found


def _kept_ms(cursor: SubscriptionCursor) -> int:
    """For how long after a change all that it passed can be brought back. Only durable cursors keep ledgers."""
    return KEPT_MS if cursor.durable else 0


def _to_undo(cursor: SubscriptionCursor, wanted: str) -> LastChange:
    change = cursor.last_change
    if change is None or change.id != wanted:
        raise Conflict(
            "Another change of the subscription came after this one; only the last can be undone"
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
    """The ids that are spent already. Raises _Refused if ``wanted`` is one."""
    change = cursor.last_change
    spent = {} if change is None else change.spent_since(now_ms - SPENT_KEPT_MS)
    if wanted in spent:
        raise _Refused("used", "This preview was applied already", cursor)
    if len(spent) >= SPENT_MAX:
        raise Conflict(
            f"At most {SPENT_MAX} changes of a subscription in {SPENT_KEPT_MS // 60_000} minutes"
        )
    return spent


def _check(cursor: SubscriptionCursor, effect: Effect, args: api.MoveCursor) -> None:
    """Only acknowledgements may have come since the preview."""
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
    cursor: SubscriptionCursor, effect: Effect, args: api.MoveCursor, now_ms: int
) -> JsonObject:
    here, there = cursor.next_positions(effect)
    lost, exact = await _lost_messages(cursor, effect, args, now_ms)
    change = cursor.last_change
    made = change is not None and change.id == args.id  # an effect of nothing is no change
    kept = change is not None and made and change.can_be_undone
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
        "changed": made,
        "undoable": kept,
        "kept_until": change.at_ms + _kept_ms(cursor) if change is not None and kept else None,
    }


async def _lost_messages(
    cursor: SubscriptionCursor, effect: Effect, args: api.MoveCursor, now_ms: int
) -> tuple[int | None, bool]:
    """Those that were previewed without those acknowledged since; and whether that is exact."""
    if effect.lost.total + effect.meanwhile.total < args.lost:  # acknowledged and deleted since
        found, _ = await _measure_both(cursor, effect, now_ms)
        return found.count, found.exact
    narrowed = effect.narrowed
    since = RangeSet([*effect.meanwhile, *((o, o + 1) for o in narrowed)])
    masks = {o: bits & ~effect.now.bits(o) for o, bits in effect.base.batches.items()}
    masks |= {o: effect.base.bits(o) & ~effect.now.bits(o) for o in narrowed}
    took = await _measure(cursor, since, masks, now_ms)
    if args.lost_messages is None or took.count is None:
        return None, False
    return max(args.lost_messages - took.count, 0), args.exact and took.exact


# --- messages in entries --------------------------------------------------------------------------


async def _measure_both(
    cursor: SubscriptionCursor, effect: Effect, now_ms: int
) -> tuple[Counted, Counted]:
    """The messages that are lost, and those due again."""
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
    """The messages in ``entries``; of those in ``masks`` only the messages whose bits are set."""
    found = Counted()
    loop = asyncio.get_running_loop()
    until_s, left = loop.time() + MEASURED_S_MAX, MEASURED_BYTES_MAX
    seen = 0
    try:
        for start, stop in entries:
            async for base, run in cursor.entries_of(start, stop):
                first, last = max(start - base, 0), min(stop - base, run.count)
                _add(found, run, first, last, base, masks, now_ms)
                seen += last - first
                left -= run.size_of(first, last)
                if left <= 0 or loop.time() > until_s:
                    assert found.count is not None
                    if seen < entries.total:
                        return Counted(found.count * entries.total // seen, False, None)
    except MagnetarError:
        return Counted(None, False, None)
    return found


def _add(
    found: Counted,
    run: Slice,
    first: int,
    last: int,
    base: int,
    masks: Mapping[int, int],
    now_ms: int,
) -> None:
    assert found.count is not None
    assert found.delayed is not None
    found.count += run.messages_of(first, last)
    if masks:
        for i in range(first, last):
            mask = masks.get(base + i)
            if mask is not None:
                size = run.messages_of(i, i + 1)
                found.count += (mask & ((1 << size) - 1)).bit_count() - size
    special = facts_of(run).special
    found.delayed += sum(
        run.messages_of(i, i + 1)
        for i, facts in special.items()
        if first <= i < last and facts.deliver_at_ms > now_ms
    )


async def _summary(
    cursor: SubscriptionCursor, ordinal: int | None, which: int
) -> JsonObject | None:
    """An entry's place, publish time, and the key of its message ``which``; None when storage does not tell."""
    if ordinal is None:
        return None
    try:
        async for base, run in cursor.entries_of(ordinal, ordinal + 1):
            i = ordinal - base
            found: JsonObject = {"id": str(run.position(i)), "publish_time": None, "key": None}
            try:
                opened = unpack_entry(run.entry(i))
            except BatchFormatError:
                return found
            found["publish_time"] = opened.metadata.publish_time or None
            if opened.messages:
                found["key"] = opened.messages[which].key
            return found
    except MagnetarError:
        return None
    return None
