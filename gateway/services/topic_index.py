"""The numbers of all topics, as brokers and metadata tell them bit by bit: by name, in sum, and in the orders that
somebody looks at. Work is proportional to what changed. Pure.

Numbers come of topics and partitions (here: parts); a partitioned topic shows the sum of its parts. Several brokers may
claim the same part for a moment while it moves: the one that came last counts, alone. A part that no broker has loaded
keeps what is known to be stored. Whatever does not hold for certain is marked by how it is known (``rows.KNOWN``): a
number once known stays, as the last, until a newer one is; what was never known is None, and sums say so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from engine.admin.api import ROW_COLUMNS
from gateway.services.rows import AT_REST, KNOWN, LAST, LIVE, NO, Row, row_of
from gateway.services.selection import Chosen, Selection

Values = tuple[int | None, ...]
"""In the order of ROW_COLUMNS; rates in thousandths per second, so that sums are exact."""

PRODUCERS = ROW_COLUMNS.index("producers")
SUBSCRIPTIONS = ROW_COLUMNS.index("subscriptions")
BACKLOG = ROW_COLUMNS.index("backlog")
STORAGE = ROW_COLUMNS.index("storage_bytes")
RATE_IN = ROW_COLUMNS.index("msg_rate_in")
RATE_OUT = ROW_COLUMNS.index("msg_rate_out")
NOTHING: Values = (0,) * len(ROW_COLUMNS)
UNKNOWN: Values = (None,) * len(ROW_COLUMNS)
"""Of a part that some broker which was not heard yet may have loaded."""
STORED = frozenset((SUBSCRIPTIONS, BACKLOG, STORAGE))
"""Columns that a topic has without being loaded; the others are 0 then."""


def at_rest(subscriptions: int | None, backlog: int | None, storage: int | None) -> Values:
    """Of a part that nobody has loaded: no clients, and what is stored."""
    values = list(NOTHING)
    values[SUBSCRIPTIONS], values[BACKLOG], values[STORAGE] = subscriptions, backlog, storage
    return tuple(values)


UNREAD = at_rest(None, None, None)
"""Nobody has it loaded, and what is stored was not read yet."""
SELECTIONS_MAX = 64
"""Orders of the list kept at the same time. One more makes room of the one asked for the longest ago."""
RETRY_MS = 30_000
"""What could not be read is tried again after this time."""
REFRESH_MS = 900_000
"""And what was read: somebody may have changed it whom nobody here heard of."""


class Claim(NamedTuple):
    """A broker has a part loaded. ``kept``: some values are older, since the broker does not know them now."""

    broker: str
    source: "Source"
    values: Values
    kept: bool


class Part:
    """A topic or partition. ``claims``: who has it loaded, the newest last; ``rest``: what holds without any."""

    __slots__ = ("claims", "name", "read", "rest", "shown_in", "taken")

    def __init__(self, name: str, rest: Values) -> None:
        self.name = name
        self.rest = rest
        self.read = False
        """Whether ``rest`` is what is stored. Otherwise it is what was known last."""
        self.taken = 0
        """When ``rest`` was true, in ms; 0: it never was."""
        self.claims: tuple[Claim, ...] = ()
        self.shown_in: Shown

    @property
    def values(self) -> Values:
        return self.claims[-1].values if self.claims else self.rest

    @property
    def known(self) -> int:
        """One of ``rows.KNOWN``."""
        if self.claims:
            claim = self.claims[-1]
            if claim.values[BACKLOG] is None:
                return NO
            return LAST if claim.kept or claim.source.silent or None in claim.values else LIVE
        if self.rest[BACKLOG] is None:
            return NO
        return AT_REST if self.read and None not in self.rest else LAST

    @property
    def figures(self) -> "Figures":
        return Figures(self.values, self.known)

    @property
    def at(self) -> int:
        """When the values were true, ms; 0: never."""
        if not self.claims:
            return self.taken
        return self.taken if self.claims[-1].kept else self.claims[-1].source.at

    @property
    def persistent(self) -> bool:
        return self.name.startswith("persistent:")


class Figures(NamedTuple):
    """``known``: how (``rows.KNOWN``)."""

    values: Values
    known: int


class Fold:
    """The parts of a partitioned topic and their sum, kept as they change."""

    __slots__ = ("_known", "_subscriptions", "_sums", "_unknown", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self._sums = [0] * len(ROW_COLUMNS)
        self._unknown = [0] * len(ROW_COLUMNS)
        self._subscriptions: dict[int, int] = {}
        """How many parts have so many."""
        self._known = [0] * len(KNOWN)

    def replace(self, before: Figures | None, after: Figures | None) -> None:
        """A part has other figures than before; None: it was, or is, not among them."""
        for figures, sign in ((before, -1), (after, 1)):
            if figures is None:
                continue
            self._known[figures.known] += sign
            for column, value in enumerate(figures.values):
                if value is None:
                    self._unknown[column] += sign
                elif column != SUBSCRIPTIONS:
                    self._sums[column] += sign * value
                else:
                    count = self._subscriptions.get(value, 0) + sign
                    if count:
                        self._subscriptions[value] = count
                    else:
                        del self._subscriptions[value]

    @property
    def figures(self) -> Figures:
        """Sums; of subscriptions, which all parts have alike, the highest number. None where any part's is unknown."""
        self._sums[SUBSCRIPTIONS] = max(self._subscriptions, default=0)
        unknown = self._unknown
        values = tuple(
            None if unknown[column] else value for column, value in enumerate(self._sums)
        )
        worst = max((known for known, count in enumerate(self._known) if count), default=AT_REST)
        return Figures(values, worst)


