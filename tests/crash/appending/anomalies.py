"""Anomalies in a history of transactions that read lists and append to them, in the manner of Jepsen's list-append.

Each value is appended once in the whole history, so a list that was read names the transactions that wrote it, in
order. Pure.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Value = str
Note = Callable[[str, str], None]
"""Takes the kind of an anomaly and its description."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(eq=False)
class Appending:
    """One transaction. ``reads``: the lists that it read, by key. ``appends``: what it appended to them, in order."""

    name: str
    reads: dict[str, list[Value]] = field(default_factory=dict)
    appends: dict[str, list[Value]] = field(default_factory=dict)
    outcome: Outcome = Outcome.UNKNOWN


def anomalies(
    history: Sequence[Appending], seen: Mapping[str, Sequence[list[Value]]]
) -> dict[str, list[str]]:
    """Return descriptions of the anomalies by kind, of those that were anomalous. ``seen``: the lists that readers were
    given, by key, the last of which are those at the end."""
    writers = {value: txn for txn in history for values in txn.appends.values() for value in values}
    lists = {
        key: [
            *seen.get(key, ()),
            *(txn.reads[key] for txn in history if key in txn.reads),
        ]
        for key in {*seen, *(key for txn in history for key in txn.reads)}
    }
    anomalous: dict[str, list[str]] = {}

    def note(kind: str, text: str) -> None:
        anomalous.setdefault(kind, []).append(text)

    orders: dict[str, list[Value]] = {}
    for key, read in lists.items():
        order = orders[key] = max(read, key=len, default=[])
        for values in read:
            _judge(key, values, order, writers, note)
        left = seen.get(key, ())
        final = set(left[-1]) if left else set()
        for txn in history:
            if txn.outcome is Outcome.COMMITTED:
                for value in txn.appends.get(key, ()):
                    if value not in final:
                        note("lost append", f"{key}: {value} of {txn.name}")
    _lost_updates(history, orders, note)
    _cycles(history, orders, writers, note)
    return anomalous


def _judge(
    key: str,
    values: list[Value],
    order: list[Value],
    writers: Mapping[Value, Appending],
    note: Note,
) -> None:
    """Note what is wrong with one list that was read."""
    if values != order[: len(values)]:
        note("incompatible order", f"{key}: {values[-3:]} is no beginning of {order[-3:]}")
    if len(set(values)) < len(values):
        note("duplicate", f"{key}: a value is twice in {values[-5:]}")
    for value in values:
        writer = writers.get(value)
        if writer is None:
            note("unwritten", f"{key}: {value} was appended by none")
        elif writer.outcome is Outcome.ABORTED:
            note("G1a", f"{key}: {value} of {writer.name}, which was aborted")
    if (
        values
        and (last := writers.get(values[-1])) is not None
        and last.appends[key][-1] != values[-1]
    ):
        note("G1b", f"{key}: {values[-1]} is not the last that {last.name} appended")


def _lost_updates(
    history: Sequence[Appending], orders: Mapping[str, list[Value]], note: Note
) -> None:
    readers: dict[tuple[str, int], Appending] = {}
    for txn in _took_effect(history, orders):
        for key, values in txn.reads.items():
            if key not in txn.appends:
                continue
            other = readers.setdefault((key, len(values)), txn)
            if other is not txn:
                note("lost update", f"{key}: {txn.name} and {other.name} changed the same list")


def _took_effect(
    history: Sequence[Appending], orders: Mapping[str, list[Value]]
) -> Iterable[Appending]:
    """Yield the transactions that were committed, as far as it is known or seen."""
    held = {value for order in orders.values() for value in order}
    for txn in history:
        was_seen = any(value in held for values in txn.appends.values() for value in values)
        if txn.outcome is Outcome.COMMITTED or (txn.outcome is Outcome.UNKNOWN and was_seen):
            yield txn


def _cycles(
    history: Sequence[Appending],
    orders: Mapping[str, list[Value]],
    writers: Mapping[Value, Appending],
    note: Note,
) -> None:
    """Note cycles of dependencies: of writes alone (G0), of writes and reads of them (G1c), and with reads of what a
    write replaced (G2)."""
    effective = list(_took_effect(history, orders))
    ww: dict[Appending, set[Appending]] = {}
    wr: dict[Appending, set[Appending]] = {}
    rw: dict[Appending, set[Appending]] = {}
    for order in orders.values():
        steps = [writers[value] for value in order if value in writers]
        for first, second in itertools.pairwise(steps):
            if first is not second:
                ww.setdefault(first, set()).add(second)
    for txn in effective:
        for key, values in txn.reads.items():
            for writer in {writers[value] for value in values[-1:] if value in writers} - {txn}:
                wr.setdefault(writer, set()).add(txn)
            order = orders[key]
            following = order[len(values) : len(values) + 1]
            for writer in {writers[value] for value in following if value in writers} - {txn}:
                rw.setdefault(txn, set()).add(writer)
    graph: dict[Appending, set[Appending]] = {}
    known: set[frozenset[Appending]] = set()
    for kind, edges in (("G0", ww), ("G1c", wr), ("G2", rw)):
        for txn, others in edges.items():
            graph.setdefault(txn, set()).update(others)
        for component in _components(graph):
            if not any(component >= smaller for smaller in known):
                known.add(component)
                note(kind, ", ".join(sorted(txn.name for txn in component)[:8]))


def _components(graph: Mapping[Appending, set[Appending]]) -> list[frozenset[Appending]]:
    """Return the strongly connected components of several nodes, by Tarjan's algorithm without recursion."""
    number: dict[Appending, int] = {}
    low: dict[Appending, int] = {}
    stack: list[Appending] = []
    on_stack: set[Appending] = set()
    components: list[frozenset[Appending]] = []
    for root in graph:
        if root in number:
            continue
        work = [(root, iter(graph.get(root, ())))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, edges = work[-1]
            for other in edges:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component: set[Appending] = set()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1:
                        components.append(frozenset(component))
    return components
