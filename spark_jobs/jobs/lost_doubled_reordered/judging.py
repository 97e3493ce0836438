"""Faults in the sequence ids of producers. Pure.

A producer's clients count their messages from 0, or go on behind the last id that the broker knows. So an id that is
left out was never stored, one that comes again is doubled, and one that comes late was reordered. What precedes the
first id that is still stored was trimmed, which is no loss.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

JUDGED_FROM = 3
"""Messages from which a producer whose ids are all the same is one without sequence ids."""
SESSIONS_HELD = 16
"""Newest sessions of one name to which a message may belong."""


class SequenceFault(NamedTuple):
    """Sequence ids that were lost, doubled or reordered, and the place of the message by which that is known."""

    kind: str
    topic: str
    source: str
    producer: str
    first: int
    last: int
    ms: int
    position: str

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class _Session:
    """A session of a producer: a count of messages from ``low`` on. ``missing``: ranges that were left out."""

    low: int
    high: int
    first_ms: int
    missing: list[SequenceFault] = field(default_factory=list)


@dataclass(slots=True)
class Judged:
    """The sequence of one producer in one topic or partition. ``unjudged``: why it cannot be judged, else empty."""

    topic: str
    source: str
    producer: str
    messages: int = 0
    sessions: int = 0
    unjudged: str = ""
    faults: list[SequenceFault] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return sum(fault.messages for fault in self.faults if fault.kind == kind)


LOST, DOUBLED, REORDERED = "lost", "doubled", "reordered"


def judge(runs: Iterable[Mapping[str, Any]]) -> Iterator[Judged]:
    """Yield the sequences of all producers. ``runs``: rows of runs.RUNS."""

    def name(run: Mapping[str, Any]) -> tuple[str, str, str]:
        return run["topic"], run["source"], run["producer"]

    ordered = sorted(runs, key=lambda run: (*name(run), run["task"], run["number"]))
    for (topic, source, producer), group in groupby(ordered, name):
        yield _judged(Judged(topic, source, producer), list(group))


def _judged(judged: Judged, runs: list[Mapping[str, Any]]) -> Judged:
    judged.messages = sum(run["messages"] for run in runs)
    ids = {(run["first"], run["last"]) for run in runs}
    if len(ids) == 1 and len(runs) >= JUDGED_FROM and runs[0]["first"] == runs[0]["last"]:
        judged.unjudged = "all its sequence ids are the same"
        return judged
    if any(run["messages"] != run["last"] - run["first"] + 1 for run in runs):
        judged.unjudged = "its sequence ids change their order too often"
        return judged
    sessions: list[_Session] = []
    for run in runs:
        _follow(judged, sessions, run)
    judged.faults += [fault for session in sessions for fault in session.missing]
    if sum(fault.kind == LOST for fault in judged.faults) * 2 > judged.messages:
        judged.unjudged = "its sequence ids are not consecutive: the application sets them"
        judged.faults.clear()
    return judged


def _follow(judged: Judged, sessions: list[_Session], run: Mapping[str, Any]) -> None:
    """Add a run to the session that it goes on with, or repeats."""
    first, last = run["first"], run["last"]
    following = next((s for s in reversed(sessions) if s.high + 1 == first), None)
    if following is not None:
        sessions.remove(following)
        sessions.append(following)
        following.high = last
        return
    current = sessions[-1] if sessions else None
    if current is None or _begins(current, run):
        judged.sessions += 1
        sessions.append(_Session(first, last, run["first_ms"]))
        if len(sessions) > SESSIONS_HELD:
            judged.faults += sessions.pop(0).missing
        return
    if first > current.high:
        current.missing.append(_fault(judged, LOST, current.high + 1, first - 1, run))
    else:
        _repeat(judged, current, run, min(last, current.high))
    current.high = max(current.high, last)


def _begins(session: _Session, run: Mapping[str, Any]) -> bool:
    """Return whether a run begins another session: it counts from 0 again, or from below the first id that is stored.

    A client that sends a message again leaves its publish time as it was.
    """
    again = run["first_ms"] == session.first_ms and run["first"] == session.low
    return bool(run["first"] < session.low or (run["first"] == 0 and not again))


def _repeat(judged: Judged, session: _Session, run: Mapping[str, Any], last: int) -> None:
    """Note the ids of a run up to ``last``, which were stored or left out before."""
    at = run["first"]
    overlapping = [gap for gap in session.missing if gap.first <= last and gap.last >= at]
    for gap in sorted(overlapping, key=lambda gap: gap.first):
        late = max(gap.first, at), min(gap.last, last)
        session.missing.remove(gap)
        _add(judged, REORDERED, *late, run)
        if at < late[0]:
            _add(judged, DOUBLED, at, late[0] - 1, run)
        rests = (gap.first, late[0] - 1), (late[1] + 1, gap.last)
        session.missing += [gap._replace(first=a, last=b) for a, b in rests if a <= b]
        at = late[1] + 1
    if at <= last:
        _add(judged, DOUBLED, at, last, run)


def _add(judged: Judged, kind: str, first: int, last: int, run: Mapping[str, Any]) -> None:
    """Note a fault, which may continue the last one where the range of a task ended."""
    before = judged.faults[-1] if judged.faults else None
    if before is not None and (before.kind, before.last + 1) == (kind, first):
        judged.faults[-1] = before._replace(last=last)
    else:
        judged.faults.append(_fault(judged, kind, first, last, run))


def _fault(
    judged: Judged, kind: str, first: int, last: int, run: Mapping[str, Any]
) -> SequenceFault:
    batch = f":{run['batch_index']}" if run["batch_index"] >= 0 else ""
    position = f"{run['ledger_id']}:{run['entry_id']}{batch}"
    name = judged.topic, judged.source, judged.producer
    return SequenceFault(kind, *name, first, last, run["first_ms"], position)