class Shown:
    """A topic of the list. ``fold``: of a partitioned one; without it ``part`` is the topic. ``last``: figures to show
    while some are not known, with when they were true; None while all are."""

    __slots__ = ("fold", "known", "last", "name", "part", "partitions", "values")

    def __init__(self, name: str, partitions: int, part: Part | None) -> None:
        self.name = name
        self.partitions = partitions
        self.part = part
        self.fold = Fold() if part is None else None
        self.last: tuple[int, Values] | None = None
        self.values, self.known = Figures(NOTHING, AT_REST) if part is None else part.figures

    @property
    def figures(self) -> Figures:
        """Of its parts, whatever was known before."""
        return self.part.figures if self.part is not None else self.fold.figures  # type: ignore[union-attr]

    @property
    def certain(self) -> Values:
        """What holds now; without the numbers that are the last known."""
        return UNKNOWN if self.known == LAST else self.values

    @property
    def parts(self) -> Iterable[Part]:
        return (
            (self.part,) if self.part is not None else self.fold.parts.values() if self.fold else ()
        )


class Source:
    """A broker's part of the numbers. ``at``: when it counted them, ms; 0 before its first answer. ``silent``: it may
    count others by now."""

    __slots__ = ("at", "parts", "rate_in", "rate_out", "silent", "unseen")

    def __init__(self) -> None:
        self.at = 0
        self.parts: dict[str, Part] = {}
        self.unseen: dict[str, None] = {}
        """Of a list of everything that is coming: what was not named yet."""
        self.silent = False
        self.rate_in = self.rate_out = 0


