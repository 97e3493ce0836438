"""The index, changed report by report, equals a recomputation from all reports."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import ALL
from engine.base.names import split_partition
from gateway.services.feeds.row_list import RowList
from gateway.services.index import selection, topic_index
from gateway.services.index.figures import (
    BACKLOG,
    BYTES_IN,
    ESTIMATED,
    MESSAGES,
    NOTHING,
    OLDEST,
    RATE_IN,
    RATE_OUT,
    STORAGE,
    SUBSCRIPTIONS,
    UNMEASURED,
    UNREAD,
    Values,
    at_rest,
    unloaded,
)
from gateway.services.index.rows import AT_REST, LAST, LIVE, NO, parts_of
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex
from tests.support.admin.index_reports import T, answer, rest, values


class Model:
    """All reports, counted again at each request."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.claims: dict[str, dict[str, tuple[Values, bool]]] = {}
        """Claims by part, the newest last; whether some values were kept from before."""
        self.rest: dict[str, tuple[Values, bool]] = {}
        """Values of topics at rest; whether they were read."""
        self.silent: set[str] = set()
        self.last: dict[str, Values] = {}
        """Last complete values of topics that got a part of which something is not known."""

    def owner(self, part: str) -> str:
        base, _ = split_partition(part)
        return base if self.known.get(base) else part

    def is_known(self, part: str) -> bool:
        base, index = split_partition(part)
        return self.known.get(part) == 0 or 0 <= index < self.known.get(base, 0)

    def parts(self) -> set[str]:
        parts = {part for part, claims in self.claims.items() if claims}
        for name, partitions in self.known.items():
            parts |= {f"{name}-partition-{i}" for i in range(partitions)} or {name}
        return parts

    def resting(self, part: str) -> tuple[Values, bool]:
        persistent = part.startswith("persistent:")
        return self.rest.get(part, (UNREAD, False) if persistent else (NOTHING, True))

    def figures(self, part: str) -> tuple[Values, int]:
        claims = self.claims.get(part)
        if claims:
            broker = list(claims)[-1]
            value, kept = claims[broker]
            known = LAST if kept or broker in self.silent else LIVE
        else:
            value, read = self.resting(part)
            known = AT_REST if read and None not in value else LAST
        return value, NO if value[BACKLOG] is None else known

    def claim(self, broker: str, part: str, values: Values) -> None:
        is_new = part not in self.parts()
        topic = self.shown().get(self.owner(part))
        if is_new and topic is not None and None not in topic[1] and None in values:
            self.last.setdefault(self.owner(part), topic[1])
        before = UNREAD if is_new else self.figures(part)[0]
        kept = None in values and None not in before
        self.claims.setdefault(part, {})[broker] = (
            filled(values, before) if kept else values,
            kept,
        )

    def leave(self, broker: str, part: str) -> None:
        before = self.figures(part)[0]
        mine = self.claims.get(part, {}).pop(broker, None)
        if mine is None:
            if part in self.parts() and not self.claims.get(part):
                self.rest[part] = self.resting(part)[0], not part.startswith("persistent:")
            return
        if self.claims[part]:
            newest = list(self.claims[part])[-1]
            left, _ = self.claims[part][newest]
            if None in left and None not in before:
                self.claims[part][newest] = filled(left, before), True
            return
        stored = unloaded(mine[0])
        self.rest[part] = (stored, False) if part.startswith("persistent:") else (NOTHING, True)
        self.prune()

    def read(self, part: str, values: Values) -> None:
        if None in values and self.figures(part)[1] != NO:
            self.rest[part] = self.resting(part)[0], False
        else:
            self.rest[part] = values, None not in values

    def prune(self) -> None:
        self.rest = {part: kept for part, kept in self.rest.items() if self.is_known(part)}

    def shown(self) -> dict[str, tuple[int, Values, int]]:
        figures_by_topic: dict[str, list[tuple[Values, int]]] = {name: [] for name in self.known}
        for part in self.parts():
            figures_by_topic.setdefault(self.owner(part), []).append(self.figures(part))
        out = {}
        for name, all_ in figures_by_topic.items():
            summed: list[int | None] = []
            for column, numbers in enumerate(zip(*(row for row, _ in all_), strict=True)):
                known = [number for number in numbers if number is not None]
                total = max(known, default=0) if column == SUBSCRIPTIONS else sum(known)
                if column == OLDEST:
                    total = min((number for number in known if number), default=0)
                summed.append(total if len(known) == len(numbers) else None)
            figures = tuple(summed), max(known for _, known in all_)
            if None not in summed:
                self.last.pop(name, None)
            elif name in self.last:
                figures = filled(tuple(summed), self.last[name]), LAST
            out[name] = self.known.get(name, 0), *figures
        return out


