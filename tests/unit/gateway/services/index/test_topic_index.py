"""The index, changed report by report, equals a recomputation from all reports."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import ALL
from engine.base.names import split_partition
from gateway.services.feeds.row_list import RowChanges, RowList
from gateway.services.index import selection, topic_index
from gateway.services.index.due import REFRESH_MS, RETRY_MS
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
from gateway.services.index.listed_topics import SELECTIONS_MAX
from gateway.services.index.rows import AT_REST, FIELDS, KNOWN, LAST, LIVE, NO, parts_of
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex

T = "persistent://t/n/"


def values(**given: int | None) -> list[int | None]:
    return [given.get(column, 0) for column in ROW_COLUMNS]


def answer(at: int, *rows: list[Any], gone: tuple[str, ...] = ()) -> RowChanges:
    return RowChanges(at, list(rows), list(gone))


def rest(at: int, *rows: list[Any], missing: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"at": at, "rows": list(rows), "missing": list(missing)}


def row(index: TopicIndex, name: str) -> dict[str, Any]:
    return index.row(T + name, 999)


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


@pytest.mark.parametrize("merge_share", [1, 50])
@settings(max_examples=50)
@given(steps=st.lists(STEP, max_size=40), looks=st.integers(2, 9))
def test_the_index_equals_a_recomputation(merge_share: int, steps: list[Any], looks: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
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
        assert index.sums.of_tenant(ALL, tenant) == {
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


def test_what_happens_between_the_steps_of_a_large_change_is_counted_right(
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


def test_every_field_sorts_both_ways() -> None:
    index = TopicIndex()
    index.apply("b", answer(5, *([f"{T}{name}", *values(backlog=1)] for name in "bca")))
    for field in FIELDS:
        up = index.select(ALL, Chosen(sort=field)).names()
        down = index.select(ALL, Chosen(sort=f"-{field}")).names()
        assert up == [f"{T}a", f"{T}b", f"{T}c"]
        assert down == (up[::-1] if field in ("name", "topic") else up), "equals stand by name"


def test_words_are_looked_for_in_what_a_short_selection_left() -> None:
    index = TopicIndex()
    index.catalog({f"{T}{word}-{i}": 0 for word in ("blue", "red") for i in range(40)}, [])
    few = index.select(ALL, Chosen(q="blue 7"))
    assert len(few) == 4
    index.catalog({f"{T}blue-77": 0}, [])
    selected = index.select(ALL, Chosen(q="77 ue n/", sort="-backlog", tenant="t"))
    assert selected.names() == [f"{T}blue-77"], "the short one is brought up to date before"
    assert index.select(ALL, Chosen(q="red 7", sort="name")).names() == [
        f"{T}red-{i}" for i in (17, 27, 37, 7)
    ]


def test_only_topics_with_a_cause_are_there_and_follow_it() -> None:
    index = TopicIndex()
    index.catalog({f"{T}{name}": 0 for name in "abc"}, [])
    chosen = Chosen(attention="slow")
    assert index.select(ALL, chosen, [f"{T}b", f"{T}gone"]).names() == [f"{T}b"]
    assert index.select(ALL, chosen, [f"{T}c", f"{T}a"]).names() == [f"{T}a", f"{T}c"]
    assert len(index.select(ALL, Chosen())) == 3, "a list without a cause is not limited"
    assert len(index.select(ALL, chosen)) == 0


def test_a_partitions_own_row_has_its_broker() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 2}, [])
    index.apply("b", answer(7, [f"{T}p-partition-0", *values(backlog=4)]))
    served = index.part_row(f"{T}p-partition-0", 9)
    resting = index.part_row(f"{T}p-partition-1", 9)
    assert served
    assert (served["owner"], served["backlog"], served["at"]) == ("b", 4, 7)
    assert resting
    assert (resting["owner"], resting["backlog"]) == ("", None)
    assert index.part_row(f"{T}p-partition-2", 9) is None


def test_topics_of_namespaces_that_differ_in_the_cluster_only_are_distinguished() -> None:
    index = TopicIndex()
    names = [
        "persistent://public/orders/payments",
        "persistent://public/standalone/orders/payments",
    ]
    index.apply("b", answer(1, *([name, *values()] for name in names)))
    rows = [index.row(name, 999) for name in names]
    assert [row["namespace"] for row in rows] == ["orders", "standalone/orders"]
    assert [row["topic"] for row in rows] == ["payments", "payments"]
    for chosen in (
        Chosen(tenant="public", namespace="standalone/orders"),
        Chosen(namespace="public/standalone/orders"),
    ):
        assert index.select(ALL, chosen).names() == names[1:]
    for chosen in (Chosen(tenant="public", namespace="orders"), Chosen(namespace="public/orders")):
        assert index.select(ALL, chosen).names() == names[:1]


def test_a_topic_whose_name_ends_in_thousands_of_digits_is_removed_when_deleted() -> None:
    index, name = TopicIndex(), "persistent://t/n/x-partition-" + "9" * 5_000
    index.apply("b", answer(1, [name, *values()]))
    index.apply("b", answer(2, gone=[name]))
    assert name not in index


def test_a_topic_that_moves_is_counted_once_and_never_missing() -> None:
    index = TopicIndex()
    index.catalog({f"{T}m": 0}, [])
    index.apply("old", answer(10, [f"{T}m", *values(backlog=5)]))
    index.apply("new", answer(12, [f"{T}m", *values(backlog=6)]))
    assert (index.sums.totals(ALL)["backlog"], row(index, "m")["at"]) == (6, 12)
    index.apply("old", answer(11, [f"{T}m", *values(backlog=4)]))  # late: it came before
    assert index.sums.totals(ALL)["backlog"] == 6
    index.apply("old", answer(13, gone=(f"{T}m",)))
    assert (index.sums.totals(ALL)["backlog"], row(index, "m")["loaded"]) == (6, True)
    index.apply("new", answer(14, gone=(f"{T}m",)))
    assert (row(index, "m")["backlog"], row(index, "m")["loaded"]) == (6, False)
    assert index.sums.totals(ALL)["topics"] == 1


def test_a_move_reported_in_the_other_order_ends_at_the_new_owner() -> None:
    index = TopicIndex()
    index.apply("new", answer(12, [f"{T}m", *values(backlog=6)]))
    index.apply("old", answer(10, [f"{T}m", *values(backlog=5)]))
    index.apply("old", answer(13, gone=(f"{T}m",)))
    assert (index.sums.totals(ALL)["backlog"], index.sums.totals(ALL)["topics"]) == (6, 1)


def test_topics_not_read_are_unknown_and_counted_so_in_the_totals() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0, f"{T}p": 2}, [])
    assert index.sums.totals(ALL)["unknown"] == 2
    assert [row(index, "x")[field] for field in ("backlog", "producers")] == [None, 0]
    names = index.due(1000, 100)
    assert sorted(names) == [f"{T}p-partition-0", f"{T}p-partition-1", f"{T}x"]
    answered = rest(7, [f"{T}x", 2, 9, 100], [f"{T}p-partition-0", 1, 3, 50])
    index.apply_at_rest({**answered, "missing": [f"{T}p-partition-1"]})
    assert index.sums.totals(ALL)["unknown"] == 0
    assert (index.sums.totals(ALL)["backlog"], index.sums.totals(ALL)["storage_bytes"]) == (12, 150)
    assert [row(index, "x")[field] for field in ("subscriptions", "backlog", "loaded", "at")] == [
        *(2, 9, False, 7)
    ]
    assert index.due(1000, 100) == []
    assert len(index.due(7 + REFRESH_MS, 100)) == 3, "another client may have used them"


def test_a_non_persistent_topic_that_is_not_loaded_holds_nothing() -> None:
    index = TopicIndex()
    index.catalog({"non-persistent://t/n/p": 2}, [])
    assert index.sums.totals(ALL)["unknown"] == 0
    assert index.due(0, 100) == []


def test_what_could_not_be_read_is_tried_again_later() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
    names = index.due(1000, 1)
    index.postpone(names, 1000)
    assert index.due(1000, 5) == [f"{T}y"]
    index.apply_at_rest(rest(1000, [f"{T}y", 1, None, 5]))
    assert index.due(1000 + RETRY_MS - 1, 5) == []
    assert index.due(1000 + RETRY_MS, 5) == [f"{T}x", f"{T}y"]


def test_what_was_read_before_a_topic_was_used_again_does_not_stay() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    (name,) = index.due(0, 5)
    index.apply("b", answer(20, [name, *values(backlog=7)]))
    index.apply("b", answer(21, gone=(name,)))
    index.apply_at_rest(rest(19, [name, 1, 1, 1]))
    assert row(index, "x")["backlog"] == 7
    assert index.due(0, 5) == [name]


def test_a_topic_loaded_and_unloaded_unseen_is_read_again() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    index.apply_at_rest(rest(5, *([name, 1, 1, 1] for name in index.due(0, 5))))
    index.apply("b", answer(20, gone=(f"{T}x",)))
    assert index.due(20, 5) == [f"{T}x"]


def test_topics_of_a_silent_broker_keep_their_last_figures_until_it_answers_or_is_gone() -> None:
    for end in ("answers", "goes"):
        index = TopicIndex()
        index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
        reported = values(backlog=2, producers=1, msg_rate_in=500)
        index.apply("b", answer(5, *([f"{T}{name}", *reported] for name in "xy")))
        index.apply("b", answer(6, ["non-persistent://t/n/z", *reported]))
        assert row(index, "x")["known"] == "live"
        version = index.version
        list(index.set_silent("b", True))
        assert index.version > version, "it is news"
        x = row(index, "x")
        assert [
            x[it] for it in ("known", "loaded", "backlog", "producers", "msg_rate_in", "at")
        ] == [*("last", None, 2, 1, 0.5, 6)]
        totals = index.sums.totals(ALL)
        assert [totals[it] for it in ("topics", "unknown", "last", "backlog")] == [3, 0, 3, 6]
        assert index.due(10**6, 5) == [], "it may have them loaded"
        if end == "answers":
            others = (f"{T}y", "non-persistent://t/n/z")
            index.apply("b", answer(9, [f"{T}x", *values(backlog=3)], gone=others))
            list(index.set_silent("b", False))
            assert (row(index, "x")["backlog"], row(index, "x")["known"]) == (3, "live")
            assert (row(index, "y")["backlog"], row(index, "y")["known"]) == (2, "last")
            assert index.due(10**6, 5) == [f"{T}y"]
        else:
            list(index.forget("b"))
            x = row(index, "x")
            assert (x["known"], x["loaded"], x["backlog"], x["producers"]) == ("last", False, 2, 0)
            assert index.sums.totals(ALL)["topics"] == 2, "what keeps nothing is gone"
            index.apply_at_rest(rest(9, *([name, 1, 2, 3] for name in index.due(10**6, 5))))
            assert (row(index, "x")["known"], row(index, "x")["at"]) == ("at_rest", 9)
            assert index.sums.totals(ALL)["last"] == 0


def test_a_figure_that_cannot_be_read_does_not_take_the_last_one_away() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    index.apply_at_rest(rest(5, *([name, 1, 4, 9] for name in index.due(0, 5))))
    assert index.due(5 + REFRESH_MS, 5) == [f"{T}x"]
    index.apply_at_rest(rest(10**6, [f"{T}x", 1, None, 9]))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"]) == ("last", 4, 5)
    index.apply("b", answer(20, [f"{T}x", *values(backlog=None)]))  # it is just being loaded
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"], x["loaded"]) == ("last", 4, 5, True)
    index.apply("b", answer(21, [f"{T}x", *values(backlog=6)]))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["at"]) == ("live", 6, 21)


def test_a_topic_has_unknown_clients_until_every_broker_has_reported() -> None:
    index = TopicIndex()
    index.begin()
    index.catalog({f"{T}x": 0, "non-persistent://t/n/p": 2}, [])
    assert (row(index, "x")["known"], row(index, "x")["loaded"]) == ("no", None)
    assert index.sums.totals(ALL)["unknown"] == 2
    index.apply_at_rest(rest(5, *([name, 1, 4, 9] for name in index.due(0, 5))))
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["producers"], x["loaded"]) == ("last", 4, None, None)
    list(index.become_complete())
    x = row(index, "x")
    assert (x["known"], x["backlog"], x["producers"], x["loaded"]) == ("at_rest", 4, 0, False)
    assert index.row("non-persistent://t/n/p", 9)["known"] == "at_rest"


def test_figures_of_an_earlier_life_are_shown_until_there_are_others() -> None:
    index = TopicIndex()
    index.begin()
    index.catalog({f"{T}x": 0}, [])
    figures = tuple(range(len(ROW_COLUMNS)))
    index.recall({f"{T}x": (3, figures), f"{T}p": (4, figures)})
    index.catalog({f"{T}p": 2}, [])
    for name, at in (("x", 3), ("p", 4)):
        shown = row(index, name)
        assert (shown["known"], shown["backlog"], shown["at"], shown["loaded"]) == (
            "last",
            7,
            at,
            None,
        )
    index.apply("b", answer(8, [f"{T}x", *values(backlog=1)]))
    assert (row(index, "x")["known"], row(index, "x")["backlog"]) == ("live", 1)
    assert KNOWN[LAST] == "last"


def test_a_growing_topic_keeps_what_is_known_of_its_partitions() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 1}, [])
    index.apply_at_rest(rest(5, *([name, 1, 4, 1] for name in index.due(0, 5))))
    assert index.select(ALL, Chosen(sort="-partitions")).names() == [f"{T}p"]
    index.catalog({f"{T}p": 2}, [])
    assert (row(index, "p")["backlog"], row(index, "p")["known"]) == (4, "last")
    assert index.due(0, 5) == [f"{T}p-partition-1"]
    index.apply_at_rest(rest(5, missing=(f"{T}p-partition-1",)))
    assert (row(index, "p")["backlog"], row(index, "p")["partitions"]) == (4, 2)


def test_a_sum_is_as_old_as_its_oldest_part() -> None:
    index = TopicIndex()
    index.catalog({f"{T}p": 2}, [])
    index.apply("a", answer(50, [f"{T}p-partition-0", *values(backlog=3, msg_rate_in=1500)]))
    index.apply("b", answer(60, [f"{T}p-partition-1", *values(backlog=4, msg_rate_in=2500)]))
    shown = row(index, "p")
    assert (shown["backlog"], shown["msg_rate_in"], shown["partitions"]) == (7, 4.0, 2)
    assert (shown["at"], index.at) == (50, 60)


def test_orders_of_the_list_are_bounded() -> None:
    index = TopicIndex()
    index.apply("b", answer(5, [f"{T}a", *values(backlog=1)]))
    for number in range(3 * SELECTIONS_MAX):
        index.select(ALL, Chosen(q=str(number)))
        assert index.select(ALL, Chosen(sort="-backlog")).names() == [f"{T}a"]
    assert len(index._selections) == SELECTIONS_MAX
    assert (ALL, Chosen(sort="-backlog")) in index._selections


def test_an_unused_order_is_dropped() -> None:
    index = TopicIndex()
    index.select(ALL, Chosen())
    index.drop_unused()
    assert len(index._selections) == 1
    index.drop_unused()
    assert index._selections == {}


def test_a_topic_of_few_large_batches_ranks_before_one_of_more_single_messages() -> None:
    index = TopicIndex()
    batched = values(backlog=212, backlog_messages=60_000, backlog_estimated=212)
    plain = values(backlog=400, backlog_messages=400)
    unknown = values(backlog=900, backlog_messages=900, backlog_unmeasured=900)
    index.apply("b", answer(5, [f"{T}a", *plain], [f"{T}b", *batched], [f"{T}c", *unknown]))
    assert index.select(ALL, Chosen(sort="-backlog")).names() == [f"{T}b", f"{T}c", f"{T}a"]
    shown = row(index, "b")
    assert (shown["backlog"], shown["backlog_messages"], shown["backlog_estimated"]) == (
        *(212, 60_000),
        212,
    )
    # What changes in messages alone moves the topic, too.
    index.apply("b", answer(6, [f"{T}a", *values(backlog=400, backlog_messages=90_000)]))
    assert index.select(ALL, Chosen(sort="-backlog")).names()[0] == f"{T}a"
    assert index.sums.totals(ALL)["backlog_messages"] == 90_000 + 60_000 + 900
    assert index.sums.totals(ALL)["backlog_unmeasured"] == 900


def test_the_oldest_of_a_partitioned_topic_is_that_of_its_parts_and_not_known_while_one_is_not() -> (
    None
):
    index = TopicIndex()
    index.catalog({f"{T}p": 3}, [])

    def oldest(*times: int) -> int | None:
        rows = [
            [f"{T}p-partition-{i}", *values(backlog=1, oldest_at=at)] for i, at in enumerate(times)
        ]
        index.apply("b", answer(5, *rows))
        oldest_at: int | None = row(index, "p")["oldest_at"]
        return oldest_at

    assert oldest(30, 10, 0) == 10
    assert oldest(30, 40, 0) == 30
    assert oldest(30, OLDEST_UNKNOWN, 0) is None
    assert oldest(0, 0, 0) == 0
    for at in range(1, 200):
        assert oldest(at, 500, 500) == at
    (fold,) = (topic.fold for topic in index)
    assert fold is not None
    assert len(fold._oldest._heap) < 40


def test_what_has_waited_longest_sorts_first_and_what_is_not_known_last() -> None:
    index = TopicIndex()
    oldest_by_name = {"a": 0, "b": 500, "c": OLDEST_UNKNOWN, "d": 100}
    index.apply(
        "b",
        answer(5, *([f"{T}{name}", *values(oldest_at=at)] for name, at in oldest_by_name.items())),
    )
    assert index.select(ALL, Chosen(sort="-oldest_age")).names() == [
        f"{T}{name}" for name in "dbac"
    ]
    assert index.select(ALL, Chosen(sort="oldest_age")).names() == [f"{T}{name}" for name in "abdc"]


def test_an_unloaded_topic_keeps_its_messages_while_as_many_entries_are_stored() -> None:
    index = TopicIndex()
    index.catalog({f"{T}x": 0}, [])
    reported = values(backlog=212, backlog_messages=60_000, backlog_estimated=212, oldest_at=77)
    index.apply("b", answer(5, [f"{T}x", *reported]))
    index.apply("b", answer(6, gone=(f"{T}x",)))
    assert index.due(6, 5) == [f"{T}x"]
    index.apply_at_rest(rest(7, [f"{T}x", 1, 212, 9]))
    shown = row(index, "x")
    assert (shown["known"], shown["backlog_messages"], shown["oldest_at"]) == (
        *("at_rest", 60_000),
        77,
    )
    index.apply_at_rest(rest(8, [f"{T}x", 1, 213, 9]))
    shown = row(index, "x")
    assert (shown["backlog_messages"], shown["backlog_unmeasured"], shown["oldest_at"]) == (
        *(213, 213),
        None,
    )


def test_a_gateway_that_starts_again_knows_the_messages_of_topics_at_rest_by_what_it_recorded() -> (
    None
):
    index = TopicIndex()
    reported = values(backlog=212, backlog_messages=60_000, backlog_estimated=212, oldest_at=77)
    index.recall({f"{T}x": (3, tuple(reported))})
    index.catalog({f"{T}x": 0, f"{T}y": 0}, [])
    index.apply_at_rest(rest(7, *([name, 1, 212, 9] for name in index.due(6, 5))))
    assert (row(index, "x")["known"], row(index, "x")["backlog_messages"]) == ("at_rest", 60_000)
    assert row(index, "y")["backlog_unmeasured"] == 212
