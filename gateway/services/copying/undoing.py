"""The work of an undo: the copies that a task published are acknowledged at each subscription of its targets."""

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import NamedTuple

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.base.names import TopicName
from gateway.services.browsing.chunks import is_last_chunk
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.copying.acknowledging import states_of
from gateway.services.copying.copier import CopiedCounts, CopyProgress, Report, Task
from gateway.services.copying.reading import SourcePlace, pages
from gateway.services.copying.retrying import until_done
from gateway.services.engine_link import Engine


class TakenPage(NamedTuple):
    """Copies in a page of a target. ``after``: the place behind it; ``scanned``: messages in it; ``held`` and
    ``acknowledged``: copies by target and subscription, as they were before."""

    after: SourcePlace
    scanned: int
    copies: int
    held: dict[tuple[str, str], int]
    acknowledged: dict[tuple[str, str], int]


async def taken_back(
    engine: Engine, task: Task, place: SourcePlace, *, dry: bool
) -> AsyncIterator[TakenPage]:
    """Acknowledge the copies that a task published from ``place`` on, unless ``dry``, and yield what was found, page by
    page. ``task.plan`` has the targets as its sources."""
    names: dict[str, list[str]] = {}
    async for page in pages(engine, task.plan, place):
        topic = task.plan.sources[page.part].topic
        target = str(TopicName.parse(topic).partitioned)
        ours = [m for m in page.messages if m.producer.startswith(task.producer)]
        if ours and topic not in names:
            names[topic] = await engine.call(SUBSCRIPTIONS, OnTopic(TopicName.parse(topic)))
        held: dict[tuple[str, str], int] = defaultdict(int)
        acknowledged: dict[tuple[str, str], int] = defaultdict(int)
        for subscription in names.get(topic, ()) if ours else ():
            places = [MessagePosition(*message.position) for message in ours]
            states = await states_of(engine, topic, subscription, places, dry=dry)
            whole = [s for m, s in zip(ours, states, strict=True) if _ends_message(m)]
            held[target, subscription] += whole.count("held")
            acknowledged[target, subscription] += whole.count("acknowledged")
        copies = sum(map(_ends_message, ours))
        yield TakenPage(page.after, len(page.messages), copies, held, acknowledged)


def _ends_message(message: BrowsedMessage) -> bool:
    """Return whether a message counts: of one in chunks the last, since the first ones may be stored twice."""
    return message.kind is not Kind.CHUNK or is_last_chunk(message)


class CopyUndoer:
    """One attempt at an undo. ``report`` is awaited for each page; what it raises ends the work. ``again``: an earlier
    attempt may have acknowledged copies behind ``place``."""

    def __init__(
        self,
        engine: Engine,
        task: Task,
        place: SourcePlace,
        counts: CopiedCounts,
        report: Report,
        *,
        again: bool,
    ) -> None:
        self._engine = engine
        self._task = task
        self._place = place
        self._counts = counts
        self._report = report
        self._again = again

    async def run(self) -> None:
        """Take the copies back. Raises the errors that do not pass by themselves, and those of ``report``."""

        async def report(problem: str) -> None:
            self._again = True
            await self._report(CopyProgress(self._place, self._counts, problem))

        await until_done(self._attempt, report, lambda: self._place)

    async def _attempt(self) -> None:
        counts = self._counts
        async for page in taken_back(self._engine, self._task, self._place, dry=False):
            acknowledged = sum(page.acknowledged.values())
            counts.scanned += page.scanned
            counts.matched += page.copies
            counts.acknowledged += sum(page.held.values())
            if self._again:
                counts.unclear += acknowledged
            else:
                counts.consumed += acknowledged
            counts.entries = self._task.plan.entries_before(*page.after[:3])
            self._place, self._again = page.after, False
            await self._report(CopyProgress(page.after, counts))