def filled(values: Values, last: Values) -> Values:
    return tuple(old if value is None else value for value, old in zip(values, last, strict=True))


NAMES = [f"{T}a", f"{T}b", "persistent://u/m/c", "non-persistent://t/n/a", f"{T}a-partition-0"]
PARTS = [*NAMES, f"{T}a-partition-1", f"{T}a-partition-7", "persistent://u/m/c-partition-0"]
NUMBER = st.integers(0, 3)
STEP = st.tuples(
    st.sampled_from(("row", "row", "row", "gone", "whole", "silence", "forget", "catalog", "read")),
    st.sampled_from(("b1", "b2", "b3")),
    st.sampled_from(PARTS),
    st.tuples(NUMBER, NUMBER, NUMBER, st.sampled_from((None, 0, 1, 2))),
)


def naive_order(model: Model, chosen: Chosen) -> list[str]:
    pairs = []
    for name, (partitions, numbers, _) in sorted(model.shown().items()):
        parts = parts_of(name)
        tenant, _, namespace = chosen.namespace.rpartition("/")
        wanted = {
            "tenant": tenant or chosen.tenant,
            "namespace": namespace,
            "domain": chosen.domain,
        }
        if any(word not in name.lower() for word in chosen.q.lower().split()):
            continue
        if any(value and parts[field] != value for field, value in wanted.items()):
            continue
        if chosen.standing and (not numbers[BACKLOG] or (numbers[RATE_OUT] or 0) >= 500):
            continue
        fields = {**parts, **dict(zip(ROW_COLUMNS, numbers, strict=True))}
        oldest = numbers[OLDEST]
        fields |= {
            "name": name,
            "partitions": partitions,
            "backlog": numbers[MESSAGES],
            "oldest_age": None
            if oldest in (None, OLDEST_UNKNOWN)
            else 99 - oldest
            if oldest
            else 0,
        }
        pairs.append((fields[chosen.sort.removeprefix("-")], name))
    known = [pair for pair in pairs if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=chosen.sort.startswith("-"))
    return [name for _, name in known + [pair for pair in pairs if pair[0] is None]]


CHOICES = [
    Chosen(),
    Chosen(sort="-name"),
    Chosen(sort="-backlog"),
    Chosen(sort="backlog", tenant="t"),
    Chosen(sort="-tenant"),
    Chosen(sort="partitions", namespace="t/n"),
    Chosen(sort="-subscriptions", domain="persistent"),
    Chosen(sort="msg_rate_out", q="PARTITION"),
    Chosen(sort="-backlog", q="n  PerSistent t/"),
    Chosen(standing=True),
    Chosen(sort="-oldest_age"),
    Chosen(sort="oldest_age", tenant="t"),
]


@pytest.mark.parametrize(
    ("single_max", "merge_share"),
    [(100, 1), (0, 1), (0, 1_000)],
    ids=["each topic by itself", "in one pass", "sorted again"],
)
@settings(max_examples=50)
@given(steps=st.lists(STEP, max_size=40), looks=st.integers(2, 9))
def test_the_index_equals_a_recomputation(
    single_max: int, merge_share: int, steps: list[Any], looks: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selection, "SINGLE_MAX", single_max)
        patched.setattr(selection, "MERGE_SHARE", merge_share)
        recompute(steps, looks)


