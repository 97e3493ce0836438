"""The numbers of all topics, as brokers and metadata tell them bit by bit: by name, in sum, and in the orders that
somebody looks at. Work is proportional to what changed. Pure.

Numbers come of topics and partitions (here: parts); a partitioned topic shows the sum of its parts. Several brokers may
claim the same part for a moment while it moves: the one that came last counts, alone. A part that no broker has loaded
keeps what is known to be stored. Whatever does not hold for certain is marked by how it is known (``rows.KNOWN``): a
number once known stays, as the last, until a newer one is; what was never known is None, and sums say so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from engine.admin.api import ROW_COLUMNS
from engine.base.names import PARTITION_SUFFIX, split_partition
from gateway.services.index.due import Due
from gateway.services.index.figures import (
    BACKLOG,
    NOTHING,
    STORAGE,
    STORED,
    SUBSCRIPTIONS,
    UNKNOWN,
    UNREAD,
    Claim,
    Figures,
    Part,
    Shown,
    Source,
    Values,
    at_rest,
    filled,
    unloaded,
    without_clients,
)
from gateway.services.index.rows import KNOWN, LAST, NO, RATES, Row, row_of
from gateway.services.index.selection import Chosen, Selection
from gateway.services.index.tenant_sums import TenantSums

Known = tuple[str, int, Values, bool | None, int]
"""What ``rows.row_of`` is given, but for the time."""

SELECTIONS_MAX = 64
"""Orders of the list kept at the same time. One more makes room of the one asked for the longest ago."""
STEP = 500
"""Of parts that all change at once so many are looked at in a step, between which others have their turn."""


class TopicIndex:
    """On one event loop. ``version`` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self.heed: Callable[[str, Values | None, Values | None], None] | None = None
        """Told (topic of the list, before, after) of each change, with what holds for certain; None: not there."""
        self.on_clients: Callable[[str, Values, Values], None] | None = None
        """Called (topic of the list, before, after) when its numbers are others, the last known ones counted."""
        self.sources: dict[str, Source] = {}
        self._known: dict[str, int] = {}
        self._shown: dict[str, Shown] = {}
        self._strays: dict[str, dict[str, None]] = {}
        """Parts shown by themselves that would belong to a topic which is not known to be partitioned."""
        self._parts: dict[str, Part] = {}
        self._sums = [0] * len(ROW_COLUMNS)
        self._counts = [0] * len(KNOWN)
        """Topics by how they are known."""
        self.tenants = TenantSums()
        self._complete = True
        self._gathering: Shown | None = None
        """A topic that has not all its parts yet."""
        self._recalled: dict[str, tuple[int, Values]] = {}
        self._selections: dict[object, Selection] = {}
        self._due = Due()

    def __len__(self) -> int:
        return len(self._shown)

    def __contains__(self, name: object) -> bool:
        return name in self._shown

    def __iter__(self) -> Iterator[Shown]:
        return iter(self._shown.values())

    # What brokers tell

    def hear(self, broker: str, answer: dict[str, Any]) -> None:
        """An answer to ``TOPIC_ROWS``."""
        source = self.sources.setdefault(broker, Source())
        if answer["whole"]:
            source.unseen = dict.fromkeys(source.parts)
        for name, *values in answer["rows"]:
            self._claim(broker, source, name, tuple(values))
        for name in answer["gone"]:
            self._leave(source, name)
        source.at = int(answer["at"])
        if not answer["more"]:
            for name in list(source.unseen):
                self._leave(source, name)
            source.unseen = {}

    def silence(self, broker: str, silent: bool) -> Iterator[None]:
        """Whether the broker tells nothing: what it told stays, as the last that is known. Done in the steps of what is
        returned; whatever happens between them is counted right."""
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
        """The broker is gone: what it had loaded is at rest, and the last that is known until it is read. Topics that
        keep nothing are gone with it. In steps, as ``silence``."""
        source = self.sources.pop(broker, None)
        if source is None:
            return
        for count, name in enumerate(list(source.parts), 1):
            self._leave(source, name)
            if count % STEP == 0:
                yield

    def listed_as(self, name: str) -> str:
        """The name of the topic of the list that a topic or partition belongs to."""
        part = self._parts.get(name)
        return name if part is None else part.shown_in.name

    @property
    def complete(self) -> bool:
        """Whether what no broker told is loaded nowhere: false until every broker was heard."""
        return self._complete

    def begin(self) -> None:
        """Not every broker was heard yet."""
        self._complete = False

    def become_complete(self) -> Iterator[None]:
        """Every broker was heard. In steps, as ``silence``."""
        self._complete = True
        for count, name in enumerate(list(self._parts), 1):
            part = self._parts.get(name)
            if part is not None and part.claim is None and None in part.rest:
                part.rest = without_clients(part.rest) if part.persistent else NOTHING
                part.read = part.read or not part.persistent
                self._changed(part)
            if count % STEP == 0:
                yield

    def recall(self, figures: dict[str, tuple[int, Values]]) -> None:
        """Figures of topics from an earlier life, with when they were true, ms: shown until there are newer ones."""
        self._recalled = figures
        for shown in list(self._shown.values()):
            if None in shown.values:
                self._reshow(shown)

    def has_nobody(self, name: str) -> bool:
        """Whether there is such a topic or partition and no broker has it loaded."""
        part = self._parts.get(name)
        return part is not None and part.claim is None

    def _claim(self, broker: str, source: Source, name: str, values: Values) -> None:
        part = self._parts.get(name) or self._add(name)
        if source.unseen:
            source.unseen.pop(name, None)
        kept = None in values and None not in part.values
        if kept:
            part.taken = part.at
            values = filled(values, part.values)
        mine, before = source.parts.get(name), NOTHING
        if mine is None:
            claim = Claim(broker, source, values)
            if part.claim is not None:
                part.older += (part.claim,)
            part.claim = claim
            source.parts[name] = part
            self._due.forget(name)
        else:
            claim = part.claim_of(source)
            before, claim.values = claim.values, values
        claim.kept = kept
        source.put(before, values)
        self._changed(part)

    def _leave(self, source: Source, name: str) -> None:
        source.unseen.pop(name, None)
        part = source.parts.pop(name, None)
        if part is None:  # it came and went unseen: what was read of it may have changed
            resting = self._parts.get(name)
            if resting is not None and resting.claim is None:
                resting.read = not resting.persistent
                self._changed(resting)
                self._ask(resting)
            return
        at = part.at
        mine = part.claim_of(source)
        source.put(mine.values, NOTHING)
        if part.claim is mine and not part.older and not self._is_known(name):
            self._remove(part)
            return
        if part.claim is mine:
            part.claim = part.older[-1] if part.older else None
            part.older = part.older[:-1]
        else:
            part.older = tuple(each for each in part.older if each is not mine)
        left = part.claim
        if left is not None:
            if None in left.values and None not in part.values:
                part.taken = at
                left.values, left.kept = filled(left.values, part.values), True
            self._changed(part)
            return
        part.rest = unloaded(mine.values) if part.persistent else NOTHING
        part.read = not part.persistent
        part.taken = at
        self._changed(part)
        self._ask(part)

    # What the metadata tells

    def catalog(self, changed: dict[str, int], removed: Iterable[str]) -> None:
        """Topics that are new, or have another number of partitions (0: plain), and those that are no more."""
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
                moving = [self._parts[each] for each in loaded]
                for part in moving:
                    self._remove(part)
                made = self._gathering = Shown(name, partitions, None)
                self._show(made)
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
        self._tell(name)

    def _unlist(self, name: str) -> None:
        """The metadata does not know it any more; what is loaded of it is shown by itself."""
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
        """A part that the metadata knows: shown where it belongs, and read."""
        part = self._parts.get(name)
        if part is None:
            part = self._add(name, resting=True)
        else:
            self._remove(part)
            self._place(part)
        if part.claim is None:
            self._ask(part)

    def _is_known(self, name: str) -> bool:
        base, index = split_partition(name)
        if 0 <= index < self._known.get(base, 0):
            return True
        return self._known.get(name) == 0

    # What is read of parts at rest

    def due(self, now_ms: int, count: int) -> list[str]:
        """At most ``count`` parts to be read now; ``rested`` or ``postpone`` must follow."""
        return self._due.take(self._parts, now_ms, count)

    def rested(self, answer: dict[str, Any]) -> None:
        """An answer to ``TOPICS_AT_REST``."""
        at = int(answer["at"])
        for name, *stored in answer["rows"]:
            self._read(name, at_rest(*stored, last=self._last_at_rest(name)), at)
        for name in answer["missing"]:
            self._read(name, NOTHING, at)

    def _last_at_rest(self, name: str) -> Values:
        """What was known of a part before it is read, in an earlier life where nothing is since."""
        part = self._parts.get(name)
        if part is not None and part.rest[BACKLOG] is not None:
            return part.rest
        _, recalled = self._recalled.get(name, (0, NOTHING))
        return recalled

    def postpone(self, names: Iterable[str], now_ms: int) -> None:
        """They could not be read."""
        for name in names:
            part = self._parts.get(name)
            if part is not None and self._may_rest(part):
                self._due.retry(name, now_ms)

    def _read(self, name: str, values: Values, at: int) -> None:
        part = self._parts.get(name)
        if part is None or not self._may_rest(part):
            return
        if not self._complete:  # somebody who was not heard may have loaded it
            values = tuple(
                value if column in STORED else part.rest[column]
                for column, value in enumerate(values)
            )
        if None in (values[SUBSCRIPTIONS], values[BACKLOG], values[STORAGE]):
            self._due.retry(name, at)
            part.read = False
            if part.known != NO:  # older ones, of one time, say more than some that are new
                self._changed(part)
                return
        else:
            self._due.rested(name)
            part.read = True
        part.rest, part.taken = values, at
        self._changed(part)

    def _may_rest(self, part: Part) -> bool:
        """Whether what was read of it counts: not when it was loaded meanwhile, for then it is asked for again."""
        return part.claim is None and part.name not in self._due

    def _ask(self, part: Part) -> None:
        if part.persistent:
            self._due.ask(part.name)

    # Parts, and what is shown of them

    def _add(self, name: str, *, resting: bool = False) -> Part:
        """``resting``: not because somebody has it loaded."""
        part = Part(name, UNKNOWN)
        if resting and self._complete:
            part.rest = UNREAD if part.persistent else NOTHING
            part.read = not part.persistent
        part.look()
        self._parts[name] = part
        self._place(part)
        return part

    def _place(self, part: Part) -> None:
        self._parts[part.name] = part
        base, _ = split_partition(part.name)
        if self._known.get(part.name):
            base = (
                part.name
            )  # loaded though there is a partitioned topic of its name: counted with that
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
        del part.shown_in  # no circle is left for the garbage collector

    def _changed(self, part: Part) -> None:
        """Something else may hold of it."""
        fold = part.shown_in.fold
        before = part.figures if fold is not None else None
        if part.look():
            if fold is not None:
                fold.replace(before, part.figures)
            self._reshow(part.shown_in)

    def _show(self, shown: Shown) -> None:
        self._shown[shown.name] = shown
        shown.values, shown.known = self._figures_of(shown)
        self._count(shown, 1)
        self._tell(shown.name)
        if self.heed is not None:
            self.heed(shown.name, None, shown.certain)

    def _hide(self, shown: Shown) -> None:
        del self._shown[shown.name]
        self._count(shown, -1)
        self._tell(shown.name)
        if self.heed is not None:
            self.heed(shown.name, shown.certain, None)

    def _figures_of(self, shown: Shown) -> Figures:
        """What is shown of a topic: where a number is not known the last one."""
        figures = shown.figures
        if None not in figures.values:
            shown.last = None
            return figures
        if shown.last is None:
            if None not in shown.values and shown is not self._gathering:
                shown.last = self.at, shown.values
            else:
                shown.last = self._recalled.get(shown.name)
        if shown.last is None:
            return figures
        return Figures(filled(figures.values, shown.last[1]), LAST)

    def _tell(self, name: str) -> None:
        """It came, went, or is otherwise than by its values another."""
        self.version += 1
        for selection in self._selections.values():
            selection.touch(name)

    def _reshow(self, shown: Shown) -> None:
        before = shown.values
        after = self._figures_of(shown)
        if before == after.values and shown.known == after.known:
            return
        certain = shown.certain
        sums = self._sums
        for column, (old, new) in enumerate(zip(before, after.values, strict=True)):
            if old != new:
                sums[column] += (new or 0) - (old or 0)
        self._counts[shown.known] -= 1
        self._counts[after.known] += 1
        self.tenants.replace(shown.name, Figures(before, shown.known), after)
        shown.values, shown.known = after
        self.version += 1
        if self.heed is not None:
            self.heed(shown.name, certain, shown.certain)
        if self.on_clients is not None:
            self.on_clients(shown.name, before, after.values)
        for selection in self._selections.values():
            if selection.depends(before, after.values):
                selection.touch(shown.name)

    def _count(self, shown: Shown, sign: int) -> None:
        for column, value in enumerate(shown.values):
            if value is not None:
                self._sums[column] += sign * value
        self._counts[shown.known] += sign
        figures = Figures(shown.values, shown.known)
        before, after = (None, figures) if sign > 0 else (figures, None)
        self.tenants.replace(shown.name, before, after)

    # What is asked

    @property
    def totals(self) -> dict[str, float]:
        """Sums over all topics. ``unknown``: topics that are not in them; ``last``: those whose old numbers are."""
        sums: dict[str, float] = dict(zip(ROW_COLUMNS, self._sums, strict=True))
        del sums["oldest_at"]  # no sum of times
        for name in RATES:
            sums[name] /= 1000
        counts = {"unknown": self._counts[NO], "last": self._counts[LAST]}
        return {"topics": len(self._shown), **sums, **counts}

    @property
    def at(self) -> int:
        """When the newest numbers were counted, ms; 0 without any."""
        return max((source.at for source in self.sources.values()), default=0)

    def select(self, chosen: Chosen, among: Collection[str] = ()) -> Selection:
        """What passes, in order; kept up to date for as long as it is asked for (``drop_unused``). ``among``: with
        ``Chosen.attention`` the topics that have its cause."""
        found = self._selections.pop(chosen, None)
        if found is None:
            found = Selection(chosen, self._shown, self._selections.values(), among)
            if len(self._selections) >= SELECTIONS_MAX:
                del self._selections[next(iter(self._selections))]
        self._selections[chosen] = found  # the one asked for the longest ago stands first
        found.asked = True
        found.limit(among)
        found.catch_up()
        return found

    def drop_unused(self) -> None:
        """Let go of selections that nobody asked for since this was called last."""
        for chosen, selection in list(self._selections.items()):
            if not selection.asked:
                del self._selections[chosen]
            selection.asked = False

    def certain(self, name: str) -> Values:
        """Its numbers as far as they hold now. KeyError when the topic is not there."""
        return self._shown[name].certain

    def row(self, name: str, now_ms: int) -> Row:
        """As of the contract. KeyError when the topic is not there."""
        known, at = self.told(name, now_ms)
        return row_of(*known, at)

    def told(self, name: str, now_ms: int) -> tuple[Known, int]:
        """What its row is made of, and as of when it is. KeyError when the topic is not there."""
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
        """The broker that has the topic or partition loaded, as far as is known; empty without one."""
        part = self._parts.get(name)
        return part.claim.broker if part is not None and part.claim is not None else ""

    def partitions(self, name: str) -> int | None:
        """Of a topic of the list, 0 of a plain one; None when it is not there."""
        shown = self._shown.get(name)
        return shown.partitions if shown is not None else None

    def part_row(self, name: str, now_ms: int) -> Row | None:
        """As of ``row``, of a topic or partition by itself, with ``owner`` (the broker that has it loaded, empty
        without one). None when it is not there."""
        part = self._parts.get(name)
        if part is None:
            return None
        loaded = _loaded((part,), self._complete)
        row = row_of(name, 0, part.values, loaded, part.known, part.at or now_ms)
        return {**row, "owner": self.owner(name)}


def _loaded(parts: Iterable[Part], complete: bool) -> bool | None:
    """Whether some broker has one of them loaded; None: not known."""
    found: bool | None = False if complete else None
    for part in parts:
        if part.claim is None:
            continue
        if not part.claim.source.silent or any(not each.source.silent for each in part.older):
            return True
        found = None
    return found
