"""Previews of copies and of their undoing, by a bounded look at the messages."""

import time
from collections.abc import Sequence
from typing import Any

from engine.admin.api.arguments import MessagePosition
from engine.base.errors import InvalidNameError, MagnetarError
from engine.base.names import TopicName
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.browsing.values import TopicValues
from gateway.services.copying.acknowledging import states_of
from gateway.services.copying.conditions import Conditions, letter_of
from gateway.services.copying.copier import Task
from gateway.services.copying.plan import CopyPlan, Target, target_of
from gateway.services.copying.reading import SourcePlace, pages
from gateway.services.copying.undoing import taken_back
from gateway.services.engine_link import Engine

TIME_S = 6.0
ENTRIES_MAX = 20_000
TARGETS_MAX = 20
Json = dict[str, Any]


class _Bound:
    def __init__(self) -> None:
        self._until_s = time.monotonic() + TIME_S
        self._left = ENTRIES_MAX

    def reached(self, entries: int) -> bool:
        self._left -= entries
        return self._left <= 0 or time.monotonic() > self._until_s


async def preview_copy(
    engine: Engine,
    source: TopicName,
    target: TopicName | None,
    subscription: str,
    conditions: Conditions,
    plan: CopyPlan,
) -> Json:
    """Return what a copy of ``plan`` would do, and add its targets to the plan; ``target`` None: the origin of each
    letter.

    Counts are of the messages looked at, which are all unless ``stopped`` is ``bound``. Raises NotFound for a given
    target that does not exist.
    """
    values, bound = TopicValues(source), _Bound()
    if target is not None:
        plan.targets[str(target)] = await target_of(engine, target)
    counts: dict[str, int] = {str(target): 0} if target is not None else {}
    scanned = entries = matched = uncopyable = 0
    begun: set[str] = set()
    first: int | None = None
    last: int | None = None
    stopped = "end"
    async for page in pages(engine, plan, SourcePlace()):
        await values.fetch(engine, page.messages)
        topic = plan.sources[page.part].topic
        name = str(source.partitioned)
        taken = [
            message
            for message in page.messages
            if message.message is not None and conditions.matches(name, message, values.text)
        ]
        if subscription and taken:
            places = [MessagePosition(*message.position) for message in taken]
            states = await states_of(engine, topic, subscription, places)
            taken = [m for m, state in zip(taken, states, strict=True) if state == "held"]
        scanned, entries = scanned + len(page.messages), entries + page.entries
        for message in taken:
            if message.kind is Kind.CHUNK:
                uuid = message.metadata.uuid
                if message.metadata.chunk_id or uuid in begun:
                    continue
                begun.add(uuid)  # its producer may have begun it twice
            matched += 1
            at = message.publish_ms
            first = at if first is None else min(first, at)
            last = at if last is None else max(last, at)
            to = str(target) if target is not None else _origin(name, message)
            if not to:
                uncopyable += 1
            counts[to] = counts.get(to, 0) + 1
        if bound.reached(page.entries):
            stopped = "bound"
            break
    counts.pop("", None)
    rows = await _targets(engine, plan, counts)
    return {
        "scanned": scanned,
        "scanned_entries": entries,
        "entries": plan.entries,
        "stopped": stopped,
        "matched": matched,
        "without_origin": uncopyable,
        "first_published": first,
        "last_published": last,
        "targets": rows,
        "at_least_once": not all(item.deduplicated for item in plan.targets.values()),
    }


async def _targets(engine: Engine, plan: CopyPlan, counts: dict[str, int]) -> list[Json]:
    """Return a row for each target, the largest first, and add those that can be written to to the plan."""
    rows = []
    for topic, messages in sorted(counts.items(), key=lambda item: -item[1])[:TARGETS_MAX]:
        problem = ""
        known: Target | None = plan.targets.get(topic)
        if known is None:
            try:
                known = plan.targets[topic] = await target_of(engine, TopicName.parse(topic))
            except MagnetarError as error:
                problem = str(error)
        rows.append(
            {
                "topic": topic,
                "messages": messages,
                "partitions": 0 if known is None else known.partitions,
                "deduplicated": known is not None and known.deduplicated,
                "problem": problem or None,
            }
        )
    return rows


def _origin(topic: str, message: BrowsedMessage) -> str:
    origin = letter_of(topic, message).origin
    try:
        return str(TopicName.parse(origin).partitioned) if origin else ""
    except InvalidNameError:
        return ""


async def preview_undo(engine: Engine, task: Task) -> Json:
    """Return what taking back a task's copies would do; ``task.plan`` has its targets as sources."""
    bound, stopped = _Bound(), "end"
    tally: dict[tuple[str, str], list[int]] = {}
    scanned = entries = copies = 0
    async for page in taken_back(engine, task, SourcePlace(), dry=True):
        scanned, copies = scanned + page.scanned, copies + page.copies
        for key, held in page.held.items():
            sums = tally.setdefault(key, [0, 0])
            sums[0] += held
            sums[1] += page.acknowledged[key]
        before, entries = entries, task.plan.entries_before(*page.after[:3])
        if bound.reached(entries - before):
            stopped = "bound"
            break
    return {
        "scanned": scanned,
        "scanned_entries": entries,
        "entries": task.plan.entries,
        "stopped": stopped,
        "copies": copies,
        "subscriptions": _subscription_rows(tally),
    }


def _subscription_rows(tally: dict[tuple[str, str], list[int]]) -> Sequence[Json]:
    return [
        {"topic": topic, "subscription": name, "held": held, "consumed": consumed}
        for (topic, name), (held, consumed) in sorted(tally.items())
    ]
