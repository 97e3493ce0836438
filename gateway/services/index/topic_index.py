"""The figures of all topics, updated by changes that brokers and the metadata store report. Work is proportional to
what changed. Pure.

Figures are reported for topics and partitions (here: parts); a partitioned topic has the sum of its parts. Several
brokers may claim the same part for a moment while it moves: only the newest claim counts. A part that no broker has
loaded keeps the figures that are stored.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from engine.base.names import PARTITION_SUFFIX, split_partition
from gateway.services.feeds.row_list import STEP, RowChanges
from gateway.services.index.due import Due
from gateway.services.index.figures import (
    BACKLOG,
    NOTHING,
    STORAGE,
    STORED,
    SUBSCRIPTIONS,
    UNKNOWN,
    UNREAD,
    BrokerFigures,
    Claim,
    Part,
    Shown,
    Values,
    at_rest,
    filled,
    unloaded,
    without_clients,
)
from gateway.services.index.listed_topics import ListedTopics
from gateway.services.index.rows import NO, Row, row_of

Known = tuple[str, int, Values, bool | None, int]
"""The arguments of ``rows.row_of``, without the time."""


class PlacementObserver(Protocol):
    """An observer of which parts are listed, and under which topic."""

    def place(self, part: str, topic: str) -> None: ...

    def remove(self, part: str) -> None: ...


class TopicIndex(ListedTopics):
    """The list of all topics with the parts that they consist of, and who reports these."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, BrokerFigures] = {}
        """Reports by broker."""
        self._known: dict[str, int] = {}
        """Number of partitions (0: plain) of topics that the metadata lists."""
        self._strays: dict[str, dict[str, None]] = {}
        """Partitions listed by themselves, because their topic is not known to be partitioned, by that topic."""
        self._parts: dict[str, Part] = {}
        self._complete = True
        self._due = Due()
        self.placed: PlacementObserver | None = None
        """Notified of the listed topic that each part belongs to."""

    # Reports of brokers

    def reported(self, broker: str) -> Iterable[str]:
        """Return the topics and partitions that a broker has loaded."""
        source = self.sources.get(broker)
        return () if source is None else source.parts

    def apply(self, broker: str, changes: RowChanges) -> None:
        """Apply changes of a broker's ``TOPIC_ROWS``."""
        source = self.sources.setdefault(broker, BrokerFigures())
        for name, *values in changes.rows:
            self._claim(broker, source, name, tuple(values))
        for name in changes.gone:
            self._leave(source, name)
        source.at = changes.at

    def set_silent(self, broker: str, silent: bool) -> Iterator[None]:
        """Set whether the broker is silent; its figures stay as the last known ones meanwhile.

        The work is done by iterating over the result, in steps of ``STEP`` parts. The index is consistent between
        steps, and may change there.
        """
        source = self.sources.get(broker)
        if source is None or source.silent == silent:
            return
        source.silent = silent
        for count, name in enumerate(list(source.parts), 1):
            if name in source.parts:
                self._changed(source.parts[name])
            if count % STEP == 0:
                yield

    def forget(self, broker: str) -> Iterator[None]:
        """Remove a broker that has ended. Its parts are at rest, with their last known figures until they are read;
        non-persistent ones have none and are removed unless the metadata lists them. Runs in steps, as
        ``set_silent`` does."""
        source = self.sources.pop(broker, None)
        if source is None:
            return
        for count, name in enumerate(list(source.parts), 1):
            self._leave(source, name)
            if count % STEP == 0:
                yield

    def listed_as(self, name: str) -> str:
        """Return the name of the listed topic that a topic or partition belongs to."""
        part = self._parts.get(name)
        return name if part is None else part.shown_in.name

    @property
    def complete(self) -> bool:
        """True where a part that no broker reported is loaded nowhere: false until every broker has reported."""
        return self._complete

    def begin(self) -> None:
        """Mark the index as incomplete: not every broker has reported yet."""
        self._complete = False

    def become_complete(self) -> Iterator[None]:
        """Mark the index as complete: every broker has reported. Runs in steps, as ``set_silent`` does."""
        self._complete = True
        for count, name in enumerate(list(self._parts), 1):
            part = self._parts.get(name)
            if part is not None and part.claim is None and None in part.stored:
                part.stored = without_clients(part.stored) if part.persistent else NOTHING
                part.is_read = part.is_read or not part.persistent
                self._changed(part)
            if count % STEP == 0:
                yield

    def is_unloaded(self, name: str) -> bool:
        """Return whether the topic or partition exists and no broker has it loaded."""
        part = self._parts.get(name)
        return part is not None and part.claim is None

    def _claim(self, broker: str, source: BrokerFigures, name: str, values: Values) -> None:
        part = self._parts.get(name) or self._add(name)
        is_partly_old = None in values and None not in part.values
        if is_partly_old:
            # Before a new claim changes ``at``: the time of the older values, which stay in part.
            part.stored_at = part.at
            values = filled(values, part.values)
        before = NOTHING
        if name not in source.parts:
            claim = Claim(broker, source, values)
            if part.claim is not None:
                part.older += (part.claim,)
            part.claim = claim
            source.parts[name] = part
            self._due.forget(name)
        else:
            claim = part.claim_of(source)
            before, claim.values = claim.values, values
        claim.is_partly_old = is_partly_old
        source.put(before, values)
        self._changed(part)

    def _leave(self, source: BrokerFigures, name: str) -> None:
        part = source.parts.pop(name, None)
        if part is None:
            # It was loaded and unloaded between two answers: what was read of it may have changed since.
            resting = self._parts.get(name)
            if resting is not None and resting.claim is None:
                resting.is_read = not resting.persistent
                self._changed(resting)
                self._make_due(resting)
            return
        at = part.at
        withdrawn = part.claim_of(source)
        source.put(withdrawn.values, NOTHING)
        if part.claim is withdrawn and not part.older and not self._is_known(name):
            self._remove(part)
            return
        if part.claim is withdrawn:
            part.claim = part.older[-1] if part.older else None
            part.older = part.older[:-1]
        else:
            part.older = tuple(claim for claim in part.older if claim is not withdrawn)
        claim = part.claim
        if claim is not None:
            if None in claim.values and None not in part.values:
                part.stored_at = at
                claim.values, claim.is_partly_old = filled(claim.values, part.values), True
            self._changed(part)
            return
        part.stored = unloaded(withdrawn.values) if part.persistent else NOTHING
        part.is_read = not part.persistent
        part.stored_at = at
        self._changed(part)
        self._make_due(part)

    # Reports of the metadata store

    def catalog(self, changed: dict[str, int], removed: Iterable[str]) -> None:
        """Apply the numbers of partitions (0: plain) of new and changed topics, and remove deleted ones."""
        for name in removed:
            self._unlist(name)
        for name, partitions in changed.items():
            before = self._known.get(name)
            if before == partitions:
                continue
            if before and partitions > before:
                self._grow(name, before, partitions)
                continue
            self._unlist(name)
            self._known[name] = partitions
            if partitions:
                loaded = [name] if name in self._parts else []
                loaded += self._strays.get(name, ())
                moving = [self._parts[part_name] for part_name in loaded]
                for part in moving:
                    self._remove(part)
                # Until it has all its parts its sums are too small to be taken for the last known ones.
                topic = self._gathering = Shown(name, partitions, None)
                self._show(topic)
                for part in moving:
                    self._place(part)
                for index in range(partitions):
                    self._settle(f"{name}{PARTITION_SUFFIX}{index}")
                self._gathering = None
            else:
                self._settle(name)

    def _grow(self, name: str, before: int, partitions: int) -> None:
        self._known[name] = self._shown[name].partitions = partitions
        for index in range(before, partitions):
            self._settle(f"{name}{PARTITION_SUFFIX}{index}")
        if self._orders is not None:
            self._orders.touch(self._shown[name])
        self._touch(name)

    def _unlist(self, name: str) -> None:
        """Remove a topic that the metadata does not list any more; its loaded parts are listed by themselves."""
        if self._known.pop(name, None) is None:
            return
        shown = self._shown[name]
        parts = list(shown.parts)
        for part in parts:
            self._remove(part)
        if shown.fold is not None:
            self._hide(shown)
        for part in parts:
            if part.claim is not None:
                self._place(part)

    def _settle(self, name: str) -> None:
        """Place a part that the metadata lists where it belongs, and have it read while it is unloaded."""
        part = self._parts.get(name)
        if part is None:
            part = self._add(name, resting=True)
        else:
            self._remove(part)
            self._place(part)
        if part.claim is None:
            self._make_due(part)

    def _is_known(self, name: str) -> bool:
        base, index = split_partition(name)
        if 0 <= index < self._known.get(base, 0):
            return True
        return self._known.get(name) == 0

    # Parts at rest

    def due(self, now_ms: int, count: int) -> list[str]:
        """Return at most ``count`` parts to be read now; ``apply_at_rest`` or ``postpone`` must follow."""
        return self._due.pop(self._parts, now_ms, count)

    def apply_at_rest(self, answer: dict[str, Any]) -> None:
        """Apply an answer to ``TOPICS_AT_REST``."""
        at = int(answer["at"])
        for name, *stored in answer["rows"]:
            self._read(name, at_rest(*stored[:3], last=self._last_at_rest(name)), at)
        for name in answer["missing"]:
            self._read(name, NOTHING, at)

    def _last_at_rest(self, name: str) -> Values:
        """Return the last known figures of a part, from an earlier process where this one has none."""
        part = self._parts.get(name)
        if part is not None and part.stored[BACKLOG] is not None:
            return part.stored
        _, recalled = self._recalled.get(name, (0, NOTHING))
        return recalled

    def postpone(self, names: Iterable[str], now_ms: int) -> None:
        """Have parts that could not be read at ``now_ms`` read later."""
        for name in names:
            part = self._parts.get(name)
            if part is not None and self._may_rest(part):
                self._due.retry(name, now_ms)

    def _read(self, name: str, values: Values, at: int) -> None:
        part = self._parts.get(name)
        if part is None or not self._may_rest(part):
            return
        # A broker that has not reported yet may have it loaded: its clients are unknown.
        if not self._complete:
            values = tuple(
                value if column in STORED else part.stored[column]
                for column, value in enumerate(values)
            )
        if None in (values[SUBSCRIPTIONS], values[BACKLOG], values[STORAGE]):
            self._due.retry(name, at)
            part.is_read = False
            # Complete figures of one earlier time are more useful than a mixture with some new ones.
            if part.known != NO:
                self._changed(part)
                return
        else:
            self._due.mark_read(name)
            part.is_read = True
        part.stored, part.stored_at = values, at
        self._changed(part)

    def _may_rest(self, part: Part) -> bool:
        """Return whether an answer about a part at rest still holds: the part was not loaded since the request, after
        which it is due again."""
        return part.claim is None and part.name not in self._due

    def _make_due(self, part: Part) -> None:
        if part.persistent:
            self._due.add(part.name)

    # Parts and the topics that list them

    def _add(self, name: str, *, resting: bool = False) -> Part:
        """Add a part; ``resting`` where the metadata lists it, not a broker that has it loaded."""
        part = Part(name, UNKNOWN)
        if resting and self._complete:
            part.stored = UNREAD if part.persistent else NOTHING
            part.is_read = not part.persistent
        part.refresh()
        self._parts[name] = part
        self._place(part)
        return part

    def _place(self, part: Part) -> None:
        self._parts[part.name] = part
        base, _ = split_partition(part.name)
        if self._known.get(part.name):
            # A broker has a plain topic with the name of a partitioned one loaded: it counts as a part of that.
            base = part.name
        if self._known.get(base):
            shown = part.shown_in = self._shown[base]
            assert shown.fold is not None
            shown.fold.parts[part.name] = part
            shown.fold.replace(None, part.figures)
            self._reshow(shown)
        else:
            part.shown_in = Shown(part.name, 0, part)
            self._show(part.shown_in)
            if base:
                self._strays.setdefault(base, {})[part.name] = None
        if self.placed is not None:
            self.placed.place(part.name, part.shown_in.name)

    def _remove(self, part: Part) -> None:
        del self._parts[part.name]
        if part.claim is None:
            self._due.forget(part.name)
        shown = part.shown_in
        if shown.fold is None:
            self._hide(shown)
            base, _ = split_partition(part.name)
            strays = self._strays.get(base, {})
            strays.pop(part.name, None)
            if not strays:
                self._strays.pop(base, None)
        else:
            del shown.fold.parts[part.name]
            shown.fold.replace(part.figures, None)
            self._reshow(shown)
        if self.placed is not None:
            self.placed.remove(part.name)
        # Without the reference cycle the part is freed at once, not by the garbage collector.
        del part.shown_in

    def _changed(self, part: Part) -> None:
        """Refresh a part, and its topic if the part's figures changed."""
        fold = part.shown_in.fold
        before = part.figures if fold is not None else None
        if part.refresh():
            if fold is not None:
                fold.replace(before, part.figures)
            self._reshow(part.shown_in)

    # Queries

    @property
    def at(self) -> int:
        """Time when the newest figures were counted, ms; 0 without any."""
        return max((source.at for source in self.sources.values()), default=0)

    def row(self, name: str, now_ms: int) -> Row:
        """Return a listed topic's row (``rows.row_of``). Raises KeyError when it does not exist."""
        known, at = self.content_of(name, now_ms)
        return row_of(*known, at)

    def content_of(self, name: str, now_ms: int) -> tuple[Known, int]:
        """Return the content of a listed topic's row and its time in ms. Raises KeyError when it does not exist."""
        shown = self._shown[name]
        if shown.last is not None:
            at = shown.last[0]
        elif shown.part is not None:
            at = shown.part.at
        else:
            at = min((part.at for part in shown.parts if part.known == shown.known), default=now_ms)
        loaded = _loaded(shown.parts, self._complete)
        return (name, shown.partitions, shown.values, loaded, shown.known), at or now_ms

    def owner(self, name: str) -> str:
        """Return the broker that has the topic or partition loaded, as far as is known; empty without one."""
        part = self._parts.get(name)
        return part.claim.broker if part is not None and part.claim is not None else ""

    def part_row(self, name: str, now_ms: int) -> Row | None:
        """Return the row of a topic or partition by itself, with ``owner`` (the broker that has it loaded, empty
        without one); None when it does not exist."""
        part = self._parts.get(name)
        if part is None:
            return None
        loaded = _loaded((part,), self._complete)
        row = row_of(name, 0, part.values, loaded, part.known, part.at or now_ms)
        return {**row, "owner": self.owner(name)}


def _loaded(parts: Iterable[Part], complete: bool) -> bool | None:
    """Return whether a broker has one of the parts loaded; None: unknown."""
    loaded: bool | None = False if complete else None
    for part in parts:
        if part.claim is None:
            continue
        if not part.claim.source.silent or any(not claim.source.silent for claim in part.older):
            return True
        loaded = None
    return loaded