class TopicIndex:
    """On one event loop. ``version`` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self.heed: Callable[[str, Values | None, Values | None], None] | None = None
        """Told (topic of the list, before, after) of each change, with what holds for certain; None: not there."""
        self.sources: dict[str, Source] = {}
        self._known: dict[str, int] = {}
        self._shown: dict[str, Shown] = {}
        self._strays: dict[str, dict[str, None]] = {}
        """Parts shown by themselves that would belong to a topic which is not known to be partitioned."""
        self._parts: dict[str, Part] = {}
        self._sums = [0] * len(ROW_COLUMNS)
        self._counts = [0] * len(KNOWN)
        """Topics by how they are known."""
        self._complete = True
        self._gathering: Shown | None = None
        """A topic that has not all its parts yet."""
        self._recalled: dict[str, tuple[int, Values]] = {}
        self._selections: dict[object, Selection] = {}
        self._due: dict[str, None] = {}
        self._retry: dict[str, int] = {}
        self._rested: dict[str, None] = {}
        """Parts that were read, the longest ago first."""

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
            self._leave(broker, source, name)
        source.at = int(answer["at"])
        if not answer["more"]:
            for name in list(source.unseen):
                self._leave(broker, source, name)
            source.unseen = {}

    def silence(self, broker: str, silent: bool) -> None:
        """Whether the broker tells nothing: what it told stays, as the last that is known."""
        source = self.sources.get(broker)
        if source is None or source.silent == silent:
            return
        before = [(part, part.figures) for part in source.parts.values()]
        source.silent = silent
        for part, figures in before:
            self._changed(part, figures)

    def forget(self, broker: str) -> list[str]:
        """The broker is gone: what it had loaded, which is given, is at rest, and the last that is known until it is
        read. Topics that keep nothing are gone with it."""
        source = self.sources.get(broker)
        if source is None:
            return []
        names = list(source.parts)
        for name in names:
            self._leave(broker, source, name)
        del self.sources[broker]
        return names

    def listed_as(self, name: str) -> str:
        """The name of the topic of the list that a topic or partition belongs to."""
        part = self._parts.get(name)
        return name if part is None else part.shown_in.name

    @property
    def complete(self) -> bool:
        """Whether what no broker told is loaded nowhere: false until every broker was heard."""
        return self._complete

    @complete.setter
    def complete(self, complete: bool) -> None:
        self._complete = complete
        if complete:
            for part in list(self._parts.values()):
                if not part.claims and None in part.rest:
                    before = part.figures
                    part.rest = _without_clients(part.rest) if part.persistent else NOTHING
                    part.read = part.read or not part.persistent
                    self._changed(part, before)

    def recall(self, figures: dict[str, tuple[int, Values]]) -> None:
        """Figures of topics from an earlier life, with when they were true, ms: shown until there are newer ones."""
        self._recalled = figures
        for shown in list(self._shown.values()):
            if None in shown.values:
                self._reshow(shown)

    def has_nobody(self, name: str) -> bool:
        """Whether there is such a topic or partition and no broker has it loaded."""
        part = self._parts.get(name)
        return part is not None and not part.claims

    def _claim(self, broker: str, source: Source, name: str, values: Values) -> None:
        part = self._parts.get(name) or self._add(name)
        before = part.figures
        source.unseen.pop(name, None)
        kept = None in values and None not in before.values
        if kept:
            part.taken = part.at
            values = _filled(values, before.values)
        mine = next((claim for claim in part.claims if claim.source is source), None)
        claim = Claim(broker, source, values, kept)
        if mine is None:
            part.claims = (*part.claims, claim)
            source.parts[name] = part
            self._forget_due(name)
        elif len(part.claims) == 1:
            part.claims = (claim,)
        else:
            part.claims = tuple(claim if each is mine else each for each in part.claims)
        source.rate_in += _plus(values[RATE_IN]) - (_plus(mine.values[RATE_IN]) if mine else 0)
        source.rate_out += _plus(values[RATE_OUT]) - (_plus(mine.values[RATE_OUT]) if mine else 0)
        self._changed(part, before)

    def _leave(self, broker: str, source: Source, name: str) -> None:
        source.unseen.pop(name, None)
        part = source.parts.pop(name, None)
        if part is None:  # it came and went unseen: what was read of it may have changed
            resting = self._parts.get(name)
            if resting is not None and not resting.claims:
                before = resting.figures
                resting.read = not resting.persistent
                self._changed(resting, before)
                self._ask(resting)
            return
        before, at = part.figures, part.at
        (mine,) = (claim for claim in part.claims if claim.source is source)
        source.rate_in -= _plus(mine.values[RATE_IN])
        source.rate_out -= _plus(mine.values[RATE_OUT])
        left = tuple(claim for claim in part.claims if claim is not mine)
        if not left and not self._is_known(name):
            self._remove(part)
            return
        part.claims = left
        if left:
            if None in part.values and None not in before.values:
                part.taken = at
                newest = left[-1]._replace(values=_filled(part.values, before.values), kept=True)
                part.claims = (*left[:-1], newest)
            self._changed(part, before)
            return
        stored = (mine.values[SUBSCRIPTIONS], mine.values[BACKLOG], mine.values[STORAGE])
        part.rest = at_rest(*stored) if part.persistent else NOTHING
        part.read = not part.persistent
        part.taken = at
        self._changed(part, before)
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
                    self._settle(f"{name}-partition-{index}")
                self._gathering = None
            else:
                self._settle(name)

    def _grow(self, name: str, before: int, partitions: int) -> None:
        self._known[name] = self._shown[name].partitions = partitions
        for index in range(before, partitions):
            self._settle(f"{name}-partition-{index}")
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
            if part.claims:
                self._place(part)

    def _settle(self, name: str) -> None:
        """A part that the metadata knows: shown where it belongs, and read."""
        part = self._parts.get(name)
        if part is None:
            part = self._add(name, resting=True)
        else:
            self._remove(part)
            self._place(part)
        if not part.claims:
            self._ask(part)

    def _is_known(self, name: str) -> bool:
        base = _parent(name)
        if base and int(name.rpartition("-")[2]) < self._known.get(base, 0):
            return True
        return self._known.get(name) == 0

    # What is read of parts at rest

    def due(self, now_ms: int, count: int) -> list[str]:
        """At most ``count`` parts to be read now; ``rested`` or ``postpone`` must follow."""
        names = list(islice(self._due, count))
        for name, at in islice(self._retry.items(), count - len(names)):
            if at > now_ms:
                break
            names.append(name)
        for name in islice(self._rested, count - len(names)):
            if self._parts[name].taken > now_ms - REFRESH_MS:
                break
            names.append(name)
        for name in names:
            self._forget_due(name)
        return names

    def rested(self, answer: dict[str, Any]) -> None:
        """An answer to ``TOPICS_AT_REST``."""
        at = int(answer["at"])
        for name, *stored in answer["rows"]:
            self._read(name, at_rest(*stored), at)
        for name in answer["missing"]:
            self._read(name, NOTHING, at)

    def postpone(self, names: Iterable[str], now_ms: int) -> None:
        """They could not be read."""
        for name in names:
            part = self._parts.get(name)
            if part is not None and self._may_rest(part):
                self._retry[name] = now_ms + RETRY_MS

    def _read(self, name: str, values: Values, at: int) -> None:
        part = self._parts.get(name)
        if part is None or not self._may_rest(part):
            return
        before = part.figures
        if not self._complete:  # somebody who was not heard may have loaded it
            values = tuple(
                value if column in STORED else part.rest[column]
                for column, value in enumerate(values)
            )
        if None in (values[SUBSCRIPTIONS], values[BACKLOG], values[STORAGE]):
            self._retry[name] = at + RETRY_MS
            if before.known != NO:  # older ones, of one time, say more than some that are new
                self._changed_to_last(part, before)
                return
            part.read = False
        else:
            self._rested[name] = None
            part.read = True
        part.rest, part.taken = values, at
        self._changed(part, before)

    def _changed_to_last(self, part: Part, before: Figures) -> None:
        part.read = False
        self._changed(part, before)

    def _may_rest(self, part: Part) -> bool:
        """Whether what was read of it counts: not when it was loaded meanwhile, for then it is asked for again."""
        return not part.claims and part.name not in self._due

    def _ask(self, part: Part) -> None:
        if part.persistent:
            self._forget_due(part.name)
            self._due[part.name] = None

    def _forget_due(self, name: str) -> None:
        self._due.pop(name, None)
        self._retry.pop(name, None)
        self._rested.pop(name, None)

    # Parts, and what is shown of them

    def _add(self, name: str, *, resting: bool = False) -> Part:
        """``resting``: not because somebody has it loaded."""
        part = Part(name, UNKNOWN)
        if resting and self._complete:
            part.rest = UNREAD if part.persistent else NOTHING
            part.read = not part.persistent
        self._parts[name] = part
        self._place(part)
        return part

    def _place(self, part: Part) -> None:
        self._parts[part.name] = part
        base = _parent(part.name)
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
        if not part.claims:
            self._forget_due(part.name)
        shown = part.shown_in
        if shown.fold is None:
            self._hide(shown)
            strays = self._strays.get(_parent(part.name), {})
            strays.pop(part.name, None)
            if not strays:
                self._strays.pop(_parent(part.name), None)
        else:
            del shown.fold.parts[part.name]
            shown.fold.replace(part.figures, None)
            self._reshow(shown)

    def _changed(self, part: Part, before: Figures) -> None:
        after = part.figures
        if after == before:
            return
        shown = part.shown_in
        if shown.fold is not None:
            shown.fold.replace(before, after)
        self._reshow(shown)

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
        return Figures(_filled(figures.values, shown.last[1]), LAST)

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
        self._count(shown, -1)
        shown.values, shown.known = after
        self._count(shown, 1)
        self.version += 1
        if self.heed is not None:
            self.heed(shown.name, certain, shown.certain)
        for selection in self._selections.values():
            if selection.depends(before, after.values):
                selection.touch(shown.name)

    def _count(self, shown: Shown, sign: int) -> None:
        for column, value in enumerate(shown.values):
            if value is not None:
                self._sums[column] += sign * value
        self._counts[shown.known] += sign

    # What is asked

    @property
    def totals(self) -> dict[str, float]:
        """Sums over all topics. ``unknown``: topics that are not in them; ``last``: those whose old numbers are."""
        sums: dict[str, float] = dict(zip(ROW_COLUMNS, self._sums, strict=True))
        for name in ROW_COLUMNS:
            if "rate" in name:
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
        shown = self._shown[name]
        if shown.last is not None:
            at = shown.last[0]
        else:
            at = min((part.at for part in shown.parts if part.known == shown.known), default=now_ms)
        loaded = _loaded(shown.parts, self._complete)
        return row_of(name, shown.partitions, shown.values, loaded, shown.known, at or now_ms)

    def owner(self, name: str) -> str:
        """The broker that has the topic or partition loaded, as far as is known; empty without one."""
        part = self._parts.get(name)
        return part.claims[-1].broker if part is not None and part.claims else ""

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
        if any(not claim.source.silent for claim in part.claims):
            return True
        if part.claims:
            found = None
    return found


def _filled(values: Values, last: Values) -> Values:
    return tuple(old if value is None else value for value, old in zip(values, last, strict=True))


def _without_clients(values: Values) -> Values:
    """Of what is loaded nowhere."""
    return tuple(
        0 if value is None and column not in STORED else value
        for column, value in enumerate(values)
    )


def _parent(name: str) -> str:
    """The topic whose partition it is by its name; empty when by its name it is none."""
    base, mark, index = name.rpartition("-partition-")
    return base if mark and index.isdecimal() else ""


def _plus(value: int | None) -> int:
    return value or 0