def measured(backlog: int | None, more: int, kind: int) -> dict[str, int | None]:
    """Return the values that a broker reports of a backlog beside its entries."""
    if backlog is None:
        unmeasured = dict.fromkeys(("backlog_messages", "backlog_estimated", "backlog_unmeasured"))
        return {**unmeasured, "oldest_at": OLDEST_UNKNOWN}
    if not backlog:
        return {}
    return {
        "backlog_messages": backlog + more,
        "backlog_estimated": min(more, backlog),
        "backlog_unmeasured": min(kind, 1),
        "oldest_at": (OLDEST_UNKNOWN, 5, 7, 9)[kind],
    }


def recompute(steps: list[Any], looks: int) -> None:
    index, model = TopicIndex(), Model()
    for turn, (step, broker, part, (first, two, three, some)) in enumerate(steps):
        reported = values(
            producers=first,
            subscriptions=two,
            msg_rate_out=500 * three,
            backlog=some,
            storage_bytes=first,
            **measured(some, two, three),
        )
        if step == "row":
            model.claim(broker, part, tuple(reported))
            index.apply(broker, answer(turn, [part, *reported]))
        elif step == "gone":
            model.leave(broker, part)
            index.apply(broker, answer(turn, gone=(part,)))
        elif step == "whole":
            model.claim(broker, part, tuple(reported))
            rows = RowList(partial(index.reported, broker))
            whole = {
                "at": turn,
                "rows": [[part, *reported]],
                "gone": [],
                "whole": True,
                "more": False,
            }
            for changes in rows.changes(whole):
                index.apply(broker, changes)
            for other in list(model.claims):
                if other != part and broker in model.claims[other]:
                    model.leave(broker, other)
        elif step == "silence":
            silent = broker in index.sources and bool(first)
            (model.silent.add if silent else model.silent.discard)(broker)
            list(index.set_silent(broker, bool(first)))
        elif step == "forget":
            for part_name in list(model.claims):
                if broker in model.claims[part_name]:
                    model.leave(broker, part_name)
            model.silent.discard(broker)
            list(index.forget(broker))
        elif step == "catalog":
            name = NAMES[(first + 2 * two) % len(NAMES)]
            if "-partition-" not in name:
                change_catalog(index, model, name, three - 1)
            elif not model.known.get(f"{T}a"):  # else it is a partition, and no topic of the list
                change_catalog(index, model, name, min(three - 1, 0))
        else:
            names = index.due(10**9, 100)
            assert all(not model.claims.get(part_name) for part_name in names)
            index.apply_at_rest(rest(turn, *([part_name, two, some, first] for part_name in names)))
            for part_name in names:
                model.read(part_name, at_rest(two, some, first, last=model.resting(part_name)[0]))
        if turn % looks == 0:
            check(index, model)
    check(index, model)


def change_catalog(index: TopicIndex, model: Model, name: str, partitions: int) -> None:
    """Change the partitions in both; -1 deletes the topic."""
    before = model.known.get(name, -1)
    had = model.shown().get(name)
    if 0 < before < partitions:
        if had is not None and None not in had[1]:
            model.last[name] = had[1]
    elif before != partitions:
        model.last.pop(name, None)
    if not 0 < before <= partitions:  # a topic that grows keeps what is known of it
        for part in list(model.rest):
            if model.is_known(part) and model.owner(part) == name and before != partitions:
                del model.rest[part]
    if partitions < 0:
        model.known.pop(name, None)
        index.catalog({}, [name])
    else:
        covered = [f"{name}-partition-0"] if partitions and name == f"{T}a" else []
        for part in covered:
            if model.known.pop(part, None) is not None:
                model.rest.pop(part, None)
        model.known[name] = partitions
        index.catalog({name: partitions}, covered)
    model.prune()


def check(index: TopicIndex, model: Model) -> None:
    shown = model.shown()
    assert {topic.name: (topic.partitions, topic.values, topic.known) for topic in index} == shown
    totals = index.sums.totals(ALL)
    for column, name in enumerate(ROW_COLUMNS):
        if column == OLDEST:
            assert name not in totals
            continue
        total = sum(numbers[column] or 0 for _, numbers, _ in shown.values())
        assert totals[name] == (total / 1000 if "rate" in name else total)
    assert totals["topics"] == len(shown)
    assert totals["unknown"] == sum(known == NO for _, _, known in shown.values())
    assert totals["last"] == sum(known == LAST for _, _, known in shown.values())
    for tenant in ("t", "nobody"):
        of_it = [figures for name, figures in shown.items() if name.split("/")[2] == tenant]
        times = [numbers[OLDEST] for _, numbers, _ in of_it if numbers[OLDEST]]
        oldest = min((at for at in times if at is not None), default=0)
        assert index.sums.of_tenant(ALL, tenant) == {
            "oldest_at": None if oldest == OLDEST_UNKNOWN else oldest,
            "msg_rate_out": sum(numbers[RATE_OUT] or 0 for _, numbers, _ in of_it) / 1000,
            "topics": len(of_it),
            "unknown": sum(known == NO for _, _, known in of_it),
            "backlog": sum(numbers[BACKLOG] or 0 for _, numbers, _ in of_it),
            "backlog_messages": sum(numbers[MESSAGES] or 0 for _, numbers, _ in of_it),
            "backlog_estimated": sum(numbers[ESTIMATED] or 0 for _, numbers, _ in of_it),
            "backlog_unmeasured": sum(numbers[UNMEASURED] or 0 for _, numbers, _ in of_it),
            "msg_rate_in": sum(numbers[RATE_IN] or 0 for _, numbers, _ in of_it) / 1000,
            "storage_bytes": sum(numbers[STORAGE] or 0 for _, numbers, _ in of_it),
        }
    for broker, source in index.sources.items():
        mine = [claims[broker] for claims in model.claims.values() if broker in claims]
        assert source.rate_out == sum(numbers[RATE_OUT] or 0 for numbers, _ in mine)
        assert source.bytes_in == sum(numbers[BYTES_IN] or 0 for numbers, _ in mine)
        assert len(source.parts) == len(mine)
    for chosen in CHOICES:
        assert index.select(ALL, chosen).names() == naive_order(model, chosen), chosen


def test_changes_between_the_steps_of_a_large_change_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Silence a broker and remove it, with many topics: others have their turn meanwhile."""
    monkeypatch.setattr(topic_index, "STEP", 1)
    parts = [f"{T}p-partition-{number}" for number in range(4)]
    outcomes = []
    for turns in (0, 1, 3):
        index = TopicIndex()
        index.catalog({f"{T}p": 4, f"{T}x": 0}, [])
        index.apply("b", answer(1, *([part, *values(backlog=2)] for part in (*parts, f"{T}x"))))
        silence = index.set_silent("b", True)
        for _ in range(turns):
            next(silence)
        index.apply("c", answer(2, [parts[1], *values(backlog=7)], [parts[3], *values(backlog=9)]))
        index.catalog({}, [f"{T}x"])
        list(silence)
        forget = index.forget("b")
        for _ in range(turns):
            next(forget)
        index.apply("c", answer(3, [parts[2], *values(backlog=11)], gone=(parts[3],)))
        list(forget)
        shown = {topic.name: (topic.values, topic.known) for topic in index}
        outcomes.append((shown, index.sums.totals(ALL), sorted(index.due(9, 9))))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    shown, totals, due = outcomes[0]
    assert shown[f"{T}p"][0][BACKLOG] == totals["backlog"] == 2 + 7 + 11 + 2
    assert (shown[f"{T}p"][1], due) == (LAST, [parts[0], parts[3]])
